"""Maps PyMongo's modules to modules of this package. Holds names only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangonel import _MODULES

if TYPE_CHECKING:
    from collections.abc import Iterable

# The version of PyMongo that the names were compared with; programs and mappers branch on it.
PYMONGO_VERSION = (4, 20, 0)

ROOTS = frozenset(["bson", "gridfs", "pymongo"])

# Modules that have the same name below `mangonel` as in PyMongo.
_SAME = {
    *(_MODULES - {"bson"}),
    "asynchronous.change_stream",
    "asynchronous.client_session",
    "asynchronous.collection",
    "asynchronous.command_cursor",
    "asynchronous.cursor",
    "asynchronous.database",
    "asynchronous.mongo_client",
    "auth",
    "auth_oidc",
    "typings",
}

# Classes that PyMongo defines once for each face, and whose blocking form its public module exports.
_BLOCKING = [
    "change_stream",
    "client_session",
    "collection",
    "command_cursor",
    "cursor",
    "database",
    "mongo_client",
    "uri_parser",
]

_BSON = [
    "binary",
    "code",
    "codec_options",
    "datetime_ms",
    "dbref",
    "decimal128",
    "errors",
    "int64",
    "json_util",
    "max_key",
    "min_key",
    "objectid",
    "raw_bson",
    "regex",
    "son",
    "timestamp",
    "typings",
    "tz_util",
]

# PyMongo's modules without a namesake here: their names are looked up in these modules, in this order.
_ELSEWHERE = {
    "pymongo._csot": ["_faces.deadline"],
    "pymongo._version": ["_version"],
    "pymongo.asynchronous.uri_parser": ["asynchronous.uri_parser", "uri_parser"],
    "pymongo.auth_oidc_shared": ["auth_oidc"],
    "pymongo.auth_shared": ["auth"],
    "pymongo.bulk_shared": [],
    "pymongo.client_session_shared": ["client_session"],
    "pymongo.change_stream_shared": ["change_stream"],
    "pymongo.database_shared": ["compat._extras"],
    "pymongo.asynchronous.encryption": ["encryption"],
    "pymongo.encryption": ["encryption"],
    "pymongo.encryption_options": ["encryption"],
    "pymongo.encryption_shared": ["encryption"],
    "pymongo.synchronous.encryption": ["encryption"],
    "pymongo.helpers_shared": ["compat._internals", "constants"],
    "pymongo.message": ["compat._private_names"],
    "pymongo.mongo_client_shared": ["mongo_client"],
    "pymongo.asynchronous.pool": ["pool_options", "compat._internals"],
    "pymongo.asynchronous.server": ["compat._internals"],
    "pymongo.pool": ["pool_options", "compat._internals"],
    "pymongo.saslprep": ["compat._internals"],
    "pymongo.server_selectors": ["compat._server_selectors"],
    "pymongo.synchronous.pool": ["pool_options", "compat._internals"],
    "pymongo.synchronous.server": ["compat._internals"],
    "pymongo.settings_shared": [],
    "pymongo.synchronous": [],
    "pymongo.uri_parser_shared": ["uri_parser", "common"],
    "gridfs.asynchronous": ["gridfs"],
    "gridfs.asynchronous.grid_file": ["gridfs.api", "gridfs"],
    "gridfs.errors": ["gridfs.errors"],
    "gridfs.grid_file": ["gridfs.grid_file", "gridfs"],
    "gridfs.grid_file_shared": ["gridfs"],
    "gridfs.synchronous": ["gridfs"],
    "gridfs.synchronous.grid_file": ["gridfs.api", "gridfs"],
}

# PyMongo's name -> the modules below `mangonel` that replace it; empty if none does.
COUNTERPARTS: dict[str, list[str]] = {
    "bson": ["bson"],
    "gridfs": ["gridfs"],
    "pymongo": [""],
    **{f"pymongo.{name}": [name] for name in sorted(_SAME)},
    **{f"pymongo.synchronous.{name}": [name] for name in _BLOCKING},
    **{f"bson.{name}": [f"bson.{name}", "bson"] for name in _BSON},
    **_ELSEWHERE,
}
# Internals that libraries import, and the version.
for _module in [
    *("bson", "pymongo", "pymongo.asynchronous.collection", "pymongo.collection", "pymongo.cursor"),
    *("pymongo.encryption", "pymongo.operations", "pymongo.synchronous.collection"),
    *("pymongo.synchronous.cursor", "pymongo.synchronous.encryption"),
]:
    COUNTERPARTS[_module].insert(0, "compat._private_names")
for _module in ["gridfs", "gridfs.grid_file", "gridfs.synchronous", "gridfs.synchronous.grid_file"]:
    COUNTERPARTS[_module].insert(0, "compat._gridfs")
COUNTERPARTS["pymongo"].insert(0, "compat._extras")
COUNTERPARTS["pymongo._version"].insert(0, "compat._extras")
COUNTERPARTS["bson.json_util"].append("compat._internals")
COUNTERPARTS["pymongo.common"] += ["compat._extras", "compat._internals"]
COUNTERPARTS["pymongo.database"].append("compat._extras")
COUNTERPARTS["pymongo.hello"].append("compat._extras")

PACKAGES = frozenset(name.rpartition(".")[0] for name in COUNTERPARTS if "." in name)

# Modules that PyMongo does not load by itself.
_LATER = frozenset(
    [
        "gridfs.grid_file",
        *(
            f"pymongo.{face}.{name}"
            for face in ("asynchronous", "synchronous")
            for name in ("auth", "auth_aws")
        ),
        "pymongo.asynchronous.auth_oidc",
        "pymongo.asynchronous.encryption",
        "pymongo.auth",
        "pymongo.auth_oidc",
        "pymongo.daemon",
        "pymongo.encryption",
        "pymongo.encryption_options",
        "pymongo.encryption_shared",
        "pymongo.event_loggers",
        "pymongo.mongo_client",
        "pymongo.ocsp_cache",
        "pymongo.ocsp_support",
        "pymongo.pool",
        "pymongo.pyopenssl_context",
        "pymongo.saslprep",
        "pymongo.synchronous.auth_oidc",
        "pymongo.synchronous.encryption",
    ]
)
_WITH_PYMONGO = ["bson", "bson.json_util", "bson.raw_bson", "bson.typings"]


def companions(gaps: Iterable[str]) -> dict[str, list[str]]:
    """Return, for each of PyMongo's packages, the modules that its import loads.

    Args:
        gaps: modules without a counterpart.
    """
    loaded = sorted({*COUNTERPARTS, *gaps} - ROOTS - _LATER - {*_WITH_PYMONGO})
    found = {root: [name for name in loaded if name.startswith(f"{root}.")] for root in ROOTS}
    found["pymongo"][:0] = _WITH_PYMONGO
    return found


# The version of Motor.
MOTOR_VERSION = "3.7.1"
_MOTOR_CORE = ["compat._motor", "compat._motor_cursors", "compat._motor_encryption"]
MOTOR_COUNTERPARTS = {
    "motor": ["compat.motor_tornado", "compat._motor_encryption"],
    "motor.core": _MOTOR_CORE,
    "motor.motor_asyncio": ["compat.motor_asyncio", "compat._motor_encryption"],
    "motor.motor_gridfs": _MOTOR_CORE,
    "motor.motor_tornado": ["compat.motor_tornado", "compat._motor_encryption"],
}
MOTOR_MISSING = {"motor.web": ("GridFSHandler",), "motor.aiohttp": ("AIOHTTPGridFS",)}
