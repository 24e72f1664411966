"""The asyncio cursors of commands, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel.api import AsyncCommandCursor, AsyncRawBatchCommandCursor

__all__ = ["AsyncCommandCursor", "AsyncRawBatchCommandCursor"]
