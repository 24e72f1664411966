"""Errors of JSON lines."""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["JSONLinesError"]


class JSONLinesError(PyMongoError, ValueError):
    """A line holds no document or was refused, or a transfer cannot be resumed; the message says which, and where."""
