"""Websessions in Redis or Valkey, with redis-py and hiredis.

One string each, in the blob form, with the engine's own expiry. An insert is `SET … NX`; a write is a script that
checks the version at the start of the value. A user's keys are in a sorted set, scored by their deadlines; an end or a
renewal removes the key from it.

A failover may lose the last second of writes, including ends: with `wait=`, an end succeeds only once that many
replicas have it. For one server or Sentinel; `redis_cluster.py` is for a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from typing import Any

from redis import BlockingConnectionPool, Redis
from redis.asyncio import BlockingConnectionPool as AsyncPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.exceptions import NoScriptError
from redis.sentinel import Sentinel

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record, pack_record, stored_record
from mangonel.websessions.stores._threads import FindsOnThreads, NeverSuspends
from mangonel.websessions.stores.tls import take_tls
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["BlockingRedisStore", "RedisStore"]

TIMEOUT = 5.0
# Shorter than the client's timeout for any reply.
WAIT_MS = 4000
CONNECTIONS = 50
# For clients that raise instead of waiting for a connection.
MOST_CONNECTIONS = 1024

SENTINEL = ("redis+sentinel", "rediss+sentinel")
SENTINEL_PORT = 26379

PUT = b"""
if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end
local found = 1
if ARGV[5] and not KEYS[2] then
  -- The user comes after the data and two times; the engine's own reader knows no binary data.
  local value = redis.call('GET', KEYS[1])
  local function number(from, bytes)
    local sum = 0
    for at = from, from + bytes - 1 do sum = sum * 256 + string.byte(value, at) end
    return sum
  end
  local width = 2 ^ (string.byte(value, 18) - 0xc4)
  local at = 19 + width + number(19, width) + 18
  local kind, user = string.byte(value, at), nil
  if kind >= 0xa0 and kind <= 0xbf then user = string.sub(value, at + 1, at + kind - 0xa0)
  elseif kind == 0xd9 then user = string.sub(value, at + 2, at + 1 + number(at + 1, 1))
  elseif kind == 0xda then user = string.sub(value, at + 3, at + 2 + number(at + 1, 2)) end
  if user then
    -- In a cluster the user's set is elsewhere, and the caller takes the key out of it.
    if ARGV[4] == '' then found = user else redis.call('ZREM', ARGV[4] .. user, ARGV[5]) end
  end
end
redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
if KEYS[2] then
  local now = redis.call('TIME')
  redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now[1] * 1000)
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
  if redis.call('PEXPIRETIME', KEYS[2]) < tonumber(ARGV[4]) then redis.call('PEXPIREAT', KEYS[2], ARGV[4]) end
end
return found
"""
TOUCH = b"""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SETRANGE', KEYS[1], 8, ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
return 1
"""


class _Commands:
    """The commands, and the meaning of their replies; the same for both faces."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.encode()
        self.users = self.prefix + b"user:"

    def name(self, key: bytes) -> bytes:
        """Return the name of a record."""
        return self.prefix + key

    def insert(self, record: Record) -> tuple[Any, ...]:
        """Return the command of an insert without a user."""
        return (
            "SET",
            self.prefix + record.key,
            pack_record(record),
            "NX",
            "PXAT",
            milliseconds(record.expires),
        )

    def script(self, record: Record, expected: int) -> tuple[Any, ...]:
        """Return the keys and arguments of PUT."""
        version = expected.to_bytes(8, "big") if expected else b""
        first = (version, pack_record(record), milliseconds(record.expires))
        if record.user is None:
            # The trace of a user's websession leaves the user's set.
            leaves = (self.users, record.key) if record.next is not None and expected else ()
            return (1, self.prefix + record.key, *first, *leaves)
        names = (self.prefix + record.key, self.users + record.user.encode())
        return (2, *names, *first, milliseconds(record.deadline), record.key)

    def touch(self, key: bytes, expires: float) -> tuple[Any, ...]:
        """Return the keys and arguments of TOUCH."""
        at = milliseconds(expires)
        return (1, self.prefix + key, at.to_bytes(8, "big", signed=True), at)


def milliseconds(seconds: float) -> int:
    # Redis refuses zero and negative times, although they only mean the past.
    return max(round(seconds * 1000), 1)


PUT_SHA = sha1(PUT).hexdigest()
TOUCH_SHA = sha1(TOUCH).hexdigest()


class RedisFlows:
    """The flows of both faces, over a client's `_send` and `_execute`."""

    def __init__(
        self, client: Any, *, prefix: str = "websession:", wait: int = 0, others: Sequence[Any] = ()
    ) -> None:
        self._client = client
        self._others = others
        self._commands = _Commands(prefix)
        self._wait = wait

    async def get(self, key: bytes) -> Record | None:
        """Return the record."""
        return stored_record(key, await self._send("GET", self._commands.prefix + key))

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        waits = self._wait and record.is_final
        if not expected and record.user is None:
            send = self._send_and_wait if waits else self._send
            return await send(*self._commands.insert(record)) is not None
        arguments = self._commands.script(record, expected)
        if waits:
            return bool(await self._send_and_wait("EVAL", PUT, *arguments))
        return bool(await self._run(PUT, PUT_SHA, arguments))

    async def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires`."""
        return bool(await self._run(TOUCH, TOUCH_SHA, self._commands.touch(key, expires)))

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        send = self._send_and_wait if self._wait else self._send
        return int(await send("DEL", *map(self._commands.name, keys)))

    async def find(self, user: str) -> list[Record]:
        """Return the user's records, and remove keys of records that are gone."""
        name = self._commands.users + user.encode()
        keys = await self._send("ZRANGE", name, 0, -1)
        if not keys:
            return []
        values = await self._send("MGET", *map(self._commands.name, keys))
        found = [stored_record(key, value) for key, value in zip(keys, values, strict=True)]
        gone = [key for key, record in zip(keys, found, strict=True) if record is None or record.user != user]
        if gone:
            await self._send("ZREM", name, *gone)
        return [record for record in found if record is not None and record.user == user]

    async def setup(self) -> None:
        """Load the scripts."""
        for script in (PUT, TOUCH):
            await self._send("SCRIPT", "LOAD", script)

    async def _run(self, script: bytes, sha: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return await self._send("EVALSHA", sha, *arguments)
        except NoScriptError:
            return await self._send("EVAL", script, *arguments)

    async def _send_and_wait(self, *arguments: Any) -> Any:
        # On one connection: WAIT covers the writes of its own connection.
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command(*arguments)
        pipeline.execute_command("WAIT", self._wait, WAIT_MS)
        answer, heard = await self._execute(pipeline)
        judge(heard, self._wait)
        return answer

    async def _send(self, *arguments: Any) -> Any:
        """Send a command; return its reply."""
        raise NotImplementedError

    async def _execute(self, pipeline: Any) -> Any:
        """Send a pipeline; return its replies."""
        raise NotImplementedError


class RedisStore(RedisFlows):
    """Websessions in Redis, on an event loop.

    Args:
        client: a `redis.asyncio.Redis` that does not decode responses.
        prefix: prefix of every key.
        wait: how many replicas must have received an end before it succeeds; 0: none.
        others: other clients to close with this one, such as Sentinel's.
    """

    def __init__(
        self, client: Any, *, prefix: str = "websession:", wait: int = 0, others: Sequence[Any] = ()
    ) -> None:
        super().__init__(client, prefix=prefix, wait=wait, others=others)
        self._send = client.execute_command  # type: ignore[method-assign]

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts, by scanning all keys."""
        records = users = 0
        async for name in self._client.scan_iter(match=self._commands.prefix + b"*", count=1000):
            if name.startswith(self._commands.users):
                users += 1
            else:
                records += 1
        return {"records": records, "users": users}

    async def aclose(self) -> None:
        """Close the connections."""
        for client in (self._client, *self._others):
            await client.aclose(close_connection_pool=True)

    async def _execute(self, pipeline: Any) -> Any:
        return await pipeline.execute()


class RedisInThreads(NeverSuspends, RedisFlows):
    """The same flows over a client that waits in the thread."""

    async def aclose(self) -> None:
        """Close the connections."""
        for client in (self._client, *self._others):
            client.close()
            client.connection_pool.disconnect()

    async def _send(self, *arguments: Any) -> Any:
        return self._client.execute_command(*arguments)

    async def _execute(self, pipeline: Any) -> Any:
        return pipeline.execute()


class BlockingRedisStore(FindsOnThreads):
    """The same for threads, with a `redis.Redis`."""

    def __init__(
        self, client: Any, *, prefix: str = "websession:", wait: int = 0, others: Sequence[Any] = ()
    ) -> None:
        super().__init__(RedisInThreads(client, prefix=prefix, wait=wait, others=others))


def judge(heard: int, wanted: int) -> None:
    """Raise if too few replicas have received an end."""
    if heard < wanted:
        raise ConnectionError(f"expected {wanted} replicas to have the end of a websession, {heard} do")


def from_url(url: StoreURL) -> RedisStore:
    """Return a store for `redis://`, `rediss://`, `valkey://`, `valkeys://`, `unix://`, and for Sentinel.

    Options: prefix, wait, connections, timeout, db, and tls, tlsCAFile, tlsCertificateKeyFile.
    """
    found: RedisStore = _opened(url, RedisStore, AsyncSentinel, AsyncRedis, AsyncPool)
    return found


def blocking_from_url(url: StoreURL) -> BlockingRedisStore:
    """Return the same for threads."""
    found: BlockingRedisStore = _opened(url, BlockingRedisStore, Sentinel, Redis, BlockingConnectionPool)
    return found


def _opened(url: StoreURL, store: Any, sentinel: Any, client: Any, pool: Any) -> Any:
    if url.scheme in SENTINEL:
        group = Group(url, SENTINEL_PORT)
        watched = sentinel(group.hosts, sentinel_kwargs=group.sentinel, **group.keywords)
        return store(watched.master_for(group.service), others=watched.sentinels, **group.own)
    text, own, options = _parts(url)
    return store(client(connection_pool=pool.from_url(text, **options)), **own)


class Group:
    """The parts of a URL with several servers: `scheme://user:password@a:1,b:2/service/db?…`.

    Attributes:
        hosts: addresses.
        service: Sentinel's name for the servers; "" for a cluster.
        own: arguments of the store.
        keywords: arguments of each client.
        sentinel: arguments of each client of a Sentinel.
    """

    def __init__(self, url: StoreURL, port: int) -> None:
        self.hosts = [_address(url, each, port) for each in url.netloc.rpartition("@")[2].split(",")]
        self.own: dict[str, Any] = {
            "prefix": url.take("prefix", "websession:"),
            "wait": url.take("wait", 0, int),
        }
        timeout = url.take("timeout", TIMEOUT, float)
        times = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "protocol": 2}
        connections = url.take("connections", MOST_CONNECTIONS, int)
        self.keywords: dict[str, Any] = {**times, "max_connections": connections}
        self.keywords |= {"username": url.user, "password": url.password}
        parts = [part for part in url.path.split("/") if part]
        self.service = ""
        self.sentinel: dict[str, Any] = {}
        if url.scheme in SENTINEL:
            self.service = parts.pop(0) if parts else "mymaster"
            if parts:
                self.keywords["db"] = int(parts.pop(0)) if parts[0].isdigit() else parts[0]
            known = (url.take("sentinelUser", None), url.take("sentinelPassword", None))
            self.sentinel = {**times, "username": known[0], "password": known[1]}
        if parts or isinstance(self.keywords.get("db"), str):
            shape = "/service/db" if url.scheme in SENTINEL else "no path, as a cluster has one database"
            raise UsageError(f"expected {shape} in the store's URL, got {url.path!r}")
        tls = take_tls(url, secure=url.scheme.startswith("rediss"))
        url.finish()
        if tls is not None:
            secured = {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
            secured |= {"ssl_ca_certs": tls.ca, "ssl_certfile": tls.pair, "ssl_keyfile": tls.pair}
            self.keywords |= secured
            self.sentinel |= secured


def _address(url: StoreURL, text: str, port: int) -> tuple[str, int]:
    host, _, number = text.rpartition(":")
    if not host or number.endswith("]"):
        host, number = text, str(port)
    if not host or not number.isdigit():
        raise UsageError(f"expected the store's URL as {url.scheme}://a:1,b:2, got {text!r} among the hosts")
    return host.strip("[]"), int(number)


def _parts(url: StoreURL) -> tuple[str, dict[str, Any], dict[str, Any]]:
    own = {"prefix": url.take("prefix", "websession:"), "wait": url.take("wait", 0, int)}
    timeout = url.take("timeout", TIMEOUT, float)
    pool = {
        "max_connections": url.take("connections", CONNECTIONS, int),
        "timeout": timeout,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        # The older protocol is faster here, and sufficient.
        "protocol": 2,
    }
    database = url.take("db", None, int)
    if database is not None:
        pool["db"] = database
    tls = take_tls(url, secure=url.scheme in ("rediss", "valkeys"))
    url.finish()
    if tls is not None and url.scheme == "unix":
        raise UsageError("expected no TLS options with a Unix socket in the store's URL")
    text = url.without_query()
    if tls is not None:
        pool |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
        pool |= {"ssl_ca_certs": tls.ca, "ssl_certfile": tls.pair, "ssl_keyfile": tls.pair}
        text = f"rediss:{text.partition(':')[2]}"
    elif url.scheme == "valkey":
        text = f"redis:{text.partition(':')[2]}"
    return text, own, pool
