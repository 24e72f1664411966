"""The modules that a program loads, and the places of the classes that claim PyMongo's module names."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from mangonel import bson
from mangonel.server import Server

# Modules that cost milliseconds and that a program which connects, inserts and ends does not need.
HEAVY = {
    "asyncio",
    "base64",
    "calendar",
    "collections",
    "concurrent.futures",
    "contextlib",
    "dataclasses",
    "decimal",
    "dns",
    "email",
    "encodings.idna",
    "enum",
    "functools",
    "hashlib",
    "hmac",
    "inspect",
    "ipaddress",
    "json",
    "logging",
    "numpy",
    "platform",
    "queue",
    "random",
    "re",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "threading",
    "traceback",
    "typing",
    "typing_extensions",
    "urllib.parse",
    "uuid",
    "weakref",
    "zlib",
}

# All modules that the first client imports: another one costs half a millisecond at most, but needs a reason.
FIRST_CLIENT = """
    _api _api.blocking_client _arguments _core _faces _faces.background _faces.blocking _faces.deadline
    _faces.monitors _faces.port _faces.sockets _light _observe _observe.listeners _observe.logger_names
    _options _options.case_insensitive _options.checks _rooms _shared _shared.base _shared.client
    _shared.client.abandoned_cursors _shared.client.admin _shared.client.admin_commands _shared.client.bulk
    _shared.client.client _shared.client.database_too _shared.client.fork_and_exit _shared.cursors
    _shared.cursors.watch _shared.face_result _shared.of_this_process _shared.operation _shared.replies _shared.settings
    _shared.upper_modules _version api auth bson bson.binary bson.codec_options bson.errors bson.int64
    bson.objectid bson.tz_util client_options common errors handshake_metadata options pool_options read_concern
    read_preferences typings uri_parser write_concern
"""

MIRRORS = [
    "collection",
    "command_cursor",
    "cursor",
    "database",
    "mongo_client",
    "asynchronous.collection",
    "asynchronous.command_cursor",
    "asynchronous.cursor",
    "asynchronous.database",
    "asynchronous.mongo_client",
]


def modules_after(code: str) -> set[str]:
    # -S, because `site` may load anything.
    program = f"import sys\nsys.path[:] = {sys.path!r}\n{code}\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return set(found.stdout.split())


def test_import_of_the_client_loads_nothing_heavy() -> None:
    assert sorted(modules_after("from mangonel import MongoClient") & HEAVY) == []


def test_program_that_inserts_and_ends_loads_nothing_heavy(standalone: Server) -> None:
    loaded = modules_after(
        f"from mangonel import MongoClient\nMongoClient({standalone.uri!r}).test_imports.c.insert_one({{}})"
    )

    assert sorted(loaded & HEAVY) == []


def test_first_client_loads_these_modules_and_no_others() -> None:
    loaded = modules_after(
        "from mangonel import MongoClient\nMongoClient('mongodb://localhost:1', connect=False)"
    )
    ours = {name for name in loaded if name.startswith("mangonel.")}

    assert ours == {f"mangonel.{name}" for name in FIRST_CLIENT.split()}
    assert sorted(loaded & HEAVY) == []


def test_import_of_the_package_alone_loads_no_client() -> None:
    assert not {name for name in modules_after("import mangonel") if name.startswith("mangonel.api")}


@pytest.mark.parametrize(
    "name", sorted(name for name in bson.__all__ if isinstance(getattr(bson, name), type))
)
def test_module_that_a_bson_class_names_is_loaded_with_it(name: str) -> None:
    # Otherwise cloudpickle, and with it Dask, Ray and Spark, pickles the class itself, or fails to.
    home = getattr(bson, name).__module__

    assert home in modules_after(f"from mangonel.bson import {name}")


@pytest.mark.parametrize("name", [name for name in MIRRORS if not name.startswith("asynchronous.")])
def test_module_offers_what_pymongo_has_there(name: str) -> None:
    theirs = importlib.import_module(f"pymongo.{name}")

    assert set(theirs.__all__) <= set(importlib.import_module(f"mangonel.{name}").__all__)


@pytest.mark.parametrize("name", MIRRORS)
def test_module_names_what_it_offers_in_order(name: str) -> None:
    ours = importlib.import_module(f"mangonel.{name}")

    assert ours.__all__ == sorted(ours.__all__)
    for exported in ours.__all__:
        assert hasattr(ours, exported)


@pytest.mark.parametrize("name", [name for name in MIRRORS if name.startswith("asynchronous.")])
def test_asyncio_module_offers_the_twin_of_each_blocking_class(name: str) -> None:
    twins = importlib.import_module(f"mangonel.{name}").__all__
    blocking = importlib.import_module(f"mangonel.{name.removeprefix('asynchronous.')}").__all__

    assert {twin.removeprefix("Async") for twin in twins} == set(blocking)


@pytest.mark.parametrize(
    "name",
    [*(name for name in MIRRORS if "." not in name), "change_stream", "client_session", "uri_parser"],
)
def test_module_of_the_blocking_face_has_the_names_of_pymongos(name: str) -> None:
    theirs = importlib.import_module(f"pymongo.synchronous.{name}")
    ours = importlib.import_module(f"mangonel.synchronous.{name}")
    public = importlib.import_module(f"mangonel.{name}")

    assert set(ours.__all__) == ({"parse_uri"} if name == "uri_parser" else set(public.__all__))
    assert all(hasattr(theirs, exported) for exported in ours.__all__)
    assert all(getattr(ours, exported) is getattr(public, exported) for exported in ours.__all__)


def test_no_module_of_the_mapper_takes_the_place_of_a_name() -> None:
    # An import of the module would set it as an attribute, where `from mangonel.odm import name` looks first.
    import pkgutil

    import mangonel.odm

    assert {module.name for module in pkgutil.iter_modules(mangonel.odm.__path__)} & {
        *mangonel.odm.__all__
    } == set()
