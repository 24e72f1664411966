"""Parts of a sharded collection's chunk map. Routers are a mongod with a scripted map: no sharded cluster runs here."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import Int64, MaxKey, MinKey, ObjectId
from mangonel.errors import ConfigurationError, OperationFailure
from mangonel.read_concern import ReadConcern
from mangonel.server import Server
from tools.router import Router, shard_of

BOUNDS = [MinKey(), Int64(10), Int64(20), Int64(30), Int64(40), MaxKey()]
KEYS: list[dict[str, Any]] = [{"customer": 1}, {"customer": "hashed"}, {"customer": 1, "day": 1}]
# Customers of several types, some equal to bounds, and the last key of an index.
CUSTOMERS = [*range(50), 10.0, 10.5, "a", None, ObjectId(), {"a": 1}, True, MaxKey(), MinKey()]

Routed = Callable[..., Any]


@pytest.fixture
def routed(server: Server, database_name: str) -> Iterator[Routed]:
    """Return a function that fills a collection and returns it as a router shows it, sharded by a key."""
    with contextlib.ExitStack() as ends:

        def make(key: dict[str, Any], *, index: dict[str, Any] | None = None, **options: Any) -> Any:
            with MongoClient[Any](server.uri) as client:
                orders = client[database_name].orders
                orders.create_index(list((key if index is None else index).items()))
                orders.insert_many(
                    [{"_id": n, "customer": each, "total": n % 3} for n, each in enumerate(CUSTOMERS)]
                )
                orders.insert_one({"_id": len(CUSTOMERS), "total": 1})
            router = Router(server.wait_for_primary().port, f"{database_name}.orders", key, BOUNDS, **options)
            ends.enter_context(router)
            return ends.enter_context(MongoClient[Any](router.uri))[database_name].orders, router

        yield make


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_have_whole_chunks_and_bounds_of_the_shard_key(
    routed: Routed, key: dict[str, Any], count: int
) -> None:
    orders, _ = routed(key)

    parts = orders.partitions(count, by="chunks")

    if key == {"customer": 1} and count > 1:
        # The last key, which no range contains. Documents have no `day`, and a hash is never MaxKey.
        last = parts.pop()
        assert last.low is None is last.high
    assert len(parts) == count
    cuts = [5 * place // count for place in range(count + 1)]
    inner = [BOUNDS[cut] for cut in cuts[1:-1]]
    assert [part.low and part.low["customer"] for part in parts] == [None, *inner]
    assert [part.high and part.high["customer"] for part in parts] == [*inner, None]
    shards = [{shard_of(chunk) for chunk in range(low, high)} for low, high in pairwise(cuts)]
    assert [part.shard for part in parts] == [each.pop() if len(each) == 1 else None for each in shards]


@pytest.mark.parametrize("options", [{}, {"snapshot": True}], ids=str)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_have_the_rows_of_find(routed: Routed, key: dict[str, Any], options: dict[str, Any]) -> None:
    orders, router = routed(key)

    parts = orders.partitions(5, {"total": 1}, by="chunks", **options)
    client = orders.database.client
    read = [pickle.loads(pickle.dumps(part)).on(client).find().to_list() for part in parts]

    wanted = orders.find({"total": 1}).sort("_id").to_list()
    assert sorted((each for part in read for each in part), key=lambda each: each["_id"]) == wanted
    # Each chunk was read from its index.
    assert sum(map(bool, read)) >= (2 if "hashed" in key.values() else 5)
    ranges = [each.command for each in router.received("find") if "min" in each.command]
    assert [command["hint"] for command in ranges] == [key] * 4


@pytest.mark.parametrize("level", [None, "snapshot"])
def test_columns_by_several_cursors_have_the_rows_of_find(routed: Routed, level: str | None) -> None:
    pa = pytest.importorskip("pyarrow")
    orders, _ = routed({"customer": 1})
    orders = orders.with_options(read_concern=ReadConcern(level))

    table = pa.table(orders.find({"total": 1}).to_arrow({"_id": int, "total": int}, parallel=4))

    wanted = [each["_id"] for each in orders.find({"total": 1}, sort={"_id": 1})]
    assert sorted(table["_id"].to_pylist()) == wanted


def test_auto_takes_the_chunk_map_if_it_has_enough_chunks(routed: Routed) -> None:
    orders, _ = routed({"customer": 1})

    assert "customer" in orders.partitions(5)[1].low
    assert "_id" in orders.partitions(6)[1].low
    assert "_id" in orders.partitions(5, by="sample")[1].low


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_order_of_ids_is_not_that_of_another_shard_key(routed: Routed, key: dict[str, Any]) -> None:
    orders, _ = routed(key)

    parts = orders.partitions(2, ordered=True)
    assert [each["_id"] for part in parts for each in part.find()] == list(range(len(CUSTOMERS) + 1))
    with pytest.raises(ConfigurationError, match=r"has another order than _id; use by="):
        orders.partitions(2, ordered=True, by="chunks")


def test_chunks_of_ids_are_in_their_order(routed: Routed) -> None:
    orders, _ = routed({"_id": 1})

    parts = orders.partitions(5, ordered=True, by="chunks")
    assert [part.shard for part in parts] == [shard_of(chunk) for chunk in range(5)]
    assert [each["_id"] for part in parts for each in part.find()] == list(range(len(CUSTOMERS) + 1))


LACKS: dict[str, dict[str, Any]] = {
    "it is not sharded": {"is_sharded": False},
    "no index has exactly the fields": {"index": {"customer": 1, "day": 1}},
}


@pytest.mark.parametrize("problem", LACKS)
def test_without_a_usable_map_auto_samples_and_chunks_raises(routed: Routed, problem: str) -> None:
    orders, _ = routed({"customer": 1}, **LACKS[problem])

    assert "_id" in orders.partitions(2)[1].low
    with pytest.raises(ConfigurationError, match=f"{problem}.*use by="):
        orders.partitions(2, by="chunks")


def test_map_that_may_not_be_read_is_done_without_unless_it_is_asked_for(routed: Routed) -> None:
    refusal = {"ok": 0, "code": 13, "errmsg": "not authorized on config"}
    orders, _ = routed({"customer": 1}, failure=refusal)

    assert "_id" in orders.partitions(2)[1].low
    with pytest.raises(OperationFailure, match="not authorized on config"):
        orders.partitions(2, by="chunks")
