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
    "pymongo": (
        "ASCENDING",
        "AsyncMongoClient",
        "CursorType",
        "DESCENDING",
        "DeleteMany",
        "DeleteOne",
        "GEO2D",
        "GEOSPHERE",
        "HASHED",
        "IndexModel",
        "InsertOne",
        "MAX_SUPPORTED_WIRE_VERSION",
        "MIN_SUPPORTED_WIRE_VERSION",
        "MongoClient",
        "ReadPreference",
        "ReplaceOne",
        "ReturnDocument",
        "TEXT",
        "UpdateMany",
        "UpdateOne",
        "WriteConcern",
        "__version__",
        "get_version_string",
        "has_c",
        "timeout",
        "version",
        "version_tuple",
    ),
}
