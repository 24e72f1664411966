"""Errors of files of tables."""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["TransferError"]


class TransferError(PyMongoError, ValueError):
    """A file cannot be read, a row was refused, or a transfer cannot be resumed; the message says which, and where."""
