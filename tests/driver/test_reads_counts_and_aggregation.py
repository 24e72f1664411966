"""Counts, distinct values and aggregations on both faces, beside PyMongo on the same server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from driver.outcomes import outcome
from mangonel import bson, errors
from mangonel.collation import Collation
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import ScriptedServer

DOCUMENTS = [{"_id": n, "n": n % 7, "tag": "aA"[n % 2], "list": [n, n + 1]} for n in range(300)]

VALUES: dict[str, Callable[[Any], Any]] = {
    "count all": lambda c: c.count_documents({}),
    "count some": lambda c: c.count_documents({"n": {"$gt": 3}}),
    "count none": lambda c: c.count_documents({"n": 99}),
    "count with skip and limit": lambda c: c.count_documents({}, skip=5, limit=7),
    "count with a hint by name": lambda c: c.count_documents({}, hint="_id_"),
    "count with a hint by keys": lambda c: c.count_documents({}, hint=[("_id", 1)]),
    "count with a collation": lambda c: c.count_documents(
        {"tag": "a"}, collation={"locale": "en", "strength": 2}
    ),
    "count with a comment and a time limit": lambda c: c.count_documents({}, comment="why", maxTimeMS=9000),
    "count with an unknown operator": lambda c: c.count_documents({"$nope": 1}),
    "count with an unknown field": lambda c: c.count_documents({}, nope=1),
    "count without a filter": lambda c: c.count_documents(None),
    "estimated": lambda c: c.estimated_document_count(),
    "estimated with options": lambda c: c.estimated_document_count(comment={"a": 1}, maxTimeMS=9000),
    "estimated with a session": lambda c: c.estimated_document_count(session=None),
    "distinct": lambda c: c.distinct("n"),
    "distinct of lists": lambda c: c.distinct("list", {"_id": {"$lt": 3}}),
    "distinct with a query": lambda c: c.distinct("n", query={"_id": 1}),
    "distinct with both": lambda c: c.distinct("n", {"_id": 1}, query={"_id": 1}),
    "distinct with a collation": lambda c: c.distinct("tag", collation={"locale": "en", "strength": 2}),
    "distinct of a number": lambda c: c.distinct(5),
    "distinct of nothing": lambda c: c.distinct("missing"),
    "distinct with a wrong query": lambda c: c.distinct("n", {"$nope": 1}),
    "distinct with a hint": lambda c: c.distinct("n", hint="_id_"),
}

MATCH: dict[str, Any] = {"$match": {"n": 3}}
SORT: dict[str, Any] = {"$sort": {"_id": 1}}
AGGREGATIONS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda c: c.aggregate([]),
    "stages": lambda c: c.aggregate([MATCH, SORT]),
    "group": lambda c: c.aggregate([{"$group": {"_id": "$n", "k": {"$sum": 1}}}, SORT]),
    "small batches": lambda c: c.aggregate([SORT], batchSize=7),
    "batches of none": lambda c: c.aggregate([SORT], batchSize=0),
    "cursor option": lambda c: c.aggregate([SORT], cursor={"batchSize": 3}),
    "let": lambda c: c.aggregate([{"$match": {"$expr": {"$eq": ["$n", "$$v"]}}}, SORT], let={"v": 2}),
    "let that is none": lambda c: c.aggregate([], let=5),
    "options": lambda c: c.aggregate(
        [SORT], allowDiskUse=True, hint={"_id": 1}, comment="why", maxTimeMS=9000
    ),
    "collation": lambda c: c.aggregate(
        [{"$match": {"tag": "a"}}, SORT], collation=Collation("en", strength=2).document
    ),
    "explain": lambda c: c.aggregate([], explain=True),
    "pipeline that is a document": lambda c: c.aggregate(MATCH),
    "negative batch size": lambda c: c.aggregate([], batchSize=-1),
    "unknown stage": lambda c: c.aggregate([{"$nope": 1}]),
    "out": lambda c: c.aggregate([MATCH, {"$out": "written"}]),
    "merge": lambda c: c.aggregate([MATCH, {"$merge": {"into": "merged"}}], batchSize=3),
}


@pytest.fixture
def filled(collection: Any, oracle: Any) -> tuple[Any, Any]:
    """The same documents for the driver under test and for PyMongo."""
    oracle.insert_many(DOCUMENTS)
    oracle.database[collection.name].insert_many(DOCUMENTS)
    return collection, oracle


@pytest.mark.parametrize("name", VALUES)
def test_counts_and_distinct_values_are_those_of_pymongo(
    name: str, face: Face, filled: tuple[Any, Any]
) -> None:
    ours, theirs = filled
    call = VALUES[name]
    assert outcome(lambda: face.wait(call(ours))) == outcome(lambda: call(theirs))


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregated_documents_are_those_of_pymongo(name: str, face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    call = AGGREGATIONS[name]
    mine = outcome(lambda: face.collect(face.wait(call(ours))))
    assert mine == outcome(lambda: list(call(theirs)))


def test_an_aggregation_that_ends_in_out_writes_its_documents(face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    cursor = face.wait(ours.aggregate([MATCH, {"$out": "written"}]))
    assert not cursor.alive
    assert theirs.database.written.count_documents({}) == theirs.count_documents({"n": 3}) > 0


def test_an_unacknowledged_out_gives_an_empty_cursor(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    unsure = ours.with_options(write_concern=WriteConcern(w=0))
    assert face.collect(face.wait(unsure.aggregate([MATCH, {"$out": "unsure"}]))) == []


def test_an_out_that_is_not_confirmed_raises_a_write_concern_error(
    face: Face, filled: tuple[Any, Any]
) -> None:
    ours, _ = filled
    unsure = ours.with_options(write_concern=WriteConcern(w=1))
    command = {"configureFailPoint": "failCommand", "mode": {"times": 1}}
    data = {"failCommands": ["aggregate"], "writeConcernError": {"code": 91, "errmsg": "going down"}}
    face.wait(ours.database.client.admin.command(command, data=data))
    with pytest.raises(errors.WriteConcernError) as raised:
        face.wait(unsure.aggregate([MATCH, {"$out": "unsure"}]))
    assert raised.value.code == 91


def test_aggregate_raw_batches_hands_out_the_bytes_of_each_batch(face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    raw = face.collect(face.wait(ours.aggregate_raw_batches([SORT, {"$limit": 10}], batchSize=4)))
    peer = list(theirs.aggregate_raw_batches([SORT, {"$limit": 10}], batchSize=4))
    assert raw == peer
    assert [len(bson.decode_all(batch)) for batch in raw] == [4, 4, 2]


def test_aggregate_raw_batches_of_nothing_hands_out_nothing(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    assert face.collect(face.wait(ours.aggregate_raw_batches([{"$match": {"n": 99}}]))) == []


def test_a_raw_batch_cursor_has_no_positions(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = face.wait(ours.aggregate_raw_batches([]))
    with pytest.raises(errors.InvalidOperation, match="__getitem__"):
        cursor[0]
    with pytest.raises(errors.InvalidOperation, match="__getitem__"):
        ours.find_raw_batches()[0]


def test_try_next_returns_none_at_the_end(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = face.wait(ours.aggregate([SORT, {"$limit": 2}]))
    assert [face.wait(cursor.try_next()) for _ in range(4)] == [DOCUMENTS[0], DOCUMENTS[1], None, None]


def test_command_cursor_has_the_properties_of_every_cursor(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = face.wait(ours.aggregate([SORT], batchSize=100))
    assert cursor.alive
    assert cursor.cursor_id > 0
    # The server refuses a 32-bit cursor id.
    assert type(cursor.cursor_id) is bson.Int64
    assert cursor.retrieved == 100
    assert cursor.collection is ours
    assert cursor.session is None
    assert cursor.address == face.wait(ours.database.client.address)
    assert face.wait(cursor.next()) == DOCUMENTS[0]
    assert len(face.wait(cursor.to_list(150))) == 150
    face.wait(cursor.close())
    # Documents that have already arrived can still be read, as in PyMongo.
    assert cursor.cursor_id > 0
    assert len(face.collect(cursor)) == 49
    assert not cursor.alive


def test_command_cursor_asks_for_the_batch_size_that_was_set_last(
    face: Face, filled: tuple[Any, Any]
) -> None:
    ours, _ = filled
    cursor = face.wait(ours.aggregate([SORT], batchSize=10)).batch_size(20)
    face.wait(cursor.to_list(11))
    assert cursor.retrieved == 30
    with pytest.raises(ValueError, match="batch_size"):
        cursor.batch_size(-1)
    with pytest.raises(TypeError, match="batch_size"):
        cursor.batch_size("1")


def test_database_aggregate_needs_no_collection(face: Face, client: Any, database_name: str) -> None:
    stages = [{"$currentOp": {"allUsers": True, "localOps": True}}, {"$limit": 1}, {"$project": {"type": 1}}]
    cursor = face.wait(client.admin.aggregate(stages))
    assert cursor.collection.name == "$cmd.aggregate"
    assert face.collect(cursor) == [{"type": "op"}]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.count_documents({}),
        lambda c: c.distinct("n"),
        lambda c: c.estimated_document_count(),
        lambda c: c.aggregate([]),
        lambda c: c.list_indexes(),
        lambda c: c.database.list_collection_names(),
        lambda c: c.database.client.list_database_names(),
    ],
)
def test_a_read_is_retried_once_after_a_broken_connection(
    call: Callable[[Any], Any], face: Face, server: Any, filled: tuple[Any, Any]
) -> None:
    ours, _ = filled
    names = ["count", "distinct", "aggregate", "listIndexes", "listCollections", "listDatabases"]
    command = {"configureFailPoint": "failCommand", "mode": {"times": 1}}
    data = {"failCommands": names, "closeConnection": True}
    face.wait(ours.database.client.admin.command(command, data=data))
    face.wait(call(ours))


@pytest.mark.parametrize("stage", [{"$out": "x"}, {"$merge": "x"}])
def test_an_aggregation_that_writes_is_never_sent_twice(
    stage: dict[str, Any], face: Face, filled: tuple[Any, Any]
) -> None:
    ours, _ = filled
    command = {"configureFailPoint": "failCommand", "mode": {"times": 1}}
    data = {"failCommands": ["aggregate"], "closeConnection": True}
    face.wait(ours.database.client.admin.command(command, data=data))
    with pytest.raises(errors.AutoReconnect):
        face.wait(ours.aggregate([stage]))
    assert face.wait(ours.count_documents({})) == len(DOCUMENTS)


def test_only_a_writing_aggregation_carries_a_write_concern(
    face: Face, scripted_server: ScriptedServer
) -> None:
    collection = face.client(scripted_server.uri).db.get_collection("c", write_concern=WriteConcern(w=1))
    reply = {"ok": 1.0, "cursor": {"id": 0, "ns": "db.c", "firstBatch": []}}
    scripted_server.on("aggregate", reply)
    face.wait(collection.aggregate([], batchSize=5))
    face.wait(collection.aggregate([{"$out": "o"}], batchSize=5))
    read, write = [request.command for request in scripted_server.received("aggregate")]
    assert "writeConcern" not in read
    assert read["cursor"] == {"batchSize": 5}
    assert write["writeConcern"] == {"w": 1}
    assert write["cursor"] == {}
