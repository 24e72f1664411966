"""Websessions in the memory of one process: for tests and development, and as the definition of a store.

Everything happens between two awaits, so nothing needs a lock on a loop; threads share one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from mangonel.websessions.record import Record

__all__ = ["BlockingMemoryStore", "MemoryStore"]

# How many records to check for every record that is inserted.
SWEEP = 4


class BlockingMemoryStore:
    """A dict with a purge."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        import time

        self.records: dict[bytes, Record] = {}
        self._clock = clock or time.time
        self._lock = threading.Lock()
        self._sweep: list[bytes] = []

    def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        return self.records.get(key)

    def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        with self._lock:
            stored = self.records.get(record.key)
            if (stored.version if stored is not None else 0) != expected:
                return False
            self.records[record.key] = record
        if not expected:
            self._sweep_some()
        return True

    def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires`."""
        with self._lock:
            stored = self.records.get(key)
            if stored is None:
                return False
            self.records[key] = msgspec.structs.replace(stored, expires=expires)
            return True

    def delete(self, *keys: bytes) -> int:
        """Remove records."""
        return sum(self.records.pop(key, None) is not None for key in keys)

    def find(self, user: str) -> list[Record]:
        """Return the user's records; scans all records."""
        return [record for record in list(self.records.values()) if record.user == user]

    def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records."""
        dead = [record.key for record in list(self.records.values()) if record.expires < now][:limit]
        return self.delete(*dead)

    def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        records = list(self.records.values())
        return {
            "records": len(records),
            "expired": sum(record.expires < now for record in records),
            "users": len({record.user for record in records if record.user is not None}),
            "bytes": sum(len(record.data) for record in records),
        }

    def _sweep_some(self) -> None:
        # Purges a little at each insert, which checks a few other records, so that no purge has to be called.
        if not self._sweep:
            if len(self.records) < SWEEP:
                return
            self._sweep = list(self.records)
        now = self._clock()
        for key in self._sweep[-SWEEP:]:
            record = self.records.get(key)
            if record is not None and record.expires < now:
                self.records.pop(key, None)
        del self._sweep[-SWEEP:]


class MemoryStore:
    """The same on an event loop; `blocking` is its other face, with the same records.

    Args:
        clock: decides when records have expired; by default the machine's.
        delay: seconds that every call takes, to simulate a slow store.
        fail_after: how many calls succeed before all others fail. None: never fail.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        *,
        delay: float = 0.0,
        fail_after: int | None = None,
        blocking: BlockingMemoryStore | None = None,
    ) -> None:
        self.blocking = blocking or BlockingMemoryStore(clock)
        self.delay = delay
        self.fail_after = fail_after
        self._is_plain = not delay and fail_after is None

    @property
    def records(self) -> dict[bytes, Record]:
        """The stored records by key."""
        return self.blocking.records

    def disturb(self, *, delay: float = 0.0, fail_after: int | None = None) -> None:
        """Set how slow and how reliable the store is from now on.

        Args:
            delay: seconds that each call takes.
            fail_after: how many more calls succeed. None: all of them.

        Example:
            >>> store = MemoryStore()
            >>> store.disturb(fail_after=0)
            >>> await store.get(bytes(32))
            Traceback (most recent call last):
                ...
            ConnectionError: ...
        """
        self.delay, self.fail_after = delay, fail_after
        self._is_plain = not delay and fail_after is None

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        if not self._is_plain:
            await self._suffer()
        return self.blocking.records.get(key)

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        if not self._is_plain:
            await self._suffer()
        return self.blocking.put(record, expected)

    async def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires`."""
        if not self._is_plain:
            await self._suffer()
        return self.blocking.touch(key, expires)

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        if not self._is_plain:
            await self._suffer()
        return self.blocking.delete(*keys)

    async def find(self, user: str) -> list[Record]:
        """Return the user's records."""
        if not self._is_plain:
            await self._suffer()
        return self.blocking.find(user)

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records."""
        return self.blocking.purge(now, limit)

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        return self.blocking.stats(now)

    async def setup(self) -> None:
        """Do nothing: there is no schema."""

    async def aclose(self) -> None:
        """Do nothing: the records stay with the object."""

    async def _suffer(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.fail_after is not None:
            if self.fail_after <= 0:
                raise ConnectionError("the memory store was told to fail")
            self.fail_after -= 1


def from_url(url: Any) -> MemoryStore:
    """Return a store for `memory:`; in one process, all stores with the same URL share their records."""
    url.finish()
    shared = _SHARED.setdefault(url.text, BlockingMemoryStore())
    return MemoryStore(blocking=shared)


def blocking_from_url(url: Any) -> BlockingMemoryStore:
    """Return the same for threads."""
    url.finish()
    return _SHARED.setdefault(url.text, BlockingMemoryStore())


_SHARED: dict[str, BlockingMemoryStore] = {}
