"""What goes wrong between documents and columns."""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["ColumnError"]


class ColumnError(PyMongoError, ValueError):
    """A document does not fit its columns: the message says what was expected and found, where, and its `_id`."""
