"""The asyncio cursors of queries, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel.api import AsyncCursor, AsyncRawBatchCursor
from mangonel.cursor_shared import CursorType

__all__ = ["AsyncCursor", "AsyncRawBatchCursor", "CursorType"]
