"""The interface of a store: four methods, and optional capabilities. Knows no engine.

A store judges neither times nor users: the flows make all security decisions. An engine that cannot do something lacks
the capability; it never approximates.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mangonel.websessions.record import Record

__all__ = ["BlockingStore", "Finds", "Manages", "Purges", "Stats", "Store"]


class Store(Protocol):
    """A store on an event loop. Any exception means that the store failed."""

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired, or None.

        Args:
            key: SHA-256 of the cookie's token, 32 bytes.

        Raises:
            Exception: any error of the engine; it means that the store failed.

        Example:
            >>> store = MemoryStore()
            >>> await store.get(bytes(32)) is None
            True
        """

    async def put(self, record: Record, expected: int) -> bool:
        """Write the record if the stored version is `expected`; 0 means absent.

        Args:
            record: the whole record, with its new version.
            expected: the version that must be stored now; 0 if there must be none.

        Returns:
            False if another request was faster, or the record is gone. Then nothing was written.

        Raises:
            Exception: any error of the engine; it means that the store failed.

        Example:
            >>> record = Record(bytes(32), b"", 1, created=0.0, expires=9e9, deadline=9e9, issued=0.0)
            >>> store = MemoryStore()
            >>> await store.put(record, 0), await store.put(record, 0)
            (True, False)
        """

    async def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires` and nothing else. False: the record is gone.

        Args:
            key: as for `get`.
            expires: seconds since the epoch.

        Raises:
            Exception: any error of the engine; it means that the store failed.

        Example:
            >>> await MemoryStore().touch(bytes(32), 9e9)
            False
        """

    async def delete(self, *keys: bytes) -> int:
        """Remove records; return how many were there.

        Args:
            keys: as for `get`.

        Raises:
            Exception: any error of the engine; it means that the store failed.

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
    """Capability: can find a user's records."""

    async def find(self, user: str) -> list[Record]:
        """Return the user's records; some may have expired or ended.

        Args:
            user: the name passed to `login`.

        Raises:
            Exception: any error of the engine; it means that the store failed.

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
            limit: the most records to remove.

        Raises:
            Exception: any error of the engine; it means that the store failed.

        Example:
            >>> await MemoryStore().purge(2e9)
            0
        """


@runtime_checkable
class Stats(Protocol):
    """Capability: can count its records."""

    async def stats(self, now: float) -> dict[str, int]:
        """Return figures by name: records, expired, users, bytes, as far as the engine knows.

        Args:
            now: seconds since the epoch.

        Raises:
            Exception: any error of the engine; it means that the store failed.

        Example:
            >>> (await MemoryStore().stats(2e9))["records"]
            0
        """


@runtime_checkable
class Manages(Protocol):
    """Capability: has a schema or connections."""

    async def setup(self) -> None:
        """Create tables and indexes. May be called again and by several processes."""

    async def aclose(self) -> None:
        """Close connections."""
