"""Private attributes of collections and cursors that agents wrap and frameworks read; importing this adds them."""

from __future__ import annotations

from typing import Any

from mangonel.api import AsyncCollection, Collection, Cursor


class _Query:
    """For `isinstance` only: this driver makes no instance."""


class _GetMore:
    """For `isinstance` only: this driver makes no instance."""


# Only the blocking class, since agents wrap that one.
_cursor: Any = Cursor
_fetch = _cursor._fetch_once_flow


def _refresh(self: Any) -> int:
    """Load the next batch; return how many documents it has."""
    return len(self._batch) if self._port.flow(_fetch(self)) else 0


async def _fetch_by_refresh(self: Any) -> bool:
    # Called by the name that agents wrap. On the blocking face no flow waits, so one may run another.
    return bool(self._refresh())


def _refill(self: Any) -> bool:
    # As in PyMongo, the end of a cursor calls `_refresh` too.
    return bool(self._port.flow(self._fetch_flow()))


_cursor._refresh = _refresh
_cursor._fetch_once_flow = _fetch_by_refresh
_cursor._refill = _refill


def _database_of(self: Any) -> Any:
    return self._database


for _collection in (Collection, AsyncCollection):
    setattr(_collection, f"_{_collection.__name__.removeprefix('Async')}__database", property(_database_of))
