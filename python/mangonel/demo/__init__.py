"""`mangonel demo`: an application on the whole stack, written to be read and copied.

The admin pages of a shop, on Tornado: customers and orders arrive from a change stream while they are written, posts
are JSON made straight from BSON, files go through GridFS, users log in with websessions, and a status page shows the
events of the driver's listeners. Start reading at `app.py`.

Nothing else in the stack may import it.
"""
