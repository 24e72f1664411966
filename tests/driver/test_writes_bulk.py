"""A collection's bulk_write on both faces, beside PyMongo on the same server."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pymongo
import pymongo.operations
import pymongo.write_concern
import pytest

from driver.outcomes import outcome
from mangonel import errors, operations
from mangonel._shared.collection import bulk_run
from mangonel.bson import ObjectId, Timestamp
from mangonel.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import Close, ScriptedServer

DOCUMENTS = [{"_id": 1, "a": "x", "n": 1}, {"_id": 2, "a": "X", "n": 2}, {"_id": 3, "list": [1, 5]}]

# Each makes the models with the classes of one driver.
BULKS: dict[str, tuple[Callable[[Any], list[Any]], dict[str, Any]]] = {
    "inserts": (lambda m: [m.InsertOne({"_id": 7}), m.InsertOne({"_id": 8})], {}),
    "each kind": (
        lambda m: [
            m.InsertOne({"_id": 7, "n": 7}),
            m.UpdateOne({"_id": 7}, {"$inc": {"n": 1}}),
            m.UpdateMany({"n": {"$gt": 0}}, {"$inc": {"n": 1}}),
            m.ReplaceOne({"_id": 3}, {"b": 1}),
            m.DeleteOne({"_id": 1}),
            m.DeleteMany({"n": {"$gt": 100}}),
        ],
        {},
    ),
    "upserts": (
        lambda m: [
            m.InsertOne({"_id": 7}),
            m.UpdateOne({"_id": 8}, {"$set": {"a": 1}}, upsert=True),
            m.DeleteOne({"_id": 7}),
            m.ReplaceOne({"_id": 9}, {"b": 1}, upsert=True),
            m.UpdateMany({"_id": None}, {"$set": {"b": 1}}, upsert=True),
        ],
        {},
    ),
    "upserts out of order": (
        lambda m: [
            m.DeleteOne({"_id": 7}),
            m.UpdateOne({"_id": 8}, {"$set": {"a": 1}}, upsert=True),
            m.InsertOne({"_id": 7}),
            m.ReplaceOne({"_id": 9}, {"b": 1}, upsert=True),
        ],
        {"ordered": False},
    ),
    "ordered error": (
        lambda m: [m.InsertOne({"_id": 7}), m.InsertOne({"_id": 1}), m.DeleteOne({"_id": 2})],
        {},
    ),
    "ordered error of an update": (
        lambda m: [
            m.InsertOne({"_id": 7}),
            m.UpdateOne({"_id": 1}, {"$nope": 1}, upsert=True),
            m.DeleteMany({}),
        ],
        {},
    ),
    "ordered error of a replacement": (
        lambda m: [m.DeleteOne({"_id": 9}), m.ReplaceOne({"_id": 1}, {"_id": 5}, hint="_id_")],
        {},
    ),
    "unordered errors": (
        lambda m: [
            m.UpdateOne({"_id": 2}, {"$set": {"_id": 5}}),
            m.InsertOne({"_id": 1}),
            m.DeleteOne({"_id": 3}),
            m.InsertOne({"_id": 7}),
            m.UpdateMany({"_id": 2}, {"$nope": 1}),
            m.InsertOne({"_id": 2}),
        ],
        {"ordered": False},
    ),
    "options": (
        lambda m: [
            m.UpdateOne({"a": "x", "n": 2}, {"$set": {"n": 5}}, collation={"locale": "en", "strength": 2}),
            m.UpdateOne({"_id": 3}, {"$set": {"list.$[i]": 0}}, array_filters=[{"i": 5}]),
            m.UpdateOne({"_id": 1}, {"$inc": {"n": 1}}, hint=[("_id", 1)]),
            m.DeleteOne({"_id": 1}, hint="_id_"),
        ],
        {"comment": "why", "bypass_document_validation": True},
    ),
    "let": (
        lambda m: [
            m.InsertOne({"_id": 7}),
            m.UpdateOne({"$expr": {"$eq": ["$n", "$$v"]}}, [{"$set": {"n": "$$v"}}]),
            m.DeleteMany({"$expr": {"$eq": ["$n", "$$v"]}}),
        ],
        {"let": {"v": 2}},
    ),
}


@pytest.mark.parametrize("name", BULKS)
def test_result_and_stored_documents_are_those_of_pymongo(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    face.wait(collection.insert_many(DOCUMENTS))
    oracle.insert_many(DOCUMENTS)
    make, options = BULKS[name]

    ours = outcome(lambda: face.wait(collection.bulk_write(make(operations), **options)))
    theirs = outcome(lambda: oracle.bulk_write(make(pymongo.operations), **options))

    assert ours == theirs
    assert face.collect(collection.find(sort=[("_id", 1)])) == list(oracle.find(sort=[("_id", 1)]))


WRONG: dict[str, Callable[[Any, ModuleType], Any]] = {
    "no list": lambda c, m: c.bulk_write((m.InsertOne({}),)),
    "None": lambda c, m: c.bulk_write(None),
    "nothing": lambda c, m: c.bulk_write([]),
    "a document": lambda c, m: c.bulk_write([{"_id": 1}]),
    "a document among inserts": lambda c, m: c.bulk_write([m.InsertOne({}), {}]),
    "an insert of a list": lambda c, m: c.bulk_write([m.InsertOne([])]),
    "an insert of None beside a delete": lambda c, m: c.bulk_write([m.DeleteOne({}), m.InsertOne(None)]),
    "an update without operators": lambda c, m: c.bulk_write([m.UpdateOne({}, {"a": 1})]),
    "a replacement with operators": lambda c, m: c.bulk_write([m.ReplaceOne({}, {"$set": {"a": 1}})]),
    "let of int": lambda c, m: c.bulk_write([m.InsertOne({})], let=5),
    "a value that is no BSON": lambda c, m: c.bulk_write([m.InsertOne({"a": object()})]),
    "a class": lambda c, m: c.bulk_write([m.InsertOne]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument_raises_the_class_that_pymongo_raises(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    call = WRONG[name]

    with pytest.raises(Exception) as theirs:
        call(oracle, pymongo.operations)
    with pytest.raises(Exception) as ours:
        face.wait(call(collection, operations))

    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert face.wait(collection.find_one()) is None


UNACKNOWLEDGED: dict[str, Callable[[Any, ModuleType], Any]] = {
    "collation": lambda c, m: c.bulk_write([m.UpdateOne({}, {"$set": {"a": 1}}, collation={"locale": "en"})]),
    "array filters": lambda c, m: c.bulk_write(
        [m.UpdateOne({}, {"$set": {"a": 1}}, array_filters=[{"i": 1}])]
    ),
    "sort": lambda c, m: c.bulk_write([m.UpdateOne({}, {"$set": {"a": 1}}, sort={"a": 1})]),
    "bypass": lambda c, m: c.bulk_write([m.InsertOne({})], bypass_document_validation=True),
    "ordered": lambda c, m: c.bulk_write([m.InsertOne({"_id": 1}), m.DeleteOne({"_id": 1})]),
    "unordered": lambda c, m: c.bulk_write([m.InsertOne({"_id": 1}), m.DeleteOne({"_id": 2})], ordered=False),
    "an error": lambda c, m: c.bulk_write([m.UpdateOne({}, {"$nope": 1}), m.DeleteOne({"_id": 2})]),
}


@pytest.mark.parametrize("name", UNACKNOWLEDGED)
def test_unacknowledged_bulk_answers_or_refuses_as_pymongo(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    call = UNACKNOWLEDGED[name]
    unsure = collection.with_options(write_concern=WriteConcern(w=0))
    their_unsure = oracle.with_options(write_concern=pymongo.write_concern.WriteConcern(w=0))

    def seen(act: Callable[[], Any]) -> Any:
        try:
            result = act()
        except Exception as error:
            return type(error).__name__
        return result.acknowledged, result.bulk_api_result

    assert seen(lambda: face.wait(call(unsure, operations))) == seen(
        lambda: call(their_unsure, pymongo.operations)
    )


def test_unacknowledged_bulk_reports_a_collation_before_array_filters_in_any_position_as_pymongo(
    face: Face, collection: Any, oracle: Any
) -> None:
    def call(c: Any, m: ModuleType) -> Any:
        filters = m.UpdateOne({}, {"$set": {"a": 1}}, array_filters=[{"i": 1}])
        return c.bulk_write([filters, m.DeleteOne({}, collation={"locale": "en"})], ordered=False)

    with pytest.raises(pymongo.errors.ConfigurationError, match="Collation is unsupported"):
        call(oracle.with_options(write_concern=pymongo.WriteConcern(w=0)), pymongo.operations)
    with pytest.raises(errors.ConfigurationError, match="Collation is unsupported"):
        face.wait(call(collection.with_options(write_concern=WriteConcern(w=0)), operations))


def test_ordered_bulk_is_sent_as_runs_of_equal_commands(face: Face, scripted_server: ScriptedServer) -> None:
    for name in ("insert", "update", "delete"):
        scripted_server.on(name, {"ok": 1, "n": 1, "nModified": 1})
    client = face.client(scripted_server.uri)

    face.wait(
        client.a.b.bulk_write(
            [
                InsertOne({"_id": 1}),
                InsertOne({"_id": 2}),
                UpdateOne({}, {"$set": {"a": 1}}),
                DeleteOne({"_id": 1}),
                DeleteOne({"_id": 2}),
                InsertOne({"_id": 3}),
            ]
        )
    )

    sent = [
        (request.name, len(request.documents))
        for request in scripted_server.received()
        if request.name != "ping"
    ]
    assert sent == [("insert", 2), ("update", 1), ("delete", 2), ("insert", 1)]


def test_what_describes_no_write_in_a_reply_is_not_decoded(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = bulk_run.merge
    replies: list[dict[str, Any]] = []

    def noted(run: Any, offset: int, reply: Any, result: Any) -> bool:
        replies.append(dict(reply))
        return merge(run, offset, reply, result)

    monkeypatch.setattr(bulk_run, "merge", noted)
    time = Timestamp(1, 1)
    gossip = {"operationTime": time, "opTime": {"ts": time, "t": 1}, "electionId": ObjectId()}
    upserted = [{"index": 0, "_id": 7}]
    scripted_server.on("update", {"n": 1, "nModified": 0, "upserted": upserted, "ok": 1, **gossip})

    result = face.wait(face.client(scripted_server.uri).a.b.bulk_write([UpdateOne({}, {"$set": {"a": 1}})]))

    assert replies == [{"n": 1, "nModified": 0, "upserted": upserted}]
    assert result.upserted_ids == {0: 7}


def test_unordered_bulk_is_sent_as_one_command_of_each_kind(
    face: Face, scripted_server: ScriptedServer
) -> None:
    for name in ("insert", "update", "delete"):
        scripted_server.on(name, {"ok": 1, "n": 1, "nModified": 1})
    client = face.client(scripted_server.uri)

    face.wait(
        client.a.b.bulk_write(
            [
                DeleteOne({"_id": 1}),
                InsertOne({"_id": 1}),
                UpdateOne({}, {"$set": {"a": 1}}),
                InsertOne({"_id": 2}),
            ],
            ordered=False,
        )
    )

    sent = [
        (request.name, len(request.documents))
        for request in scripted_server.received()
        if request.name != "ping"
    ]
    assert sent == [("insert", 2), ("update", 1), ("delete", 1)]


@pytest.mark.parametrize("many", [UpdateMany({}, {"$inc": {"n": 1}}), DeleteMany({})])
def test_run_with_a_write_to_many_documents_is_never_sent_twice(
    many: Any, face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello.update(setName="rs0", hosts=[scripted_server.address])
    scripted_server.on("insert", {"ok": 1, "n": 1})
    scripted_server.once(many._COMMAND, Close())
    client = face.client(scripted_server.uri)

    with pytest.raises(errors.AutoReconnect):
        face.wait(client.a.b.bulk_write([InsertOne({}), many]))

    (insert,) = scripted_server.received("insert")
    (other,) = scripted_server.received(many._COMMAND)
    assert "txnNumber" in insert.command
    assert "txnNumber" not in other.command


@pytest.mark.parametrize("way", ["bulk_write", "insert_many"])
def test_bulk_that_is_cut_off_reports_the_writes_done_before(
    way: str, face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 2
    failed = {"index": 1, "code": 11000, "errmsg": "E11000"}
    scripted_server.once("insert", {"ok": 1, "n": 1, "writeErrors": [failed]}, Close())
    things = face.client(scripted_server.uri, retryWrites=False).a.b
    documents = [{"_id": number} for number in range(4)]

    calls = {
        "insert_many": lambda: things.insert_many(documents, ordered=False),
        "bulk_write": lambda: things.bulk_write([InsertOne(one) for one in documents], ordered=False),
    }

    with pytest.raises(errors.AutoReconnect) as caught:
        face.wait(calls[way]())

    partial = caught.value.partial_result
    assert partial is not None
    assert partial.inserted_count == 1
    assert [error["index"] for error in partial.bulk_api_result["writeErrors"]] == [1]
    assert pickle.loads(pickle.dumps(caught.value)).partial_result.inserted_count == 1


def test_bulk_that_is_cut_off_at_once_reports_no_writes(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.once("insert", Close())
    things = face.client(scripted_server.uri, retryWrites=False).a.b

    with pytest.raises(errors.AutoReconnect) as caught:
        face.wait(things.bulk_write([InsertOne({})]))

    assert caught.value.partial_result is not None
    assert caught.value.partial_result.inserted_count == 0


def test_write_concern_error_of_a_stepping_down_member_halts_the_bulk(
    face: Face, scripted_server: ScriptedServer
) -> None:
    failed = {"code": 91, "errmsg": "shutting down"}
    scripted_server.on("insert", {"ok": 1, "n": 1, "writeConcernError": failed})
    client = face.client(scripted_server.uri, retryWrites=False)

    with pytest.raises(errors.BulkWriteError) as caught:
        face.wait(client.a.b.bulk_write([InsertOne({}), DeleteOne({})]))

    assert caught.value.details["writeConcernErrors"] == [failed]
    assert scripted_server.received("delete") == []


def test_pickled_bulk_write_error_keeps_its_details(face: Face, collection: Any) -> None:
    import pickle

    with pytest.raises(errors.BulkWriteError) as caught:
        face.wait(collection.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 1})]))

    assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details


class Counted(UpdateOne):
    """A model with a constructor and a slot of its own."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__({"_id": number}, {"$set": {"n": number}}, upsert=True)
        self.number = number


class Foreign:
    """Its slot has an offset that no model uses."""

    __slots__ = (*(f"field_{number}" for number in range(50)), "_filter")


class Mixed(UpdateOne):
    """A model whose filter is the slot of another class."""

    __slots__ = ()
    _filter = Foreign._filter  # type: ignore[attr-defined]  # wrong on purpose


def test_a_subclass_is_sent_as_its_model(face: Face, collection: Any) -> None:
    face.wait(collection.bulk_write([Counted(1), InsertOne({"_id": 2}), Counted(3)]))
    assert face.collect(collection.find(sort=[("_id", 1)])) == [
        {"_id": 1, "n": 1},
        {"_id": 2},
        {"_id": 3, "n": 3},
    ]


@pytest.mark.parametrize("name", ["_filter", "_doc", "_upsert", "_options"])
def test_a_model_without_one_of_its_attributes_is_refused(name: str, face: Face, collection: Any) -> None:
    model = UpdateOne({"_id": 1}, {"$set": {"n": 1}}, upsert=True)
    delattr(model, name)
    with pytest.raises(AttributeError, match=name):
        face.wait(collection.bulk_write([InsertOne({}), model]))


def test_a_slot_of_another_class_is_not_read_by_its_place(face: Face, collection: Any) -> None:
    model = Mixed.__new__(Mixed)
    model._doc, model._upsert, model._options = {"$set": {"n": 1}}, None, None
    with pytest.raises(TypeError, match="_filter"):
        face.wait(collection.bulk_write([model]))


@pytest.mark.parametrize(
    "model",
    [
        UpdateOne({"_id": 1}, {"$nope": 1}),
        UpdateOne({"_id": 1}, {"$nope": 1}, upsert=True, hint="_id_"),
        UpdateMany({"_id": 1}, {"$nope": 1}),
        ReplaceOne({"_id": 1}, {"_id": 5}, hint="_id_"),
        DeleteMany({"$nope": 1}),
    ],
    ids=repr,
)
def test_error_shows_the_statement_that_was_sent(
    model: Any, face: Face, collection: Any, oracle: Any
) -> None:
    theirs_class: Any = getattr(pymongo.operations, type(model).__name__)
    theirs = theirs_class(
        *(getattr(model, name) for name in model._SHOWN if name in {"_filter", "_doc", "_upsert"}),
        hint=model._hint,
    )
    face.wait(collection.insert_one({"_id": 1}))
    oracle.insert_one({"_id": 1})
    shown = []
    for bulk in (lambda: face.wait(collection.bulk_write([model])), lambda: oracle.bulk_write([theirs])):
        with pytest.raises(Exception, match="batch op errors") as caught:
            bulk()
        error: Any = caught.value
        shown.append(error.details["writeErrors"][0]["op"])
    assert shown[0] == shown[1]
