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
        """Return the record, perhaps an expired one, or None."""

    async def put(self, record: Record, expected: int) -> bool:
        """Write the record if the stored version is `expected`; 0 means absent.

        Returns:
            False when somebody was faster, or the record is gone. Nothing was written then.
        """

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `expires` and nothing else. False: gone."""

    async def delete(self, *keys: bytes) -> int:
        """Remove records; return how many were there."""


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
        """Return the user's records; expired and ended ones may be among them."""


@runtime_checkable
class Purges(Protocol):
    """Capability: an engine without native expiry."""

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove at most `limit` records that expired before `now`; return how many."""


@runtime_checkable
class Stats(Protocol):
    """Capability: can count what it holds."""

    async def stats(self, now: float) -> dict[str, int]:
        """Return figures by name: records, expired, users, bytes, as far as the engine knows."""


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
