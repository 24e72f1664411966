"""Files of any size in a database: PyMongo's `gridfs` on both faces.

from mangonel import MongoClient
from mangonel.gridfs import GridFSBucket

bucket = GridFSBucket(MongoClient().shop)
file_id = bucket.upload_from_stream("greeting", b"hello")
bucket.open_download_stream(file_id).read()
"""

from __future__ import annotations

from mangonel.gridfs._names import DEFAULT_CHUNK_SIZE
from mangonel.gridfs.api import (
    AsyncGridFS,
    AsyncGridFSBucket,
    AsyncGridIn,
    AsyncGridOut,
    AsyncGridOutCursor,
    GridFS,
    GridFSBucket,
    GridIn,
    GridOut,
    GridOutCursor,
)
from mangonel.gridfs.errors import CorruptGridFile, FileExists, GridFSError, NoFile

__all__ = [
    "DEFAULT_CHUNK_SIZE",
    "AsyncGridFS",
    "AsyncGridFSBucket",
    "AsyncGridIn",
    "AsyncGridOut",
    "AsyncGridOutCursor",
    "CorruptGridFile",
    "FileExists",
    "GridFS",
    "GridFSBucket",
    "GridFSError",
    "GridIn",
    "GridOut",
    "GridOutCursor",
    "NoFile",
]
