"""find cursors on both faces, beside PyMongo on the same server: options, positions, ends."""

from __future__ import annotations

import copy
import gc
import re
import time
from collections.abc import Callable
from typing import Any

import bson as peer_bson
import pytest

from driver.outcomes import outcome
from mangonel import bson, errors
from mangonel.bson import json_util
from mangonel.bson.code import Code
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.bson.son import SON
from mangonel.collation import Collation
from mangonel.cursor_shared import CursorType
from mangonel.server import Server
from tools.faces import Face, eventually
from tools.scripted_server import ScriptedServer

DOCUMENTS = [{"_id": n, "n": n % 7, "tag": "aA"[n % 2], "sub": {"x": n}} for n in range(250)]

QUERIES: dict[str, Callable[[Any], Any]] = {
    "all": lambda c: c.find(),
    "filter": lambda c: c.find({"n": 3}),
    "filter that is a SON": lambda c: c.find(SON([("n", 3)])),
    "filter that is none": lambda c: c.find(5),
    "projection list": lambda c: c.find({}, ["n"]),
    "projection of nothing": lambda c: c.find({}, []),
    "projection set": lambda c: c.find({}, {"n", "tag"}, sort=[("_id", 1)]),
    "projection document": lambda c: c.find({}, {"_id": 0, "sub.x": 1}),
    "projection slice": lambda c: c.find({}, {"tag": 0, "sub": False}),
    "projection that is none": lambda c: c.find({}, 5),
    "projection of numbers": lambda c: c.find({}, [1]),
    "skip and limit": lambda c: c.find(skip=10, limit=5),
    "limit beyond a batch": lambda c: c.find(limit=120, batch_size=50),
    "limit equal to the batch": lambda c: c.find(limit=50, batch_size=50),
    "negative limit": lambda c: c.find(limit=-5),
    "negative limit beyond a batch": lambda c: c.find(limit=-120),
    "limit of 0": lambda c: c.find(limit=0),
    "limit that is a bool": lambda c: c.find(limit=True),
    "limit taken back": lambda c: c.find(limit=5).limit(0),
    "limit made negative": lambda c: c.find(limit=50).limit(-3),
    "limit before other options": lambda c: c.find(limit=9).sort("n", -1).skip(2).batch_size(4),
    "limit before a comment": lambda c: c.find({"n": 1}, limit=9).comment("why").batch_size(2),
    "batch size of 1": lambda c: c.find(limit=5).batch_size(1),
    "batch size of 2": lambda c: c.find({"n": 1}).batch_size(2),
    "negative batch size": lambda c: c.find(batch_size=-1),
    "negative skip": lambda c: c.find().skip(-1),
    "limit that is none": lambda c: c.find().limit("1"),
    "sort by a key": lambda c: c.find(sort="n").limit(3),
    "sort by a key and direction": lambda c: c.find().sort("n", -1).sort([("n", -1), ("_id", 1)]).limit(9),
    "sort by pairs": lambda c: c.find(sort=[("n", -1), ("_id", -1)], limit=9),
    "sort by a mapping": lambda c: c.find(sort={"n": -1, "_id": 1}, limit=9),
    "sort by names": lambda c: c.find().sort(["n", ("_id", -1)]).limit(9),
    "sort by nothing": lambda c: c.find(sort=[]),
    "sort by a number": lambda c: c.find(sort=5),
    "sort by an unknown direction": lambda c: c.find(sort=[("n", 5)]),
    "natural order": lambda c: c.find().sort("$natural", -1).limit(3),
    "hint by name": lambda c: c.find(hint="_id_"),
    "hint by keys": lambda c: c.find().hint([("_id", 1)]),
    "hint by mapping": lambda c: c.find().hint({"_id": 1}),
    "hint taken back": lambda c: c.find(hint="nope").hint(None),
    "unknown hint": lambda c: c.find(hint="nope"),
    "hint that is a number": lambda c: c.find(hint=5),
    "collation": lambda c: c.find({"tag": "a"}).collation({"locale": "en", "strength": 2}),
    "collation that is none": lambda c: c.find().collation(5),
    "min and max as methods": lambda c: c.find().min([("_id", 5)]).max([("_id", 9)]).hint("_id_"),
    "min that is an id": lambda c: c.find().min([("_id", peer_bson.ObjectId(b"0" * 12))]).hint("_id_"),
    "min without a hint": lambda c: c.find().min([("_id", 5)]),
    "max that is a number": lambda c: c.find().max(5),
    "min and max of nothing": lambda c: c.find().min([("_id", 5)]).min([]).max(()).limit(3),
    "max of no pair": lambda c: c.find().max([("_id",)]),
    "max_scan of nothing": lambda c: c.find().max_scan(5).max_scan(None).limit(3),
    "max_scan of 0": lambda c: c.find().max_scan(0).limit(3),
    "return key": lambda c: c.find(hint="_id_", return_key=True, limit=3),
    "record id": lambda c: c.find({}, {"_id": 1}, show_record_id=True, limit=3),
    "comment": lambda c: c.find(comment={"a": 1}).comment("why"),
    "time limit": lambda c: c.find(max_time_ms=9000).max_time_ms(None),
    "time limit that is none": lambda c: c.find().max_time_ms("x"),
    "disk use": lambda c: c.find(allow_disk_use=True).allow_disk_use(False),
    "disk use that is none": lambda c: c.find(allow_disk_use=1),
    "let": lambda c: c.find({"$expr": {"$eq": ["$_id", "$$v"]}}, let={"v": 5}),
    "let that is none": lambda c: c.find(let=5),
    "where": lambda c: c.find().where("this.n == 3"),
    "where with code": lambda c: c.find({"tag": "a"}).where(Code("this._id == 4")),
    "where that is a number": lambda c: c.find().where(5),
    "no timeout": lambda c: c.find(no_cursor_timeout=True),
    "no timeout that is none": lambda c: c.find(no_cursor_timeout=1),
    "partial results": lambda c: c.find(allow_partial_results=True),
    "unknown operator": lambda c: c.find({"$nope": 1}),
    "cursor type that is none": lambda c: c.find(cursor_type=3),
    "exhaust": lambda c: c.find(cursor_type=CursorType.EXHAUST, batch_size=40),
    "exhaust with a limit": lambda c: c.find(cursor_type=CursorType.EXHAUST, limit=5),
    "tailable of what is not capped": lambda c: c.find(cursor_type=CursorType.TAILABLE),
    "modifiers": lambda c: c.find({"$query": {"n": 3}, "$orderby": {"_id": -1}, "$maxTimeMS": 9000}),
    "modifiers and settings": lambda c: c.find({"$query": {}, "$orderby": {"_id": -1}}).sort("_id").limit(3),
    "unknown modifier": lambda c: c.find({"$query": {}, "$nope": 1}),
    "hint as a modifier": lambda c: c.find({"$query": {}, "$hint": "_id_", "$min": {"_id": 240}}),
    "unset option": lambda c: c.find(no_cursor_timeout=True).remove_option(16),
    "option that is none": lambda c: c.find().remove_option("x"),
    "raw batches": lambda c: c.find_raw_batches({}, sort=[("_id", 1)], batch_size=60),
    "raw batches with a limit": lambda c: c.find_raw_batches(limit=5, projection={"n": 1}),
    "raw batches of nothing": lambda c: c.find_raw_batches({"n": 99}),
    "a collection that is not there": lambda c: c.nope.find(),
}


@pytest.fixture
def filled(collection: Any, oracle: Any) -> tuple[Any, Any]:
    """The same documents for the driver under test and for PyMongo."""
    oracle.insert_many(DOCUMENTS)
    oracle.database[collection.name].insert_many(DOCUMENTS)
    return collection, oracle


@pytest.fixture
def capped(collection: Any, oracle: Any) -> tuple[Any, Any]:
    """A capped collection of the driver under test, and PyMongo's, which writes to it."""
    peer = oracle.database.create_collection("capped", capped=True, size=1 << 16)
    peer.insert_many([{"_id": n} for n in range(3)])
    return collection.database.capped, peer


@pytest.mark.parametrize("name", QUERIES)
def test_documents_are_those_of_pymongo(name: str, face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    query = QUERIES[name]
    assert outcome(lambda: face.collect(query(ours))) == outcome(lambda: list(query(theirs)))


class OneByOne:
    """A collection whose `find` is `find_one`, so that the same queries ask for one document."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> OneByOne:
        return OneByOne(self._collection[name])

    def find(self, *args: Any, **kwargs: Any) -> Any:
        return self._collection.find_one(*args, **kwargs)


# Queries that are written with arguments alone, not with methods of a cursor.
IN_ARGUMENTS = [
    name
    for name, query in QUERIES.items()
    if not {"sort", "skip", "limit", "batch_size", "hint", "collation", "comment", "min", "max", "where"}
    & set(query.__code__.co_names)
    and not {"max_time_ms", "allow_disk_use", "remove_option", "find_raw_batches"}
    & set(query.__code__.co_names)
]


@pytest.mark.parametrize("name", IN_ARGUMENTS)
def test_one_document_is_that_of_pymongo(name: str, face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = (OneByOne(collection) for collection in filled)
    query = QUERIES[name]
    assert outcome(lambda: face.run(lambda: query(ours))) == outcome(lambda: query(theirs))


MODIFIED: list[Any] = [
    {"$query": {"n": 3}, "$orderby": {"_id": -1}},
    {"$query": {}, "$orderby": [("_id", -1)]},
    SON([("$query", {"n": 3}), ("$hint", "_id_"), ("$comment", "why")]),
    {"$query": {}, "$hint": {"_id": 1}, "$min": {"_id": 240}, "$max": {"_id": 245}},
    {"$query": {"tag": "a"}, "$readPreference": {"mode": "secondary"}, "$maxTimeMS": 9000},
    {"$query": {}, "$returnKey": True, "$hint": "_id_"},
    {"$query": {"$nope": 1}},
    {"$query": {}, "$orderby": 5},
    {"$query": None},
]


@pytest.mark.parametrize("filter", MODIFIED, ids=repr)
def test_one_document_of_a_query_with_modifiers_is_the_first_of_all(
    filter: Any, face: Face, filled: tuple[Any, Any]
) -> None:
    ours, theirs = filled
    mine = outcome(lambda: face.run(lambda: ours.find_one(filter)))
    assert mine == outcome(lambda: theirs.find_one(filter))
    assert mine == outcome(lambda: face.collect(ours.find(filter).limit(-1))[0])


def test_explain_among_the_modifiers_is_refused_and_named(face: Face, collection: Any) -> None:
    query = {"$query": {}, "$explain": True}
    for ask in (
        lambda: face.collect(collection.find(query)),
        lambda: face.run(lambda: collection.find_one(query)),
    ):
        with pytest.raises(errors.InvalidOperation, match="explain\\(\\)"):
            ask()


@pytest.mark.parametrize("name", QUERIES)
def test_prefetch_changes_no_result(name: str, face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    query = QUERIES[name]
    mine = outcome(lambda: face.collect(query(ours).prefetch()))
    peer = outcome(lambda: list(query(theirs)))
    # Of errors only class and code are compared: the server repeats the batch size in some messages.
    assert mine == peer if isinstance(peer, list) else mine[:2] == peer[:2]


def test_bounds_may_be_given_to_find_itself(face: Face, filled: tuple[Any, Any]) -> None:
    cursor = filled[0].find(min=[("_id", 5)], max=[("_id", 9)], hint="_id_")
    assert face.collect(cursor) == DOCUMENTS[5:9]


def test_query_that_takes_too_long_raises_execution_timeout(face: Face, filled: tuple[Any, Any]) -> None:
    with pytest.raises(errors.ExecutionTimeout) as raised:
        face.collect(filled[0].find({"$where": "sleep(50) || true"}, max_time_ms=20))
    assert raised.value.code == 50
    assert raised.value.timeout
    with pytest.raises(TypeError, match="max_time_ms"):
        filled[0].find(max_time_ms="x")


# Positions.

POSITIONS: list[Any] = [
    slice(2, 5), slice(None, 3), slice(247, None), slice(None, None), slice(5, 5), slice(0, 0), slice(300, 310),
    slice(1, 5, 2), slice(-1, 5), slice(5, 2), 3, 0, 249, 250, -1, "a", 1.5, True,
]  # fmt: skip


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_positions_are_those_of_pymongo(position: Any, filled: tuple[Any, Any], server: Server) -> None:
    from mangonel import MongoClient

    _, theirs = filled
    with MongoClient(server.uri) as client:
        ours = client[theirs.database.name][theirs.name]

        def at(cursor: Any) -> Any:
            found = cursor[position]
            return list(found) if isinstance(position, slice) else found

        assert outcome(lambda: at(ours.find())) == outcome(lambda: at(theirs.find()))
        skipped = outcome(lambda: at(ours.find(skip=10, limit=20)))
        assert skipped == outcome(lambda: at(theirs.find(skip=10, limit=20)))
        assert len(ours.find()[5:5].to_list()) == 0
        assert len(list(ours.find()[5:5].limit(2))) == 2


def test_positions_need_a_face_that_waits_and_a_fresh_cursor(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = ours.find()
    if face.is_async:
        with pytest.raises(IndexError, match="does not support indexing"):
            cursor[0]
        return
    next(cursor)
    with pytest.raises(errors.InvalidOperation):
        cursor[0]
    with pytest.raises(errors.InvalidOperation):
        cursor[1:2]


# Copies and second runs.


def test_rewound_cursor_runs_again(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = ours.find({"n": 1}).sort("_id").batch_size(5)
    first = [face.wait(cursor.next()) for _ in range(3)]
    assert face.wait(cursor.rewind()) is cursor
    assert (cursor.cursor_id, cursor.retrieved, cursor.alive) == (None, 0, True)
    cursor.limit(3)
    assert face.collect(cursor) == first


def test_received_documents_are_counted_however_they_are_read(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    reads: dict[str, Callable[[Any], Any]] = {
        "to_list": lambda cursor: face.wait(cursor.to_list()),
        "to_json": lambda cursor: face.wait(cursor.to_json()),
        "next": lambda cursor: face.wait(cursor.next()),
        "all": face.collect,
    }
    for name, read in reads.items():
        whole, in_parts = ours.find({"n": 1}), ours.find({"n": 1}).batch_size(5)
        read(whole)
        read(in_parts)
        count = sum(document["n"] == 1 for document in DOCUMENTS)
        assert whole.retrieved == count, name
        assert in_parts.retrieved == (5 if name == "next" else count), name
        assert whole.address == in_parts.address, name
        assert whole.address is not None, name
        face.wait(in_parts.rewind())
        assert (in_parts.retrieved, in_parts.address) == (0, None), name


def test_json_of_one_batch_and_of_several_is_the_same(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    for mode in ("plain", "relaxed", "canonical"):
        whole = face.wait(ours.find().sort("_id").to_json(mode))
        assert whole == face.wait(ours.find().sort("_id").batch_size(7).to_json(mode))
        rest = ours.find({"_id": {"$gte": 1}}).sort("_id")
        cursor = ours.find().sort("_id")
        face.wait(cursor.next())
        assert face.wait(cursor.to_json(mode)) == face.wait(rest.to_json(mode))
    assert face.wait(ours.find({"n": -1}).to_json()) == b"[]"


def test_a_batch_that_holds_something_other_than_documents_is_refused(
    face: Face, scripted_server: ScriptedServer
) -> None:
    things = face.client(scripted_server.uri).db.things
    for read in ("to_list", "to_json"):
        cursor = {"id": 0, "ns": "db.things", "firstBatch": [{"_id": 1}, 5]}
        scripted_server.once("find", {"ok": 1.0, "cursor": cursor})
        with pytest.raises(
            errors.ProtocolError, match="expected a batch of documents, got an element of type 0x10"
        ):
            face.wait(getattr(things.find(), read)())


def test_clone_is_unused_and_independent(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    query: dict[str, Any] = {"sub": {"x": 5}, "tag": {"$in": ["a", re.compile("a", re.I)]}}
    cursor = ours.find(query, projection=["n"]).limit(3).batch_size(1).max_time_ms(9000)
    face.wait(cursor.next())
    clone, shallow, deep = cursor.clone(), copy.copy(cursor), copy.deepcopy(cursor)
    query["sub"]["x"] = 6
    assert type(clone) is type(cursor)
    assert [document["_id"] for document in face.collect(clone)] == [5]
    assert [document["_id"] for document in face.collect(deep)] == [5]
    assert [document["_id"] for document in face.collect(shallow)] == [6]


def test_options_cannot_change_after_the_first_batch(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = ours.find()
    face.wait(cursor.next())
    for change in (
        lambda: cursor.sort("n"),
        lambda: cursor.limit(1),
        lambda: cursor.skip(1),
        lambda: cursor.batch_size(1),
        lambda: cursor.hint("_id_"),
        lambda: cursor.comment("x"),
        lambda: cursor.collation(Collation("en")),
        lambda: cursor.max_time_ms(1),
        lambda: cursor.where("true"),
        lambda: face.wait(cursor.add_option(16)),
    ):
        with pytest.raises(errors.InvalidOperation, match="cannot set options"):
            change()


def test_add_option_returns_the_cursor(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    cursor = ours.find(batch_size=40)
    assert face.wait(cursor.add_option(CursorType.EXHAUST)) is cursor
    assert len(face.collect(cursor)) == 250
    with pytest.raises(TypeError, match="mask must be an int"):
        face.wait(ours.find().add_option("x"))
    with pytest.raises(errors.InvalidOperation, match="limit and exhaust"):
        face.wait(ours.find(limit=5).add_option(CursorType.EXHAUST))


def test_explain_and_distinct_ask_about_the_query(face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    query = {"n": 3}
    cursor = ours.find(query, skip=1, limit=2).hint("_id_")
    mine = face.wait(cursor.explain())
    peer = theirs.find(query, skip=1, limit=2).hint("_id_").explain()
    assert set(mine) == set(peer)
    stages = [plan["queryPlanner"]["winningPlan"]["stage"] for plan in (mine, peer)]
    assert stages[0] == stages[1] == "LIMIT"
    assert face.wait(cursor.distinct("tag")) == theirs.find(query, skip=1, limit=2).distinct("tag")
    assert face.wait(ours.find_raw_batches(query).explain())["queryPlanner"]["namespace"] == ours.full_name


# What comes out.


@pytest.mark.parametrize("document_class", [dict, SON, RawBSONDocument])
def test_documents_have_the_requested_class(
    document_class: type[Any], face: Face, filled: tuple[Any, Any]
) -> None:
    ours, _ = filled
    cursor = ours.with_options(CodecOptions(document_class)).find({"_id": {"$lt": 3}}, batch_size=2)
    documents = face.collect(cursor)
    assert {type(document) for document in documents} == {document_class}
    raw = [
        document.raw if document_class is RawBSONDocument else bson.encode(document) for document in documents
    ]
    assert [bson.decode(document) for document in raw] == DOCUMENTS[:3]


def test_to_list_stops_at_its_length_and_goes_on_from_there(face: Face, filled: tuple[Any, Any]) -> None:
    ours, theirs = filled
    cursor, peer = ours.find(batch_size=50), theirs.find(batch_size=50)
    for length in (1, 60, 100, None, 5):
        assert face.wait(cursor.to_list(length)) == peer.to_list(length)
    with pytest.raises(ValueError, match="length"):
        face.wait(cursor.to_list(0))


def test_raw_batches_hold_what_to_list_decodes(face: Face, filled: tuple[Any, Any]) -> None:
    ours, _ = filled
    batches = face.wait(ours.find_raw_batches(batch_size=100).to_list())
    assert [len(bson.decode_all(batch)) for batch in batches] == [100, 100, 50]
    assert [document for batch in batches for document in bson.decode_all(batch)] == DOCUMENTS


@pytest.mark.parametrize("mode", ["relaxed", "canonical"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"prefetch": True, "batch_size": 9}])
def test_to_json_equals_json_util(
    mode: str, options: dict[str, Any], face: Face, filled: tuple[Any, Any]
) -> None:
    import datetime
    import json
    import uuid

    from mangonel.bson import Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp

    ours, theirs = filled
    peer = theirs.database[ours.name]
    document = bson.encode(
        {
            "_id": "all",
            "id": ObjectId("0123456789abcdef01234567"),
            "when": datetime.datetime(2024, 2, 29, 1, 2, 3, 4000),
            "old": datetime.datetime(1, 1, 1),
            "long": Int64(5),
            "float": 1.5,
            "inf": float("inf"),
            "dec": Decimal128("1.50"),
            "bin": bson.Binary(b"abc", 5),
            "uuid": bson.Binary.from_uuid(uuid.UUID(int=5)),
            "re": Regex("a", "i"),
            "ts": Timestamp(5, 6),
            "max": MaxKey(),
            "text": 'ä"\\\u0001',
            "none": None,
            "nested": {"list": [1, {"a": True}]},
        }
    )
    peer.insert_one(peer_bson.raw_bson.RawBSONDocument(document))
    text = face.wait(ours.find(**options).to_json(mode))
    chosen = {"relaxed": json_util.RELAXED_JSON_OPTIONS, "canonical": json_util.CANONICAL_JSON_OPTIONS}[mode]
    expected = json_util.dumps(face.wait(ours.find().to_list()), json_options=chosen)
    assert json.loads(text) == json.loads(expected)


def test_plain_json_writes_ids_and_dates_as_strings(face: Face, filled: tuple[Any, Any]) -> None:
    import datetime
    import json

    ours, theirs = filled
    made = theirs.database[ours.name].insert_one({"d": datetime.datetime(2024, 2, 29), "n": 99})
    [document] = json.loads(face.wait(ours.find({"n": 99}).to_json("plain")))
    assert document == {"_id": str(made.inserted_id), "d": "2024-02-29T00:00:00.000Z", "n": 99}
    assert face.wait(ours.find({"n": 1000}).to_json()) == b"[]"
    with pytest.raises(ValueError, match="mode"):
        face.wait(ours.find().to_json("legacy"))


# Tailable cursors.


def test_tailable_cursor_continues_with_added_documents(face: Face, capped: tuple[Any, Any]) -> None:
    ours, peer = capped
    cursor = ours.find(cursor_type=CursorType.TAILABLE)
    assert face.collect(cursor) == [{"_id": n} for n in range(3)]
    assert cursor.alive
    assert face.collect(cursor) == []
    peer.insert_one({"_id": 3})
    assert face.collect(cursor) == [{"_id": 3}]
    face.wait(cursor.close())
    assert not cursor.alive
    assert face.collect(cursor) == []


def test_tailable_cursor_that_matches_nothing_yet_asks_once(face: Face, capped: tuple[Any, Any]) -> None:
    ours, peer = capped
    cursor = ours.find({"_id": {"$gt": 50}}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(60_000)
    began = time.monotonic()
    assert face.collect(cursor) == []
    assert time.monotonic() - began < 30
    peer.insert_one({"_id": 60})
    assert face.wait(cursor.next()) == {"_id": 60}
    face.wait(cursor.close())


def test_tailable_await_cursor_waits_as_long_as_asked(face: Face, capped: tuple[Any, Any]) -> None:
    ours, _ = capped
    cursor = ours.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(300)
    began = time.monotonic()
    assert len(face.collect(cursor)) == 3
    assert 0.25 < time.monotonic() - began < 30
    face.wait(cursor.close())


def test_tailable_cursor_whose_collection_is_dropped_ends(face: Face, capped: tuple[Any, Any]) -> None:
    ours, peer = capped
    cursor = ours.find(cursor_type=CursorType.TAILABLE)
    assert len(face.collect(cursor)) == 3
    peer.drop()
    # No error, as in PyMongo: the reader checks `alive` and queries again.
    assert face.collect(cursor) == []
    assert not cursor.alive


# Ends.


def _open_cursors(peer: Any, collection: Any) -> int:
    """Return how many cursors the server has open on a collection; the counters of serverStatus include other tests."""
    stages = [
        {"$currentOp": {"idleCursors": True, "allUsers": True}},
        {"$match": {"type": "idleCursor", "ns": collection.full_name}},
        {"$count": "n"},
    ]
    return sum(found["n"] for found in peer.database.client.admin.aggregate(stages))


@pytest.mark.parametrize("prefetch", [False, True])
def test_closed_cursor_is_closed_on_the_server(prefetch: bool, face: Face, filled: tuple[Any, Any]) -> None:
    ours, peer = filled
    cursor = ours.find(batch_size=10, prefetch=prefetch)
    face.wait(cursor.next())
    if not prefetch:
        assert _open_cursors(peer, ours) == 1
    face.wait(cursor.close())
    face.wait(cursor.close())
    eventually(lambda: _open_cursors(peer, ours) == 0)
    # Documents that have already arrived can still be read, as in PyMongo.
    assert cursor.cursor_id
    assert len(face.collect(cursor)) == 9
    assert not cursor.alive


@pytest.mark.parametrize("kind", ["find", "aggregate", "prefetch"])
def test_dropped_cursor_is_closed_on_the_server(kind: str, face: Face, filled: tuple[Any, Any]) -> None:
    ours, peer = filled
    if kind == "aggregate":
        cursor = face.wait(ours.aggregate([{"$sort": {"_id": 1}}], batchSize=10))
    else:
        cursor = ours.find(batch_size=10, prefetch=kind == "prefetch")
    face.wait(cursor.next())
    del cursor
    gc.collect()
    eventually(lambda: _open_cursors(peer, ours) == 0)


def test_cursor_left_early_with_prefetch_is_closed_and_its_client_goes_on(
    face: Face, filled: tuple[Any, Any]
) -> None:
    ours, peer = filled

    async def take_async(cursor: Any) -> list[Any]:
        taken = []
        async for document in cursor:
            taken.append(document)
            if len(taken) == 15:
                break
        return taken

    def take(cursor: Any) -> list[Any]:
        taken = []
        for document in cursor:
            taken.append(document)
            if len(taken) == 15:
                break
        return taken

    for _ in range(3):
        cursor = ours.find(batch_size=10).prefetch()
        taken = face.wait(take_async(cursor)) if face.is_async else take(cursor)
        assert taken == DOCUMENTS[:15]
        del cursor
    gc.collect()
    assert len(face.collect(ours.find())) == 250
    eventually(lambda: _open_cursors(peer, ours) == 0)


def test_exhaust_cursor_left_early_gives_up_its_connection_and_its_client_goes_on(
    face: Face, filled: tuple[Any, Any]
) -> None:
    ours, peer = filled
    for _ in range(3):
        cursor = ours.find(cursor_type=CursorType.EXHAUST, batch_size=10)
        for n in range(15):
            assert face.wait(cursor.next()) == DOCUMENTS[n]
        face.wait(cursor.close())
        assert face.wait(ours.find_one({"_id": 7})) == DOCUMENTS[7]
    eventually(lambda: _open_cursors(peer, ours) == 0)


def test_context_manager_closes_the_cursor(face: Face, filled: tuple[Any, Any]) -> None:
    ours, peer = filled

    async def use(cursor: Any) -> None:
        async with cursor:
            await cursor.next()

    cursor = ours.find(batch_size=10)
    if face.is_async:
        face.wait(use(cursor))
    else:
        with cursor:
            cursor.next()
    eventually(lambda: _open_cursors(peer, ours) == 0)
    assert len(face.collect(cursor)) == 9
    assert not cursor.alive


def test_cursor_that_the_server_forgot_raises_cursor_not_found(face: Face, filled: tuple[Any, Any]) -> None:
    ours, peer = filled
    cursor = ours.find(batch_size=10)
    face.wait(cursor.next())
    peer.database.command("killCursors", ours.name, cursors=[cursor.cursor_id])
    with pytest.raises(errors.CursorNotFound) as raised:
        face.collect(cursor)
    assert raised.value.code == 43
    assert not cursor.alive


def test_limit_is_not_exceeded_by_a_server_that_sends_more(
    face: Face, scripted_server: ScriptedServer
) -> None:
    batch = {"id": 5, "ns": "db.c", "firstBatch": [{"_id": 1}, {"_id": 2}]}
    scripted_server.on("find", {"ok": 1.0, "cursor": batch})
    more = {"id": 0, "ns": "db.c", "nextBatch": [{"_id": 3}]}
    scripted_server.on("getMore", {"ok": 1.0, "cursor": more})
    collection = face.client(scripted_server.uri).db.c
    face.collect(collection.find(limit=3, batch_size=2))
    assert scripted_server.received("find")[0].command["batchSize"] == 2
    assert scripted_server.received("getMore")[0].command["batchSize"] == 1


def test_a_reply_without_a_cursor_is_a_protocol_error(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", {"ok": 1.0})
    with pytest.raises(errors.ProtocolError, match="cursor"):
        face.collect(face.client(scripted_server.uri).db.c.find())


def test_cancelled_cursor_ends_and_its_client_goes_on(face: Face, capped: tuple[Any, Any]) -> None:
    import asyncio

    if not face.is_async:
        pytest.skip("only tasks are cancelled")
    ours, peer = capped

    async def wait_for_more(prefetch: bool) -> Any:
        cursor = ours.find(cursor_type=CursorType.TAILABLE_AWAIT, prefetch=prefetch).max_await_time_ms(30_000)
        for _ in range(3):
            await cursor.next()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await cursor.next()
        return cursor

    for prefetch in (False, True):
        cursor = face.wait(wait_for_more(prefetch))
        assert not cursor.alive
        assert face.collect(cursor) == []
        assert face.wait(ours.find_one({"_id": 1})) == {"_id": 1}
        eventually(lambda: _open_cursors(peer, ours) == 0)


def test_only_cursors_are_iterable(face: Face, collection: Any) -> None:
    for target in (collection, collection.database, collection.database.client):
        with pytest.raises(TypeError, match="not iterable"):
            iter(target)
        with pytest.raises(TypeError):
            next(target)
        with pytest.raises(TypeError):
            target.next()


def test_a_range_without_a_hint_leaves_the_cursor_as_it_was(face: Face, server: Server) -> None:
    cursor = face.client(server.uri).test.things.find().min([("_id", 2)])
    with pytest.raises(errors.InvalidOperation, match="hint"):
        face.run(cursor.to_list)
    assert cursor.alive
    assert cursor.cursor_id is None
    assert face.run(cursor.hint("_id_").to_list) == []
