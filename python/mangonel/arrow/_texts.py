"""Bytes of ids, UUIDs and binary values that formats and engines without these types hold as text."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable

from mangonel.bson import ObjectId
from mangonel.bson.errors import InvalidId

__all__ = ["WIDTHS", "bytes_of"]

WIDTHS = {"object_id": 12, "uuid": 16, "binary": None}
"""By kind of column: how many bytes; None: any number."""

_READERS: dict[str, tuple[Callable[[str], bytes], str]] = {
    "object_id": (lambda text: ObjectId(text).binary, "the 24 hexadecimal digits of an ObjectId"),
    "uuid": (lambda text: uuid.UUID(text).bytes, "a UUID"),
    "binary": (lambda text: base64.b64decode(text, validate=True), "base64"),
}


def bytes_of(text: str, kind: str) -> bytes:
    """Return the bytes of a text.

    Args:
        text: the value in the column of text.
        kind: the kind of the column, one of `WIDTHS`.

    Raises:
        ValueError: the text is something else.
    """
    convert, form = _READERS[kind]
    try:
        return convert(text)
    except (InvalidId, ValueError) as error:
        raise ValueError(f"expected {form}, got {text!r}") from error
