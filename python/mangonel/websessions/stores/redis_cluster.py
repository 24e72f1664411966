"""Websessions in a Redis or Valkey Cluster, with redis-py.

As `redis.py`, but a user's set and records are in different slots, so no script can change both: a key is added to the
set before its record is written, and removed after the record has ended. `find` removes keys that a crash leaves there;
they also expire. Ending a user's websessions does not depend on the set: the user's epoch is a record like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from hashlib import sha1
from typing import Any, TypeVar, cast

from redis.asyncio.cluster import ClusterNode as AsyncNode
from redis.asyncio.cluster import PipelineCommand
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

from mangonel.websessions.record import Record
from mangonel.websessions.stores.redis import (
    PUT,
    PUT_SHA,
    WAIT_MS,
    BlockingRedisStore,
    Group,
    RedisFlows,
    RedisInThreads,
    RedisStore,
    judge,
    milliseconds,
)
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["BlockingRedisClusterStore", "RedisClusterStore"]

T = TypeVar("T")

PORT = 6379

JOIN = b"""
local now = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now[1] * 1000)
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
if redis.call('PEXPIRETIME', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end
return 1
"""
JOIN_SHA = sha1(JOIN).hexdigest()


def _put(store: Any, record: Record, expected: int) -> tuple[Any, ...]:
    """Return the keys and arguments of PUT for a record alone."""
    arguments: tuple[Any, ...] = store._commands.script(record, expected)
    if record.user is not None:
        _, name, _, *first = arguments
        return (1, name, *first[:3])
    # With an empty prefix for users, the script returns the record's former user.
    return arguments[:5] + (("", record.key) if len(arguments) > 5 else ())


def _first_key(arguments: tuple[Any, ...]) -> bytes:
    # After EVAL's script and the number of its keys.
    return arguments[3 if arguments[0] == "EVAL" else 1]


class _ClusterFlows(RedisFlows):
    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        if not expected and record.user is None:
            return await super().put(record, expected)
        if record.user is not None:
            name = self._commands.users + record.user.encode()
            await self._run(JOIN, JOIN_SHA, (1, name, milliseconds(record.deadline), record.key))
        if self._wait and record.is_final:
            done = await self._send_and_wait("EVAL", PUT, *_put(self, record, expected))
        else:
            done = await self._run(PUT, PUT_SHA, _put(self, record, expected))
        if isinstance(done, bytes):
            await self._send("ZREM", self._commands.users + done, record.key)
        return bool(done)

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        send = self._send_and_wait if self._wait else self._send
        return sum(await self._all(send("DEL", self._commands.name(key)) for key in keys))

    async def find(self, user: str) -> list[Record]:
        """Return the user's records, and remove keys of records that are gone."""
        name = self._commands.users + user.encode()
        found = await self._all(map(self.get, keys := await self._send("ZRANGE", name, 0, -1)))
        live = [record for record in found if record is not None and record.user == user]
        if gone := set(keys) - {record.key for record in live}:
            await self._send("ZREM", name, *gone)
        return live

    async def _all(self, flows: Iterable[Coroutine[Any, Any, T]]) -> Sequence[T]:
        """Return the results of flows that do not depend on one another."""
        raise NotImplementedError


class RedisClusterStore(_ClusterFlows, RedisStore):
    """Websessions in a cluster, on an event loop; `client` is a `redis.asyncio.RedisCluster`."""

    def __init__(self, client: Any, *, prefix: str = "websession:", wait: int = 0) -> None:
        super().__init__(client, prefix=prefix, wait=wait)
        self._first = asyncio.Lock()
        self._is_connected = False
        self._send = self._send_connected  # type: ignore[method-assign]

    async def _send_connected(self, *arguments: Any) -> Any:
        # Several concurrent first commands would break each other's connections.
        if not self._is_connected:
            async with self._first:
                await self._client.initialize()
                self._is_connected = True
        return await self._client.execute_command(*arguments)

    async def setup(self) -> None:
        """Connect; scripts are sent where they are missing."""
        await self._client.initialize()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _all(self, flows: Iterable[Coroutine[Any, Any, T]]) -> Sequence[T]:
        return await asyncio.gather(*flows)

    async def _send_and_wait(self, *arguments: Any) -> Any:
        key = _first_key(arguments)
        # Follows a redirection here, and remembers it.
        await self._send("EXISTS", key)
        commands = [PipelineCommand(0, *arguments), PipelineCommand(1, "WAIT", self._wait, WAIT_MS)]
        # All on one connection of that node: WAIT covers the writes of its own connection.
        await self._client.get_node_from_key(key).execute_pipeline(commands)
        answer, heard = [command.result for command in commands]
        for result in (answer, heard):
            if isinstance(result, Exception):
                raise result
        judge(cast("int", heard), self._wait)
        return answer


class _InThreads(_ClusterFlows, RedisInThreads):
    async def setup(self) -> None:
        """Do as `RedisClusterStore.setup` does; the client is connected already."""

    async def aclose(self) -> None:
        """Close the connections."""
        self._client.close()

    async def _all(self, flows: Iterable[Coroutine[Any, Any, T]]) -> Sequence[T]:
        return [await flow for flow in flows]

    async def _send_and_wait(self, *arguments: Any) -> Any:
        key = _first_key(arguments)
        await self._send("EXISTS", key)
        server = self._client.get_redis_connection(self._client.get_node_from_key(key))
        return await RedisInThreads(server, wait=self._wait)._send_and_wait(*arguments)


class BlockingRedisClusterStore(BlockingRedisStore):
    """The same for threads, with a `redis.RedisCluster`."""

    def __init__(self, client: Any, *, prefix: str = "websession:", wait: int = 0) -> None:
        self.flows: Any = _InThreads(client, prefix=prefix, wait=wait)


def from_url(url: StoreURL) -> RedisClusterStore:
    """Return a store for `redis+cluster://a:1,b:2`, `rediss+cluster://…`.

    Options: prefix, wait, connections, timeout, and tls, tlsCAFile, tlsCertificateKeyFile.
    """
    found: RedisClusterStore = _opened(url, RedisClusterStore, AsyncCluster, AsyncNode, AsyncRetry)
    return found


def blocking_from_url(url: StoreURL) -> BlockingRedisClusterStore:
    """Return the same for threads. Connects, as its client does."""
    found: BlockingRedisClusterStore = _opened(
        url, BlockingRedisClusterStore, RedisCluster, ClusterNode, Retry
    )
    return found


def _opened(url: StoreURL, store: Any, cluster: Any, node: Any, retry: Any) -> Any:
    # No client repeats a write by itself: a repeated write would be refused because of the first one.
    group, never = Group(url, PORT), retry(NoBackoff(), 0)
    nodes = [node(host, port) for host, port in group.hosts]
    client = cluster(startup_nodes=nodes, require_full_coverage=False, retry=never, **group.keywords)
    return store(client, **group.own)
