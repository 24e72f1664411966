"""A class as `into`: whatever else a query has, and however it is read, its documents are instances of the class."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel.bson import ObjectId
from mangonel.errors import InvalidOperation
from mangonel.read_concern import ReadConcern
from mangonel.server import Server

COUNT = 250  # more than a first batch has


@dataclasses.dataclass(slots=True)
class Thing:
    id: int
    n: int


EXPECTED = [Thing(number, number % 7) for number in range(COUNT)]

# What else a query has: each makes a cursor of one without it. The order by `_id` is that of insertion.
QUERIES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda things: things.find(into=Thing),
    "an empty filter": lambda things: things.find({}, into=Thing),
    "a limit": lambda things: things.find({}, limit=COUNT, into=Thing),
    "a limit set later": lambda things: things.find({}, into=Thing).limit(COUNT),
    "a limit taken back": lambda things: things.find({}, limit=3, into=Thing).limit(0),
    "an order": lambda things: things.find({}, into=Thing).sort("_id"),
    "an order at once": lambda things: things.find({}, sort=[("_id", 1)], into=Thing),
    "small batches": lambda things: things.find({}, into=Thing).batch_size(9),
    "prefetch": lambda things: things.find({}, batch_size=9, prefetch=True, into=Thing),
    "a comment": lambda things: things.find({}, into=Thing).comment("why"),
    "a time limit": lambda things: things.find({}, into=Thing, timeout_ms=60_000),
    "a copy": lambda things: things.find({}, into=Thing).clone(),
    "a copy of a copy, in order": lambda things: things.find({}, into=Thing).clone().sort("_id", 1).clone(),
    "a read concern": lambda things: things.with_options(read_concern=ReadConcern("local")).find(
        {}, into=Thing
    ),
}


@pytest.fixture(scope="module")
def stored(server: Server) -> Iterator[str]:
    """The name of a database with the things."""
    name = f"into_{ObjectId()}"
    with MongoClient(server.uri) as client:
        client.drop_database(name)
        client[name]["things"].insert_many([{"_id": each.id, "n": each.n} for each in EXPECTED])
        yield name
        client.drop_database(name)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("is_bound", [False, True], ids=["unbound", "bound to a session"])
def test_every_way_of_reading_returns_instances(
    server: Server, stored: str, query: str, is_bound: bool
) -> None:
    with MongoClient(server.uri) as client, client.start_session() as session:
        things = client[stored]["things"]

        def read() -> None:
            make = QUERIES[query]
            assert list(make(things)) == EXPECTED
            assert make(things).to_list() == EXPECTED
            assert [make(things).next(), *make(things).to_list(2)] == [*EXPECTED[:1], *EXPECTED[:2]]
            again = make(things)
            assert again.next() == EXPECTED[0]
            assert list(again.rewind()) == EXPECTED

        if is_bound:
            with session.bind():
                read()
        else:
            read()


@pytest.mark.parametrize("query", QUERIES)
def test_asyncio_does_the_same(server: Server, stored: str, query: str) -> None:
    async def read() -> None:
        async with AsyncMongoClient(server.uri) as client:
            things = client[stored]["things"]
            assert [each async for each in QUERIES[query](things)] == EXPECTED
            assert await QUERIES[query](things).to_list() == EXPECTED

    asyncio.run(read())


@pytest.mark.parametrize("options", [{}, {"sort": [("_id", -1)]}, {"comment": "why"}, {"projection": None}])
def test_find_one_does_the_same(server: Server, stored: str, options: dict[str, Any]) -> None:
    with MongoClient(server.uri) as client, client.start_session() as session:
        things = client[stored]["things"]
        reading = things.with_options(read_concern=ReadConcern("local"))
        found: list[Any] = []
        with client.start_session().bind():
            found.append(things.find_one({"n": 3}, into=Thing, **options))
        for each in (things, reading):
            found += [each.find_one({"n": 3}, into=Thing, **options) for _ in range(2)]
            found.append(each.find_one({"n": 3}, into=Thing, session=session, **options))
            assert each.find_one({"n": 9}, into=Thing, **options) is None
    assert {type(each) for each in found} == {Thing}
    assert {each.n for each in found} == {3}


def test_none_is_the_document_class(server: Server, stored: str) -> None:
    with MongoClient(server.uri) as client:
        things = client[stored]["things"]
        assert things.find_one({"_id": 8}, into=None) == {"_id": 8, "n": 1}
        assert things.find({"_id": 8}, into=None).to_list() == [{"_id": 8, "n": 1}]


def test_a_class_that_is_no_shape_is_refused_and_the_query_can_be_corrected(
    server: Server, stored: str
) -> None:
    with MongoClient(server.uri) as client:
        things = client[stored]["things"]
        for wrong in (int, "Thing", [Thing]):
            with pytest.raises(TypeError, match="expected"):
                things.find_one({}, into=wrong)
            with pytest.raises(TypeError, match="expected"):
                things.find({}, into=wrong).to_list()
        used = things.find({}, into=Thing)
        used.next()
        with pytest.raises(InvalidOperation):
            used.sort("_id")
