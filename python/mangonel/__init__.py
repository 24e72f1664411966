"""A MongoDB stack for Python: one driver with a blocking and an asyncio face, PyMongo's names, a Rust core.

Names are loaded at first use, so that `import mangonel.bson` does not load the clients.
"""

from __future__ import annotations

from mangonel import _light, _rooms  # noqa: F401  # registers what rooms above offer
from mangonel._version import __version__, get_version_string, version, version_tuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel._faces.deadline import timeout
    from mangonel.api import AsyncMongoClient, MongoClient
    from mangonel.common import MAX_SUPPORTED_WIRE_VERSION, MIN_SUPPORTED_WIRE_VERSION
    from mangonel.constants import (
        ASCENDING,
        DESCENDING,
        GEO2D,
        GEOSPHERE,
        HASHED,
        TEXT,
        ReturnDocument,
    )
    from mangonel.cursor_shared import CursorType
    from mangonel.operations import (
        DeleteMany,
        DeleteOne,
        IndexModel,
        InsertOne,
        ReplaceOne,
        UpdateMany,
        UpdateOne,
    )
    from mangonel.read_preferences import ReadPreference
    from mangonel.write_concern import WriteConcern

__all__ = [
    "ASCENDING",
    "DESCENDING",
    "GEO2D",
    "GEOSPHERE",
    "HASHED",
    "MAX_SUPPORTED_WIRE_VERSION",
    "MIN_SUPPORTED_WIRE_VERSION",
    "TEXT",
    "AsyncMongoClient",
    "CursorType",
    "DeleteMany",
    "DeleteOne",
    "IndexModel",
    "InsertOne",
    "MongoClient",
    "ReadPreference",
    "ReplaceOne",
    "ReturnDocument",
    "UpdateMany",
    "UpdateOne",
    "WriteConcern",
    "__version__",
    "get_version_string",
    "has_c",
    "timeout",
    "version",
    "version_tuple",
]

# Name -> the module that defines it.
_HOMES = {
    **dict.fromkeys(("AsyncMongoClient", "MongoClient"), "api"),
    **dict.fromkeys(("MAX_SUPPORTED_WIRE_VERSION", "MIN_SUPPORTED_WIRE_VERSION"), "common"),
    **dict.fromkeys(
        ("ASCENDING", "DESCENDING", "GEO2D", "GEOSPHERE", "HASHED", "TEXT", "ReturnDocument"), "constants"
    ),
    "CursorType": "cursor_shared",
    **dict.fromkeys(
        ("DeleteMany", "DeleteOne", "IndexModel", "InsertOne", "ReplaceOne", "UpdateMany", "UpdateOne"),
        "operations",
    ),
    "ReadPreference": "read_preferences",
    "WriteConcern": "write_concern",
    "timeout": "_faces.deadline",
}

# Modules that programs use as attributes, as in `mangonel.errors.DuplicateKeyError`.
_MODULES = frozenset(
    [
        "asynchronous",
        "bson",
        "change_stream",
        "client_options",
        "client_session",
        "collation",
        "collection",
        "command_cursor",
        "common",
        "cursor",
        "cursor_shared",
        "database",
        "driver_info",
        "errors",
        "event_loggers",
        "hello",
        "logger",
        "mongo_client",
        "monitoring",
        "operations",
        "pool_options",
        "read_concern",
        "read_preferences",
        "results",
        "server_api",
        "server_description",
        "server_type",
        "synchronous",
        "topology_description",
        "uri_parser",
        "write_concern",
    ]
)


def has_c() -> bool:
    """Return True: the codec is native code in every build."""
    return True


__getattr__ = _light.late_names(
    __name__, {name: f"mangonel.{home}" for name, home in _HOMES.items()}, tuple(_MODULES)
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
