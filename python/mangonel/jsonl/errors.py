"""What goes wrong between lines and documents."""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["JSONLinesError"]


class JSONLinesError(PyMongoError, ValueError):
    """Lines are no documents, or were refused; or a file cannot be gone on with. The message says which and where."""
