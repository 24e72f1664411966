"""Indexes and search indexes on both faces, beside PyMongo on the same server."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pymongo
import pymongo.operations
import pytest

import mangonel.operations
from driver.outcomes import outcome
from mangonel import errors
from mangonel.bson.son import SON
from mangonel.operations import IndexModel, SearchIndexModel
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import ScriptedServer

# Each call gets a collection and the package that provides its models.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "a key": lambda c, m: c.create_index("a"),
    "keys": lambda c, m: c.create_index([("a", 1), ("b", -1)]),
    "keys without directions": lambda c, m: c.create_index(["a", ("b", -1)]),
    "a mapping": lambda c, m: c.create_index({"a": 1, "b": "text"}),
    "options": lambda c, m: c.create_index(
        "a", name="mine", unique=True, sparse=True, comment="why", maxTimeMS=9000
    ),
    "collation": lambda c, m: c.create_index("a", collation={"locale": "en", "strength": 2}),
    "time to live": lambda c, m: c.create_index("a", expireAfterSeconds=60),
    "partial": lambda c, m: c.create_index("a", partialFilterExpression={"a": {"$gt": 1}}),
    "no keys": lambda c, m: c.create_index([]),
    "keys that are a number": lambda c, m: c.create_index(5),
    "a direction that is none": lambda c, m: c.create_index([("a", 1.5)]),
    "an unknown option": lambda c, m: c.create_index("a", nope=1),
    "unique over duplicates": lambda c, m: c.create_index("same", unique=True),
    "again with other options": lambda c, m: c.create_index("there", name="other"),
    "again": lambda c, m: c.create_index("there"),
    "several": lambda c, m: c.create_indexes([m.IndexModel("a"), m.IndexModel([("b", -1)], name="x")]),
    "several with options": lambda c, m: c.create_indexes(
        [m.IndexModel("a")], commitQuorum="majority", comment="why", maxTimeMS=9000
    ),
    "several of the wrong class": lambda c, m: c.create_indexes(["a"]),
    "several that are no list": lambda c, m: c.create_indexes(m.IndexModel("a")),
    "none": lambda c, m: c.create_indexes([]),
    "drop by name": lambda c, m: c.drop_index("there_1"),
    "drop by keys": lambda c, m: c.drop_index([("there", 1)], comment="why"),
    "drop what is not there": lambda c, m: c.drop_index("nope"),
    "drop the one on the id": lambda c, m: c.drop_index("_id_"),
    "drop a number": lambda c, m: c.drop_index(5),
    "drop all": lambda c, m: c.drop_indexes(),
    "drop all with options": lambda c, m: c.drop_indexes(comment="why", maxTimeMS=9000),
    "search": lambda c, m: c.create_search_index({"definition": {"mappings": {}}}),
    "list search": lambda c, m: c.list_search_indexes(),
    "drop search": lambda c, m: c.drop_search_index("x"),
    "update search": lambda c, m: c.update_search_index("x", {"mappings": {}}),
    "search of the wrong class": lambda c, m: c.create_search_indexes([5]),
}


@pytest.fixture
def prepared(collection: Any, oracle: Any) -> tuple[Any, Any]:
    """A collection with an index and two documents for each driver."""
    for prepared in (oracle, oracle.database[collection.name]):
        prepared.insert_many([{"_id": 1, "same": 1}, {"_id": 2, "same": 1}])
        prepared.create_index("there")
    return collection, oracle


@pytest.mark.parametrize("name", CALLS)
def test_result_and_indexes_are_those_of_pymongo(name: str, face: Face, prepared: tuple[Any, Any]) -> None:
    ours, theirs = prepared
    call = CALLS[name]
    mine = outcome(lambda: face.wait(call(ours, mangonel.operations)))
    peer = outcome(lambda: call(theirs, pymongo.operations))
    assert _without_uuids(mine) == _without_uuids(peer)
    assert face.wait(ours.index_information()) == theirs.index_information()


def _without_uuids(value: Any) -> str:
    """Leave out the ids of a build and of a collection in an error message: they differ between any two runs."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "uuid", repr(value))


def test_indexes_are_listed_as_ordered_documents(face: Face, prepared: tuple[Any, Any]) -> None:
    ours, theirs = prepared
    listed = face.collect(face.wait(ours.list_indexes(comment="why")))
    assert [dict(index) for index in listed] == [dict(index) for index in theirs.list_indexes()]
    assert type(listed[0]) is SON
    assert type(listed[0]["key"]) is SON


def test_a_collection_that_does_not_exist_has_no_indexes(face: Face, collection: Any) -> None:
    assert face.collect(face.wait(collection.list_indexes())) == []
    assert face.wait(collection.index_information()) == {}
    assert face.wait(collection.drop_index("nope")) is None
    assert face.wait(collection.drop_indexes()) is None


def test_many_indexes_are_listed_to_the_last(face: Face, collection: Any) -> None:
    names = face.wait(collection.create_indexes([IndexModel(f"field_{n}") for n in range(60)]))
    assert list(face.wait(collection.index_information())) == ["_id_", *names]


def test_later_batches_of_a_listing_come_from_the_namespace_in_the_reply(
    face: Face, scripted_server: ScriptedServer
) -> None:
    key = {"v": 2, "key": {"a": 1}}
    first = {"id": 7, "ns": "db.$cmd.listIndexes.c", "firstBatch": [{**key, "name": "a"}]}
    rest = {"id": 0, "ns": "db.$cmd.listIndexes.c", "nextBatch": [{**key, "name": "b"}]}
    scripted_server.on("listIndexes", {"ok": 1.0, "cursor": first})
    scripted_server.on("getMore", {"ok": 1.0, "cursor": rest})
    collection = face.client(scripted_server.uri).db.c
    assert list(face.wait(collection.index_information(comment="why"))) == ["a", "b"]
    more = scripted_server.received("getMore")[0].command
    assert (more["collection"], more["comment"]) == ("$cmd.listIndexes.c", "why")


def test_unique_index_over_duplicates_raises_duplicate_key_error(
    face: Face, prepared: tuple[Any, Any]
) -> None:
    with pytest.raises(errors.DuplicateKeyError) as raised:
        face.wait(prepared[0].create_index("same", unique=True))
    assert raised.value.code == 11000


def test_index_commands_carry_the_write_concern_and_search_index_commands_do_not(
    face: Face, scripted_server: ScriptedServer
) -> None:
    collection = face.client(scripted_server.uri).db.get_collection("c", write_concern=WriteConcern(w=2))
    for name in ("createIndexes", "dropIndexes", "dropSearchIndex", "updateSearchIndex"):
        scripted_server.on(name, {"ok": 1.0})
    created = [{"id": "1", "name": "default"}, {"id": "2", "name": "x"}]
    scripted_server.on("createSearchIndexes", {"ok": 1.0, "indexesCreated": created})
    face.wait(collection.create_index("a"))
    face.wait(collection.drop_index("a_1"))
    face.wait(collection.drop_search_index("x", comment="why"))
    face.wait(collection.update_search_index("x", {"mappings": {}}))
    models = [SearchIndexModel({"mappings": {}}), SearchIndexModel({}, name="x", type="vectorSearch")]
    assert face.wait(collection.create_search_indexes(models)) == ["default", "x"]
    commands = {
        name: scripted_server.received(name)[0].command
        for name in (
            "createIndexes",
            "dropIndexes",
            "dropSearchIndex",
            "updateSearchIndex",
            "createSearchIndexes",
        )
    }
    assert commands["createIndexes"]["writeConcern"] == {"w": 2}
    assert commands["dropIndexes"]["writeConcern"] == {"w": 2}
    assert commands["createSearchIndexes"]["indexes"] == [model.document for model in models]
    assert commands["dropSearchIndex"]["comment"] == "why"
    assert commands["updateSearchIndex"]["definition"] == {"mappings": {}}
    assert not any("writeConcern" in command for name, command in commands.items() if "Search" in name)


def test_search_indexes_are_listed_by_an_aggregation_without_concerns(
    face: Face, scripted_server: ScriptedServer
) -> None:
    reply = {"ok": 1.0, "cursor": {"id": 0, "ns": "db.c", "firstBatch": [{"name": "x"}]}}
    scripted_server.on("aggregate", reply)
    uri = scripted_server.uri + "&readConcernLevel=majority"
    collection = face.client(uri).db.c
    assert face.collect(face.wait(collection.list_search_indexes("x"))) == [{"name": "x"}]
    face.wait(collection.list_search_indexes())
    named, all_ = [request.command for request in scripted_server.received("aggregate")]
    assert named["pipeline"] == [{"$listSearchIndexes": {"name": "x"}}]
    assert all_["pipeline"] == [{"$listSearchIndexes": {}}]
    assert "readConcern" not in named
