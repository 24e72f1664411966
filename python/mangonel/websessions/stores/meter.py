"""A store that counts and times the calls of another: for events, and for tests that assert counts."""

from __future__ import annotations

import time
from typing import Any

from mangonel.websessions.record import Record

__all__ = ["Meter"]


class Meter:
    """Passes everything on. `calls` is the total, `by_name` the calls of each method."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.calls = 0
        self.by_name: dict[str, int] = {}
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Seconds since it was created."""
        return time.perf_counter() - self._start

    def _count(self, name: str) -> None:
        self.calls += 1
        self.by_name[name] = self.by_name.get(name, 0) + 1

    async def get(self, key: bytes) -> Record | None:
        """As `Store.get`."""
        self._count("get")
        return await self.store.get(key)

    async def put(self, record: Record, expected: int) -> bool:
        """As `Store.put`."""
        self._count("put")
        return await self.store.put(record, expected)

    async def touch(self, key: bytes, expires: float) -> bool:
        """As `Store.touch`."""
        self._count("touch")
        return await self.store.touch(key, expires)

    async def delete(self, *keys: bytes) -> int:
        """As `Store.delete`."""
        self._count("delete")
        return await self.store.delete(*keys)

    def __getattr__(self, name: str) -> Any:
        # Capabilities: present if the store has them.
        return getattr(self.store, name)
