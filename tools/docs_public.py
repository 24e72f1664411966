"""The public names, by page of the reference. The site and the test of docstrings use this table.

A row is a page, its title and its content: single names, or modules with their `__all__` (without one, all their own
names).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "client": (
        "Client",
        ("mangonel.api.MongoClient", "mangonel.api.AsyncMongoClient", "mangonel._faces.deadline.timeout"),
    ),
    "database": ("Database", ("mangonel.api.Database", "mangonel.api.AsyncDatabase")),
    "collection": ("Collection", ("mangonel.api.Collection", "mangonel.api.AsyncCollection")),
    "cursors": (
        "Cursors",
        (
            "mangonel.api.Cursor",
            "mangonel.api.AsyncCursor",
            "mangonel.api.CommandCursor",
            "mangonel.api.AsyncCommandCursor",
            "mangonel.api.RawBatchCursor",
            "mangonel.api.AsyncRawBatchCursor",
            "mangonel.api.RawBatchCommandCursor",
            "mangonel.api.AsyncRawBatchCommandCursor",
            "mangonel.cursor_shared",
        ),
    ),
    "partitions": ("Partitions", ("mangonel.api.Partition", "mangonel.api.AsyncPartition")),
    "sessions": ("Sessions and transactions", ("mangonel.client_session", "mangonel.api.AsyncClientSession")),
    "change-streams": ("Change streams", ("mangonel.change_stream", "mangonel.asynchronous.change_stream")),
    "operations": (
        "Operations and indexes",
        ("mangonel.operations", "mangonel.constants", "mangonel.collation"),
    ),
    "results": ("Results", ("mangonel.results",)),
    "errors": ("Errors", ("mangonel.errors",)),
    "concerns": (
        "Read preference, read and write concern",
        ("mangonel.read_preferences", "mangonel.read_concern", "mangonel.write_concern"),
    ),
    "settings": (
        "Settings and URIs",
        (
            "mangonel.uri_parser",
            "mangonel.client_options",
            "mangonel.pool_options",
            "mangonel.server_api",
            "mangonel.driver_info",
            "mangonel.auth_oidc",
            "mangonel.auth",
        ),
    ),
    "monitoring": (
        "Listeners and logs",
        ("mangonel.monitoring", "mangonel.event_loggers", "mangonel.logger"),
    ),
    "topology": (
        "What is known of a deployment",
        (
            "mangonel.server_description",
            "mangonel.topology_description",
            "mangonel.server_type",
            "mangonel.hello",
        ),
    ),
    "bson": ("bson", ("mangonel.bson",)),
    "bson-types": (
        "bson: types",
        (
            "mangonel.bson.binary",
            "mangonel.bson.code",
            "mangonel.bson.datetime_ms",
            "mangonel.bson.dbref",
            "mangonel.bson.decimal128",
            "mangonel.bson.int64",
            "mangonel.bson.max_key",
            "mangonel.bson.min_key",
            "mangonel.bson.objectid",
            "mangonel.bson.raw_bson",
            "mangonel.bson.regex",
            "mangonel.bson.son",
            "mangonel.bson.timestamp",
            "mangonel.bson.tz_util",
        ),
    ),
    "bson-codec": (
        "bson: codec options and errors",
        ("mangonel.bson.codec_options", "mangonel.bson.errors"),
    ),
    "arrow": ("arrow: tables of columns", ("mangonel.arrow",)),
    "jsonl": ("jsonl: JSON lines", ("mangonel.jsonl",)),
    "files": ("files: Parquet, Arrow IPC and CSV", ("mangonel.files",)),
    "bson-json": ("bson: extended JSON (json_util)", ("mangonel.bson.json_util",)),
    "gridfs": ("gridfs", ("mangonel.gridfs", "mangonel.gridfs.errors")),
    "encryption": ("encryption", ("mangonel.encryption",)),
    "gridfs-web": ("gridfs over HTTP", ("mangonel.gridfs.web.asgi", "mangonel.gridfs.web.tornado")),
    "odm": ("odm", ("mangonel.odm",)),
    "admin": ("admin", ("mangonel.admin",)),
    "odm-testing": ("odm: documents for tests", ("mangonel.odm.testing",)),
    "websessions": (
        "websessions",
        (
            "mangonel.websessions",
            "mangonel.websessions.errors",
            "mangonel.websessions.events",
            "mangonel.websessions.predecessors",
            "mangonel.websessions.testing",
        ),
    ),
    "websessions-frameworks": (
        "websessions: frameworks",
        (
            "mangonel.websessions.frameworks.tornado",
            "mangonel.websessions.frameworks.asgi",
            "mangonel.websessions.frameworks.flask",
            "mangonel.websessions.frameworks.wsgi",
            "mangonel.websessions.frameworks.django",
            "mangonel.websessions.frameworks.aiohttp",
            "mangonel.websessions.frameworks.litestar",
        ),
    ),
    "websessions-stores": (
        "websessions: stores",
        (
            "mangonel.websessions.stores.protocol",
            "mangonel.websessions.stores.mongodb",
            "mangonel.websessions.stores.redis",
            "mangonel.websessions.stores.memcached",
            "mangonel.websessions.stores.mysql",
            "mangonel.websessions.stores.postgresql",
            "mangonel.websessions.stores.sqlite",
            "mangonel.websessions.stores.directory",
            "mangonel.websessions.stores.single_file",
            "mangonel.websessions.stores.memory",
            "mangonel.websessions.stores.cookie",
        ),
    ),
    "server": ("server", ("mangonel.server",)),
    "testing": ("testing", ("mangonel.testing",)),
    "compat": ("compat", ("mangonel.compat",)),
    "doctor": ("doctor", ("mangonel.doctor",)),
    "advice": ("advice", ("mangonel.advice",)),
    "demo": ("demo", ("mangonel.demo.settings",)),
}


def exported(module_name: str) -> Iterator[tuple[str, object]]:
    """Yield the public names of a module with their objects."""
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None)
    if names is None:
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", None) == module_name
            if not name.startswith("_") and is_own and (inspect.isclass(value) or inspect.isroutine(value)):
                yield name, value
        return
    for name in names:
        if not name.startswith("__"):
            yield name, getattr(module, name)


def names_of(page: str) -> Iterator[tuple[str, object]]:
    """Yield the full names on a page of the reference with their objects."""
    for entry in PAGES[page][1]:
        module_name, _, name = entry.rpartition(".")
        if module_name in ("mangonel.api", "mangonel._faces.deadline"):
            yield entry, getattr(importlib.import_module(module_name), name)
        else:
            for exported_name, value in exported(entry):
                yield f"{entry}.{exported_name}", value


def public() -> dict[str, object]:
    """Return every public class, function and constant once, under the first name in the reference."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for page in PAGES:
        for name, value in names_of(page):
            is_named = inspect.isclass(value) or inspect.isroutine(value)
            if is_named and id(value) in seen:
                continue
            seen.add(id(value))
            found[name] = value
    return found
