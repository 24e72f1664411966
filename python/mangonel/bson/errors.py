"""Exceptions of the BSON package: failures to decode, encode or parse.

Must not know: the codec, the driver's own errors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class BSONError(Exception):
    """Base of every exception of this package."""


class InvalidBSON(BSONError):
    """The bytes are not valid BSON, or hold a value that the chosen options cannot represent."""


class InvalidStringData(BSONError):
    """A string cannot be written as UTF-8."""


class InvalidDocument(BSONError):
    """A document, or a value inside it, cannot be written as BSON.

    Args:
        message: what was expected, what was found, and where.
        document: the whole document that was being encoded, when known.
    """

    def __init__(self, message: str, document: Any | None = None) -> None:
        super().__init__(message)
        self._document = document

    @property
    def document(self) -> Any:
        """The document that could not be encoded, or None."""
        return self._document


class InvalidId(BSONError):
    """A value cannot be converted to an ObjectId."""
