"""What a store is: four methods, and capabilities that an engine has or has not. Knows no engine.

A store judges no time and no user: everything that matters for security stands above it, in the flows. What an engine
cannot do is a missing capability, never an approximation.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mangonel.websessions.record import Record

__all__ = ["BlockingStore", "Finds", "Manages", "Purges", "Stats", "Store"]


class Store(Protocol):
    """A store on an event loop. Whatever it raises is taken for "the store is down"."""

    async def get(self, key: bytes) -> Record | None:
        """Return the record, perhaps an expired one, or None.

        Args:
            key: SHA-256 of the cookie's token, 32 bytes.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> store = MemoryStore()
            >>> await store.get(bytes(32)) is None
            True
        """

    async def put(self, record: Record, expected: int) -> bool:
        """Write the record if the stored version is `expected`; 0 means absent.

        Args:
            record: the whole record; its version is already the new one.
            expected: the version that must be stored now; 0: none may be there.

        Returns:
            False when somebody was faster, or the record is gone. Nothing was written then.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> record = Record(bytes(32), b"", 1, created=0.0, expires=9e9, deadline=9e9, issued=0.0)
            >>> store = MemoryStore()
            >>> await store.put(record, 0), await store.put(record, 0)
            (True, False)
        """

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `expires` and nothing else. False: gone.

        Args:
            key: as for `get`.
            expires: seconds since the epoch.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> await MemoryStore().touch(bytes(32), 9e9)
            False
        """

    async def delete(self, *keys: bytes) -> int:
        """Remove records; return how many were there.

        Args:
            keys: as for `get`.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> await MemoryStore().delete(bytes(32))
            0
        """


class BlockingStore(Protocol):
    """The same for threads."""

    def get(self, key: bytes) -> Record | None:
        """As `Store.get`."""

    def put(self, record: Record, expected: int) -> bool:
        """As `Store.put`."""

    def touch(self, key: bytes, expires: float) -> bool:
        """As `Store.touch`."""

    def delete(self, *keys: bytes) -> int:
        """As `Store.delete`."""


@runtime_checkable
class Finds(Protocol):
    """Capability: knows a user's records."""

    async def find(self, user: str) -> list[Record]:
        """Return the user's records; expired and ended ones may be among them.

        Args:
            user: as it was given to `login`.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> await MemoryStore().find("ada")
            []
        """


@runtime_checkable
class Purges(Protocol):
    """Capability: an engine without native expiry."""

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove at most `limit` records that expired before `now`; return how many.

        Args:
            now: seconds since the epoch.
            limit: how many at once.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> await MemoryStore().purge(2e9)
            0
        """


@runtime_checkable
class Stats(Protocol):
    """Capability: can count what it holds."""

    async def stats(self, now: float) -> dict[str, int]:
        """Return figures by name: records, expired, users, bytes, as far as the engine knows.

        Args:
            now: seconds since the epoch.

        Raises:
            Exception: whatever the engine raises; it is taken for "the store is down".

        Example:
            >>> (await MemoryStore().stats(2e9))["records"]
            0
        """


@runtime_checkable
class Manages(Protocol):
    """Capability: has a schema or connections."""

    async def setup(self) -> None:
        """Make tables and indexes. May be called again and by several processes."""

    async def aclose(self) -> None:
        """Close connections."""


class Immediate:
    """A blocking store behind the asynchronous names: its coroutines never suspend, so `finished` can run a flow."""

    def __init__(self, store: BlockingStore) -> None:
        self.store = store

    async def get(self, key: bytes) -> Record | None:
        """As `Store.get`."""
        return self.store.get(key)

    async def put(self, record: Record, expected: int) -> bool:
        """As `Store.put`."""
        return self.store.put(record, expected)

    async def touch(self, key: bytes, expires: float) -> bool:
        """As `Store.touch`."""
        return self.store.touch(key, expires)

    async def delete(self, *keys: bytes) -> int:
        """As `Store.delete`."""
        return self.store.delete(*keys)


class ImmediateFinds(Immediate):
    """The same for a store that knows a user's records."""

    async def find(self, user: str) -> list[Record]:
        """As `Finds.find`."""
        found: list[Record] = self.store.find(user)  # type: ignore[attr-defined]
        return found


def immediate(store: BlockingStore) -> Immediate:
    """Return the store behind the asynchronous names, with `find` where it has it."""
    return ImmediateFinds(store) if hasattr(store, "find") else Immediate(store)
