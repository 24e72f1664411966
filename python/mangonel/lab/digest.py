"""One digest for equal results of all drivers: values are reduced to plain form by type name.

Imports no driver: it recognises an ObjectId by its class name and uses its str.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any


def digest(value: Any) -> str:
    """Return 16 hex digits that depend only on the value, not on the classes that represent it."""
    return hashlib.sha256(repr(canonical(value)).encode()).hexdigest()[:16]


def digest_bytes(data: bytes) -> str:
    """Return 16 hex digits for bytes that must be identical."""
    return hashlib.sha256(data).hexdigest()[:16]


def digest_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the digest of a set of documents without `_id`, in any order."""
    lines = {repr(canonical({k: v for k, v in document.items() if k != "_id"})) for document in documents}
    return digest(sorted(lines))


def canonical(value: Any) -> Any:
    """Return the value as str, int, float, tuple and None, with the type's name where it matters."""
    if value is None or isinstance(value, bool):
        return value
    name = type(value).__name__
    if name == "Code":
        return ("Code", str(value), canonical(value.scope))
    if isinstance(value, Mapping):
        return ("document", tuple((str(key), canonical(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(canonical(item) for item in value))
    if isinstance(value, datetime.datetime):
        naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return ("date", naive.isoformat(timespec="milliseconds"))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return ("double", float(value).hex())
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return ("binary", getattr(value, "subtype", 0), bytes(value).hex())
    if name == "Timestamp":
        return (name, value.time, value.inc)
    if name == "Regex" or isinstance(value, re.Pattern):
        return ("Regex", str(value.pattern), int(value.flags) & ~re.UNICODE)
    return (name, "" if name in {"MinKey", "MaxKey"} else str(value))
