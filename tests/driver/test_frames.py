"""How many Python frames an everyday operation enters, once all modules are loaded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, DeleteOne, InsertOne, MongoClient, UpdateOne
from mangonel.collation import Collation
from mangonel.server import Server
from tools.frames import DRIVER, entered

# The fused path is what users have; the reference path takes more steps in Python.
pytestmark = pytest.mark.skipif(
    os.environ.get("MANGONEL_IMPL") == "reference", reason="counts the fused path"
)

FILTER = {"n": {"$gte": 3}}
UPDATE = {"$set": {"name": "Ada"}}
# All options that find accepts on a collection that is not capped.
OPTIONS: dict[str, Any] = {
    "projection": {"n": 1},
    "skip": 1,
    "sort": [("n", -1)],
    "batch_size": 5,
    "collation": Collation("en"),
    "hint": [("n", 1)],
    "max_time_ms": 60_000,
    "max": [("n", 9)],
    "min": [("n", 1)],
    "show_record_id": False,
    "comment": "counted",
    "allow_disk_use": True,
    "let": {"least": 3},
    "no_cursor_timeout": False,
}


@pytest.fixture
def things(server: Server, database_name: str) -> Iterator[Any]:
    """A collection of ten documents on the blocking face."""
    with MongoClient(server.uri) as client:
        things = client[database_name]["things"]
        things.insert_many([{"_id": number, "n": number} for number in range(10)])
        things.create_index("n", collation=Collation("en"), name="by_n")
        yield things


ten_updates = [UpdateOne({"_id": number}, UPDATE) for number in range(10)]


def ten_of_each_kind() -> list[Any]:
    """Return ten writes that take three commands."""
    inserts = [InsertOne({"n": number}) for number in range(3)]
    return inserts + ten_updates[:4] + [DeleteOne({"n": -number}) for number in range(1, 4)]


OPERATIONS: dict[str, tuple[int, Callable[[Any], Callable[[], object]]]] = {
    "find_one": (2, lambda things: lambda: things.find_one({"_id": 3})),
    "find_one_by_projection": (8, lambda things: lambda: things.find_one({"_id": 3}, {"n": 1})),
    "find_one_by_sort": (8, lambda things: lambda: things.find_one(FILTER, sort=[("n", -1)])),
    "find_one_with_all_options": (8, lambda things: lambda: things.find_one(FILTER, **OPTIONS)),
    "find_to_list": (10, lambda things: lambda: things.find(FILTER).to_list()),
    "find_with_a_limit": (10, lambda things: lambda: things.find(FILTER, limit=5).to_list()),
    "count_documents": (6, lambda things: lambda: things.count_documents(FILTER)),
    "distinct": (6, lambda things: lambda: things.distinct("n", FILTER)),
    "insert_one": (4, lambda things: lambda: things.insert_one({"n": 1})),
    "insert_many_of_ten": (12, lambda things: lambda: things.insert_many([{"n": n} for n in range(10)])),
    "update_one": (8, lambda things: lambda: things.update_one({"_id": 3}, UPDATE)),
    "replace_one": (8, lambda things: lambda: things.replace_one({"_id": 3}, {"n": 3})),
    "delete_one": (8, lambda things: lambda: things.delete_one({"_id": -1})),
    "find_one_and_update": (8, lambda things: lambda: things.find_one_and_update({"_id": 3}, UPDATE)),
    "bulk_write_of_ten_updates": (11, lambda things: lambda: things.bulk_write(ten_updates)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_everyday_operation_enters_few_frames(name: str, things: Any) -> None:
    most, made = OPERATIONS[name]
    names = [name for name in entered(made(things)) if "<listcomp>" not in name]
    assert len(names) <= most, " ".join(names)


def test_a_find_one_in_a_session_enters_few_frames(things: Any) -> None:
    with things.database.client.start_session() as session:
        names = entered(lambda: things.find_one({"_id": 3}, {"n": 1}, session=session))
        assert len(names) <= 8, names


def test_a_transaction_enters_few_frames_beside_its_writes(things: Any) -> None:
    client = things.database.client

    def transaction() -> None:
        with client.start_session() as session, session.start_transaction():
            things.insert_one({"n": 1}, session=session)

    names = entered(transaction)
    assert len(names) <= 12, names


def test_a_bulk_write_of_three_commands_enters_few_frames(things: Any) -> None:
    bulks = iter([ten_of_each_kind() for _ in range(3)])
    names = entered(lambda: things.bulk_write(next(bulks)))
    assert len(names) <= 19, names


# Only this package's frames; a coroutine that waits once is entered twice.
ON_A_LOOP: dict[str, tuple[int, Callable[[Any], Awaitable[object]]]] = {
    "find_one": (3, lambda things: things.find_one({"_id": 3})),
    "find_to_list": (10, lambda things: things.find(FILTER).to_list()),
    "find_to_json": (10, lambda things: things.find(FILTER).to_json()),
    "page_to_json": (11, lambda things: things.find(FILTER).limit(5).to_json("plain")),
    "insert_one": (5, lambda things: things.insert_one({"n": 1})),
    "update_one": (8, lambda things: things.update_one({"_id": 3}, UPDATE)),
}


@pytest.mark.parametrize("name", ON_A_LOOP)
def test_an_everyday_operation_on_a_loop_enters_few_frames_of_ours(
    name: str, things: Any, server: Server, database_name: str
) -> None:
    most, call = ON_A_LOOP[name]

    async def opened() -> AsyncMongoClient[Any]:
        return AsyncMongoClient(server.uri)

    with asyncio.Runner() as runner:
        client = runner.run(opened())
        on_loop = client[database_name][things.name]

        async def steps() -> None:
            await call(on_loop)

        names = entered(lambda: runner.run(steps()), below=DRIVER)
        runner.run(client.close())
    assert len(names) <= most, " ".join(names)
