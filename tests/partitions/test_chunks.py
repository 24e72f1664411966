"""Parts of a sharded collection's chunk map. The routers are scripted: no sharded cluster runs here."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import Binary, Int64, MaxKey, MinKey
from mangonel.errors import ConfigurationError, OperationFailure
from tools.scripted_server import Request, ScriptedServer

UUID = Binary(b"\x07" * 16, 4)
BOUNDS = [MinKey(), Int64(10), Int64(20), Int64(30), Int64(40), MaxKey()]


class Router:
    """Answers as a mongos with one collection, `shop.orders`, sharded by a key."""

    def __init__(self, server: ScriptedServer, key: dict[str, Any], **options: Any) -> None:
        self.key, self.options = key, options
        hello = {"ok": 1, "ismaster": True, "msg": "isdbgrid", "maxWireVersion": 21, "minWireVersion": 0}
        hello |= {
            "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
        }
        for name in ("hello", "isMaster", "ismaster"):
            server.on(name, hello)
        server.on("aggregate", _batch("shop.orders", [{"_id": n} for n in range(64)]))
        server.on("listIndexes", self.indexes)
        server.on("listCollections", _batch("shop.$cmd", [{"name": "orders", "type": "collection"}]))
        server.on("find", self.find)
        server.on("endSessions", {"ok": 1})
        self.finds: list[dict[str, Any]] = []

    def indexes(self, request: Request) -> dict[str, Any]:
        keys = [{"_id": 1}, self.options.get("index", self.key)]
        return _batch("shop.orders", [{"v": 2, "key": key, "name": f"{n}"} for n, key in enumerate(keys)])

    def find(self, request: Request) -> dict[str, Any]:
        command = dict(request.command)
        name = f"{command['$db']}.{command['find']}"
        if "failure" in self.options and name.startswith("config."):
            return {"ok": 0, **self.options["failure"]}
        if name == "config.collections":
            entry = {"_id": "shop.orders", "uuid": UUID, "key": self.key}
            return _batch(name, [entry] if self.options.get("is_sharded", True) else [])
        if name == "config.chunks":
            assert bytes(command["filter"]["$or"][0]["uuid"]) == bytes(UUID)
            assert command["sort"] == {"min": 1}
            return _batch(name, self.chunks())
        self.finds.append(command)
        return _batch(name, [{"_id": len(self.finds)}] if "singleBatch" not in command else [])

    def chunks(self) -> list[dict[str, Any]]:
        pairs = pairwise(BOUNDS)
        return [
            {"min": dict.fromkeys(self.key, low), "max": dict.fromkeys(self.key, high), "shard": f"s{n // 2}"}
            for n, (low, high) in enumerate(pairs)
        ]


def _batch(name: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": 1, "cursor": {"id": Int64(0), "ns": name, "firstBatch": documents}}


def parts_of(server: ScriptedServer, count: int, **options: Any) -> list[Any]:
    with MongoClient[Any](server.uri) as client:
        parts = client.shop.orders.partitions(count, {"total": 1}, **options)
        for part in parts:
            part.find().to_list()
        return parts


@pytest.mark.parametrize("key", [{"customer": 1}, {"customer": "hashed"}, {"customer": 1, "day": 1}], ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_have_whole_chunks_and_bounds_of_the_shard_key(
    scripted_server: ScriptedServer, key: dict[str, Any], count: int
) -> None:
    router = Router(scripted_server, key)

    parts = parts_of(scripted_server, count, by="chunks")

    assert len(parts) == count
    cuts = [5 * place // count for place in range(count + 1)]
    assert [part.low and part.low["customer"] for part in parts] == [
        None,
        *(BOUNDS[cut] for cut in cuts[1:-1]),
    ]
    assert [part.high and part.high["customer"] for part in parts] == [
        *(BOUNDS[cut] for cut in cuts[1:-1]),
        None,
    ]
    shards = [{f"s{n // 2}" for n in range(low, high)} for low, high in pairwise(cuts)]
    assert [part.shard for part in parts] == [each.pop() if len(each) == 1 else None for each in shards]
    read = [command for command in router.finds if "singleBatch" not in command]
    assert all(command["filter"] == {"total": 1} for command in read)
    if count > 1:
        assert all(command["hint"] == key for command in read)
        assert [("min" in command, "max" in command) for command in read] == [
            (place > 0, place < count - 1) for place in range(count)
        ]


def test_auto_takes_the_chunk_map_if_it_has_enough_chunks(scripted_server: ScriptedServer) -> None:
    Router(scripted_server, {"customer": 1})

    assert "customer" in parts_of(scripted_server, 5)[1].low
    assert "_id" in parts_of(scripted_server, 6)[1].low
    assert "_id" in parts_of(scripted_server, 5, by="sample")[1].low


LACKS: dict[str, dict[str, Any]] = {
    "it is not sharded": {"is_sharded": False},
    "no index has exactly the fields": {"index": {"customer": 1, "day": 1}},
}


@pytest.mark.parametrize("problem", LACKS)
def test_without_a_usable_map_auto_samples_and_chunks_raises(
    scripted_server: ScriptedServer, problem: str
) -> None:
    Router(scripted_server, {"customer": 1}, **LACKS[problem])

    assert "_id" in parts_of(scripted_server, 2)[1].low
    with pytest.raises(ConfigurationError, match=f"{problem}.*use by="):
        parts_of(scripted_server, 2, by="chunks")


def test_map_that_may_not_be_read_is_done_without_unless_it_is_asked_for(
    scripted_server: ScriptedServer,
) -> None:
    Router(scripted_server, {"customer": 1}, failure={"code": 13, "errmsg": "not authorized on config"})

    assert "_id" in parts_of(scripted_server, 2)[1].low
    with pytest.raises(OperationFailure, match="not authorized on config"):
        parts_of(scripted_server, 2, by="chunks")
