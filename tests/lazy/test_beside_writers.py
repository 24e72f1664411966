"""Lazy sources of Polars, pyarrow and DuckDB read the same as find() beside 20 writers, ids of any type included."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.data_engines.common import COUNT, STAYS, another_id, documents, expected, shown, writers

from mangonel import MongoClient
from mangonel.bson import ObjectId
from mangonel.server import Server

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

# Values other than text are null in the column `mixed`. Ids of five types have no column, but bound the cursors.
SCHEMA = {
    "n": int,
    "x": float,
    "in": {"id": ObjectId, "tags": [str]},
    "by": uuid.UUID,
    "mixed": str,
}
# Few documents, so that both writers and readers make progress; by hand MANGONEL_ENGINE_ROWS=100000.
pytestmark = [pytest.mark.no_sample, pytest.mark.timeout(max(COUNT // 50, 600))]


@pytest.fixture(scope="module")
def rows(server: Server) -> Iterator[Any]:
    """The collection, while 20 threads of another process change it."""
    name = f"beside_{uuid.uuid4().hex[:8]}"
    with MongoClient[Any](server.uri) as client, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MANGONEL_URI", server.uri)
        client[name].rows.insert_many(list(documents()), ordered=False)
        with writers(client[name]):
            yield client[name].rows
        client.drop_database(name)


def by_polars(rows: Any, parallel: int) -> list[Any]:
    frame = rows.scan_polars(SCHEMA, STAYS, on_invalid="null", parallel=parallel).collect()
    return frame.to_dicts()


def by_arrow(rows: Any, parallel: int) -> list[Any]:
    dataset = rows.dataset(SCHEMA, STAYS, on_invalid="null", parallel=parallel)
    return dataset.to_table().to_pylist()


def by_duckdb(rows: Any, parallel: int) -> list[Any]:
    connection = duckdb.connect()
    connection.register("big", rows.dataset(SCHEMA, on_invalid="null", parallel=parallel))
    found = connection.execute("select * from big where n >= 0").fetchall()
    return [dict(zip(SCHEMA, row, strict=True)) for row in found]


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("read", [by_polars, by_arrow, by_duckdb])
def test_rows_beside_writers_are_those_of_find(rows: Any, read: Any, parallel: int) -> None:
    found = sorted(map(shown, read(rows, parallel)))

    kept = ((expected(each), each.get("mixed")) for each in rows.find(STAYS))
    wanted = sorted((*row[:-1], mixed if isinstance(mixed, str) else None) for row, mixed in kept)
    assert len(found) == len(wanted) == COUNT
    assert [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]][:3] == []


def test_writers_begin_again_behind_those_that_were_killed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANGONEL_URI", server.uri)
    with MongoClient[Any](server.uri) as client:
        database = client[f"twice_{uuid.uuid4().hex[:8]}"]
        places: list[Any] = [{"_id": place} for place in range(0, COUNT, 5)]
        left = [{"_id": another_id(random.Random(seed)), "n": -1, "pad": "x"} for seed in range(20)]
        database.rows.insert_many(places + left)
        with writers(database):
            assert database.rows.count_documents({"pad": {"$exists": True}}) > 0
        client.drop_database(database.name)
