"""Serving stored files over HTTP: `mangonel.gridfs.web.asgi` and `mangonel.gridfs.web.tornado`.

Both use the responses of `mangonel.gridfs.web.answers`: whole files, one range of a file (206), conditional requests by
ETag and date, HEAD. Both read no faster than the client receives.
"""
