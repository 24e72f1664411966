"""A router of a sharded cluster: a real mongod stores the documents and runs the commands, a script provides the chunk
map.

    with Router(mongod.port, "shop.orders", {"customer": 1}, [MinKey(), 10, 20, MaxKey()]) as router:
        client = MongoClient(router.uri)

No sharded cluster runs here. Orphans and chunks that move are in tests/partitions/test_two_shards.py; merged cursors
are not shown.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from bson import Binary, Int64

from tools.messages import HEADER, Request, read_exactly
from tools.scripted_server import Action, Raw, ScriptedServer

__all__ = ["Router", "shard_of"]

UUID = Binary(b"\x07" * 16, 4)


def shard_of(chunk: int) -> str:
    """Return the name of the shard that has a chunk: each has two neighbours."""
    return f"s{chunk // 2}"


class Router(ScriptedServer):
    """Answers as a mongos with one sharded collection.

    Args:
        port: of the mongod, on loopback.
        namespace: the sharded collection.
        key: its shard key. An index on it is the test's to make.
        bounds: of the chunks, in order; the same value for each field of the key.
        is_sharded: whether the chunk map has the collection.
        failure: the answer to every read of the chunk map.
    """

    def __init__(
        self,
        port: int,
        namespace: str,
        key: Mapping[str, Any],
        bounds: Sequence[Any],
        *,
        is_sharded: bool = True,
        failure: Mapping[str, Any] | None = None,
    ) -> None:
        self._mongod = "127.0.0.1", port
        self._lines: dict[int, socket.socket] = {}
        self._namespace, self._key, self._bounds = namespace, dict(key), bounds
        self._is_sharded, self._failure = is_sharded, failure
        super().__init__(hello={"msg": "isdbgrid"})
        # Cursors are the mongod's.
        del self._always["killCursors"]

    @property
    def uri(self) -> str:
        """Return a URI by which a client discovers a sharded cluster of one router."""
        return f"mongodb://{self.address}/"

    def stop(self) -> None:
        """Stop, and close the connections to the mongod."""
        try:
            super().stop()
        finally:
            for line in self._lines.values():
                line.close()

    def _default(self, request: Request) -> Action:
        if request.name in ("hello", "isMaster", "ismaster"):
            return super()._default(request)
        if request.name == "find" and request.command["$db"] == "config":
            return self._failure or self._chunk_map(request.command)
        return Raw(self._forward(request))

    def _chunk_map(self, command: Mapping[str, Any]) -> dict[str, Any]:
        if command["find"] == "collections":
            assert command["filter"]["_id"] == self._namespace
            found = [{"_id": self._namespace, "uuid": UUID, "key": self._key}] if self._is_sharded else []
        else:
            assert command["find"] == "chunks"
            assert command["filter"]["$or"][0] == {"uuid": UUID}
            assert command["sort"] == {"min": 1}
            found = [
                {
                    "min": dict.fromkeys(self._key, low),
                    "max": dict.fromkeys(self._key, high),
                    "shard": shard_of(chunk),
                }
                for chunk, (low, high) in enumerate(pairwise(self._bounds))
            ]
        name = f"config.{command['find']}"
        return {"ok": 1, "cursor": {"id": Int64(0), "ns": name, "firstBatch": found}}

    def _forward(self, request: Request) -> bytes:
        """Return the mongod's reply."""
        assert not request.is_unacknowledged, f"{request.name} has no answer to wait for"
        line = self._lines.get(request.connection)
        if line is None:
            line = self._lines[request.connection] = socket.create_connection(self._mongod)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(request.raw)
        head = read_exactly(line, HEADER.size)
        with contextlib.suppress(struct.error):
            return head + read_exactly(line, HEADER.unpack(head)[0] - HEADER.size)
        raise ConnectionError("the mongod closed the connection")
