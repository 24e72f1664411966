"""The parts of a query: every document once for ids of any type, in BSON order, here and in other processes."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import pickle
import statistics
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangonel import AsyncMongoClient, MongoClient, ReadPreference
from mangonel.bson import (
    Binary,
    Code,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Timestamp,
    encode,
)
from mangonel.errors import InvalidOperation, OperationFailure
from mangonel.server import Server
from mangonel.server_api import ServerApi
from tools.faces import eventually

pa = pytest.importorskip("pyarrow")

# An id of each type that a server accepts, in no order.
TYPES: list[Any] = [
    MaxKey(),
    Timestamp(7, 1),
    True,
    ObjectId("0" * 24),
    Binary(b"\x01" * 16, 4),
    b"x",
    {"a": 1},
    {"a": {"b": MinKey()}},
    "text",
    Code("f"),
    2.5,
    Int64(2**60),
    Decimal128("1E+6100"),
    float("nan"),
    None,
    datetime.datetime(2020, 1, 1),
    MinKey(),
    False,
]


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Any]:
    with MongoClient[Any](server.uri) as client:
        name = f"parts_{uuid.uuid4().hex[:8]}"
        ids = [*TYPES, *range(100), *(f"s{n:03}" for n in range(100)), *({"n": n} for n in range(100))]
        client[name].mixed.insert_many([{"_id": id, "n": n, "t": f"{n % 5}"} for n, id in enumerate(ids)])
        yield client[name]
        client.drop_database(name)


def sorted_numbers(collection: Any, filter: Any = None) -> list[int]:
    return [document["n"] for document in collection.find(filter).sort("_id")]


def over_there(part: Any) -> Any:
    """Return the part as another process gets it."""
    return pickle.loads(pickle.dumps(part))


@pytest.mark.parametrize("options", [{}, {"snapshot": True}, {"batch_size": 7}], ids=str)
@pytest.mark.parametrize("count", [1, 2, 5, 40, 1000])
def test_parts_hold_every_document_once_in_the_order_of_ids(
    database: Any, count: int, options: dict[str, Any]
) -> None:
    parts = database.mixed.partitions(count, ordered=True, **options)

    # The last key has a part of its own.
    assert 1 <= len(parts) <= count + 1
    assert [part.index for part in parts] == list(range(len(parts)))
    assert {part.count for part in parts} == {len(parts)}
    read = [document["n"] for part in parts for document in over_there(part).find()]
    assert read == sorted_numbers(database.mixed)


def test_neighbours_share_a_bound_and_the_ends_are_open(database: Any) -> None:
    database.plain.insert_many([{"_id": n} for n in range(1000)])

    parts = [over_there(part) for part in database.plain.partitions(8)]

    assert len(parts) == 8
    assert [part.high for part in parts[:-1]] == [part.low for part in parts[1:]]
    assert parts[0].low is None is parts[-1].high
    assert parts[3].namespace == f"{database.name}.plain"
    assert parts[3].shard is None is parts[3].snapshot_time
    # Random sampling makes them uneven; no part may be empty.
    assert min(len(part.to_arrow()) for part in parts) > 0


@pytest.mark.no_sample
@pytest.mark.timeout(600)
def test_largest_of_eight_parts_has_mostly_at_most_half_more_than_the_mean(database: Any) -> None:
    # The server's `$sample` is not quite even: on a busy machine three of five plans had a part of 1.33 to 1.37. The
    # server makes the million documents.
    ends: list[Any] = ["$_id", {"$add": ["$_id", 1]}]
    numbers = {"$range": [{"$multiply": [end, 1000]} for end in ends]}
    database.thousands.insert_many([{"_id": n} for n in range(1000)])
    stages = [{"$project": {"_id": numbers}}, {"$unwind": "$_id"}, {"$out": "million"}]
    database.thousands.aggregate(stages)

    largest = []
    for _ in range(5):
        parts = database.million.partitions(8)
        bounds = [0, *(part.low["_id"] for part in parts if part.low is not None), 1_000_000]
        sizes = [high - low for low, high in itertools.pairwise(bounds)]
        assert len(sizes) == 8
        largest.append(max(sizes) / 125_000)
    assert statistics.median(largest) <= 1.5, largest
    assert max(largest) <= 2, largest


@pytest.mark.parametrize("way", ["to_arrow", "iter_arrow", "to_polars", "find"])
def test_each_way_of_reading_returns_the_part(database: Any, way: str) -> None:
    wanted = sorted_numbers(database.mixed, {"n": {"$gte": 50}})
    found: list[int] = []
    for part in database.mixed.partitions(3, {"n": {"$gte": 50}}, {"n": 1, "_id": 0}, ordered=True):
        if way == "find":
            documents = part.find().to_list()
            assert all(set(document) == {"n"} for document in documents)
            found += [document["n"] for document in documents]
        elif way == "iter_arrow":
            tables = list(part.iter_arrow({"n": int}, rows=10))
            assert {len(table) for table in tables[:-1]} <= {10}
            found += [n for table in tables for n in pa.table(table)["n"].to_pylist()]
        elif way == "to_polars":
            found += part.to_polars({"n": int})["n"].to_list()
        else:
            found += pa.table(part.to_arrow({"n": int}, rows=10))["n"].to_pylist()

    assert found == wanted


def test_asyncio_has_the_same_parts(database: Any, server: Server) -> None:
    async def play() -> None:
        async with AsyncMongoClient[Any](server.uri) as client:
            parts = await client[database.name].mixed.partitions(4, ordered=True)
            assert len(parts) == 5
            found: list[int] = []
            for part in map(over_there, parts):
                found += pa.table(await part.to_arrow({"n": int}))["n"].to_pylist()
            assert found == sorted_numbers(database.mixed)
            tables = [table async for table in over_there(parts[0]).iter_arrow({"n": int}, rows=5)]
            documents = await parts[0].find().to_list()
            assert sum(len(table) for table in tables) == len(documents)
            # A part may move to the client's other face.
            blocking = parts[0].on(database.client)
            assert pa.table(blocking.to_arrow({"n": int}))["n"].to_pylist() == [d["n"] for d in documents]
            assert len(await blocking.on(client).to_arrow({"n": int})) == len(documents)

    asyncio.run(play())


PROGRAM = """
import pickle, sys
part = pickle.loads(bytes.fromhex(sys.argv[1]))
sys.stdout.write(" ".join(str(document["n"]) for document in part.find()))
"""


def test_another_process_reads_a_part(database: Any) -> None:
    parts = database.mixed.partitions(2, {"t": "3"}, ordered=True)
    found = []
    for part in parts:
        run = [sys.executable, "-c", PROGRAM, pickle.dumps(part).hex()]
        done = subprocess.run(run, check=True, capture_output=True, text=True, timeout=60)
        found += [int(n) for n in done.stdout.split()]

    assert found == sorted_numbers(database.mixed, {"t": "3"})


def test_client_of_a_process_is_made_once(database: Any) -> None:
    one, two = (over_there(part) for part in database.mixed.partitions(2)[:2])

    assert one.find().collection.database.client is two.find().collection.database.client


def test_settings_of_the_collection_go_along(database: Any) -> None:
    from mangonel.bson.codec_options import CodecOptions
    from mangonel.bson.raw_bson import RawBSONDocument

    collection = database.mixed.with_options(
        codec_options=CodecOptions(document_class=RawBSONDocument, tz_aware=True),
        read_preference=ReadPreference.PRIMARY_PREFERRED,
    )

    cursor = over_there(collection.partitions(1, comment="nightly", max_time_ms=60_000)[0]).find()

    assert isinstance(next(cursor), RawBSONDocument)
    assert cursor.collection.codec_options.tz_aware
    assert cursor.collection.read_preference == ReadPreference.PRIMARY_PREFERRED
    assert cursor._query["comment"] == "nightly"
    assert cursor._query["maxTimeMS"] == 60_000


def test_values_of_the_filter_keep_their_types(database: Any) -> None:
    filter = {"_id": {"$in": [Int64(5), 2.5, datetime.datetime(2020, 1, 1), Binary(b"\x01" * 16, 4)]}}

    part = over_there(database.mixed.partitions(1, filter)[0])

    assert len(part.find().to_list()) == 4
    assert bytes(part.find()._query["filter"].raw) == encode(filter)


def test_few_documents_make_few_parts(database: Any) -> None:
    assert [len(part.to_arrow()) for part in database.nothing.partitions(8)] == [0]
    database.two.insert_many([{"_id": MinKey(), "n": 0}, {"_id": MaxKey(), "n": 1}])
    assert sorted(d["n"] for part in database.two.partitions(8) for d in part.find()) == [0, 1]


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True, None])
def test_number_of_parts_is_checked(database: Any, count: Any) -> None:
    with pytest.raises(ValueError, match="expected at least 1 part as count"):
        database.mixed.partitions(count)


def test_wrong_arguments_raise_before_anything_is_sent(database: Any) -> None:
    with pytest.raises(ValueError, match=r"expected one of \['auto', 'sample', 'chunks'\] for by, got 'ids'"):
        database.mixed.partitions(2, by="ids")
    with pytest.raises(TypeError, match="filter must be a mapping"):
        database.mixed.partitions(2, 5)
    with (
        database.client.start_session() as session,
        session.bind(),
        pytest.raises(InvalidOperation, match="does not go with a bound session"),
    ):
        database.mixed.partitions(2)
    with pytest.raises(TypeError, match="expected a client, got str"):
        database.mixed.partitions(1)[0].on("mongodb://a")
    with pytest.raises(InvalidOperation, match="hint"):
        database.mixed.partitions(3)[1].to_arrow(parallel=2)


def test_parts_are_even_though_ids_do_not_fit_one_reply(database: Any) -> None:
    database.long.insert_many([{"_id": f"{number:04}" + "x" * 20_000} for number in range(1_500)])

    def open_cursors() -> list[Any]:
        # Not the server's count: cursors of other tests may end at any time.
        own = {"type": "idleCursor", "ns": database.long.full_name}
        stages = [{"$currentOp": {"idleCursors": True}}, {"$match": own}]
        return database.client.admin.aggregate(stages).to_list()

    for snapshot in (False, True):
        counts = [len(part.find().to_list()) for part in database.long.partitions(4, snapshot=snapshot)]
        assert sum(counts) == 1_500
        assert max(counts) < 600, counts
    # The background closes them, with the next operation at the latest.
    eventually(lambda: open_cursors() == [], "no open cursor")


REPLACED = "dropped, renamed or replaced after its parts were planned: plan them again"


@pytest.mark.parametrize("options", [{}, {"snapshot": True}], ids=["", "snapshot"])
@pytest.mark.parametrize("count", [1, 3])
def test_parts_of_a_collection_that_was_dropped_are_refused(
    database: Any, count: int, options: dict[str, Any]
) -> None:
    brief = database[f"brief_{uuid.uuid4().hex}"]
    brief.insert_many([{"_id": n} for n in range(50)])
    parts = brief.partitions(count, **options)
    assert sum(len(part.find().to_list()) for part in parts) == 50

    brief.drop()
    for part in map(over_there, parts):
        with pytest.raises(OperationFailure, match=REPLACED):
            part.find().to_list()
    # Parts of two collections together would equal neither collection.
    brief.insert_many([{"_id": n} for n in range(50)])
    for part in parts:
        # The new collection has no snapshot of an earlier moment.
        with pytest.raises(OperationFailure, match=f"{REPLACED}|read again, at a later moment"):
            part.to_arrow()
    assert sum(len(part.find().to_list()) for part in brief.partitions(count)) == 50


def test_a_server_that_cannot_compare_collections_reads_by_the_name(database: Any, server: Server) -> None:
    # `collectionUUID` is not in the stable API, and servers before 6.0 refuse it too.
    with MongoClient[Any](server.uri, server_api=ServerApi("1", strict=True)) as client:
        (part,) = client[database.name].mixed.partitions(1)
        assert len(part.find().to_list()) == len(sorted_numbers(database.mixed))


@pytest.mark.parametrize(
    "filter",
    [
        {"$text": {"$search": "a"}},
        {"place": {"$near": [1, 2]}},
        {"$and": [{"place": {"$nearSphere": [1, 2]}}]},
        {"n": 1, "$or": [{"n": 2}, {"$text": {"$search": "a"}}]},
    ],
    ids=str,
)
def test_operators_with_an_index_of_their_own_are_read_in_one_range(
    database: Any, filter: dict[str, Any]
) -> None:
    with pytest.raises(
        InvalidOperation, match=r"does not go with \$.*: the server reads it by an index of its own"
    ):
        database.mixed.partitions(2, filter)
    with pytest.raises(InvalidOperation, match=r"does not go with \$"):
        database.mixed.find(filter).to_arrow(parallel=2)
    assert len(database.mixed.partitions(1, filter)) == 1


def test_what_has_no_index_on_ids_says_so(database: Any) -> None:
    database.create_collection("seen", viewOn="mixed", pipeline=[])
    database.create_collection("hours", timeseries={"timeField": "at"})

    for name, kind in (("seen", "view"), ("hours", "timeseries")):
        with pytest.raises(InvalidOperation, match=f"got the {kind} .*; read it with one cursor"):
            database[name].partitions(2)
        with pytest.raises(InvalidOperation, match=f"got the {kind} .*; read it with one cursor"):
            database[name].find().to_arrow(parallel=2)
    for snapshot in (False, True):
        (part,) = database.seen.partitions(1, snapshot=snapshot)
        assert len(part.find().to_list()) == database.mixed.count_documents({})


def test_parts_are_exact_under_writers(server: Server) -> None:
    """Writers insert, change and delete around documents that stay; each staying document is in one part, once."""
    with MongoClient[Any](server.uri) as client:
        rows = client[f"parts_{uuid.uuid4().hex[:8]}"].busy
        stay = [n if n % 3 else f"k{n}" for n in range(0, 6000, 2)]
        rows.insert_many([{"_id": id, "stays": True, "n": 0} for id in stay])
        is_over = threading.Event()

        def write(seed: int) -> None:
            n = seed
            while not is_over.is_set():
                n = (n * 7919 + 17) % 6000
                passing = 2 * n + 1 if n % 2 else f"k{2 * n + 1}"
                rows.update_one({"_id": passing}, {"$inc": {"n": 1}}, upsert=True)
                rows.update_one(
                    {"_id": stay[n % len(stay)]}, {"$inc": {"n": 1}, "$set": {"pad": "x" * (n % 300)}}
                )
                rows.delete_one({"_id": passing})

        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(20)]
        for writer in writers:
            writer.start()
        try:
            for count, options in ((3, {}), (16, {"snapshot": True}), (7, {"ordered": True})):
                parts = rows.partitions(count, **options, batch_size=50)
                found = [d["_id"] for part in parts for d in over_there(part).find() if "stays" in d]
                assert len(found) == len(stay)
                assert set(found) == set(stay)
        finally:
            is_over.set()
            for writer in writers:
                writer.join()
        client.drop_database(rows.database.name)


IDS = st.lists(
    st.one_of(
        st.sampled_from(TYPES),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
        st.binary(max_size=4),
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)),
        st.booleans(),
        st.none(),
    ),
    max_size=30,
)


@given(IDS, st.integers(1, 12), st.booleans())
@settings(deadline=None)
def test_parts_are_the_query_in_its_order_for_any_ids(
    server: Server, ids: list[Any], count: int, snap: bool
) -> None:
    with MongoClient[Any](server.uri) as client:
        rows = client.parts_of_any.rows
        rows.drop()
        for n, id in enumerate(ids):
            rows.update_one({"_id": {"$eq": id}}, {"$setOnInsert": {"n": n}}, upsert=True)

        parts = rows.partitions(count, ordered=True, snapshot=snap and bool(ids))

        found = [d["n"] for part in parts for d in over_there(part).find()]
        assert found == [d["n"] for d in rows.find().sort("_id")]
