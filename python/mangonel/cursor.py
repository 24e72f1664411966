"""The blocking cursors of queries, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel.api import Cursor, RawBatchCursor
from mangonel.cursor_shared import CursorType

__all__ = ["Cursor", "CursorType", "RawBatchCursor"]
