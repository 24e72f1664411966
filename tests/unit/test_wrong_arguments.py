"""A wrong argument of any public callable raises this package's own error, not one from an inner line.

Every public class, function and method of `tools.docs_public` is called with values of wrong types: for each of its
arguments in turn where `VALID` has values for those that it needs, else for all of these at once. Accepted values are
not tested here. Where PyMongo has the name and refuses the value, the classes of the errors agree.
"""

from __future__ import annotations

import asyncio
import copy
import dis
import importlib
import inspect
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import mangonel
from mangonel import AsyncMongoClient, IndexModel, InsertOne, MongoClient, bson, gridfs
from mangonel.odm import Document, connect
from mangonel.websessions import RequestView, WebSessions
from mangonel.websessions.stores.memory import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import docs_public

HOME = str(Path(mangonel.__file__).parent)
# fmt: off
PAGES = [
    "client", "database", "collection", "cursors", "sessions", "change-streams", "operations", "results", "concerns",
    "settings", "monitoring", "topology", "bson", "bson-types", "bson-codec", "bson-json", "gridfs", "encryption",
    "odm", "admin", "websessions",
]
KINDS = [
    "client", "database", "collection", "cursor", "session", "bucket", "GridFS", "GridIn", "GridOut", "Decimal128",
    "document", "query", "websessions",
]
# The package makes these, and programs do not.
MADE = [
    "api.Cursor", "api.AsyncCursor", "api.CommandCursor", "api.AsyncCommandCursor", "api.RawBatchCursor",
    "api.AsyncRawBatchCursor", "api.RawBatchCommandCursor", "api.AsyncRawBatchCommandCursor",
    "client_session.SessionOptions", "odm.Changes", "odm.Many", "logger.LogMessage", "websessions.WebSession",
    "hello.Hello",
]
# fmt: on
# Arguments that are left out, and the reasons.
EXCEPT = {
    # None is the default here; PyMongo requires a value.
    "mangonel.bson.encode": ("codec_options",),
    # pyarrow takes the mapping of columns, and the messages are pyarrow's.
    "collection.insert_arrow": ("table",),
    # The error names the attribute that the document lacks.
    "document.to_dict": ("also",),
    "document.to_json": ("also",),
}
WRONG: list[Any] = ["text", 5, 1.5, b"\0", {"a": 1}, [1], ("a",), object(), None, dict]
DEAD = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1"

# Values for required arguments, by the ending of the argument's name.
VALID: dict[str, tuple[Any, ...]] = {
    "InsertOne": ({},),
    "UpdateOne": ({}, {"$set": {}}),
    "UpdateMany": ({}, {"$set": {}}),
    "ReplaceOne": ({}, {}),
    "DeleteOne": ({},),
    "DeleteMany": ({},),
    "IndexModel": ("a",),
    "bulk_write": ([InsertOne({})],),
    "get_collection": ("a",),
    "command": ("ping",),
    "create_collection": ("a",),
    "insert_one": ({},),
    "insert_many": ([{}],),
    "update_one": ({}, {"$set": {"a": 1}}),
    "update_many": ({}, {"$set": {"a": 1}}),
    "replace_one": ({}, {}),
    "delete_one": ({},),
    "delete_many": ({},),
    "aggregate": ([],),
    "distinct": ("a",),
    "count_documents": ({},),
    "create_index": ("a",),
    "create_indexes": ([IndexModel("a")],),
    "drop_index": ("a",),
    "rename": ("a",),
    "find_one_and_update": ({}, {"$set": {"a": 1}}),
    "find_one_and_replace": ({}, {}),
    "find_one_and_delete": ({},),
    "create_search_index": ({"definition": {}},),
    "update_search_index": ("a", {}),
    "drop_search_index": ("a",),
    "with_transaction": (lambda _: None,),
    "encode": ({},),
    "decode": (b"\5\0\0\0\0",),
    "decode_all": (b"\5\0\0\0\0",),
    "Binary": (b"",),
    "Regex": ("a",),
    "Code": ("a",),
    "DBRef": ("a", 1),
    "Timestamp": (1, 1),
    "RawBSONDocument": (b"\5\0\0\0\0",),
    "dumps": ({},),
    "loads": ("{}",),
    "object_hook": ({},),
    "object_pairs_hook": ([],),
    "open_upload_stream": ("a",),
    "upload_from_stream": ("a", b"x"),
}


class Thing(Document):
    """A model whose methods are called."""

    name: str
    n: int = 0


@pytest.fixture(scope="module")
def instances() -> Iterator[dict[str, Any]]:
    """An object of each class whose methods are called."""
    client: MongoClient[Any] = MongoClient(DEAD, connect=False)
    things = client.db.things
    connection = connect(DEAD, database="db")
    made = {
        "client": client,
        "database": client.db,
        "collection": things,
        "cursor": things.find(),
        "session": client.start_session(),
        "bucket": gridfs.GridFSBucket(client.db),
        "GridFS": gridfs.GridFS(client.db),
        "GridIn": gridfs.GridIn(client.db.fs),
        "GridOut": gridfs.GridOut(client.db.fs, 1),
        "Decimal128": bson.Decimal128("1"),
        "document": Thing(name="a"),
        "query": Thing.find(),
        "websessions": WebSessions(MemoryStore()),
    }
    yield made
    connection.close()
    client.close()


# Python's own messages for a wrong type.
PYTHONS = re.compile(
    r"has no attribute|not iterable|not supported between|unsupported operand|not callable|"
    r"not subscriptable|dictionary update sequence|"
    r"cannot be interpreted|must be real number|expected str, bytes or os|cannot unpack|not enough values|"
    r"cannot convert dictionary|has no len|can only concat|unhashable|argument of type|indices must be|"
    r"is not an instance of '|expected string or bytes-like|descriptor '|"
    r"int\(\) argument|missing \d+ required|unexpected keyword|string pattern on"
)
# PyMongo raises these on purpose, and others by accident.
REFUSALS = (
    "TypeError",
    "ValueError",
    "ConfigurationError",
    "InvalidName",
    "InvalidURI",
    "InvalidBSON",
    "InvalidId",
)


def is_told(error: BaseException) -> bool:
    """Return whether the error was raised for the caller: by a `raise` of the package, or with a message like those."""
    if PYTHONS.search(str(error)):
        return False
    if not isinstance(error, (AttributeError, LookupError, AssertionError, NameError, RuntimeError)):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_raise(trace)


def is_raise(trace: TracebackType) -> bool:
    code = trace.tb_frame.f_code
    return code.co_filename.startswith(HOME) and dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def outcome(call: Callable[[], Any]) -> BaseException | None:
    """Make the call; return its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = call()
        except BaseException as error:
            return error
        if inspect.iscoroutine(value):
            value.close()
        return None


def calls(name: str, called: Callable[..., Any]) -> Iterator[tuple[str, Any, list[Any], dict[str, Any]]]:
    """Yield the name of an argument, the wrong value, and the arguments that contain it."""
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    required = [
        each
        for each in parameters
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    needs_keywords = {each.name for each in named if each.default is each.empty} - {
        each.name for each in required
    }
    valid = list(VALID.get(name.rpartition(".")[2], ()))
    for value in WRONG:
        # Some calls change the value.
        wrong = copy.copy(value)
        if required:
            yield (
                ", ".join(each.name for each in required),
                wrong,
                [wrong] * len(required),
                dict.fromkeys(needs_keywords, wrong),
            )
        if len(valid) < len(required):
            continue
        for each in named:
            keywords = dict.fromkeys(needs_keywords, wrong)
            if each in required:
                given = [
                    wrong if other is each else value for other, value in zip(required, valid, strict=False)
                ]
                yield each.name, wrong, given, keywords
            else:
                yield each.name, wrong, valid[: len(required)], keywords | {each.name: wrong}


def theirs(name: str) -> Any:
    """Return PyMongo's object of this name, or None."""
    for ours, package in (("mangonel.bson", "bson"), ("mangonel.gridfs", "gridfs"), ("mangonel", "pymongo")):
        if name.startswith(ours + "."):
            module, _, last = (package + name.removeprefix(ours)).rpartition(".")
            try:
                return getattr(importlib.import_module(module), last, None)
            except ImportError:
                return None
    return None


def refusals(name: str, called: Callable[..., Any], peer: Any = None) -> Iterator[str]:
    """Yield the faults of a callable's errors."""
    told = set(EXCEPT.get(name, ()))
    for argument, wrong, given, keywords in calls(name, called):
        if argument in told:
            continue
        error = outcome(lambda given=given, keywords=keywords: called(*given, **keywords))
        refused = outcome(lambda given=given, keywords=keywords: peer(*given, **keywords)) if peer else None
        is_refused = type(refused).__name__ in REFUSALS and not PYTHONS.search(str(refused))
        if error is not None and not is_told(error):
            told.add(argument)
            yield f"{name}: {argument}={wrong!r}: {error!r}"
        elif is_refused and type(error).__name__ != type(refused).__name__:
            told.add(argument)
            yield f"{name}: {argument}={wrong!r}: {error!r}, and PyMongo {refused!r}"


def is_made(name: str) -> bool:
    """Return whether the package makes these objects."""
    last = name.rpartition(".")[2]
    return name.removeprefix("mangonel.") in MADE or last.endswith(("ChangeStream", "Event", "Description"))


def members(made: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of an object that this package defines."""
    for name in dir(type(made)):
        if name.startswith("_") or name in ("close", "aconnect", "server_info"):
            continue
        owner = next(each for each in type(made).__mro__ if name in vars(each))
        is_method = inspect.isroutine(inspect.getattr_static(owner, name))
        # The methods of `CheckedSettings` are internal.
        is_public = owner.__module__.startswith("mangonel.") and owner.__name__ != "CheckedSettings"
        if is_public and is_method:
            yield name, getattr(made, name)


@pytest.mark.parametrize("page", PAGES)
def test_a_wrong_argument_of_a_function_or_class_is_told(page: str) -> None:
    wrong = []
    for name, called in docs_public.names_of(page):
        is_error = isinstance(called, type) and issubclass(called, BaseException)
        if callable(called) and not is_error and not is_made(name):
            wrong += refusals(name, called, theirs(name))
    assert not wrong, "\n".join(dict.fromkeys(wrong))


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_argument_of_a_method_is_told(kind: str, instances: dict[str, Any]) -> None:
    wrong = []
    for name, called in members(instances[kind]):
        wrong += refusals(f"{kind}.{name}", called)
    assert not wrong, "\n".join(dict.fromkeys(wrong))


def test_a_callback_on_asyncio_that_cannot_be_called_is_told() -> None:
    async def steps() -> None:
        async with AsyncMongoClient[Any](DEAD) as client, client.start_session() as session:
            with pytest.raises(TypeError, match='expected a function for "callback", got str'):
                await session.with_transaction("x")

    asyncio.run(steps())


def test_a_request_that_is_none_is_told() -> None:
    sessions = WebSessions[Any](MemoryStore())

    async def steps() -> None:
        for wrong in WRONG:
            with pytest.raises(TypeError, match='expected a RequestView for "request_view", got '):
                await sessions.asynchronous.load(wrong)
            with pytest.raises(TypeError, match='expected a WebSession for "session", got '):
                await sessions.asynchronous.commit(wrong)
        session = await sessions.asynchronous.load(RequestView(None))
        await sessions.asynchronous.commit(session)

    asyncio.run(steps())


def test_a_misspelt_option_of_a_query_is_told_by_the_name_of_the_method() -> None:
    with MongoClient[Any](DEAD, connect=False) as client:
        for name, called in [("find", "find"), ("find_one", "find_one"), ("find_raw_batches", "find")]:
            with pytest.raises(TypeError, match=rf"^{called}\(\) got an unexpected keyword argument 'limt'$"):
                getattr(client.shop.orders, name)({}, limt=3)


PUBLIC_CLASSES = {
    name: found
    for module in (mangonel.api, gridfs)
    for name in dir(module)
    # Some are building blocks of faces and ports.
    if isinstance(found := getattr(module, name), type) and not found.__module__.startswith("mangonel._")
}


@pytest.mark.parametrize("owner", PUBLIC_CLASSES)
def test_a_misspelt_option_is_told_by_the_name_of_a_public_class(owner: str) -> None:
    for name, method in inspect.getmembers(PUBLIC_CLASSES[owner], inspect.isfunction):
        _, *options = inspect.signature(method).parameters.values()
        is_open = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in options)
        if name.startswith("_") or is_open or not options:
            continue
        with pytest.raises(TypeError) as caught:
            method(None, limt=3)
        told, _, _ = str(caught.value).partition("()")
        class_name, _, method_name = told.rpartition(".")
        assert class_name in ("", "PyMongoError", *PUBLIC_CLASSES), caught.value
        assert method_name in (name, "find", "find_one"), caught.value


def test_an_insert_with_a_misspelt_option_names_the_face_that_the_program_uses() -> None:
    with (
        MongoClient[Any](DEAD, connect=False) as client,
        pytest.raises(TypeError, match=r"^Collection\.insert_one\(\)"),
    ):
        client.shop.orders.insert_one({}, sesion=None)  # type: ignore[call-arg]

    async def steps() -> None:
        async with AsyncMongoClient[Any](DEAD) as client:
            with pytest.raises(TypeError, match=r"^AsyncCollection\.insert_one\(\)"):
                client.shop.orders.insert_one({}, sesion=None)  # type: ignore[call-arg]

    asyncio.run(steps())


FORGETFUL = """
import asyncio
from mangonel import AsyncMongoClient

async def main():
    async with AsyncMongoClient(connect=False) as client:
        client.shop.orders.insert_one({})
        client.shop.orders.find_one()

asyncio.run(main())
"""


def test_in_development_mode_an_operation_that_is_not_awaited_is_told_by_its_command() -> None:
    command = [sys.executable, "-X", "dev", "-c", FORGETFUL]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    for name in ("insert", "find"):
        assert f"coroutine 'mangonel {name}' was never awaited" in finished.stderr, finished.stderr


def test_an_operation_that_is_not_awaited_is_told_by_the_name_of_the_package() -> None:
    async def steps() -> None:
        async with AsyncMongoClient[Any](DEAD) as client:
            with pytest.warns(RuntimeWarning, match="coroutine 'mangonel operation' was never awaited"):
                client.shop.orders.insert_one({})

    asyncio.run(steps())
