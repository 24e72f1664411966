"""The names that `from pymongo import *` binds, for packages whose counterpart here exports other names.

Names only; a test compares them with the installed PyMongo.
"""

from __future__ import annotations

EXPORTS = {
    "gridfs": (
        "AsyncGridFS",
        "AsyncGridFSBucket",
        "AsyncGridIn",
        "AsyncGridOut",
        "AsyncGridOutCursor",
        "DEFAULT_CHUNK_SIZE",
        "GridFS",
        "GridFSBucket",
        "GridIn",
        "GridOut",
        "GridOutCursor",
        "NoFile",
    ),
}
