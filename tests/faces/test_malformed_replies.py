"""Replies that no server should send: a driver that cannot read one raises a protocol error, never an internal error.

Each row is an operation with a good reply; each place of that reply is then left out, or holds a value of another type.
The operation must return a result, since much of a reply is never read, or raise an error of the driver.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import DeleteOne, InsertOne, UpdateOne
from mangonel.bson import Int64, Timestamp
from mangonel.collection import Collection
from mangonel.errors import ProtocolError, PyMongoError, ServerSelectionTimeoutError
from tools.faces import Face, in_the_end
from tools.scripted_server import ScriptedServer

NAMESPACE = "shop.orders"


def cursor(*documents: Any, id: int = 0, batch: str = "firstBatch", **more: Any) -> dict[str, Any]:
    return {"ok": 1, "cursor": {"id": Int64(id), "ns": NAMESPACE, batch: list(documents)}, **more}


FAILED_WRITE = {"index": 0, "code": 11000, "errmsg": "E11000", "keyPattern": {"a": 1}, "keyValue": {"a": 1}}
FAILED_CONCERN = {
    "code": 64,
    "codeName": "WriteConcernTimeout",
    "errmsg": "waiting",
    "errInfo": {"wtimeout": True},
}
REFUSED = {"ok": 0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no", "errorLabels": ["L"]}
CHANGE = {"_id": {"_data": "82"}, "operationType": "insert"}


# (name, command, good reply, call on the collection).
ROWS: list[tuple[str, str, dict[str, Any], Callable[[Any], Any]]] = [
    ("find_one", "find", cursor({"_id": 1}), lambda c: c.find_one({})),
    ("find", "find", cursor({"_id": 1}), lambda c: c.find({}).to_list()),
    ("find_raw", "find", cursor({"_id": 1}), lambda c: c.find_raw_batches({}).to_list()),
    ("explain", "explain", {"ok": 1, "queryPlanner": {}}, lambda c: c.find({}).explain()),
    ("count", "aggregate", cursor({"_id": 1, "n": 3}), lambda c: c.count_documents({})),
    ("estimate", "count", {"ok": 1, "n": 3}, lambda c: c.estimated_document_count()),
    ("distinct", "distinct", {"ok": 1, "values": [1]}, lambda c: c.distinct("a")),
    ("insert_one", "insert", {"ok": 1, "n": 1}, lambda c: c.insert_one({"_id": 1})),
    (
        "insert_one refused",
        "insert",
        {"ok": 1, "n": 0, "writeErrors": [FAILED_WRITE], "writeConcernError": FAILED_CONCERN},
        lambda c: c.insert_one({"_id": 1}),
    ),
    (
        "insert_one unconfirmed",
        "insert",
        {"ok": 1, "n": 1, "writeConcernError": FAILED_CONCERN},
        lambda c: c.insert_one({"_id": 1}),
    ),
    ("insert_many", "insert", {"ok": 1, "n": 2}, lambda c: c.insert_many([{"_id": 1}, {"_id": 2}])),
    (
        "insert_many refused",
        "insert",
        {"ok": 1, "n": 0, "writeErrors": [FAILED_WRITE], "writeConcernError": FAILED_CONCERN},
        lambda c: c.insert_many([{"_id": 1}, {"_id": 2}]),
    ),
    (
        "update_one",
        "update",
        {"ok": 1, "n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 1}]},
        lambda c: c.update_one({}, {"$set": {"a": 1}}, upsert=True),
    ),
    (
        "update_one refused",
        "update",
        {"ok": 1, "n": 0, "writeErrors": [FAILED_WRITE], "writeConcernError": FAILED_CONCERN},
        lambda c: c.update_one({}, {"$set": {"a": 1}}),
    ),
    ("delete_one", "delete", {"ok": 1, "n": 1}, lambda c: c.delete_one({})),
    ("find_one_and_delete", "findAndModify", {"ok": 1, "value": {}}, lambda c: c.find_one_and_delete({})),
    (
        "find_one_and_replace unconfirmed",
        "findAndModify",
        {"ok": 1, "value": {}, "writeConcernError": FAILED_CONCERN},
        lambda c: c.find_one_and_replace({}, {"a": 1}),
    ),
    (
        "bulk_write",
        "update",
        {"ok": 1, "n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 1}]},
        lambda c: c.bulk_write([UpdateOne({}, {"$set": {"a": 1}}, upsert=True)]),
    ),
    (
        "bulk_write refused",
        "delete",
        {"ok": 1, "n": 0, "writeErrors": [FAILED_WRITE], "writeConcernError": FAILED_CONCERN},
        lambda c: c.bulk_write([DeleteOne({})]),
    ),
    (
        "client bulk_write",
        "bulkWrite",
        {
            **cursor({"ok": 1, "idx": 0, "n": 1}),
            "nErrors": 0,
            "nInserted": 1,
            "nMatched": 0,
            "nModified": 0,
            "nUpserted": 0,
            "nDeleted": 0,
        },
        lambda c: c.database.client.bulk_write(
            [InsertOne({"_id": 1}, namespace=NAMESPACE)], verbose_results=True
        ),
    ),
    (
        "client bulk_write refused",
        "bulkWrite",
        {
            **cursor({"ok": 0, "idx": 0, "n": 0, "code": 11000, "errmsg": "E11000"}),
            "nErrors": 1,
            "nInserted": 0,
            "nMatched": 0,
            "nModified": 0,
            "nUpserted": 0,
            "nDeleted": 0,
            "writeConcernError": FAILED_CONCERN,
        },
        lambda c: c.database.client.bulk_write([InsertOne({"_id": 1}, namespace=NAMESPACE)]),
    ),
    (
        "list_databases",
        "listDatabases",
        {"ok": 1, "databases": [{"name": "shop"}]},
        lambda c: c.database.client.list_database_names(),
    ),
    (
        "list_collections",
        "listCollections",
        cursor({"name": "orders", "type": "collection", "options": {}}),
        lambda c: c.database.list_collection_names(),
    ),
    (
        "options",
        "listCollections",
        cursor({"name": "orders", "type": "collection", "options": {"capped": True}}),
        lambda c: c.options(),
    ),
    (
        "index_information",
        "listIndexes",
        cursor({"v": 2, "key": {"_id": 1}, "name": "_id_"}),
        lambda c: c.index_information(),
    ),
    ("create_index", "createIndexes", {"ok": 1}, lambda c: c.create_index("a")),
    ("drop_index", "dropIndexes", REFUSED, lambda c: c.drop_index("a")),
    ("drop", "drop", {"ok": 0, "code": 26, "errmsg": "ns not found"}, lambda c: c.drop()),
    (
        "create_search_index",
        "createSearchIndexes",
        {"ok": 1, "indexesCreated": [{"id": "1", "name": "default"}]},
        lambda c: c.create_search_index({"definition": {}}),
    ),
    (
        "validate",
        "validate",
        {"ok": 1, "valid": True, "result": "fine"},
        lambda c: c.database.validate_collection("orders"),
    ),
    ("command", "ping", {"ok": 1}, lambda c: c.database.command("ping")),
    ("command refused", "ping", REFUSED, lambda c: c.database.command("ping")),
    (
        "cursor_command",
        "find",
        cursor({"_id": 1}),
        lambda c: c.database.cursor_command({"find": "orders"}),
    ),
    ("server_info", "buildInfo", {"ok": 1, "version": "6.0"}, lambda c: c.database.client.server_info()),
    (
        "watch",
        "aggregate",
        cursor(CHANGE, operationTime=Timestamp(1, 1)),
        lambda c: next_change(c),
    ),
]


# The same for replies after a first batch: (name, the command that opened the cursor, good reply to getMore, call).
LATER_ROWS: list[tuple[str, str, dict[str, Any], Callable[[Any], Any]]] = [
    ("find", "find", cursor({"_id": 2}, batch="nextBatch"), lambda c: c.find({}).to_list()),
    ("find_raw", "find", cursor({"_id": 2}, batch="nextBatch"), lambda c: c.find_raw_batches({}).to_list()),
    (
        "watch",
        "aggregate",
        cursor(CHANGE, batch="nextBatch", postBatchResumeToken={"_data": "82"}),
        lambda c: next_change(c, tries=2),
    ),
]


def next_change(collection: Any, tries: int = 1) -> Any:
    if isinstance(collection, Collection):
        with collection.watch() as stream:
            return [stream.try_next() for _ in range(tries)]

    async def steps() -> Any:
        async with await collection.watch() as stream:
            return [await stream.try_next() for _ in range(tries)]

    return steps()


# Types that most fields do not have. `...` leaves the field out.
VALUES: list[Any] = [..., None, 1, -1, 2**40, 1.5, "text", True, [], [1], {}, {"a": 1}, b"bytes"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a reply."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(reply: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return a copy of `reply` with another value at `path`."""
    copied = copy.deepcopy(reply)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copied


@pytest.mark.parametrize("row", ROWS, ids=[row[0].replace(" ", "-") for row in ROWS])
def test_a_reply_that_cannot_be_read_raises_an_error_of_the_driver(face: Face, row: Any) -> None:
    _, command, good, call = row
    slips = []
    with ScriptedServer(hello={"maxWireVersion": 25}) as server:
        client = face.client(server.uri, retryReads=False, retryWrites=False)
        for path in places(good):
            for value in VALUES:
                reply = changed(good, path, value)
                server.on(command, reply)
                server.on("getMore", cursor(batch="nextBatch"))
                try:
                    face.run(lambda: call(client.shop.orders))
                except PyMongoError:
                    continue
                except Exception as error:
                    slips.append(f"{'.'.join(map(str, path))} = {value!r}: {type(error).__name__}: {error}")
    assert not slips, "\n".join(slips)


@pytest.mark.parametrize("row", LATER_ROWS, ids=[row[0] for row in LATER_ROWS])
def test_a_later_batch_that_cannot_be_read_raises_an_error_of_the_driver(face: Face, row: Any) -> None:
    _, opening, good, call = row
    slips = []
    with ScriptedServer(hello={"maxWireVersion": 25}) as server:
        client = face.client(server.uri, retryReads=False)
        server.on(opening, cursor(*[{"_id": 1}] * (opening == "find"), id=5, operationTime=Timestamp(1, 1)))
        for path in places(good):
            for value in VALUES:
                replies = [changed(good, path, value)]
                # A cursor that continues ends with the next reply.
                server.on(
                    "getMore",
                    lambda _, replies=replies: replies.pop() if replies else cursor(batch="nextBatch"),
                )
                try:
                    face.run(lambda: call(client.shop.orders))
                except PyMongoError:
                    continue
                except Exception as error:
                    slips.append(f"{'.'.join(map(str, path))} = {value!r}: {type(error).__name__}: {error}")
    assert not slips, "\n".join(slips)


@pytest.mark.parametrize("value", [1, "text", [1], None])
def test_find_one_hands_out_documents_only(face: Face, scripted_server: ScriptedServer, value: Any) -> None:
    scripted_server.on("find", cursor(value))
    client = face.client(scripted_server.uri)
    with pytest.raises(ProtocolError, match="expected a document in firstBatch"):
        face.run(client.shop.orders.find_one)


def test_a_hello_that_lists_thousands_of_members_is_no_replica_set(face: Face) -> None:
    # Each client would have a monitor thread.
    hosts = [f"member{number}.invalid:27017" for number in range(20_000)]
    with ScriptedServer(hello={"setName": "rs0", "hosts": hosts, "isWritablePrimary": True}) as server:
        server.hello["hosts"] = [server.address, *hosts]
        uri = f"mongodb://{server.address}/?replicaSet=rs0"
        client = face.client(uri, serverSelectionTimeoutMS=400)
        threads = threading.active_count()
        said = "expected a replica set of at most 100 members, got 20001"
        in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(client.shop.orders.find_one))
        assert threading.active_count() < threads + 20
