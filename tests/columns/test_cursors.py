"""Cursors as tables on both faces, in the libraries that read Arrow, and PyMongoArrow's functions."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, CursorType, MongoClient
from mangonel.arrow import (
    ColumnError,
    Schema,
    aggregate_arrow_all,
    find_arrow_all,
    find_numpy_all,
    find_pandas_all,
    find_polars_all,
    write,
)
from mangonel.bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")

ROWS = 500
WHEN = datetime.datetime(2020, 1, 2)


def documents() -> list[dict[str, Any]]:
    return [
        {
            "_id": ObjectId(),
            "n": number,
            "x": number / 2,
            "name": f"name {number}",
            "at": WHEN,
            "in": {"id": ObjectId(), "tags": ["a", "b"]},
            "none": None,
        }
        for number in range(ROWS)
    ]


@pytest.fixture(scope="module")
def stored(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        name = f"columns_{uuid.uuid4().hex[:8]}"
        client[name].rows.insert_many(documents())
        yield client[name]
        client.drop_database(name)


@pytest.mark.parametrize("options", [{}, {"prefetch": True}, {"batch_size": 50}])
def test_find_gives_all_rows(stored: Any, options: dict[str, Any]) -> None:
    made = pa.table(stored.rows.find({}, **options).to_arrow())

    assert made.num_rows == ROWS
    assert made["n"].to_pylist() == list(range(ROWS))
    assert made["none"].null_count == ROWS
    assert made["in"].to_pylist()[7]["tags"] == ["a", "b"]


def test_rows_after_those_that_were_iterated_over_are_taken(stored: Any) -> None:
    cursor = stored.rows.find().batch_size(10)
    for _ in range(3):
        next(cursor)

    assert pa.table(cursor.to_arrow())["n"].to_pylist() == list(range(3, ROWS))


def test_schema_narrows_what_the_server_sends(stored: Any) -> None:
    cursor = stored.rows.find({"n": {"$lt": 3}})

    made = cursor.to_arrow({"n": int, "in": {"tags": [str]}})

    assert cursor._query["projection"] == {"n": 1, "in.tags": 1}
    assert pa.table(made).to_pylist()[2] == {"n": 2, "in": {"tags": ["a", "b"]}}


def test_parts_have_the_rows_asked_for_and_one_schema(stored: Any) -> None:
    parts = [pa.table(part) for part in stored.rows.find().batch_size(70).iter_arrow(rows=120)]

    assert [part.num_rows for part in parts] == [120, 120, 120, 120, 20]
    assert all(part.schema == parts[0].schema for part in parts)
    assert pa.concat_tables(parts)["n"].to_pylist() == list(range(ROWS))
    assert list(stored.nothing.find().iter_arrow()) == []


def test_misfit_closes_the_cursor(stored: Any) -> None:
    stored.mixed.insert_many([{"_id": number, "a": number if number < 200 else "x"} for number in range(300)])
    cursor = stored.mixed.find().batch_size(150)

    with pytest.raises(
        ColumnError, match=r"expected int32, got string at \$\.a of the document with _id 200"
    ):
        cursor.to_arrow()
    assert not cursor.alive
    assert pa.table(stored.mixed.find().to_arrow(on_invalid="string"))["a"].to_pylist()[199:201] == [
        "199",
        "x",
    ]


def test_asyncio_has_the_same_methods(stored: Any, standalone: Server) -> None:
    async def play() -> None:
        async with AsyncMongoClient[Any](standalone.uri) as client:
            rows = client[stored.name].rows
            assert (await rows.find().to_arrow()).num_rows == ROWS
            cursor = await rows.aggregate([{"$match": {"n": {"$lt": 9}}}])
            assert len(await cursor.to_arrow({"n": int})) == 9
            sizes = [len(part) async for part in rows.find().iter_arrow(rows=200)]
            assert sizes == [200, 200, 100]
            assert len(await rows.find().to_polars()) == ROWS

    asyncio.run(play())


def test_libraries_read_tables(stored: Any) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    cursor = stored.rows.find()

    frame = cursor.to_polars()
    assert frame["n"].sum() == ROWS * (ROWS - 1) // 2
    assert list(frame["in"][3]["tags"]) == ["a", "b"]
    assert isinstance(frame, polars.DataFrame)
    # Null-only columns are kept (mongo-arrow 225), ids inside documents are read (219).
    assert frame["none"].null_count() == ROWS
    assert len(frame["in"][3]["id"]) == 12

    pandas = stored.rows.find().to_pandas()
    assert pandas["x"].sum() == ROWS * (ROWS - 1) / 4
    arrays = stored.rows.find({}, {"_id": 0, "n": 1}).to_numpy()
    assert arrays["n"].dtype == "int32"
    assert arrays["n"].tolist() == list(range(ROWS))

    connection = duckdb.connect()
    connection.register("found", pa.table(stored.rows.find().to_arrow()))
    answer = connection.sql("select sum(n), count(*) from found where x < 50").fetchall()
    assert answer == [(4950, 100)]


def test_names_of_pymongoarrow_do_what_they_do_there(stored: Any) -> None:
    schema = Schema({"n": int, "x": float, "name": str})

    table = find_arrow_all(stored.rows, {"n": {"$lt": 10}}, schema=schema)
    assert table.schema.names == ["n", "x", "name"]
    assert table["n"].to_pylist() == list(range(10))
    assert aggregate_arrow_all(stored.rows, [{"$limit": 5}], schema=schema).num_rows == 5
    assert find_pandas_all(stored.rows, {}, schema=schema)["n"].tolist() == list(range(ROWS))
    assert find_polars_all(stored.rows, {}, schema=schema).shape == (ROWS, 3)
    assert find_numpy_all(stored.rows, {}, schema=schema)["x"].tolist()[3] == 1.5
    # As there, values that do not fit become null.
    assert find_arrow_all(stored.rows, {}, schema=Schema({"name": int}))["name"].null_count == ROWS


def test_tables_are_written_as_documents(stored: Any) -> None:
    table = stored.rows.find().to_arrow()

    assert write(stored.copies, table) == {"insertedCount": ROWS}

    query = {"n": 7}
    copy, original = stored.copies.find_one(query), stored.rows.find_one(query)
    assert copy["_id"] == original["_id"]
    assert (copy["n"], copy["x"], copy["in"]["tags"]) == (7, 3.5, ["a", "b"])
    assert write(stored.few, pa.table({"a": [1, None]}), exclude_none=True) == {"insertedCount": 2}
    assert [sorted(each) for each in stored.few.find()] == [["_id", "a"], ["_id"]]


@pytest.mark.parametrize("options", [{}, {"prefetch": True}, {"cursor_type": CursorType.EXHAUST}], ids=str)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_every_way_of_reading_gives_all_rows(
    stored: Any, standalone: Server, options: dict[str, Any], is_async: bool
) -> None:
    async def play() -> None:
        client: Any = (AsyncMongoClient if is_async else MongoClient)(standalone.uri)
        found = client[stored.name].rows.find({}, {"n": 1, "x": 1}, batch_size=90, **options)
        for way in ("to_arrow", "to_polars", "to_pandas", "to_numpy"):
            made = getattr(found.clone(), way)()
            made = await made if is_async else made
            column = (pa.table(made) if way == "to_arrow" else made)["n"]
            assert [int(value) for value in (column.to_pylist() if way == "to_arrow" else column)] == list(
                range(ROWS)
            ), way
        tables = found.iter_arrow(rows=130)
        sizes = [len(part) async for part in tables] if is_async else [len(part) for part in tables]
        assert sizes == [130, 130, 130, 110]
        if is_async:
            await client.close()
        else:
            client.close()

    asyncio.run(play())


def test_columns_of_nulls_alone_are_kept(stored: Any) -> None:
    # mongo-arrow 225: null-only columns were lost, in documents as well.
    stored.nulls.insert_many([{"_id": n, "none": None, "in": {"none": None}} for n in range(3)])

    made = pa.table(stored.nulls.find().to_arrow())

    assert made.column_names == ["_id", "none", "in"]
    assert made["in"].to_pylist() == [{"none": None}] * 3
    assert stored.nulls.find().to_polars()["none"].null_count() == 3
    assert stored.nulls.find().to_pandas()["none"].isna().all()


def test_pandas_rounds_no_integer_beside_nulls(stored: Any) -> None:
    large = 2**53 + 1
    stored.gaps.insert_many([{"_id": 1, "n": Int64(large), "small": Int64(5)}, {"_id": 2, "n": None}])

    frame = stored.gaps.find().to_pandas()

    # A double would hold 2**53.
    assert frame["n"].tolist()[0] == large
    assert frame["n"].isna().tolist() == [False, True]
    assert frame.dtypes["small"] == "float64"
    assert list(frame.columns) == ["_id", "n", "small"]


@pytest.mark.parametrize("way", ["to_pandas", "to_numpy"])
def test_integers_beside_nulls_are_exact_at_any_depth(stored: Any, way: str) -> None:
    large = 2**53 + 1
    rows = [
        {
            "_id": 1,
            "n": Int64(large),
            "l": [Int64(large), None],
            "in": {"deep": [{"n": Int64(large)}, {"n": None}]},
        },
        {"_id": 2, "n": None, "l": [1, 2], "in": {"deep": []}},
    ]
    stored.deep_gaps.drop()
    stored.deep_gaps.insert_many(rows)

    made = getattr(stored.deep_gaps.find(), way)()

    assert made["n"][0] == large
    assert [list(row) for row in made["l"]] == [[large, None], [1, 2]]
    assert made["in"][0] == {"deep": [{"n": large}, {"n": None}]}


@pytest.mark.parametrize("way", ["to_arrow", "iter_arrow", "to_polars", "to_pandas", "to_numpy"])
def test_an_option_of_another_library_is_refused_by_its_name(stored: Any, way: str) -> None:
    with pytest.raises(TypeError, match="as options of a table, got dtype_backend; convert pyarrow"):
        getattr(stored.rows.find(), way)(dtype_backend="pyarrow")


def test_ids_inside_of_documents_and_lists_are_read_by_polars(stored: Any) -> None:
    # mongo-arrow 219: Polars broke on the extension type of an inner id.
    polars = pytest.importorskip("polars")
    id = ObjectId()
    stored.ids.insert_one({"_id": id, "in": {"id": id, "deep": [{"id": id}]}, "list": [id]})

    for schema in (
        None,
        {"_id": ObjectId, "in": {"id": ObjectId, "deep": [{"id": ObjectId}]}, "list": [ObjectId]},
    ):
        frame = stored.ids.find().to_polars(schema)
        assert isinstance(frame, polars.DataFrame)
        assert bytes(frame["in"][0]["id"]) == id.binary
        assert bytes(frame["in"][0]["deep"][0]["id"]) == id.binary
        assert bytes(frame["list"][0][0]) == id.binary


def test_values_of_every_type_are_read_by_every_library(stored: Any) -> None:
    pytest.importorskip("polars")
    inner = {
        "uuid": Binary(bytes(range(16)), 4),
        "data": Binary(b"x", 128),
        "id": ObjectId(),
        "price": Decimal128("1.50"),
        "like": Regex("a", "i"),
        "clock": Timestamp(1, 2),
        "code": Code("x", {"n": 1}),
        "ends": [MinKey()],
        "most": MaxKey(),
        "at": datetime.datetime(2020, 1, 2),
    }
    stored.every.insert_many([{"_id": 1, **inner, "in": inner, "list": [inner]}, {"_id": 2}])

    assert stored.every.find().to_polars()["uuid"].null_count() == 1
    frame = stored.every.find().to_pandas()
    # pyarrow found no class of pandas for a column of UUIDs.
    assert frame["uuid"][0] == bytes(range(16))
    assert frame["in"][0]["data"] == b"x"
    assert stored.every.find().to_numpy()["uuid"][0] == bytes(range(16))


def test_nested_documents_become_no_python_objects(stored: Any) -> None:
    # mongo-arrow 169: nested fields were four times slower, since each value became an object.
    import gc

    made = stored.rows.find().to_arrow()
    gc.collect()
    before = len(gc.get_objects())
    again = stored.rows.find().to_arrow()
    gc.collect()

    assert len(made) == len(again) == ROWS
    assert len(gc.get_objects()) - before < ROWS


@pytest.mark.parametrize("parallel", [1, 3])
def test_null_and_missing_come_back_from_the_server_and_go_there(stored: Any, parallel: int) -> None:
    cases: list[dict[str, Any]] = [
        {},
        {"in": None},
        {"in": {}},
        {"in": {"a": None}},
        {"in": {"a": 1}},
        {"l": [None]},
    ]
    found, copies = stored[f"missing_{parallel}"], stored[f"copies_{parallel}"]
    found.insert_many([{"_id": n, **cases[n % len(cases)]} for n in range(60)])
    schema = {"_id": int, "in": {"a": int}, "l": [int]}

    for given in (schema, None):
        copies.drop()
        copies.insert_arrow(found.find().to_arrow(given, missing="distinguish", parallel=parallel))
        assert copies.find().sort("_id", 1).to_list() == found.find().sort("_id", 1).to_list()
