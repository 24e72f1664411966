"""The placeholder store of `cookie:`: the websession is in its cookie, sealed; see `stateless.py`.

A call that reaches it is a bug of ours.
"""

from __future__ import annotations

from mangonel.websessions.record import Record
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["NoStore"]


class NoStore:
    """Has no records, and so no capabilities."""

    async def get(self, key: bytes) -> Record | None:
        """Never called."""
        raise AssertionError("a websession in a cookie asked a store")

    async def put(self, record: Record, expected: int) -> bool:
        """Never called."""
        raise AssertionError("a websession in a cookie asked a store")

    async def touch(self, key: bytes, expires: float) -> bool:
        """Never called."""
        raise AssertionError("a websession in a cookie asked a store")

    async def delete(self, *keys: bytes) -> int:
        """Never called."""
        raise AssertionError("a websession in a cookie asked a store")


def from_url(url: StoreURL) -> NoStore:
    """Return the placeholder store for `cookie:`."""
    url.finish()
    return NoStore()


def blocking_from_url(url: StoreURL) -> NoStore:
    """Return the placeholder store for `cookie:`."""
    url.finish()
    return NoStore()
