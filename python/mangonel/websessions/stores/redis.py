"""Websessions in Redis or Valkey, by redis-py with hiredis.

One string for each, in the form for blobs, with the engine's own expiry. An insert is `SET … NX`; a write is a script
on the version at the start of the value. A user's keys are in a sorted set, scored by their deadlines; an end or a
renewal takes the key out of it.

A failover may lose the last second of writes, ends included: set `wait=` to hear from so many replicas before an end
counts. One server or Sentinel; in a cluster a user's set and records would have to share a slot, which they do not.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Any

from redis import BlockingConnectionPool, Redis
from redis.asyncio import BlockingConnectionPool as AsyncPool
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import NoScriptError

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import ENDED, Record, pack_record, unpack_record
from mangonel.websessions.stores.tls import take_tls
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["BlockingRedisStore", "RedisStore"]

TIMEOUT = 5.0
CONNECTIONS = 50

PUT = b"""
if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end
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
  if user then redis.call('ZREM', ARGV[4] .. user, ARGV[5]) end
end
redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
if KEYS[2] then
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
  if redis.call('PEXPIRETIME', KEYS[2]) < tonumber(ARGV[4]) then redis.call('PEXPIREAT', KEYS[2], ARGV[4]) end
end
return 1
"""
TOUCH = b"""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SETRANGE', KEYS[1], 8, ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
return 1
"""


class _Commands:
    """What to send, and what the answers mean; the same for both faces."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.encode()
        self.users = self.prefix + b"user:"

    def name(self, key: bytes) -> bytes:
        """The name of a record."""
        return self.prefix + key

    def insert(self, record: Record) -> tuple[Any, ...]:
        """The command of an insert without a user."""
        return (
            "SET",
            self.prefix + record.key,
            pack_record(record),
            "NX",
            "PXAT",
            _milliseconds(record.expires),
        )

    def script(self, record: Record, expected: int) -> tuple[Any, ...]:
        """The keys and arguments of PUT."""
        version = expected.to_bytes(8, "big") if expected else b""
        first = (version, pack_record(record), _milliseconds(record.expires))
        if record.user is None:
            # What is left of a user's websession leaves the user's set.
            leaves = (self.users, record.key) if record.next is not None and expected else ()
            return (1, self.prefix + record.key, *first, *leaves)
        names = (self.prefix + record.key, self.users + record.user.encode())
        return (2, *names, *first, _milliseconds(record.deadline), record.key)

    def touch(self, key: bytes, expires: float) -> tuple[Any, ...]:
        """The keys and arguments of TOUCH."""
        milliseconds = _milliseconds(expires)
        return (1, self.prefix + key, milliseconds.to_bytes(8, "big", signed=True), milliseconds)

    def record(self, key: bytes, value: bytes | None) -> Record | None:
        """The record in a value; somebody else's value is none."""
        if value is None:
            return None
        try:
            return unpack_record(key, value)
        except ValueError:
            return None


def _milliseconds(seconds: float) -> int:
    # Zero and less would be refused rather than be in the past.
    return max(round(seconds * 1000), 1)


PUT_SHA = sha1(PUT).hexdigest()
TOUCH_SHA = sha1(TOUCH).hexdigest()


class RedisStore:
    """Websessions in Redis, on an event loop.

    Args:
        client: a `redis.asyncio.Redis` that does not decode responses.
        prefix: of every key.
        wait: replicas that must have an end before it counts; 0: none.
    """

    def __init__(self, client: Any, *, prefix: str = "websession:", wait: int = 0) -> None:
        self._client = client
        self._send = client.execute_command
        self._commands = _Commands(prefix)
        self._wait = wait

    async def get(self, key: bytes) -> Record | None:
        """Return the record."""
        return self._commands.record(key, await self._send("GET", self._commands.prefix + key))

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        if not expected and record.user is None:
            return await self._send(*self._commands.insert(record)) is not None
        written = bool(await self._run(PUT, PUT_SHA, self._commands.script(record, expected)))
        if self._wait and written and record.next == ENDED:
            await self._wait_for_replicas()
        return written

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `expires`."""
        return bool(await self._run(TOUCH, TOUCH_SHA, self._commands.touch(key, expires)))

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        removed = int(await self._send("DEL", *map(self._commands.name, keys)))
        if self._wait:
            await self._wait_for_replicas()
        return removed

    async def find(self, user: str) -> list[Record]:
        """Return the user's records, and forget those that are no more."""
        name = self._commands.users + user.encode()
        keys = await self._send("ZRANGE", name, 0, -1)
        if not keys:
            return []
        values = await self._send("MGET", *map(self._commands.name, keys))
        found = [self._commands.record(key, value) for key, value in zip(keys, values, strict=True)]
        gone = [key for key, record in zip(keys, found, strict=True) if record is None or record.user != user]
        if gone:
            await self._send("ZREM", name, *gone)
        return [record for record in found if record is not None and record.user == user]

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts, by walking through all keys."""
        records = users = 0
        async for name in self._client.scan_iter(match=self._commands.prefix + b"*", count=1000):
            if name.startswith(self._commands.users):
                users += 1
            else:
                records += 1
        return {"records": records, "users": users}

    async def setup(self) -> None:
        """Load the scripts."""
        for script in (PUT, TOUCH):
            await self._send("SCRIPT", "LOAD", script)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose(close_connection_pool=True)

    async def _run(self, script: bytes, sha: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return await self._send("EVALSHA", sha, *arguments)
        except NoScriptError:
            return await self._send("EVAL", script, *arguments)

    async def _wait_for_replicas(self) -> None:
        heard = int(await self._send("WAIT", self._wait, int(TIMEOUT * 1000)))
        if heard < self._wait:
            raise ConnectionError(
                f"expected {self._wait} replicas to have the end of a websession, {heard} do"
            )


class BlockingRedisStore:
    """The same for threads, with a `redis.Redis`."""

    def __init__(self, client: Any, *, prefix: str = "websession:", wait: int = 0) -> None:
        self._client = client
        self._send = client.execute_command
        self._commands = _Commands(prefix)
        self._wait = wait

    def get(self, key: bytes) -> Record | None:
        """As `RedisStore.get`."""
        return self._commands.record(key, self._send("GET", self._commands.prefix + key))

    def put(self, record: Record, expected: int) -> bool:
        """As `RedisStore.put`."""
        if not expected and record.user is None:
            return self._send(*self._commands.insert(record)) is not None
        written = bool(self._run(PUT, PUT_SHA, self._commands.script(record, expected)))
        if self._wait and written and record.next == ENDED:
            self._wait_for_replicas()
        return written

    def touch(self, key: bytes, expires: float) -> bool:
        """As `RedisStore.touch`."""
        return bool(self._run(TOUCH, TOUCH_SHA, self._commands.touch(key, expires)))

    def delete(self, *keys: bytes) -> int:
        """As `RedisStore.delete`."""
        removed = int(self._send("DEL", *map(self._commands.name, keys)))
        if self._wait:
            self._wait_for_replicas()
        return removed

    def find(self, user: str) -> list[Record]:
        """As `RedisStore.find`."""
        name = self._commands.users + user.encode()
        keys = self._send("ZRANGE", name, 0, -1)
        if not keys:
            return []
        values = self._send("MGET", *map(self._commands.name, keys))
        found = [self._commands.record(key, value) for key, value in zip(keys, values, strict=True)]
        gone = [key for key, record in zip(keys, found, strict=True) if record is None or record.user != user]
        if gone:
            self._send("ZREM", name, *gone)
        return [record for record in found if record is not None and record.user == user]

    def setup(self) -> None:
        """As `RedisStore.setup`."""
        for script in (PUT, TOUCH):
            self._send("SCRIPT", "LOAD", script)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._client.connection_pool.disconnect()

    def _run(self, script: bytes, sha: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return self._send("EVALSHA", sha, *arguments)
        except NoScriptError:
            return self._send("EVAL", script, *arguments)

    def _wait_for_replicas(self) -> None:
        heard = int(self._send("WAIT", self._wait, int(TIMEOUT * 1000)))
        if heard < self._wait:
            raise ConnectionError(
                f"expected {self._wait} replicas to have the end of a websession, {heard} do"
            )


def from_url(url: StoreURL) -> RedisStore:
    """Return a store for `redis://`, `rediss://`, `valkey://`, `valkeys://`, `unix://`.

    Options: prefix, wait, connections, timeout, db, and tls, tlsCAFile, tlsCertificateKeyFile.
    """
    text, own, pool = _parts(url)
    return RedisStore(AsyncRedis(connection_pool=AsyncPool.from_url(text, **pool)), **own)


def blocking_from_url(url: StoreURL) -> BlockingRedisStore:
    """Return the same for threads."""
    text, own, pool = _parts(url)
    return BlockingRedisStore(Redis(connection_pool=BlockingConnectionPool.from_url(text, **pool)), **own)


def _parts(url: StoreURL) -> tuple[str, dict[str, Any], dict[str, Any]]:
    own = {"prefix": url.take("prefix", "websession:"), "wait": url.take("wait", 0, int)}
    timeout = url.take("timeout", TIMEOUT, float)
    pool = {
        "max_connections": url.take("connections", CONNECTIONS, int),
        "timeout": timeout,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        # The older protocol is the faster one here, and all that is needed.
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
