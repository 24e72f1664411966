"""`mangonel demo`: an application on the whole stack, written to be read and copied.

A shop's admin pages on Tornado: customers and orders stream in from a change stream while they are written, posts are
served as JSON straight from BSON, files go through GridFS, people log in with websessions, and a status page shows
what the driver's listeners saw. Start reading at `app.py`.

Nothing of the stack may import it.
"""
