"""Tables of any library become documents: every type, ids, refused rows, both faces."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, WriteConcern, _core
from mangonel.arrow import ColumnError
from mangonel.bson import Binary, Code, Decimal128, Int64, ObjectId, decode
from mangonel.errors import BulkWriteError
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")

WHEN = datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)
ID = ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f")


@pytest.fixture(scope="module")
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        name = f"inserted_{uuid.uuid4().hex[:8]}"
        yield client[name]
        client.drop_database(name)


def rows_of(table: Any, *, exclude_none: bool = False) -> list[dict[str, Any]]:
    reader = _core.ArrowReader(table, exclude_none)
    found = []
    while (rows := reader.next_part(1_000)) is not None:
        found += [rows[index] for index in range(len(rows))]
    return found


def values_of(array: Any) -> list[Any]:
    return [row["a"] for row in rows_of(pa.table({"_id": pa.nulls(len(array)), "a": array}))]


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (pa.null(), [None], [None]),
        (pa.bool_(), [True, None, False], [True, None, False]),
        *((kind, [0, None, 100], [0, None, 100]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        *((kind, [7, None], [7, None]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
        *((kind, [1.5, None], [1.5, None]) for kind in (pa.float16(), pa.float32(), pa.float64())),
        *((kind, ["é", None, "a" * 40], ["é", None, "a" * 40]) for kind in (pa.string(), pa.large_string())),
        (pa.string_view(), ["short", None, "text longer than a view"], ["short", None, "text longer than a view"]),
        *((kind, [b"a\0", None], [b"a\0", None]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        (pa.binary(3), [b"abc", None], [b"abc", None]),
        (pa.date32(), [WHEN.date()], [datetime.datetime(2020, 1, 2)]),
        (pa.date64(), [WHEN.date()], [datetime.datetime(2020, 1, 2)]),
        (pa.timestamp("s"), [WHEN.replace(microsecond=0)], [WHEN.replace(microsecond=0)]),
        *((pa.timestamp(unit, "UTC"), [WHEN, None], [WHEN, None]) for unit in ("ms", "us", "ns")),
        (pa.decimal128(9, 2), [decimal.Decimal("-1.50"), None], [Decimal128("-1.50"), None]),
        (pa.decimal64(9, 2), [decimal.Decimal("1.50")], [Decimal128("1.50")]),
        (pa.uuid(), [uuid.UUID(int=5).bytes, None], [Binary.from_uuid(uuid.UUID(int=5)), None]),
        *((kind(pa.int32()), [[1, None], [], None], [[1, None], [], None]) for kind in (pa.list_, pa.large_list)),
        (pa.list_(pa.int32(), 2), [[1, 2], None, [3, 4]], [[1, 2], None, [3, 4]]),
        (pa.struct({"b": pa.list_(pa.struct({"c": pa.string()}))}), *([[{"b": [{"c": "x"}, None]}]] * 2)),
        (pa.dictionary(pa.int8(), pa.string()), ["x", None, "y", "x"], ["x", None, "y", "x"]),
        (pa.map_(pa.string(), pa.int32()), [[("k", 1)]], [[{"key": "k", "value": 1}]]),
    ],
    ids=str,
)  # fmt: skip
def test_every_type_becomes_what_bson_has_for_it(kind: Any, values: list[Any], wanted: list[Any]) -> None:
    array = pa.array(values, kind)

    assert values_of(array) == wanted
    # Values before and after a slice do not belong to it.
    padded = pa.concat_arrays([array.slice(0, 1), array, array.slice(0, 1)])
    assert values_of(padded.slice(1, len(array))) == wanted


def test_integers_keep_their_width() -> None:
    assert type(values_of(pa.array([5], pa.int64()))[0]) is Int64
    assert type(values_of(pa.array([5], pa.int16()))[0]) is int


def test_types_of_pymongoarrow_are_known() -> None:
    # Known by their names only: importing PyMongoArrow's classes would change pyarrow's results in the whole process.
    def stored(name: str, told: str, storage: Any) -> Any:
        metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": told}
        schema = pa.schema([pa.field("a", storage.type, metadata=metadata)])
        return rows_of(pa.Table.from_arrays([storage], schema=schema))[0]["a"]

    number = Decimal128("1.5")
    assert stored("pymongoarrow.objectid", "", pa.array([ID.binary], pa.binary(12))) == ID
    assert stored("pymongoarrow.decimal128", "", pa.array([number.bid], pa.binary(16))) == number
    assert stored("pymongoarrow.binary", "subtype=5", pa.array([b"x"])) == Binary(b"x", 5)
    assert stored("pymongoarrow.code", "", pa.array(["x"])) == Code("x")


def test_tables_of_cursors_come_back_as_they_were() -> None:
    document = {"_id": ID, "n": 1, "l": [{"d": WHEN, "u": Binary.from_uuid(uuid.UUID(int=1))}], "none": None}
    builder = _core.ColumnBuilder(None, "raise", 2)
    for _ in range(5):
        builder.add_bytes(_core.encode(document, False, _codec()))

    assert rows_of(builder.take()) == [document] * 5


def _codec() -> Any:
    from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS

    return DEFAULT_CODEC_OPTIONS


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (pa.array([1, 2**63], pa.uint64()), r"integer of 63 bits, got a larger one at \$\.a of row 1"),
        (pa.array([decimal.Decimal(10**37 + 1)]), r"exactly.* at \$\.a of row 0"),
        (pa.array([None, {"b": [[2**63 - 1]]}], pa.struct({"b": pa.list_(pa.list_(pa.timestamp("s")))})),
         r"milliseconds, got .* at \$\.a\.b\.0\.0 of row 1"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_stored_are_named_with_their_place(array: Any, what: str) -> None:
    with pytest.raises(ColumnError, match=what):
        values_of(array)


def test_types_that_bson_lacks_are_refused_before_anything_is_sent(database: Any) -> None:
    for kind in (pa.time32("s"), pa.decimal256(50, 1), pa.month_day_nano_interval()):
        with pytest.raises(TypeError, match=r"cast the column in column \$\.a"):
            database.none.insert_arrow(pa.table({"a": pa.nulls(1, kind)}))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(TypeError, match="each name once"):
        database.none.insert_arrow(twice)
    with pytest.raises(TypeError, match="expected a table"):
        database.none.insert_arrow([{"a": 1}])
    with pytest.raises(TypeError, match="array of something else"):
        database.none.insert_arrow(pa.array([1]))
    assert database.none.count_documents({}) == 0


def test_ids_are_made_and_come_first(database: Any) -> None:
    assert database.ids.insert_arrow(pa.table({"a": [1, 2], "b": ["x", "y"]})).inserted_count == 2
    found = list(database.ids.find())
    assert [list(document) for document in found] == [["_id", "a", "b"]] * 2
    assert len({document["_id"] for document in found}) == 2
    assert [list(row) for row in rows_of(pa.table({"a": [1], "_id": [7]}))] == [["_id", "a"]]
    kept = rows_of(pa.table({"a": [None, 1], "_id": [7, None]}), exclude_none=True)
    assert kept[0] == {"_id": 7}
    assert isinstance(kept[1]["_id"], ObjectId)


def test_refused_rows_are_told_by_their_index(database: Any) -> None:
    table = pa.table({"_id": pa.chunked_array([[1, 2], [2, 3], [3]]), "a": ["a", "b", "c", "d", "e"]})

    with pytest.raises(BulkWriteError) as raised:
        database.refused.insert_arrow(table)
    details: Any = raised.value.details
    assert (details["nInserted"], [error["index"] for error in details["writeErrors"]]) == (2, [2])
    assert details["writeErrors"][0]["op"] == {"_id": 2, "a": "c"}

    with pytest.raises(BulkWriteError) as raised:
        database.all_tried.insert_arrow(table, ordered=False)
    details = raised.value.details
    assert (details["nInserted"], [error["index"] for error in details["writeErrors"]]) == (3, [2, 4])


def test_commands_are_split_as_the_server_asks(database: Any) -> None:
    text = "x" * 200_000
    table = pa.table({"_id": range(300), "a": [text] * 300})

    assert database.large.insert_arrow(table).inserted_count == 300
    assert database.large.count_documents({"a": text}) == 300
    database.large.drop()
    many = pa.table({"_id": range(100_001)})
    assert database.many.insert_arrow(many).inserted_count == 100_001
    database.many.drop()


def test_unacknowledged_inserts_send_all_rows(database: Any) -> None:
    silent = database.silent.with_options(write_concern=WriteConcern(w=0))

    result = silent.insert_arrow(pa.table({"_id": range(10)}))

    assert not result.acknowledged
    database.silent.insert_one({"_id": 10})
    assert database.silent.count_documents({}) == 11


def test_stream_is_read_as_it_is_sent(database: Any) -> None:
    def batches() -> Iterator[Any]:
        for number in range(5):
            yield pa.record_batch({"_id": [number]})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"_id": pa.int64()}), batches())
    assert database.streamed.insert_arrow(reader).inserted_count == 5
    assert database.streamed.insert_arrow(pa.table({"_id": pa.array([], pa.int64())})).inserted_count == 0

    def breaks() -> Iterator[Any]:
        yield pa.record_batch({"_id": [9]})
        raise RuntimeError("no more")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"_id": pa.int64()}), breaks())
    with pytest.raises(OSError, match="no more"):
        database.streamed.insert_arrow(reader)


def test_frames_and_arrays_are_inserted(database: Any) -> None:
    numpy, pandas, polars = (pytest.importorskip(name) for name in ("numpy", "pandas", "polars"))
    columns = {"_id": numpy.arange(3), "x": numpy.array([1.5, 2.5, 3.5])}
    wanted = [{"_id": number, "x": number + 1.5} for number in range(3)]
    structured = numpy.zeros(3, [("_id", "i8"), ("x", "f8")])
    structured["_id"], structured["x"] = columns["_id"], columns["x"]

    frame = polars.DataFrame(columns)
    for table in (
        columns,
        structured,
        pandas.DataFrame(columns, index=[5, 6, 7]),
        frame,
        frame.to_struct("a"),
    ):
        database.frames.drop()
        database.frames.insert_arrow(table)
        assert list(database.frames.find()) == wanted
    texts = polars.DataFrame({"_id": [1], "s": ["a text that is longer than twelve bytes"]})
    assert rows_of(texts)[0]["s"] == "a text that is longer than twelve bytes"


def test_a_name_with_a_nul_is_refused_and_not_cut(database: Any) -> None:
    polars = pytest.importorskip("polars")
    inner, items = {"a": [{"b\0c": 1}]}, {"a": [[{"b\0c": 1}]]}
    stream = pa.RecordBatchReader.from_batches(pa.schema({"b\0c": pa.int64()}), [])
    for table, path in [
        (pa.table({"b\0c": [1]}), "$"),
        (pa.table(inner), "a"),
        (pa.table(items), "a.item"),
        (pa.table({"a": pa.array([{"x": 1}]), "b\0c": [2]}).to_batches()[0], "$"),
        (pa.array([{"b\0c": 1}]), "$"),
        (stream, "$"),
        ({"b\0c": [1]}, "$"),
        (polars.DataFrame({"b\0c": [1]}), "$"),
        (polars.DataFrame(inner), "a"),
        (polars.DataFrame(items), "a.item"),
        (polars.DataFrame(inner).to_struct("x"), "a"),
    ]:
        with pytest.raises(ColumnError, match=rf"got 'b\\x00c' at {re.escape(path)}; rename it"):
            database.named.insert_arrow(table)
    assert database.named.count_documents({}) == 0


def test_asyncio_inserts_in_a_transactionless_session(standalone: Server, database: Any) -> None:
    async def play() -> None:
        async with AsyncMongoClient[Any](standalone.uri) as client, client.start_session() as session:
            rows = client[database.name].asynchronous
            result = await rows.insert_arrow(pa.table({"_id": [1, 2]}), session=session, comment="x")
            assert result.inserted_count == 2
            assert await rows.count_documents({}) == 2

    asyncio.run(play())


def test_rows_are_a_sequence() -> None:
    rows = _core.ArrowReader(pa.table({"_id": range(10)}), False).next_part(100)
    assert rows is not None

    part = rows[3:6]

    assert [part[index]["_id"] for index in range(len(part))] == [3, 4, 5]
    with pytest.raises(IndexError):
        part[3]
    assert decode(_core.encode(part[0], False, _codec())) == {"_id": 3}


def test_relations_of_duckdb_are_inserted(database: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select i as _id, i * 0.5 as x, {'c': [i]} as d from range(3000) t(i) order by i")

    result = database.relation.insert_arrow(relation)

    assert result.inserted_count == 3000
    assert database.relation.find_one({"_id": 7}) == {"_id": 7, "x": Decimal128("3.5"), "d": {"c": [7]}}
