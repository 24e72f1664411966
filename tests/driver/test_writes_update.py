"""update_one, update_many, replace_one, delete_one, delete_many on both faces, beside PyMongo on the same server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymongo.write_concern
import pytest

import mangonel
from driver.outcomes import outcome
from mangonel import errors
from mangonel.collation import Collation
from mangonel.operations import DeleteOne
from mangonel.server import Server
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import Close, Script, ScriptedServer

DOCUMENTS = [
    {"_id": 1, "a": "x", "n": 1},
    {"_id": 2, "a": "X", "n": 2},
    {"_id": 3, "a": "y", "list": [1, 5, 9]},
]

CALLS: dict[str, Callable[[Any], Any]] = {
    "update_one": lambda c: c.update_one({"_id": 1}, {"$set": {"n": 7}}),
    "update_one that changes nothing": lambda c: c.update_one({"_id": 1}, {"$set": {"n": 1}}),
    "update_one without a match": lambda c: c.update_one({"_id": 9}, {"$set": {"n": 1}}),
    "upsert": lambda c: c.update_one({"_id": 9}, {"$set": {"n": 1}}, upsert=True),
    "upsert with a made id": lambda c: c.update_one({"n": 99}, {"$set": {"a": 1}}, True),
    "upsert of None": lambda c: c.update_one({"_id": None}, {"$set": {"a": 1}}, True),
    "pipeline": lambda c: c.update_one({"_id": 1}, [{"$set": {"n": {"$add": ["$n", 1]}}}]),
    "let": lambda c: c.update_one({"_id": 1}, [{"$set": {"n": "$$v"}}], let={"v": 5}),
    "array filters": lambda c: c.update_one(
        {"_id": 3}, {"$set": {"list.$[i]": 0}}, array_filters=[{"i": {"$gt": 4}}]
    ),
    "hint by name": lambda c: c.update_one({"_id": 1}, {"$inc": {"n": 1}}, hint="_id_"),
    "hint by keys": lambda c: c.update_one({"_id": 1}, {"$inc": {"n": 1}}, hint=[("_id", 1)]),
    "unknown hint": lambda c: c.update_one({"_id": 1}, {"$inc": {"n": 1}}, hint="no_such"),
    "comment": lambda c: c.update_one({"_id": 1}, {"$inc": {"n": 1}}, comment={"why": 1}),
    "unknown operator": lambda c: c.update_one({"_id": 1}, {"$nope": {"n": 1}}),
    "change of the id": lambda c: c.update_one({"_id": 1}, {"$set": {"_id": 5}}),
    "sort": lambda c: c.update_one({}, {"$set": {"n": 1}}, sort={"_id": -1}),
    "update_many": lambda c: c.update_many({"n": {"$gt": 0}}, {"$inc": {"n": 1}}),
    "update_many upsert": lambda c: c.update_many({"_id": 9}, {"$inc": {"n": 1}}, True),
    "replace_one": lambda c: c.replace_one({"_id": 1}, {"b": 1}),
    "replace_one upsert": lambda c: c.replace_one({"_id": 9}, {"b": 1}, upsert=True),
    "replace_one of another id": lambda c: c.replace_one({"_id": 1}, {"_id": 2}),
    "duplicate by upsert": lambda c: c.update_one({"_id": 1, "n": 55}, {"$set": {"a": 1}}, upsert=True),
    "bypass": lambda c: c.update_one({"_id": 1}, {"$set": {"n": 2}}, bypass_document_validation=True),
    "delete_one": lambda c: c.delete_one({"n": {"$gt": 0}}),
    "delete_one without a match": lambda c: c.delete_one({"n": 1000}),
    "delete_many": lambda c: c.delete_many({}),
    "delete with let": lambda c: c.delete_many({"$expr": {"$eq": ["$n", "$$v"]}}, let={"v": 2}),
    "delete with a hint": lambda c: c.delete_one({"_id": 1}, hint="_id_", comment="why"),
    "delete with an unknown operator": lambda c: c.delete_one({"_id": {"$nope": 1}}),
}


@pytest.mark.parametrize("name", CALLS)
def test_result_and_stored_documents_are_those_of_pymongo(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    face.wait(collection.insert_many(DOCUMENTS))
    oracle.insert_many(DOCUMENTS)
    call = CALLS[name]

    assert outcome(lambda: face.wait(call(collection))) == outcome(lambda: call(oracle))
    ours = face.collect(collection.find(sort=[("_id", 1)]))
    theirs = list(oracle.find(sort=[("_id", 1)]))
    drop_made_ids = [{**document, "_id": str(type(document["_id"]).__name__)} for document in ours]
    assert drop_made_ids == [{**document, "_id": str(type(document["_id"]).__name__)} for document in theirs]


def test_collation_decides_which_strings_match(face: Face, collection: Any) -> None:
    face.wait(collection.insert_many(DOCUMENTS))

    result = face.wait(
        collection.update_many({"a": "x"}, {"$set": {"n": 0}}, collation=Collation("en", strength=2))
    )
    deleted = face.wait(collection.delete_many({"a": "x"}, collation={"locale": "en", "strength": 2}))

    assert (result.matched_count, deleted.deleted_count) == (2, 2)


WRONG: dict[str, Callable[[Any], Any]] = {
    "filter of int": lambda c: c.update_one(1, {"$set": {"a": 1}}),
    "update of str": lambda c: c.update_one({}, "x"),
    "empty update": lambda c: c.update_one({}, {}),
    "empty pipeline": lambda c: c.update_one({}, []),
    "update without operators": lambda c: c.update_one({}, {"a": 1}),
    "replacement with operators": lambda c: c.replace_one({}, {"$set": {"a": 1}}),
    "replacement of list": lambda c: c.replace_one({}, [1]),
    "upsert of int": lambda c: c.update_one({}, {"$set": {"a": 1}}, upsert=1),
    "array filters of dict": lambda c: c.update_one({}, {"$set": {"a": 1}}, array_filters={}),
    "hint of int": lambda c: c.update_one({}, {"$set": {"a": 1}}, hint=5),
    "empty hint": lambda c: c.update_one({}, {"$set": {"a": 1}}, hint=[]),
    "collation of str": lambda c: c.update_one({}, {"$set": {"a": 1}}, collation="en"),
    "let of int": lambda c: c.update_one({}, {"$set": {"a": 1}}, let=1),
    "sort of list": lambda c: c.update_one({}, {"$set": {"a": 1}}, sort=[("a", 1)]),
    "delete filter of None": lambda c: c.delete_one(None),
    "delete let of int": lambda c: c.delete_one({}, let=1),
    "delete hint of float": lambda c: c.delete_many({}, hint=1.5),
    "value that is no BSON": lambda c: c.update_one({}, {"$set": {"a": object()}}),
    "key that is no string": lambda c: c.update_one({1: 2}, {"$set": {"a": 1}}),
    "update_many of a replacement": lambda c: c.update_many({}, {"a": 1}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument_raises_the_class_that_pymongo_raises(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    call = WRONG[name]

    with pytest.raises(Exception) as theirs:
        call(oracle)
    with pytest.raises(Exception) as ours:
        face.wait(call(collection))

    assert type(ours.value).__name__ == type(theirs.value).__name__


def test_session_that_is_none_is_refused(face: Face, collection: Any) -> None:
    with pytest.raises(ValueError, match=r"must be an? (Async)?ClientSession"):
        face.wait(collection.delete_one({}, session=object()))


UNACKNOWLEDGED: dict[str, Callable[[Any], Any]] = {
    "collation": lambda c: c.update_one({}, {"$set": {"a": 1}}, collation={"locale": "en"}),
    "array filters": lambda c: c.update_many({}, {"$set": {"a": 1}}, array_filters=[{"i": 1}]),
    "sort": lambda c: c.update_one({}, {"$set": {"a": 1}}, sort={"a": 1}),
    "collation of delete": lambda c: c.delete_one({}, collation={"locale": "en"}),
    "update": lambda c: c.update_one({"_id": 0}, {"$set": {"a": 1}}),
    "delete": lambda c: c.delete_one({"_id": 0}),
    "update with an error": lambda c: c.update_one({"_id": 0}, {"$nope": {"a": 1}}),
}


@pytest.mark.parametrize("name", UNACKNOWLEDGED)
def test_unacknowledged_write_answers_or_refuses_as_pymongo(
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
        return result.acknowledged, result.raw_result

    assert seen(lambda: face.wait(call(unsure))) == seen(lambda: call(their_unsure))


def test_counts_of_an_unacknowledged_write_are_not_available(face: Face, collection: Any) -> None:
    unsure = collection.with_options(write_concern=WriteConcern(w=0))

    updated = face.wait(unsure.update_one({"_id": 1}, {"$set": {"a": 1}}))
    deleted = face.wait(unsure.delete_one({"_id": 1}))

    for read in (
        lambda: updated.matched_count,
        lambda: updated.modified_count,
        lambda: updated.upserted_id,
        lambda: deleted.deleted_count,
    ):
        with pytest.raises(errors.InvalidOperation):
            read()


def scripted_client(face: Face, scripted: ScriptedServer, **options: Any) -> Any:
    scripted.hello.update(setName="rs0", hosts=[scripted.address], primary=scripted.address)
    return face.client(scripted.uri, **options)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("update", lambda c: c.update_one({}, {"$inc": {"n": 1}})),
        ("update", lambda c: c.replace_one({}, {"n": 1})),
        ("delete", lambda c: c.delete_one({})),
    ],
)
def test_write_of_one_document_is_sent_again_with_its_transaction_number(
    command: str, call: Callable[[Any], Any], face: Face, scripted_server: ScriptedServer
) -> None:
    client = scripted_client(face, scripted_server)
    scripted_server.once(command, Close(), {"ok": 1, "n": 1, "nModified": 1})

    face.wait(call(client.a.b))

    first, second = scripted_server.received(command)
    assert first.command["txnNumber"] == second.command["txnNumber"]
    assert first.command["lsid"] == second.command["lsid"]


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("update", lambda c: c.update_many({}, {"$inc": {"n": 1}})),
        ("delete", lambda c: c.delete_many({})),
    ],
)
def test_write_of_many_documents_is_never_sent_twice(
    command: str, call: Callable[[Any], Any], face: Face, scripted_server: ScriptedServer
) -> None:
    client = scripted_client(face, scripted_server)
    scripted_server.once(command, Close())

    with pytest.raises(errors.AutoReconnect):
        face.wait(call(client.a.b))

    (only,) = scripted_server.received(command)
    assert "txnNumber" not in only.command


def test_write_concern_error_is_raised_with_its_code(face: Face, scripted_server: ScriptedServer) -> None:
    client = scripted_client(face, scripted_server)
    failed = {"code": 64, "errmsg": "waiting timed out", "errInfo": {"wtimeout": True}}
    scripted_server.on("update", {"ok": 1, "n": 1, "nModified": 1, "writeConcernError": failed})
    scripted_server.on("delete", {"ok": 1, "n": 1, "writeConcernError": failed})

    with pytest.raises(errors.WTimeoutError) as caught:
        face.wait(client.a.b.update_one({}, {"$set": {"n": 1}}))
    assert (caught.value.code, caught.value.details) == (64, failed)
    with pytest.raises(errors.WTimeoutError):
        face.wait(client.a.b.delete_one({}))


def test_command_carries_the_options_and_the_write_concern(
    face: Face, scripted_server: ScriptedServer
) -> None:
    client = scripted_client(face, scripted_server, w=2, journal=True)
    scripted_server.on("update", {"ok": 1, "n": 1, "nModified": 1})

    face.wait(client.a.b.update_one({"x": 1}, {"$set": {"n": 1}}, sort={"y": -1}, let={"v": 1}, comment="c"))

    (request,) = scripted_server.received("update")
    assert request.command["updates"] == [
        {"q": {"x": 1}, "u": {"$set": {"n": 1}}, "multi": False, "upsert": False, "sort": {"y": -1}}
    ]
    assert request.command["let"] == {"v": 1}
    assert request.command["comment"] == "c"
    assert request.command["writeConcern"] == {"w": 2, "j": True}


def test_update_larger_than_a_document_is_refused_before_it_is_sent(
    face: Face, collection: Any, oracle: Any
) -> None:
    huge = {"$set": {"a": "x" * (16 * 1024 * 1024 + 20_000)}}

    with pytest.raises(Exception) as theirs:
        oracle.update_one({}, huge)
    with pytest.raises(errors.DocumentTooLarge):
        face.wait(collection.update_one({}, huge))

    assert type(theirs.value).__name__ == "DocumentTooLarge"


@pytest.mark.parametrize("way", ["replace_one", "update_one", "bulk_write", "delete_one"])
def test_an_unacknowledged_write_over_the_limit_is_refused_here(
    face: Face, collection: Any, oracle: Any, way: str
) -> None:
    # The server accepts a command of this size, and then silently does not store the document.
    text = "x" * (16 * 1024 * 1024 + 100)
    calls = {
        "replace_one": lambda c, m: c.replace_one({}, {"a": text}),
        "update_one": lambda c, m: c.update_one({}, {"$set": {"a": text}}),
        "bulk_write": lambda c, m: c.bulk_write([m.ReplaceOne({}, {"a": text})], ordered=False),
        "delete_one": lambda c, m: c.delete_one({"a": text}),
    }
    unsure = collection.with_options(write_concern=WriteConcern(w=0))
    their_unsure = oracle.with_options(write_concern=pymongo.write_concern.WriteConcern(w=0))

    with pytest.raises(Exception) as theirs:
        calls[way](their_unsure, pymongo)
    with pytest.raises(errors.DocumentTooLarge):
        face.wait(calls[way](unsure, mangonel))

    assert type(theirs.value).__name__ == "DocumentTooLarge"


def test_reply_is_a_dict_whatever_the_document_class(face: Face, client: Any, database_name: str) -> None:
    from mangonel.bson import CodecOptions
    from mangonel.bson.raw_bson import RawBSONDocument

    raw = client[database_name].get_collection("raw", CodecOptions(RawBSONDocument))

    result = face.wait(raw.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True))

    assert result.upserted_id == 1
    assert type(result.raw_result) is dict


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("update", lambda c: c.update_one({}, {"$set": {"n": 1}})),
        ("update", lambda c: c.update_many({}, {"$set": {"n": 1}})),
        ("delete", lambda c: c.delete_one({})),
        ("findAndModify", lambda c: c.find_one_and_delete({})),
    ],
)
def test_unacknowledged_write_waits_for_no_reply(
    command: str, call: Callable[[Any], Any], face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on(command, Script())  # Never replies.
    client = scripted_client(face, scripted_server, w=0)

    face.wait(call(client.a.b))

    (request,) = scripted_server.wait_for(command)
    assert request.is_unacknowledged
    assert request.command["writeConcern"] == {"w": 0}
    assert "lsid" not in request.command


def test_standalone_server_takes_every_kind_of_write(face: Face, standalone: Server) -> None:
    # A standalone server knows no transaction numbers, so none may be sent.
    collection = face.client(standalone.uri).writes[face.name]

    face.wait(collection.insert_many([{"_id": 1}, {"_id": 2}]))
    face.wait(collection.bulk_write([DeleteOne({"_id": 1})]))
    updated = face.wait(collection.update_one({"_id": 2}, {"$set": {"a": 1}}))
    found = face.wait(collection.find_one_and_delete({"_id": 2}))

    assert (updated.modified_count, found) == (1, {"_id": 2, "a": 1})
