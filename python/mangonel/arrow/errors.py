"""Errors between documents and columns."""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["ColumnError", "SchemaError"]


class ColumnError(PyMongoError, ValueError):
    """A document does not fit its columns. The message has the expectation, the finding, the path and the `_id`."""


class SchemaError(PyMongoError, ValueError):
    """What was read is not the schema of a collection. The message says what was expected and found."""
