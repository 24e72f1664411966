"""find_one_and_delete, _replace and _update on both faces, beside PyMongo on the same server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymongo.write_concern
import pytest

from driver.outcomes import outcome
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import Close, ScriptedServer

AFTER = True
DOCUMENTS = [{"_id": 1, "a": "x", "n": 1}, {"_id": 2, "a": "X", "n": 2}, {"_id": 3, "list": [1, 5]}]

CALLS: dict[str, Callable[[Any], Any]] = {
    "delete": lambda c: c.find_one_and_delete({"_id": 1}),
    "delete without a match": lambda c: c.find_one_and_delete({"_id": 9}),
    "delete by sort": lambda c: c.find_one_and_delete({}, sort=[("_id", -1)]),
    "delete with projection": lambda c: c.find_one_and_delete({"_id": 1}, ["a"]),
    "delete with excluded id": lambda c: c.find_one_and_delete({"_id": 1}, {"_id": 0}),
    "delete with let": lambda c: c.find_one_and_delete({"$expr": {"$eq": ["$n", "$$v"]}}, let={"v": 2}),
    "replace": lambda c: c.find_one_and_replace({"_id": 1}, {"b": 1}),
    "replace and return after": lambda c: c.find_one_and_replace({"_id": 1}, {"b": 1}, return_document=AFTER),
    "replace upsert": lambda c: c.find_one_and_replace(
        {"_id": 9}, {"b": 1}, upsert=True, return_document=AFTER
    ),
    "replace upsert before": lambda c: c.find_one_and_replace({"_id": 9}, {"b": 1}, upsert=True),
    "update": lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}),
    "update and return after": lambda c: c.find_one_and_update(
        {"_id": 1}, {"$inc": {"n": 1}}, return_document=AFTER
    ),
    "update by pipeline": lambda c: c.find_one_and_update(
        {"_id": 1}, [{"$set": {"n": 8}}], return_document=AFTER
    ),
    "update with array filters": lambda c: c.find_one_and_update(
        {"_id": 3}, {"$set": {"list.$[i]": 0}}, array_filters=[{"i": 5}], return_document=AFTER
    ),
    "update with hint": lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, hint=[("_id", 1)]),
    "unknown hint": lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, hint="no_such"),
    "max time and comment": lambda c: c.find_one_and_update(
        {"_id": 1}, {"$inc": {"n": 1}}, comment="why", maxTimeMS=5000
    ),
    "collation": lambda c: c.find_one_and_delete(
        {"a": "x", "n": 2}, collation={"locale": "en", "strength": 2}
    ),
    "bypass": lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, bypassDocumentValidation=True),
    "unknown field": lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, noSuchField=1),
    "unknown operator": lambda c: c.find_one_and_update({"_id": 1}, {"$nope": {"n": 1}}),
    "duplicate key": lambda c: c.find_one_and_update({"_id": 1, "n": 50}, {"$set": {"a": 1}}, upsert=True),
    "write concern of the call": lambda c: c.find_one_and_delete({"_id": 1}, writeConcern={"w": 1}),
    "write concern that cannot be met": lambda c: c.find_one_and_delete(
        {"_id": 1}, writeConcern={"w": 3, "wtimeout": 10}
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_result_and_stored_documents_are_those_of_pymongo(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    face.wait(collection.insert_many(DOCUMENTS))
    oracle.insert_many(DOCUMENTS)
    call = CALLS[name]

    assert outcome(lambda: face.wait(call(collection))) == outcome(lambda: call(oracle))
    assert face.collect(collection.find(sort=[("_id", 1)])) == list(oracle.find(sort=[("_id", 1)]))


WRONG: dict[str, Callable[[Any], Any]] = {
    "filter of int": lambda c: c.find_one_and_delete(1),
    "filter of None": lambda c: c.find_one_and_update(None, {"$set": {"a": 1}}),
    "replacement with operators": lambda c: c.find_one_and_replace({}, {"$set": {"a": 1}}),
    "update without operators": lambda c: c.find_one_and_update({}, {"a": 1}),
    "empty update": lambda c: c.find_one_and_update({}, {}),
    "return document of int": lambda c: c.find_one_and_update({}, {"$set": {"a": 1}}, return_document=1),
    "upsert of int": lambda c: c.find_one_and_update({}, {"$set": {"a": 1}}, upsert=1),
    "projection of int": lambda c: c.find_one_and_delete({}, 5),
    "projection of ints": lambda c: c.find_one_and_delete({}, [1]),
    "sort of int": lambda c: c.find_one_and_delete({}, sort=5),
    "sort of str": lambda c: c.find_one_and_delete({}, sort="a"),
    "empty sort": lambda c: c.find_one_and_delete({}, sort=[]),
    "hint of int": lambda c: c.find_one_and_delete({}, hint=5),
    "let of list": lambda c: c.find_one_and_delete({}, let=[]),
    "array filters of dict": lambda c: c.find_one_and_update({}, {"$set": {"a": 1}}, array_filters={}),
    "collation of str": lambda c: c.find_one_and_delete({}, collation="en"),
    "write concern of a wrong field": lambda c: c.find_one_and_delete({}, writeConcern={"x": 1}),
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


UNACKNOWLEDGED: dict[str, Callable[[Any], Any]] = {
    "update": lambda c: c.find_one_and_update({}, {"$set": {"a": 1}}),
    "collation": lambda c: c.find_one_and_delete({}, collation={"locale": "en"}),
    "array filters": lambda c: c.find_one_and_update({}, {"$set": {"a.$[i]": 1}}, array_filters=[{"i": 1}]),
}


@pytest.mark.parametrize("name", UNACKNOWLEDGED)
def test_unacknowledged_write_answers_or_refuses_as_pymongo(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    call = UNACKNOWLEDGED[name]
    unsure = collection.with_options(write_concern=WriteConcern(w=0))
    their_unsure = oracle.with_options(write_concern=pymongo.write_concern.WriteConcern(w=0))

    ours = outcome(lambda: face.wait(call(unsure)))
    theirs = outcome(lambda: call(their_unsure))

    assert ours == theirs


def test_find_one_and_update_is_sent_again_with_its_transaction_number(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello.update(setName="rs0", hosts=[scripted_server.address])
    client = face.client(scripted_server.uri)
    scripted_server.once("findAndModify", Close(), {"ok": 1, "value": {"_id": 1}})

    assert face.wait(client.a.b.find_one_and_update({}, {"$inc": {"n": 1}})) == {"_id": 1}

    first, second = scripted_server.received("findAndModify")
    assert first.command["txnNumber"] == second.command["txnNumber"]


def test_document_is_decoded_into_the_document_class(face: Face, client: Any, database_name: str) -> None:
    from mangonel.bson import CodecOptions
    from mangonel.bson.raw_bson import RawBSONDocument

    raw = client[database_name].get_collection("raw", CodecOptions(RawBSONDocument))
    face.wait(raw.insert_one({"_id": 1, "a": 1}))

    assert isinstance(face.wait(raw.find_one_and_delete({"_id": 1})), RawBSONDocument)


def test_session_that_is_none_is_refused(face: Face, collection: Any) -> None:
    with pytest.raises(ValueError, match=r"must be an? (Async)?ClientSession"):
        face.wait(collection.find_one_and_delete({}, session=object()))
