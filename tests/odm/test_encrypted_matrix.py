"""Each algorithm with each operator, in each command: an encrypted operand, or an error that names both.

The payloads are compared with those that PyMongo's `ClientEncryption` makes of the same values with the same key.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import pytest

from mangonel import MongoClient, bson
from mangonel.bson import Binary, CodecOptions
from mangonel.odm import Document, Encrypted, UnsupportedOption, connect
from odm import analysed

pytest.importorskip("pymongocrypt")

from mangonel.encryption import AutoEncryptionOpts, ClientEncryption, RangeOpts

NAME = "encrypted_matrix"
# No other part of a command has these four bytes.
VALUE = 0x5EC2E7AB
SPAN = {"min": 0, "max": 0x7FFFFFFF, "sparsity": 1, "trim_factor": 1}


class Measured(Document):
    __collection__ = NAME
    name: str = ""
    deterministic: Annotated[int, Encrypted("deterministic", key="people")] = 0
    random: Annotated[int, Encrypted("random", key="people")] = 0
    indexed: Annotated[int, Encrypted("indexed", key="people", contention_factor=4)] = 0
    range: Annotated[int, Encrypted("range", key="people", contention_factor=4, range=RangeOpts(**SPAN))] = 0
    unindexed: Annotated[int, Encrypted("unindexed", key="people")] = 0


ALGORITHMS = ("deterministic", "random", "indexed", "range", "unindexed")
# What an operand is encrypted as; None: as what is stored, which is the same bytes each time.
QUERY = {"deterministic": None, "indexed": "equality", "range": "range"}
EQUALITY = ("==", "$eq", "$ne", "$in", "$nin", "$not", "$all")
ORDER = ("==", "$eq", "$gt", "$gte", "$lt", "$lte", "between")
ABLE = {"deterministic": EQUALITY, "random": (), "indexed": EQUALITY, "range": ORDER, "unindexed": ()}
CONDITIONS: dict[str, Any] = {
    "==": VALUE,
    "$eq": {"$eq": VALUE},
    "$ne": {"$ne": VALUE},
    "$in": {"$in": [VALUE]},
    "$nin": {"$nin": [VALUE]},
    "$not": {"$not": {"$eq": VALUE}},
    "$all": {"$all": [VALUE]},
    "$gt": {"$gt": VALUE},
    "$gte": {"$gte": VALUE},
    "$lt": {"$lt": VALUE},
    "$lte": {"$lte": VALUE},
    "between": {"$gte": VALUE, "$lte": VALUE},
    "$mod": {"$mod": [VALUE, 0]},
    "$size": {"$size": VALUE},
    "$type": {"$type": VALUE},
    "$bitsAllSet": {"$bitsAllSet": VALUE},
    "$regex": {"$regex": "5"},
    "$elemMatch": {"$elemMatch": {"$eq": VALUE}},
}


def aggregate(*stages: Any) -> dict[str, Any]:
    return {"aggregate": NAME, "pipeline": list(stages), "cursor": {}}


# The commands that each of a query's terminals sends, with a condition in them.
COMMANDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "find": lambda q: {"find": NAME, "filter": q},
    "find within a list": lambda q: {"find": NAME, "filter": {"$or": [{"name": "a"}, {"$nor": [q]}]}},
    "count": lambda q: {"count": NAME, "query": q},
    "distinct": lambda q: {"distinct": NAME, "key": "name", "query": q},
    "delete": lambda q: {"delete": NAME, "deletes": [{"q": q, "limit": 0}]},
    "update": lambda q: {"update": NAME, "updates": [{"q": q, "u": {"$set": {"name": "a"}}}]},
    "replace": lambda q: {"update": NAME, "updates": [{"q": q, "u": {"name": "a"}}]},
    "find and update": lambda q: {"findAndModify": NAME, "query": q, "update": {"$set": {"name": "a"}}},
    "find and delete": lambda q: {"findAndModify": NAME, "query": q, "remove": True},
    "aggregate": lambda q: aggregate({"$match": q}),
    "facet": lambda q: aggregate({"$facet": {"a": [{"$match": q}]}}),
    "lookup": lambda q: aggregate({"$lookup": {"from": NAME, "as": "x", "pipeline": [{"$match": q}]}}),
    "union": lambda q: aggregate({"$unionWith": {"coll": NAME, "pipeline": [{"$match": q}]}}),
    "explain": lambda q: {"explain": {"find": NAME, "filter": q}},
    "watch": lambda q: aggregate(
        {"$changeStream": {}}, {"$match": {f"fullDocument.{path}": value for path, value in q.items()}}
    ),
}
CHANGES: dict[str, Any] = {
    "$inc": VALUE,
    "$mul": VALUE,
    "$min": VALUE,
    "$max": VALUE,
    "$bit": {"and": VALUE},
    "$push": VALUE,
    "$addToSet": VALUE,
    "$pull": VALUE,
    "$pullAll": [VALUE],
    "$pop": 1,
    "$rename": "other",
    "$currentDate": True,
}


look = partial(analysed.look, Measured)


@pytest.mark.parametrize("terminal", COMMANDS)
def test_operands_are_encrypted_for_their_algorithm_or_refused(terminal: str) -> None:
    plain = VALUE.to_bytes(4, "little")
    for algorithm, (operator, condition) in itertools.product(ALGORITHMS, CONDITIONS.items()):
        command = COMMANDS[terminal]({algorithm: condition})
        if operator in ABLE[algorithm]:
            data, pending = look(command)
            assert {one.query for one in pending} == {QUERY[algorithm]}, (algorithm, operator)
            assert plain not in data, (algorithm, operator)
        else:
            with pytest.raises(UnsupportedOption) as caught:
                look(command)
            message = str(caught.value)
            assert f"{algorithm}, which is encrypted by" in message, (algorithm, operator)
            assert operator in ("between", "$not") or operator in message, message
            assert str(VALUE) not in message


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_stored_values_are_encrypted_and_not_computed_with(algorithm: str) -> None:
    plain = VALUE.to_bytes(4, "little")
    for changed in ("update", "findAndModify"):

        def command(update: Any, changed: str = changed) -> dict[str, Any]:
            if changed == "update":
                return {"update": NAME, "updates": [{"q": {}, "u": update}]}
            return {"findAndModify": NAME, "query": {}, "update": update}

        for update in (
            {"$set": {algorithm: VALUE}},
            {"$setOnInsert": {algorithm: VALUE}},
            {algorithm: VALUE},
        ):
            data, pending = look(command(update))
            assert [one.query for one in pending] == [None]
            assert plain not in data
        assert look(command({"$unset": {algorithm: ""}}))[1] == []
        for operator, value in CHANGES.items():
            with pytest.raises(UnsupportedOption) as caught:
                look(command({operator: {algorithm: value}}))
            assert operator in str(caught.value)
            assert str(VALUE) not in str(caught.value)
        with pytest.raises(UnsupportedOption, match=r"\$set in a pipeline"):
            look(command([{"$set": {algorithm: VALUE}}]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_equal_ciphertexts_are_grouped_and_indexed_and_none_is_sorted(algorithm: str) -> None:
    index = {"key": {algorithm: 1}, "name": "x"}
    for what, command in (
        ("distinct", {"distinct": NAME, "key": algorithm}),
        ("$group", aggregate({"$group": {"_id": f"${algorithm}"}})),
        ("an index", {"createIndexes": NAME, "indexes": [index]}),
    ):
        if algorithm == "deterministic":
            assert look(command)[1] == []
            continue
        with pytest.raises(UnsupportedOption) as caught:
            look(command)
        assert str(caught.value).startswith(f"{what} cannot work on Measured.{algorithm}")
    for command in ({"find": NAME, "sort": {algorithm: 1}}, aggregate({"$sort": {algorithm: 1}})):
        with pytest.raises(UnsupportedOption, match=f"sort cannot work on Measured.{algorithm}"):
            look(command)


def test_an_upsert_does_not_store_a_query_of_queryable_encryption() -> None:
    for algorithm in ("indexed", "range"):
        change = {"q": {algorithm: VALUE}, "u": {"$set": {"name": "a"}}, "upsert": True}
        with pytest.raises(UnsupportedOption, match="upsert"):
            look({"update": NAME, "updates": [change]})


# Payloads, by the real library.


@pytest.fixture
def encrypt(server: Any, database_name: str, face: Any) -> Iterator[tuple[Any, Any, Any]]:
    """What encrypts a command of the model, PyMongo's object with the same key, and the key's id."""
    theirs_of = pytest.importorskip("pymongo.encryption").ClientEncryption
    pymongo_client = pytest.importorskip("pymongo").MongoClient
    their_options = pytest.importorskip("bson.codec_options").CodecOptions()
    providers, vault = {"local": {"key": os.urandom(96)}}, f"{database_name}.vault"
    # So that the server is not asked whether the collection is one of Queryable Encryption.
    known = {f"{database_name}.{NAME}": {"fields": []}}
    options = AutoEncryptionOpts(providers, vault, bypass_query_analysis=True, encrypted_fields_map=known)
    made = connect(server.uri, database=database_name, auto_encryption_opts=options)
    with (
        MongoClient(server.uri) as client,
        ClientEncryption(providers, vault, client, CodecOptions()) as keys,
    ):
        key_id = keys.create_data_key("local", key_alt_names=["people"])

    def encrypted(command: dict[str, Any]) -> dict[str, Any]:
        port = Measured._bind(face.is_async)._port
        done = port.flow(port._cipher.encrypt_flow(made.name, bson.encode(command)))
        return bson.decode(face.wait(done) if face.is_async else done)

    with pymongo_client(server.uri) as client, theirs_of(providers, vault, client, their_options) as theirs:
        yield encrypted, theirs, Binary(bytes(key_id), 4)
    made.close()
    face.wait(made.aclose())


def parts(payload: Any, kind: int) -> dict[str, Any]:
    """Return the document in a payload of this kind."""
    assert isinstance(payload, bytes)
    assert getattr(payload, "subtype", None) == 6
    assert payload[0] == kind
    return bson.decode(bytes(payload)[1:])


# Kinds of payloads: what is inserted, found when equal, found in a range, and stored without an index.
INSERTED, EQUAL, BETWEEN, UNINDEXED = 11, 12, 13, 16


def test_payloads_are_those_of_pymongo(encrypt: tuple[Any, Any, Any]) -> None:
    from bson.binary import Binary as PeerBinary
    from pymongo.encryption import RangeOpts as TheirRange

    encrypted, theirs, key_id = encrypt
    key: dict[str, Any] = {"key_id": PeerBinary(bytes(key_id), 4)}
    spread = {**key, "contention_factor": 4}
    span = {**spread, "range_opts": TheirRange(**SPAN)}
    document = dict.fromkeys(("indexed", "range", "unindexed"), VALUE)
    [stored] = encrypted({"insert": NAME, "documents": [document]})["documents"]
    for name, algorithm, options in (("indexed", "Indexed", spread), ("range", "Range", span)):
        ours, expected = (
            parts(one, INSERTED) for one in (stored[name], theirs.encrypt(VALUE, algorithm, **options))
        )
        # What is left is random, or depends on the random place among equal values.
        assert list(ours) == list(expected)
        assert [ours[part] for part in ("u", "t")] == [expected[part] for part in ("u", "t")]
        assert len(ours.get("g", ())) == len(expected.get("g", ()))
        assert 0 <= ours["k"] <= 4
    hidden = theirs.encrypt(VALUE, "Unindexed", **key)
    assert bytes(stored["unindexed"])[:18] == bytes(hidden)[:18]
    assert bytes(hidden)[0] == UNINDEXED
    assert [theirs.decrypt(PeerBinary(bytes(one), 6)) for one in stored.values()] == [VALUE] * 3

    found = encrypted({"find": NAME, "filter": {"indexed": VALUE}})["filter"]["indexed"]
    assert parts(found, EQUAL)
    assert bytes(found) == bytes(theirs.encrypt(VALUE, "Indexed", query_type="equality", **spread))

    bounds = {"$gte": VALUE - 5, "$lt": VALUE}
    ours = encrypted({"find": NAME, "filter": {"name": "a", "range": bounds}})["filter"]
    expression = {"$and": [{"range": {name: value}} for name, value in bounds.items()]}
    expected = theirs.encrypt_expression(expression, "Range", query_type="range", **span)
    assert ours.pop("name") == "a"
    [inner] = ours["$and"]
    assert [list(one["range"]) for one in inner["$and"]] == [list(one["range"]) for one in expected["$and"]]
    for one, other in zip(inner["$and"], expected["$and"], strict=True):
        mine, its = (parts(next(iter(half["range"].values())), BETWEEN) for half in (one, other))
        assert list(mine) == list(its)
        for part in set(mine) - {"payload", "payloadId"}:
            assert mine[part] == its[part], part
