"""Parts of two real shards, behind a router that merges: orphans stay hidden, and chunks may move at any time.

Parts are read through the router by bounds of the shard key, so the shard at planning time does not matter. The router
does the work of mongos and of the shards' filter: it asks both shards for the documents of the chunks that each owns
now.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pymongo
import pytest
from bson import Int64, MaxKey, MinKey

from mangonel import MongoClient
from mangonel.server import Server
from tools.messages import Request
from tools.scripted_server import Action, ScriptedServer

COUNT = 400
BOUNDS = [MinKey(), 50, 100, 150, 200, 250, 300, 350, MaxKey()]


class MergingRouter(ScriptedServer):
    """Answers as a mongos with one collection that is sharded by `n`, over two mongods.

    Args:
        shards: clients of the mongods.
        namespace: the sharded collection.
    """

    def __init__(self, shards: list[Any], namespace: str) -> None:
        self._shards = shards
        self._namespace = namespace
        self.owners = [place % 2 for place in range(len(BOUNDS) - 1)]
        """The shard of each chunk."""
        self.asked: list[Mapping[str, Any]] = []
        """The finds of a part."""
        super().__init__(hello={"msg": "isdbgrid"})

    def move(self, chunk: int, *, leaves_orphans: bool = True) -> None:
        """Move a chunk to the other shard."""
        database, _, name = self._namespace.partition(".")
        source, target = (
            self._shards[shard][database][name] for shard in (self.owners[chunk], 1 - self.owners[chunk])
        )
        moved = list(source.find(self._within(chunk)))
        # Orphans that an earlier move left there.
        target.delete_many(self._within(chunk))
        if moved:
            target.insert_many(moved)
        self.owners[chunk] ^= 1
        if not leaves_orphans:
            source.delete_many(self._within(chunk))

    def _within(self, chunk: int) -> dict[str, Any]:
        low, high = BOUNDS[chunk : chunk + 2]
        bounds = {"$gte": low, "$lt": high}
        return {"n": {name: bound for name, bound in bounds.items() if isinstance(bound, int)}}

    def _default(self, request: Request) -> Action:
        command = {name: value for name, value in request.command.items() if not name.startswith("$")}
        database = request.command["$db"]
        if request.name in ("hello", "isMaster", "ismaster"):
            return super()._default(request)
        if database == "config":
            return _reply(f"config.{command['find']}", self._map(command["find"]))
        # A real cluster has one UUID on all shards, and sessions of its own.
        command = {name: value for name, value in command.items() if name not in ("lsid", "collectionUUID")}
        if request.name != "find":
            return self._shards[0][database].command(command)
        if "min" in command or "max" in command:
            self.asked.append(command)
        found: list[Any] = []
        for shard, client in enumerate(self._shards):
            owned = [self._within(chunk) for chunk, owner in enumerate(self.owners) if owner == shard]
            narrowed = {
                **command,
                "filter": {"$and": [command.get("filter") or {}, {"$or": owned}]},
                "batchSize": COUNT,
            }
            if owned:
                found += client[database].command(narrowed)["cursor"]["firstBatch"]
        return _reply(self._namespace, found)

    def _map(self, name: str) -> list[dict[str, Any]]:
        if name == "collections":
            return [{"_id": self._namespace, "uuid": uuid.UUID(int=7).bytes, "key": {"n": 1}}]
        return [
            {"min": {"n": low}, "max": {"n": high}, "shard": f"s{owner}"}
            for low, high, owner in zip(BOUNDS, BOUNDS[1:], self.owners, strict=False)
        ]


def _reply(namespace: str, found: list[Any]) -> dict[str, Any]:
    return {"ok": 1, "cursor": {"id": Int64(0), "ns": namespace, "firstBatch": found}}


@pytest.fixture
def router(server: Server, standalone: Server, database_name: str) -> Iterator[MergingRouter]:
    with pymongo.MongoClient(server.uri) as one, pymongo.MongoClient(standalone.uri) as two:
        router = MergingRouter([one, two], f"{database_name}.orders")
        for shard, client in enumerate((one, two)):
            orders = client[database_name].orders
            orders.create_index([("n", 1)])
            owned = [n for n in range(COUNT) if router.owners[min(n // 50, 7)] == shard]
            orders.insert_many([{"_id": f"{n:03}", "n": n} for n in owned])
        with router:
            yield router
        for client in (one, two):
            client.drop_database(database_name)


@pytest.fixture
def orders(router: MergingRouter, database_name: str) -> Iterator[Any]:
    with MongoClient[Any](f"mongodb://{router.address}/") as client:
        yield client[database_name].orders


def read(orders: Any, parts: list[Any]) -> list[list[int]]:
    """Return the numbers of each part, as read by another process."""
    client = orders.database.client
    return [sorted(row["n"] for row in pickle.loads(pickle.dumps(part)).on(client).find()) for part in parts]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_parts_of_two_shards_have_each_document_once_and_no_orphans(
    router: MergingRouter, orders: Any, count: int
) -> None:
    for chunk in (0, 3, 5):
        router.move(chunk)
    assert (
        sum(client[orders.database.name].orders.count_documents({}) for client in router._shards)
        == COUNT + 150
    )

    parts = [part for part in orders.partitions(count, by="chunks") if part.low or part.high]
    found = read(orders, parts)

    size = COUNT // count
    assert found == [list(range(start, start + size)) for start in range(0, COUNT, size)]
    each = len(router.owners) // count
    owners = [set(router.owners[start : start + each]) for start in range(0, len(router.owners), each)]
    assert [part.shard for part in parts] == [f"s{one.pop()}" if len(one) == 1 else None for one in owners]
    assert all(command["hint"] == {"n": 1} for command in router.asked)


@pytest.mark.parametrize("leaves_orphans", [True, False])
def test_a_chunk_that_moves_after_the_plan_is_read_where_it_is(
    router: MergingRouter, orders: Any, leaves_orphans: bool
) -> None:
    parts = [part for part in orders.partitions(8, by="chunks") if part.low or part.high]
    planned = [part.shard for part in parts]
    found = read(orders, parts[:2])
    # A chunk that was read, one that was not, and one there and back again.
    for chunk in (1, 4, 6, 6):
        router.move(chunk, leaves_orphans=leaves_orphans)
    found += read(orders, parts[2:])

    assert found == [list(range(start, start + 50)) for start in range(0, COUNT, 50)]
    # The plan is older than the moves.
    assert planned == [f"s{place % 2}" for place in range(8)]
    assert planned[4] != f"s{router.owners[4]}"
