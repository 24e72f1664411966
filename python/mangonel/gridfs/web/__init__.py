"""Serving stored files over HTTP: `mangonel.gridfs.web.asgi` and `mangonel.gridfs.web.tornado`.

Both answer as `mangonel.gridfs.web.answers` decides: whole files, one range of a file (206), conditional requests by
ETag and date, HEAD; and both read no faster than the client takes.
"""
