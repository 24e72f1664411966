"""Reads one query with several cursors, each over a range of `_id`, into one builder of columns.

Each cursor requests its next batch while the others' batches are processed in turn. So the server works for all cursors
at once, on either face and without threads.
"""

from __future__ import annotations

from collections import deque

from mangonel._shared.partitions.plan import check, plan_flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel import _core
    from mangonel._shared.cursors.find_cursor import _Cursor


class Ranges:
    """The cursors of a query's ranges.

    Args:
        cursor: the query.
        count: how many ranges.
        is_ordered: add the rows in the order of `_id`. Batches that arrive early wait in memory.

    Raises:
        ValueError: `count` is not a valid number of cursors.
        InvalidOperation: the query cannot be split into ranges; the message says why.
    """

    def __init__(self, cursor: Any, count: int, *, is_ordered: bool = False) -> None:
        # A single cursor reads a range only if the caller requested the order.
        given = "ordered=True" if is_ordered and count == 1 else f"parallel={count}"
        check(cursor, count, "cursor as parallel", wanted=f"{given} reads ranges of _id")
        self._cursor: _Cursor[Any] = cursor
        self._port = cursor._port
        self._count = count
        self._is_ordered = is_ordered
        # None until the ranges are known; then the cursors that have not ended, the next one first.
        self._parts: deque[_Cursor[Any]] | None = None
        # Cursors that still have rows to add, with their waiting batches, in the order of the ranges.
        self._waiting: dict[_Cursor[Any], deque[_core.Batch]] = {}

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
                    self._add(builder, part, batch)
                # A cursor at its end is dropped; any other waits for its next turn, even after an empty batch.
                if self._is_open(part):
                    self._parts.rotate(-1)
                else:
                    self._parts.popleft()
                if self._is_ordered:
                    self._add_waiting(builder)
                if chunks is not None and builder.full_chunks >= chunks:
                    return True
        except BaseException:
            while self._parts:
                self._parts.pop()._abandon()
            raise
        return False

    def _is_open(self, part: _Cursor[Any]) -> bool:
        return not part._is_closed and part._id != 0

    def _add(self, builder: _core.ColumnBuilder, part: _Cursor[Any], batch: _core.Batch) -> None:
        if self._is_ordered and part is not next(iter(self._waiting)):
            self._waiting[part].append(batch)
            return
        builder.add(batch)
        part._pace = max(part._pace_of(*builder.appended) // self._count, 1)

    def _add_waiting(self, builder: _core.ColumnBuilder) -> None:
        """Add the waiting batches in the order of the ranges, up to the first range whose cursor is still open."""
        while self._waiting:
            part = next(iter(self._waiting))
            batches = self._waiting[part]
            while batches:
                builder.add(batches.popleft())
            if self._is_open(part):
                return
            del self._waiting[part]

    async def _open_flow(self, parts: deque[_Cursor[Any]]) -> None:
        concern = self._cursor._query.get("readConcern") or self._cursor._collection._read_concern.document
        is_snapshot = concern.get("level") == "snapshot"
        plan = await plan_flow(self._cursor, self._count, is_snapshot=is_snapshot)
        for range in plan.ranges:
            part = self._cursor.clone()
            part._prefetch = True
            range.narrow(part._query, is_ordered=self._is_ordered)
            if plan.read_concern is not None:
                part._query["readConcern"] = plan.read_concern
            parts.append(part)
            if self._is_ordered:
                self._waiting[part] = deque()
        for part in parts:
            part._started = self._port.start(part._first_operation(), connects=True)
        if plan.ranges:
            # The table has all documents of the query.
            self._cursor._end()
