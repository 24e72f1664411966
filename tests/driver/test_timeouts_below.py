"""`timeout_ms` of databases, collections, sessions, cursors and single calls, on both faces.

The test finds every terminal of the public classes itself, so a new one without a limit fails. Spec:
client-side-operations-timeout.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from typing import Any

import pytest

import mangonel
from mangonel import CursorType, api, gridfs
from mangonel.bson import ObjectId
from mangonel.errors import ConfigurationError, ExecutionTimeout
from mangonel.operations import IndexModel, InsertOne, SearchIndexModel
from tools.scripted_server import Reply, ScriptedServer

CURSOR = {"id": 0, "ns": "a.b", "firstBatch": [{"_id": 1, "name": "b", "options": {}}]}
COMMANDS = (
    "find aggregate count distinct insert update delete findAndModify create drop listCollections listIndexes "
    "createIndexes dropIndexes renameCollection listDatabases dropDatabase buildInfo ping validate collStats "
    "createSearchIndexes updateSearchIndex dropSearchIndex commitTransaction abortTransaction bulkWrite"
)
ANSWERS = {
    name: {"ok": 1, "n": 1, "nModified": 1, "cursor": CURSOR, "value": None, "values": [], "databases": []}
    for name in COMMANDS.split(" ")
}
# Calls of every terminal, by class; None: `NOT_LIMITED` gives the reason for having no limit.
CALLS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Collection": {
        "aggregate": ([],),
        "aggregate_raw_batches": ([],),
        "bulk_write": ([InsertOne({})],),
        "count_documents": ({},),
        "create_index": ("a",),
        "create_indexes": ([IndexModel("a")],),
        "create_search_index": (SearchIndexModel({}),),
        "create_search_indexes": ([SearchIndexModel({})],),
        "delete_many": ({},),
        "delete_one": ({},),
        "distinct": ("a",),
        "drop": (),
        "drop_index": ("a",),
        "drop_indexes": (),
        "drop_search_index": ("a",),
        "estimated_document_count": (),
        "find": (),
        "find_one": (),
        "find_one_and_delete": ({},),
        "find_one_and_replace": ({}, {}),
        "find_one_and_update": ({}, {"$set": {"a": 1}}),
        "find_raw_batches": (),
        "index_information": (),
        "infer_schema": (),
        "insert_many": ([{}],),
        "insert_one": ({},),
        "list_indexes": (),
        "list_search_indexes": (),
        "options": (),
        "rename": ("c",),
        "replace_one": ({}, {}),
        "update_many": ({}, {"$set": {"a": 1}}),
        "update_one": ({}, {"$set": {"a": 1}}),
        "update_search_index": ("a", {}),
        "watch": (),
    },
    "Database": {
        "aggregate": ([{"$currentOp": {}}],),
        "command": ("ping",),
        "create_collection": ("c",),
        "cursor_command": ("find", "b"),
        "dereference": (mangonel.bson.DBRef("b", 1),),
        "drop_collection": ("c",),
        "list_collection_names": (),
        "list_collections": (),
        "validate_collection": ("b",),
        "watch": (),
    },
    "MongoClient": {
        "bulk_write": ([InsertOne({}, namespace="a.b")],),
        "drop_database": ("a",),
        "list_database_names": (),
        "list_databases": (),
        "server_info": (),
        "watch": (),
    },
    "GridFSBucket": {
        "delete": (ObjectId(),),
        "delete_by_name": ("a",),
        "download": (ObjectId(),),
        "download_to_stream": (ObjectId(), None),
        "download_to_stream_by_name": ("a", None),
        "find": (),
        "open_download_stream": (ObjectId(),),
        "open_download_stream_by_name": ("a",),
        "rename": (ObjectId(), "a"),
        "rename_by_name": ("a", "b"),
        "upload_from_stream": ("a", b""),
        "upload_from_stream_with_id": (1, "a", b""),
    },
}
NOT_LIMITED = {
    "insert_arrow": "needs a table; it runs as insert_many does",
    "partitions": "a plan of queries that run later",
    "close": "of the client: not an operation",
    "aconnect": "not an operation",
}


class Limits:
    """Return the limits that the server received since the last call."""

    def __init__(self, scripted: ScriptedServer) -> None:
        self._scripted = scripted
        self._seen = dict.fromkeys(ANSWERS, 0)

    def look(self) -> list[Any]:
        found = []
        for name, count in self._seen.items():
            received = self._scripted.received(name)
            found += [request.command.get("maxTimeMS") for request in received[count:]]
            self._seen[name] = len(received)
        return found


@pytest.fixture
def scripted(scripted_server: ScriptedServer) -> Iterator[ScriptedServer]:
    for name, answer in ANSWERS.items():
        scripted_server.on(name, answer)
    return scripted_server


def target_of(face: Any, kind: str, client: Any, **options: Any) -> Any:
    database = client.get_database("a", **options)
    if kind == "GridFSBucket":
        return (gridfs.AsyncGridFSBucket if face.is_async else gridfs.GridFSBucket)(database)
    return {"MongoClient": client, "Database": database, "Collection": database.get_collection("b")}[kind]


def call(face: Any, target: Any, name: str, args: tuple[Any, ...], **options: Any) -> None:
    """Run a call to its end and ignore the result."""

    async def steps() -> None:
        found = getattr(target, name)(*args, **options)
        found = await found if inspect.isawaitable(found) else found
        if name.startswith("find") and hasattr(found, "to_list"):
            await found.to_list()

    def blocking() -> None:
        found = getattr(target, name)(*args, **options)
        if name.startswith("find") and hasattr(found, "to_list"):
            found.to_list()

    try:
        face.run(steps if face.is_async else blocking)
    except (mangonel.errors.PyMongoError, gridfs.GridFSError, AttributeError):
        return


@pytest.mark.parametrize("kind", CALLS)
def test_every_terminal_takes_a_limit(kind: str) -> None:
    classes = [getattr(gridfs if kind == "GridFSBucket" else api, prefix + kind) for prefix in ("", "Async")]
    for owner in classes:
        for name, member in inspect.getmembers(owner, inspect.isfunction):
            is_terminal = str(member.__annotations__.get("return", "")).startswith("FaceResult[")
            if name.startswith("_") or name in NOT_LIMITED or not (is_terminal or name in CALLS[kind]):
                continue
            parameter = inspect.signature(member).parameters.get("timeout_ms")
            assert parameter is not None, name
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name
            assert name in CALLS[kind], f"no call of {name} is tried here"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CALLS for name in CALLS[kind]])
def test_the_limit_of_a_call_reaches_the_server(
    face: Any, scripted: ScriptedServer, kind: str, name: str
) -> None:
    args = CALLS[kind][name]
    target = target_of(face, kind, face.client(scripted.uri, timeoutMS=900_000))
    told = Limits(scripted)
    call(face, target, name, args, timeout_ms=50_000)
    limits = told.look()
    if kind == "MongoClient" and name == "bulk_write":
        # The scripted server is too old for it.
        assert not limits
        return
    assert limits
    assert all(40_000 < limit <= 50_000 for limit in limits), limits

    call(face, target, name, args)
    assert all(limit > 800_000 for limit in told.look())
    call(face, target, name, args, timeout_ms=0)
    assert set(told.look()) == {None}


@pytest.mark.parametrize(
    ("of_client", "of_database", "of_collection", "of_block", "of_call", "expected"),
    [
        (900, None, None, None, None, 900),
        (900, 800, None, None, None, 800),
        (900, 800, 700, None, None, 700),
        (500, 800, None, None, None, 800),
        (900, 0, None, None, None, None),
        (900, 800, 0, None, None, None),
        (None, None, 700, None, None, 700),
        (900, 800, 700, 600, None, 600),
        (500, 400, 300, 600, None, 600),
        (900, 800, 700, 600, 100, 100),
        (900, 800, 700, 600, 650, 600),
        (900, 800, 700, 600, 0, 600),
        (900, 800, 700, None, 850, 850),
        (900, 800, 700, None, 0, None),
        (900, 800, 700, 0, None, None),
        (900, 800, 700, 0, 100, 100),
    ],
)
def test_the_nearest_limit_applies_and_a_block_can_only_be_shortened(
    face: Any,
    scripted: ScriptedServer,
    of_client: int | None,
    of_database: int | None,
    of_collection: int | None,
    of_block: int | None,
    of_call: int | None,
    expected: int | None,
) -> None:
    def ms(seconds: int | None) -> Any:
        return None if seconds is None else seconds * 1000

    client = face.client(scripted.uri, **({} if of_client is None else {"timeoutMS": ms(of_client)}))
    database = client.a.with_options(timeout_ms=ms(of_database))
    for collection in (
        database.b.with_options(timeout_ms=ms(of_collection)),
        database.get_collection("b", timeout_ms=ms(of_collection)),
        database.get_collection("a", timeout_ms=ms(of_collection))["b"].with_options(),
    ):
        with mangonel.timeout(of_block):
            face.wait(collection.find_one(timeout_ms=ms(of_call)))
        limit = scripted.received("find")[-1].command.get("maxTimeMS")
        if expected is None:
            assert limit is None
        else:
            assert (expected - 60) * 1000 < limit <= expected * 1000
    assert client.a.b == collection or collection.name == "a.b"


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1", object()])
def test_a_limit_that_is_no_time_is_refused(face: Any, scripted: ScriptedServer, wrong: Any) -> None:
    collection = face.client(scripted.uri).a.b
    for make in (
        lambda: collection.with_options(timeout_ms=wrong),
        lambda: collection.database.with_options(timeout_ms=wrong),
        lambda: collection.find(timeout_ms=wrong),
        lambda: collection.database.client.start_session(default_timeout_ms=wrong),
    ):
        with pytest.raises((TypeError, ValueError), match="timeout_ms"):
            make()


def test_a_cursor_has_one_limit_for_its_life(face: Any, database_name: str, server: Any) -> None:
    collection = face.client(server.uri)[database_name].rows
    face.wait(collection.insert_many([{"_id": n} for n in range(30)]))
    for cursor in (
        collection.find(batch_size=2, timeout_ms=50_000),
        collection.with_options(timeout_ms=50_000).find(batch_size=2),
        face.wait(collection.aggregate([], batchSize=2, timeout_ms=50_000)),
    ):
        face.wait(cursor.next())
        until = cursor._port._until or time.monotonic() + 50
        for _ in range(5):
            face.wait(cursor.next())
        assert cursor._port._until == pytest.approx(until, abs=20)
        # Time is moved.
        cursor._port._until = time.monotonic() - 1
        with pytest.raises(ExecutionTimeout) as caught:
            face.wait(cursor.to_list())
        assert caught.value.timeout


def test_a_cursor_that_waits_has_a_limit_for_each_batch(face: Any, database_name: str, server: Any) -> None:
    database = face.client(server.uri)[database_name]
    face.wait(database.create_collection("log", capped=True, size=4096))
    face.wait(database.log.insert_one({"_id": 1}))
    stream = face.wait(database.rows.watch(timeout_ms=50_000, max_await_time_ms=10))
    tail = database.log.find(cursor_type=CursorType.TAILABLE, timeout_ms=50_000)
    face.wait(tail.next())
    face.wait(database.rows.insert_one({"_id": 1}))
    change = None
    while change is None:
        change = face.wait(stream.try_next())
    assert change["documentKey"] == {"_id": 1}
    for port in (tail._port, stream._port, stream._cursor._port):
        assert port.limit == 50
        assert not port._is_lifetime
    face.wait(stream.close(timeout_ms=10_000))
    face.wait(tail.close())


def test_a_session_keeps_its_limit(face: Any, scripted: ScriptedServer) -> None:
    """The official cases, which need a replica set, test the effect of the limit."""
    session = face.client(scripted.uri, timeoutMS=900_000).start_session(default_timeout_ms=50_000)
    assert session.options.default_timeout_ms == 50_000
    assert session._port_within(None).limit == 50
    assert session._port_within(7000).limit == 7


def test_the_callback_of_a_limited_transaction_takes_no_other_limit(
    face: Any, database_name: str, server: Any
) -> None:
    collection = face.client(server.uri)[database_name].rows
    face.wait(collection.insert_one({}))
    session = collection.database.client.start_session()

    async def on_loop(session: Any) -> None:
        await collection.insert_one({}, session=session, timeout_ms=1000)

    def blocking(session: Any) -> None:
        collection.insert_one({}, session=session, timeout_ms=1000)

    run = session.with_transaction
    with pytest.raises(ConfigurationError, match="pass it to with_transaction"):
        face.wait(run(on_loop if face.is_async else blocking, timeout_ms=60_000))
    # Without a limit for the whole transaction, a limit inside the callback is allowed.
    face.wait(run(on_loop if face.is_async else blocking))


CURSOR_CALLS = [
    ("Collection", "find", ()),
    ("Collection", "find_raw_batches", ()),
    ("Collection", "aggregate", ([],)),
    ("Collection", "aggregate_raw_batches", ([],)),
    ("Collection", "list_indexes", ()),
    ("Database", "aggregate", ([{"$currentOp": {}}],)),
    ("Database", "list_collections", ()),
]
FIRST = {"ok": 1, "cursor": {**CURSOR, "id": 7}}
MORE = {"ok": 1, "cursor": {"id": 0, "ns": "a.b", "nextBatch": [{"_id": 2}]}}


@pytest.fixture
def open_cursors(scripted: ScriptedServer) -> ScriptedServer:
    """Every cursor has a second batch."""
    for name in ("find", "aggregate", "listIndexes", "listCollections"):
        scripted.on(name, FIRST)
    scripted.on("getMore", MORE)
    scripted.on("killCursors", {"ok": 1})
    return scripted


def read_slowly(
    face: Any, target: Any, name: str, args: tuple[Any, ...], pause: float, **options: Any
) -> int:
    """Read a cursor of two batches with a pause between them; return the number of items."""
    cursor = getattr(target, name)(*args, **options)
    cursor = face.wait(cursor)
    face.next(cursor)
    time.sleep(pause)
    return 1 + len(face.wait(cursor.to_list()))


@pytest.mark.parametrize(("kind", "name", "args"), CURSOR_CALLS)
def test_in_iteration_mode_the_server_gets_no_limit(
    face: Any, open_cursors: ScriptedServer, kind: str, name: str, args: tuple[Any, ...]
) -> None:
    target = target_of(face, kind, face.client(open_cursors.uri))
    told = Limits(open_cursors)
    options = {"timeout_ms": 50_000, "timeout_mode": "iteration"}
    assert read_slowly(face, target, name, args, 0, **options) == 2
    assert told.look() == [None]
    assert "maxTimeMS" not in open_cursors.received("getMore")[0].command


def test_in_iteration_mode_each_batch_has_the_whole_limit_otherwise_all_share_one(
    face: Any, open_cursors: ScriptedServer
) -> None:
    collection = face.client(open_cursors.uri).a.b
    impatient = face.client(open_cursors.uri, timeoutMS=3_000).a.b
    # The first connection is not measured: a busy machine takes long for it.
    with mangonel.timeout(60):
        face.wait(impatient.find_one())
    # The delays together exceed the limit, and the client's limit too.
    open_cursors.once("find", Reply(FIRST, delay=1.6))
    open_cursors.once("getMore", Reply(MORE, delay=1.6))
    assert len(face.wait(impatient.find(timeout_mode="iteration").to_list())) == 2
    # The pause is as long as the limit.
    assert read_slowly(face, collection, "find", (), 3, timeout_ms=3_000, timeout_mode="iteration") == 2
    told = Limits(open_cursors)
    told.look()
    for mode in (None, "cursor_lifetime"):
        cursor = collection.find(timeout_ms=50_000, timeout_mode=mode)
        face.next(cursor)
        # Time is moved.
        cursor._port._until = time.monotonic() - 1
        with pytest.raises(ExecutionTimeout):
            face.wait(cursor.to_list())
        (limit,) = told.look()
        assert 0 < limit <= 50_000


def test_a_mode_uses_the_limit_of_the_client_the_collection_or_a_block(
    face: Any, open_cursors: ScriptedServer
) -> None:
    told = Limits(open_cursors)
    limited = face.client(open_cursors.uri, timeoutMS=50_000)
    unlimited = face.client(open_cursors.uri)
    for collection in (limited.a.b, unlimited.a.b.with_options(timeout_ms=50_000)):
        assert len(face.collect(collection.find(timeout_mode="iteration"))) == 2
        assert told.look() == [None]
        assert len(face.collect(collection.find(timeout_mode="cursor_lifetime"))) == 2
        assert told.look()[0] <= 50_000
    with mangonel.timeout(50):
        assert len(face.collect(unlimited.a.b.find(timeout_mode="iteration"))) == 2
    assert told.look() == [None]


def test_a_mode_that_is_not_possible_is_refused_and_nothing_is_sent(
    face: Any, open_cursors: ScriptedServer
) -> None:
    collection = face.client(open_cursors.uri).a.b
    writing = [{"$out": "c"}]
    for error, words, options, args, name in [
        (ConfigurationError, "needs a time limit", {"timeout_mode": "iteration"}, (), "find"),
        (ValueError, "lifelong", {"timeout_mode": "lifelong", "timeout_ms": 5}, (), "find"),
        (
            ConfigurationError,
            r"\$out",
            {"timeout_mode": "iteration", "timeout_ms": 5},
            (writing,),
            "aggregate",
        ),
        (
            ConfigurationError,
            "tailable",
            {"timeout_mode": "cursor_lifetime", "timeout_ms": 5, "cursor_type": CursorType.TAILABLE},
            (),
            "find",
        ),
    ]:
        with pytest.raises(error, match=words):
            face.collect(face.wait(getattr(collection, name)(*args, **options)))
    assert [name for name in ("find", "aggregate") if open_cursors.received(name)] == []
