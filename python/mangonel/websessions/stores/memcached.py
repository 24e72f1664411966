"""Websessions in Memcached, with emcache; pymemcache on the blocking face.

One value per websession, in the blob form. An insert is `add`; a write is `gets` and `cas`, two round trips. The expiry
is absolute. Memcached forgets when it is full or restarted, and cannot search by user: pass `epochs=` to be able to end
all of a user's websessions. The two faces distribute keys over several servers by different rules, so with several
servers use only one face.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from binascii import b2a_hex
from typing import Any

import emcache
import msgspec
from emcache.protocol import MemcacheAsciiProtocol

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record, pack_record, stored_record, version_of, with_expires
from mangonel.websessions.stores._threads import NeverSuspends, OnThreads
from mangonel.websessions.stores.tls import TLSFiles, take_tls
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["BlockingMemcachedStore", "MemcachedStore"]

PORT = 11_211
CLOSING = 0.5  # seconds until an attempt that does not end is cancelled again
TIMEOUT = 5.0
CONNECTIONS = 16

# A touch competes only with writers; in each round one of them succeeds.
ROUNDS = 16


def _exptime(expires: float) -> int:
    # Small numbers would mean seconds from now, so the past is a negative number.
    # The protocol's times have 31 bits; later ones are capped, since the flows check times anyway.
    return min(math.ceil(expires), 2**31 - 1) if expires > 2_592_000 else -1


class _Flows:
    """The flows of both faces, over a client with the methods of emcache's."""

    _client: Any
    _prefix: bytes

    async def get(self, key: bytes) -> Record | None:
        """Return the record."""
        item = await (self._client or await self._connect()).get(self._prefix + b2a_hex(key))
        return stored_record(key, item.value) if item is not None else None

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        client = self._client or await self._connect()
        name, value, exptime = (
            self._prefix + b2a_hex(record.key),
            pack_record(record),
            _exptime(record.expires),
        )
        try:
            if not expected:
                await client.add(name, value, exptime=exptime)
                return True
            item = await client.gets(name)
            if item is None or version_of(item.value) != expected:
                return False
            await client.cas(name, value, item.cas, exptime=exptime)
        except emcache.StorageCommandError:
            return False
        return True

    async def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires`, which is in the value too."""
        client = self._client or await self._connect()
        name = self._prefix + b2a_hex(key)
        for _ in range(ROUNDS):
            item = await client.gets(name)
            if item is None:
                return False
            try:
                await client.cas(name, with_expires(item.value, expires), item.cas, exptime=_exptime(expires))
            except emcache.StorageCommandError:
                continue
            return True
        return True  # all of these writers have moved it themselves

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        client = self._client or await self._connect()
        removed = 0
        for key in keys:
            try:
                await client.delete(self._prefix + b2a_hex(key))
            except emcache.CommandError:
                continue
            removed += 1
        return removed

    async def _connect(self) -> Any:
        """Return a client for the first call."""
        raise NotImplementedError


class MemcachedStore(_Flows):
    """Websessions in Memcached, on an event loop.

    Args:
        hosts: pairs of host and port.
        prefix: prefix of every key.
        timeout: seconds for each call.
        connections: the most connections to each server.
        tls: the files for TLS. None: no TLS.
    """

    def __init__(
        self,
        hosts: list[tuple[str, int]],
        *,
        prefix: str = "websession:",
        timeout: float = TIMEOUT,
        connections: int = CONNECTIONS,
        tls: TLSFiles | None = None,
    ) -> None:
        self._addresses = hosts
        self._context: Any = tls.context() if tls is not None else None
        self._hosts = [emcache.MemcachedHostAddress(host, port) for host, port in hosts]
        self._prefix = prefix.encode()
        self._timeout = timeout
        self._connections = connections
        self._client = None
        self._lock = asyncio.Lock()

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is None:
            return
        closing = asyncio.ensure_future(client.close())
        # emcache cancels its attempt to connect and waits for it; an attempt that fails at that moment would never end.
        while not (await asyncio.wait([closing], timeout=CLOSING))[0]:
            closing.cancel()
        if not closing.cancelled():
            closing.result()

    async def _connect(self) -> Any:
        async with self._lock:
            if self._client is None:
                if self._context is not None:
                    _let_contexts_through()
                    await asyncio.gather(*(self._shake_hands(*address) for address in self._addresses))
                self._client = await emcache.create_client(
                    self._hosts,
                    timeout=self._timeout,
                    max_connections=self._connections,
                    purge_unused_connections_after=None,
                    ssl=self._context or False,
                )
        return self._client

    async def _shake_hands(self, host: str, port: int) -> None:
        """Raise for an invalid server certificate; emcache would only log it and let the caller wait."""
        opening = asyncio.open_connection(host, port, ssl=self._context)
        try:
            _, writer = await asyncio.wait_for(opening, self._timeout)
        except ssl.SSLError:
            raise
        except (OSError, TimeoutError):
            return  # one of several servers may be down; emcache judges that
        writer.close()


class _Item(msgspec.Struct):
    value: bytes
    cas: Any = None


class _Awaited:
    """A client of pymemcache with emcache's methods, which do not suspend here."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def get(self, name: bytes) -> _Item | None:
        value = self.client.get(name)
        return _Item(value) if value is not None else None

    async def gets(self, name: bytes) -> _Item | None:
        value, token = self.client.gets(name)
        return _Item(value, token) if value is not None else None

    async def add(self, name: bytes, value: bytes, *, exptime: int) -> None:
        if not self.client.add(name, value, expire=exptime, noreply=False):
            raise emcache.StorageCommandError

    async def cas(self, name: bytes, value: bytes, token: Any, *, exptime: int) -> None:
        if not self.client.cas(name, value, token, expire=exptime, noreply=False):
            raise emcache.StorageCommandError

    async def delete(self, name: bytes) -> None:
        if not self.client.delete(name, noreply=False):
            raise emcache.CommandError


class _InThreads(NeverSuspends, _Flows):
    def __init__(self, client: Any, prefix: str) -> None:
        self._client = _Awaited(client)
        self._prefix = prefix.encode()

    async def aclose(self) -> None:
        """Close the connections."""
        self._client.client.close()


class BlockingMemcachedStore(OnThreads):
    """The same for threads, with pymemcache."""

    def __init__(self, client: Any, *, prefix: str = "websession:") -> None:
        super().__init__(_InThreads(client, prefix))


def from_url(url: StoreURL) -> MemcachedStore:
    """Return a store for `memcached://host,host:11212?prefix=…&timeout=…&connections=…`.

    Over TLS with `tls=1`, `tlsCAFile=…`, `tlsCertificateKeyFile=…`.
    """
    hosts = _hosts(url)
    prefix, timeout = url.take("prefix", "websession:"), url.take("timeout", TIMEOUT, float)
    connections, tls = url.take("connections", CONNECTIONS, int), take_tls(url)
    url.finish()
    return MemcachedStore(hosts, prefix=prefix, timeout=timeout, connections=connections, tls=tls)


def blocking_from_url(url: StoreURL) -> BlockingMemcachedStore:
    """Return the same for threads."""
    from pymemcache import HashClient, PooledClient

    hosts = _hosts(url)
    prefix, timeout = url.take("prefix", "websession:"), url.take("timeout", TIMEOUT, float)
    options = {
        "max_pool_size": url.take("connections", CONNECTIONS, int),
        "timeout": timeout,
        "connect_timeout": timeout,
        "no_delay": True,
    }
    tls = take_tls(url)
    if tls is not None:
        options["tls_context"] = tls.context()
    url.finish()
    client: Any
    client = (
        PooledClient(hosts[0], **options)
        if len(hosts) == 1
        else HashClient(hosts, use_pooling=True, **options)
    )
    return BlockingMemcachedStore(client, prefix=prefix)


def _let_contexts_through() -> None:
    """Make emcache's pools accept a TLS context in place of a flag.

    Otherwise, with a custom CA, emcache would check no host name, and also trust the system's authorities.
    """
    from emcache import connection_pool

    pools: Any = connection_pool
    create = pools.create_protocol
    if getattr(create, "takes_contexts", False):
        return

    async def create_protocol(address: Any, *arguments: Any, **keywords: Any) -> Any:
        context = keywords.get("ssl")
        if not isinstance(context, ssl.SSLContext):
            return await create(address, *arguments, **keywords)
        opening = asyncio.get_running_loop().create_connection(
            MemcacheAsciiProtocol, address.address, address.port, ssl=context
        )
        _, protocol = await asyncio.wait_for(opening, keywords.get("timeout"))
        return protocol

    create_protocol.takes_contexts = True  # type: ignore[attr-defined]
    pools.create_protocol = create_protocol


def _hosts(url: StoreURL) -> list[tuple[str, int]]:
    if url.user or url.password:
        raise UsageError("the memcached store knows no user and password")
    hosts = []
    for part in (url.netloc or "localhost").split(","):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, str(PORT)
        if not port.isdigit():
            raise UsageError(f"expected host or host:port in the store's URL, got {part!r}")
        hosts.append((host.strip("[]") or "localhost", int(port)))
    return hosts
