"""The blocking cursors of queries, under the name of the module where PyMongo has them for this face."""

from __future__ import annotations

from mangonel.cursor import Cursor, CursorType, RawBatchCursor

__all__ = ["Cursor", "CursorType", "RawBatchCursor"]
