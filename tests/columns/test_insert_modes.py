"""Tables stored a second time: with `key`, a row replaces its document; with `once`, nothing is stored twice."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel.arrow import ColumnError
from mangonel.bson import ObjectId
from mangonel.errors import BulkWriteError, InvalidOperation, OperationFailure
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")


@pytest.fixture
def rows(server: Server) -> Iterator[Any]:
    with MongoClient[Any](server.uri) as client:
        database = client[f"modes_{uuid.uuid4().hex[:8]}"]
        yield database.rows
        client.drop_database(database.name)


@pytest.fixture(params=["blocking", "asyncio"])
def insert(request: pytest.FixtureRequest, server: Server, rows: Any) -> Callable[..., Any]:
    """Insert on a face."""
    if request.param == "blocking":
        return rows.insert_arrow

    def insert(*arguments: Any, **options: Any) -> Any:
        async def play() -> Any:
            async with AsyncMongoClient[Any](server.uri) as client:
                return await client[rows.database.name].rows.insert_arrow(*arguments, **options)

        return asyncio.run(play())

    return insert


TABLE = pa.table({"_id": [1, 2, 3], "city": ["Paris", None, "Rome"], "n": [1, 2, 3]})


def test_rows_replace_the_documents_of_their_key(rows: Any, insert: Callable[..., Any]) -> None:
    rows.insert_one({"_id": 2, "old": True})
    result = insert(TABLE, key="_id")
    assert (result.upserted_count, result.matched_count, result.inserted_count) == (2, 1, 0)
    assert insert(TABLE, key="_id").matched_count == 3

    assert rows.find(sort={"_id": 1}).to_list() == TABLE.to_pylist()


@pytest.mark.parametrize("kind", [pa.table, polars.DataFrame], ids=["pyarrow", "polars"])
def test_a_key_of_several_columns_leaves_ids_as_they_are(
    rows: Any, insert: Callable[..., Any], kind: Any
) -> None:
    # Few rows: insert_many's tests cover tables that take several commands.
    table = kind({"city": ["Paris", "Paris", "Rome"], "n": [1, 2, 1], "x": [5, 6, 7]})
    assert insert(table, key=["city", "n"]).upserted_count == 3
    before = {(row["city"], row["n"]): row["_id"] for row in rows.find()}
    assert all(isinstance(each, ObjectId) for each in before.values())
    assert insert(kind({"city": ["Rome"], "n": [1], "x": [8]}), key=["city", "n"]).matched_count == 1

    assert rows.find_one({"city": "Rome"}) == {"_id": before["Rome", 1], "city": "Rome", "n": 1, "x": 8}
    assert rows.count_documents({}) == 3


def test_a_row_without_a_value_for_the_key_is_refused(rows: Any, insert: Callable[..., Any]) -> None:
    with pytest.raises(ColumnError, match="each key of row 1"):
        insert(TABLE, key="city")
    with pytest.raises(ColumnError, match=r"got \{'town': None\}; its fields are \['_id', 'city', 'n'\]"):
        insert(TABLE, key="town")
    with pytest.raises(TypeError, match="the name of a column"):
        insert(TABLE, key=[])
    with pytest.raises(TypeError, match="the name of a column, or several, as key, got 5"):
        insert(TABLE, key=5)
    assert rows.count_documents({}) == 0


@pytest.mark.parametrize("options", [{}, {"key": "_id"}], ids=["inserted", "by key"])
def test_a_name_stores_once(rows: Any, insert: Callable[..., Any], options: dict[str, Any]) -> None:
    # A stream can be read only once.
    assert insert(TABLE.to_reader(), once="job/1", **options).bulk_api_result["nInserted"] == 3 * (
        not options
    )
    again = insert(TABLE, once="job/1", **options)
    assert (again.inserted_count, again.upserted_count, again.matched_count) == (0, 0, 0)
    insert(pa.table({"n": [7]}), once="job/2")

    assert sorted(row["n"] for row in rows.find()) == [1, 2, 3, 7]
    assert [each["_id"] for each in rows.database.mangonel_once.find()] == ["job/1", "job/2"]


def test_a_name_of_another_collection_is_refused(rows: Any, insert: Callable[..., Any]) -> None:
    rows.database.others.insert_arrow(TABLE, once="job")
    with pytest.raises(InvalidOperation, match=rf"got 'job', .*stored in {rows.database.name}\.others; "):
        insert(TABLE, once="job")

    assert rows.count_documents({}) == 0


def test_what_fails_stores_neither_rows_nor_the_name(rows: Any, insert: Callable[..., Any]) -> None:
    rows.insert_one({"_id": 3})
    with pytest.raises(BulkWriteError):
        insert(TABLE, once="job")
    assert rows.count_documents({}) == 1
    assert rows.database.mangonel_once.count_documents({}) == 0
    rows.delete_many({})
    assert insert(TABLE, once="job").inserted_count == 3


def test_a_transaction_that_fails_for_a_moment_is_run_again(rows: Any, insert: Callable[..., Any]) -> None:
    admin = rows.database.client.admin
    point = {"configureFailPoint": "failCommand", "mode": {"times": 2}}
    labels = ["TransientTransactionError"]
    admin.command({**point, "data": {"failCommands": ["insert"], "errorCode": 251, "errorLabels": labels}})
    try:
        assert insert(TABLE.to_reader(), once="job").inserted_count == 3
    finally:
        admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    assert rows.count_documents({}) == 3


def test_attempts_side_by_side_store_once(rows: Any) -> None:
    rows.database.create_collection("rows")
    counts = []

    def attempt() -> None:
        counts.append(rows.insert_arrow(pa.table({"n": list(range(500))}), once="job").inserted_count)

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(counts) == [0] * 5 + [500]
    assert rows.count_documents({}) == 500


def test_once_makes_its_own_session(rows: Any, standalone: Server) -> None:
    with (
        rows.database.client.start_session() as session,
        pytest.raises(InvalidOperation, match="no session beside once"),
    ):
        rows.insert_arrow(TABLE, once="job", session=session)
    with MongoClient[Any](standalone.uri) as client, pytest.raises(OperationFailure):
        client[rows.database.name].rows.insert_arrow(TABLE, once="job")
