"""The server gets exactly the parts of a query that an engine hands to a lazy source."""

from __future__ import annotations

import asyncio
import os
import pickle
import uuid
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from lazy.conftest import SCHEMA
from mangonel import AsyncMongoClient, MongoClient
from mangonel.arrow import ColumnError
from mangonel.monitoring import CommandListener
from mangonel.read_concern import ReadConcern
from mangonel.server import Server

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")

ROWS = 3000
COLUMNS = {"_id": int, "n": int, "total": float, "city": str, "place": {"x": int}}


class Asked(CommandListener):
    """Return the finds that were sent."""

    def __init__(self) -> None:
        self.finds: list[dict[str, Any]] = []

    def started(self, event: Any) -> None:
        if event.command_name == "find":
            self.finds.append(dict(event.command))

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...


@pytest.fixture(scope="module")
def rows(server: Server) -> Iterator[tuple[Any, Asked]]:
    asked = Asked()
    with MongoClient[Any](server.uri, event_listeners=[asked]) as client:
        database = client[f"scans_{uuid.uuid4().hex[:8]}"]
        database.rows.insert_many(
            [
                {
                    "_id": n,
                    "n": n % 100,
                    "total": n / 2,
                    "city": ["Rome", "Oslo"][n % 2],
                    "place": {"x": n, "y": n},
                }
                for n in range(ROWS)
            ]
        )
        yield database.rows, asked
        client.drop_database(database.name)


@pytest.fixture
def sent(rows: tuple[Any, Asked]) -> Asked:
    rows[1].finds.clear()
    return rows[1]


def only(sent: Asked) -> dict[str, Any]:
    (command,) = sent.finds
    return command


def test_frame_is_the_query(rows: tuple[Any, Asked], sent: Asked) -> None:
    frame = rows[0].scan_polars(COLUMNS)

    assert frame.collect_schema() == pl.DataFrame(rows[0].find().limit(1).to_arrow(COLUMNS)).schema
    assert frame.collect().equals(rows[0].find().to_polars(COLUMNS))


def test_columns_predicate_and_limit_of_polars_are_sent(rows: tuple[Any, Asked], sent: Asked) -> None:
    frame = rows[0].scan_polars(COLUMNS)

    assert frame.filter(pl.col("n") == 7).select("total").collect().height == ROWS // 100
    assert only(sent)["filter"] == {"n": {"$eq": 7}}
    assert only(sent)["projection"] == {"n": 1, "total": 1}
    sent.finds.clear()
    assert frame.head(5).collect()["_id"].to_list() == [0, 1, 2, 3, 4]
    assert only(sent)["limit"] == 5
    sent.finds.clear()
    assert frame.select(pl.col("place").struct.field("x").sum()).collect().item() == ROWS * (ROWS - 1) // 2
    assert only(sent)["projection"] == {"place.x": 1}
    sent.finds.clear()
    # Rows are counted before a later predicate.
    assert frame.head(150).filter(pl.col("n") == 7).collect().height == 2
    assert only(sent)["filter"] == {}
    assert frame.head(0).collect().shape == (0, 5)


def test_filter_of_the_source_is_sent_beside_the_predicate(rows: tuple[Any, Asked], sent: Asked) -> None:
    frame = rows[0].scan_polars(COLUMNS, {"city": "Rome"})

    assert frame.filter(pl.col("n") < 4).collect().height == ROWS // 50
    assert only(sent)["filter"] == {"$and": [{"city": "Rome"}, {"n": {"$lt": 4}}]}


@pytest.mark.parametrize(
    ("query", "answer", "filter"),
    [
        ("select count(*) from big", ROWS, {}),
        ("select count(*) from big where n > 97", ROWS // 50, {"n": {"$gt": 97}}),
        (
            "select sum(total) from big where n = 1",
            sum(n / 2 for n in range(1, ROWS, 100)),
            {"n": {"$eq": 1}},
        ),
        ("select max(place.x) from big where place.x < 10", 9, {"place.x": {"$lt": 10}}),
    ],
)
def test_duckdb_hands_on_what_it_needs(
    rows: tuple[Any, Asked], sent: Asked, query: str, answer: Any, filter: dict[str, Any]
) -> None:
    big = rows[0].dataset(COLUMNS)

    assert duckdb.sql(query).fetchall() == [(answer,)]

    assert only(sent)["filter"] == filter
    assert "city" not in only(sent)["projection"]
    assert big.count_rows() == ROWS


def test_dataset_has_the_methods_of_pyarrow(rows: tuple[Any, Asked], sent: Asked) -> None:
    dataset = rows[0].dataset(COLUMNS)
    few = pc.field("n") == 7

    assert dataset.schema == pa.table(rows[0].find().to_arrow(COLUMNS)).schema
    assert dataset.to_table(columns=["city", "n"], filter=few).column_names == ["city", "n"]
    assert dataset.to_table(columns={"twice": pc.field("total") * 2}, filter=few)["twice"].to_pylist()[
        :2
    ] == [7, 107]
    assert dataset.to_table(columns=[], filter=few).num_rows == ROWS // 100
    assert dataset.count_rows(few) == ROWS // 100
    assert dataset.head(3, columns=["_id"]).to_pydict() == {"_id": [0, 1, 2]}
    assert dataset.head(2, filter=few)["_id"].to_pylist() == [7, 107]
    assert dataset.take([0, 2], columns=["_id"]).num_rows == 2
    assert sum(batch.num_rows for batch in dataset.to_batches(batch_size=500)) == ROWS
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=500)) <= 500
    assert dataset.replace_schema({"n": int}).to_table().column_names == ["n"]
    assert dataset.replace_schema({}).count_rows() == dataset.replace_schema({}).to_table().num_rows == ROWS
    assert pl.scan_pyarrow_dataset(dataset).filter(pl.col("n") == 7).collect().height == ROWS // 100
    assert dataset.to_table(filter=few).to_pandas()["city"].unique().tolist() == ["Oslo"]
    with pytest.raises(KeyError, match="expected names of columns"):
        dataset.to_table(columns=["nothing"])
    with pytest.raises(NotImplementedError, match=r"use collection\.partitions"):
        dataset.get_fragments()


def test_filtered_dataset_has_the_rows_of_its_filters(rows: tuple[Any, Asked], sent: Asked) -> None:
    few = rows[0].dataset(COLUMNS).filter(pc.field("n") == 7)
    fewer = few.filter(pc.field("total") < 100)
    assert sent.finds == []

    assert few.count_rows() == ROWS // 100
    assert only(sent)["filter"] == {"n": {"$eq": 7}}
    assert fewer.to_table(columns=["_id"])["_id"].to_pylist() == [7, 107]
    assert fewer.count_rows(pc.field("_id") > 7) == fewer.count_rows(pc.field("_id") == 7) == 1
    assert fewer.head(1, columns=["_id"]).to_pydict() == {"_id": [7]}
    assert fewer.head(5, filter=pc.field("_id") > 7)["_id"].to_pylist() == [107]
    assert fewer.take([1])["_id"].to_pylist() == [107]
    assert pickle.loads(pickle.dumps(fewer)).count_rows() == 2
    assert fewer.replace_schema({"n": int, "total": float}).count_rows() == 2
    assert fewer.group_by("city").aggregate([("n", "sum")]).to_pydict() == {"city": ["Oslo"], "n_sum": [14]}
    assert duckdb.sql("select count(*) from fewer where _id > 7").fetchall() == [(1,)]


def test_dataset_is_sorted_and_joined_as_a_table_is(rows: tuple[Any, Asked]) -> None:
    few = rows[0].dataset(COLUMNS, {"_id": {"$lt": 4}})
    names = pa.table({"city": ["Rome", "Oslo"], "land": ["Italy", "Norway"]})

    assert few.sort_by([("_id", "descending")]).to_table()["_id"].to_pylist() == [3, 2, 1, 0]
    for right in (names, pa.dataset.dataset(names)):
        joined = (
            few.replace_schema({"_id": int, "city": str}).join(right, "city", join_type="inner").to_table()
        )
        assert dict(zip(joined["_id"].to_pylist(), joined["land"].to_pylist(), strict=True)) == {
            0: "Italy",
            1: "Norway",
            2: "Italy",
            3: "Norway",
        }
    assert (
        few.replace_schema({"_id": int})
        .join(few.replace_schema({"_id": int, "n": int}), "_id")
        .head(9)
        .num_rows
        == 4
    )
    times = few.replace_schema({"_id": int, "n": int}).join_asof(
        pa.table({"_id": [0, 2], "n": [0, 2], "x": [5, 6]}), on="_id", by="n", tolerance=0
    )
    assert times.to_table()["x"].to_pylist() == [5, None, 6, None]


def test_scan_of_a_snapshot_reads_one_moment(rows: tuple[Any, Asked], sent: Asked) -> None:
    whole = rows[0].with_options(read_concern=ReadConcern("snapshot"))

    assert whole.scan_polars(COLUMNS, parallel=3).collect().height == ROWS

    moments = {find["readConcern"]["atClusterTime"] for find in sent.finds}
    assert len(sent.finds) > 2
    assert len(moments) == 1


def test_dataset_is_read_in_another_process_as_a_part_is(rows: tuple[Any, Asked]) -> None:
    again = pickle.loads(pickle.dumps(rows[0].dataset(COLUMNS, {"city": "Oslo"})))

    assert again.count_rows(pc.field("n") == 7) == ROWS // 100


def test_asyncio_collection_is_read_by_a_blocking_client(rows: tuple[Any, Asked], server: Server) -> None:
    async def play() -> int:
        async with AsyncMongoClient[Any](server.uri) as client:
            collection = client[rows[0].database.name].rows
            frame = collection.scan_polars(COLUMNS, connect="MANGONEL_TEST_SCAN")
            with patch.dict(os.environ, {"MANGONEL_TEST_SCAN": server.uri}):
                counted = collection.dataset(COLUMNS).count_rows()
                return int(counted + frame.filter(pl.col("n") == 7).collect().height)

    assert asyncio.run(play()) == ROWS + ROWS // 100


def test_misfits_raise_or_become_null(confusing: Any) -> None:
    with pytest.raises(ColumnError, match=r"at \$\."):
        confusing.misfits.dataset(SCHEMA).to_table()
    assert confusing.misfits.dataset(SCHEMA, on_invalid="null").count_rows() == 397
    with pytest.raises(Exception, match="of the document with _id"):
        confusing.misfits.scan_polars(SCHEMA).collect()
    texts = confusing.texts.scan_polars({"_id": int, "s": str}, on_invalid="string").collect()
    assert {"5", '"5"', '[5,"a",true]', '{"x":5}'} & set(texts["s"].to_list())
    with pytest.raises(ColumnError, match=r"expected int64, got .* at \$\.l"):
        confusing.misfits.dataset({"l": int}, on_invalid="string").to_table()
    with pytest.raises(ValueError, match="as on_invalid of a lazy source, got 'text'"):
        confusing.misfits.scan_polars(SCHEMA, on_invalid="text")
    with pytest.raises(ValueError, match="expected at least 1 cursor"):
        confusing.misfits.scan_polars(SCHEMA, parallel=0)
    with pytest.raises(TypeError, match="expected a mapping, a Schema"):
        confusing.misfits.dataset(5)
