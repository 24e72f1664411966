"""Reads one query with several cursors, each over a range of `_id`, into one builder of columns.

A sample of the collection decides where the ranges end. Each cursor requests its next batch while the batches of the
others are processed in turn. So the server works for all of them at once, on either face and without threads.
"""

from __future__ import annotations

from collections import deque

from mangonel._core import KIND_READ, READ_BATCH
from mangonel._shared.replies import cursor_of
from mangonel._shared.settings import BOUND
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel import _core
    from mangonel._shared.cursors.find_cursor import _Cursor

# Samples per range; enough that chance makes no range much larger than others.
_SAMPLES = 16

# What ranges cannot honour, by its name in a query, and why.
_REFUSED = {
    "sort": "rows of the ranges come in turns",
    "skip": "no range knows how many the others skipped",
    "limit": "no range knows how many the others have",
    "hint": "ranges are those of the index on _id",
    "min": "ranges have bounds of their own",
    "max": "ranges have bounds of their own",
    "collation": "the index on _id may have another",
    "session": "a session sends one command at a time",
}


class Ranges:
    """The cursors of a query's ranges.

    Raises:
        ValueError: not a valid number of cursors.
        InvalidOperation: the query cannot be split into ranges; the message says why.
    """

    def __init__(self, cursor: Any, count: int) -> None:
        check(cursor, count)
        self._cursor: _Cursor[Any] = cursor
        self._port = cursor._port
        self._count = count
        # None until the ranges are known; then the cursors that have not ended, the next one first.
        self._parts: deque[_Cursor[Any]] | None = None

    async def _add_flow(self, builder: _core.ColumnBuilder, chunks: int | None) -> bool:
        """Add batches until the builder has this many chunks (None: all); return whether there may be more."""
        try:
            if self._parts is None:
                self._parts = deque()
                await self._open_flow(self._parts)
            while self._parts:
                part = self._parts[0]
                if await part._fetch_once_flow():
                    batch = part._batch
                    assert batch is not None
                    builder.add(batch)
                    part._pace = max(part._pace_of(*builder.appended) // self._count, 1)
                # A cursor at its end leaves; any other waits for its next turn, even after an empty batch.
                if part.alive:
                    self._parts.rotate(-1)
                else:
                    self._parts.popleft()
                if chunks is not None and builder.full_chunks >= chunks:
                    return True
        except BaseException:
            while self._parts:
                self._parts.pop()._abandon()
            raise
        return False

    async def _open_flow(self, parts: deque[_Cursor[Any]]) -> None:
        if self._cursor._is_empty:
            return
        from mangonel.bson import MaxKey

        bounds = await self._bounds_flow()
        for low, high in zip([None, *bounds], [*bounds, None], strict=True):
            part = self._cursor.clone()
            part._prefetch = True
            if low is not None or high is not None:
                # Index bounds span types, which a comparison in the filter does not.
                part._query["hint"] = {"_id": 1}
                part._query.update((name, bound) for name, bound in (("min", low), ("max", high)) if bound)
            parts.append(part)
        if bounds:
            # The last range ends before MaxKey, which may be an id all the same.
            part = self._cursor.clone()
            filter, last = part._query["filter"], {"_id": MaxKey()}
            part._query["filter"] = {"$and": [filter, last]} if filter else last
            parts.append(part)
        for part in parts:
            part._started = self._port.start(part._first_operation(), connects=True)
        # The query's documents are in the table.
        self._cursor._end()

    async def _bounds_flow(self) -> list[dict[str, Any]]:
        """Return the bounds between ranges: at most one fewer than there are ranges."""
        from mangonel.bson import MaxKey, MinKey
        from mangonel.bson.codec_options import CodecOptions, DatetimeConversion

        # Ids of any type must come back unchanged.
        options: Any = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
        collection = self._cursor._collection.with_options(codec_options=options)
        size = _SAMPLES * self._count
        stages: list[Any] = [{"$sample": {"size": size}}, {"$project": {"_id": 1}}, {"$sort": {"_id": 1}}]
        command = {"aggregate": collection._name, "pipeline": stages, "cursor": {"batchSize": size + 1}}
        collection._add_read_concern(command, None)
        operation = collection._operation(
            command, kind=KIND_READ, reading=READ_BATCH, read_preference=collection._read_preference
        )
        found: list[Any] = []
        cursor_of(await self._port.arun(operation)).drain_into(found, None)
        cuts = (len(found) * place // self._count for place in range(1, self._count))
        bounds = [{"_id": found[cut]["_id"]} for cut in cuts if 0 < cut < len(found)]
        # Nothing lies beyond MinKey and MaxKey.
        bounds = [bound for bound in bounds if not isinstance(bound["_id"], (MinKey, MaxKey))]
        # A sample may contain the same document twice.
        return [bound for place, bound in enumerate(bounds) if not place or bound != bounds[place - 1]]


def check(cursor: Any, count: int) -> None:
    """Raise if a query cannot be read in this many ranges."""
    if type(count) is not int or count < 1:
        raise ValueError(f"expected at least 1 cursor as parallel, got {count!r}")
    wanted = f"parallel={count} reads ranges of _id"
    if not hasattr(cursor, "_clone"):
        raise InvalidOperation(f"{wanted}, and the results of a command have none; use find")
    if cursor._id is not None or cursor._is_closed or cursor._started is not None:
        raise InvalidOperation(f"{wanted}, and this cursor was read from before; clone() it")
    query = cursor._query
    asked = {**query, "limit": cursor._asked_limit, "session": cursor._explicit}
    for name, why in _REFUSED.items():
        if asked.get(name):
            raise InvalidOperation(f"{wanted}, which does not go with {name}: {why}")
    if BOUND and cursor._enter_session() is not None:
        raise InvalidOperation(f"{wanted}, which does not go with a bound session: {_REFUSED['session']}")
    if cursor._is_exhaust or "tailable" in query or "awaitData" in query:
        name = "an exhaust cursor" if cursor._is_exhaust else "a tailable cursor"
        raise InvalidOperation(f"{wanted}, which does not go with {name}: the ranges' cursors are plain ones")
