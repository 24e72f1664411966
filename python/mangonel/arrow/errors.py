"""Errors between documents and columns."""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["ColumnError", "SchemaError"]


class ColumnError(PyMongoError, ValueError):
    """A document does not fit its columns. The message says what was expected and found, the path and the `_id`."""


class SchemaError(PyMongoError, ValueError):
    """A file or mapping is not the saved schema of a collection. The message says what was expected and found."""
