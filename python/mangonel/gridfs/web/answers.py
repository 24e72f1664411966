"""Decides the response to a request for a stored file: status, headers, byte range. Knows no framework, reads nothing.

Spec: RFC 9110 (conditional requests, range requests).
"""

from __future__ import annotations

import datetime
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

PIECE = 256 * 1024
"""How many bytes are read and sent at once."""


@dataclass(frozen=True)
class Answer:
    """Status and headers, and the bytes of the body: from `start` up to `stop`."""

    status: int
    headers: dict[str, str]
    start: int = 0
    stop: int = 0


# With one of these headers the answer may have no bytes, or none of the file's first ones.
_CONDITIONS = frozenset({"if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range"})


def bucket_for(bucket: Any, method: str, headers: Mapping[str, str]) -> Any:
    """Return the bucket, or a copy that requests no chunks with the document if the answer may not need them."""
    return bucket if method == "GET" and not _CONDITIONS & headers.keys() else bucket._without_chunks()


def answer(method: str, headers: Mapping[str, str], file: Mapping[str, Any] | None) -> Answer:
    """Decide on the answer to one request.

    Args:
        method: the request's method.
        headers: the request's headers, their names in lower case.
        file: the file's document; None: there is no such file.

    Returns:
        200 or 206 with bytes, 304, 404, 405, 412, or 416 for several ranges or one outside the file.
    """
    if method not in ("GET", "HEAD"):
        return Answer(405, {"Allow": "GET, HEAD", "Content-Length": "0"})
    if file is None:
        return Answer(404, {"Content-Length": "0"})
    length = int(file.get("length", 0))
    tag, modified = etag(file), _modified(file)
    shared = {"ETag": tag, "Accept-Ranges": "bytes"}
    if modified is not None:
        shared["Last-Modified"] = format_datetime(modified, usegmt=True)
    if _has_failed(headers, tag, modified):
        return Answer(412, {**shared, "Content-Length": "0"})
    if _is_known(headers, tag, modified):
        return Answer(304, shared)
    shared["Content-Type"] = content_type(file)
    # The type was set at the upload; a browser must not guess another one.
    shared["X-Content-Type-Options"] = "nosniff"
    wanted = headers.get("range") if method == "GET" and _is_same(headers, tag, modified) else None
    parsed = None if wanted is None else _range(wanted, length)
    if parsed is None:
        return Answer(200, {**shared, "Content-Length": str(length)}, 0, length if method == "GET" else 0)
    start, stop = parsed
    if start >= stop:
        return Answer(416, {"Content-Range": f"bytes */{length}", "Content-Length": "0"})
    shared["Content-Range"] = f"bytes {start}-{stop - 1}/{length}"
    return Answer(206, {**shared, "Content-Length": str(stop - start)}, start, stop)


def etag(file: Mapping[str, Any]) -> str:
    """Return the file's strong ETag, made from id, date and length: the bytes of a stored file never change."""
    told = repr((file.get("_id"), file.get("uploadDate"), file.get("length")))
    return f'"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'


def content_type(file: Mapping[str, Any]) -> str:
    """Return the type stored with the file, or a type guessed from its name."""
    metadata = file.get("metadata")
    stored = metadata.get("contentType") if isinstance(metadata, Mapping) else None
    found = stored or file.get("contentType") or mimetypes.guess_type(str(file.get("filename") or ""))[0]
    # A stored value must not be able to end the header.
    is_clean = isinstance(found, str) and found.isascii() and found.isprintable()
    return found if is_clean and found else "application/octet-stream"


def _modified(file: Mapping[str, Any]) -> datetime.datetime | None:
    date = file.get("uploadDate")
    if not isinstance(date, datetime.datetime):
        return None
    # Stored dates are in UTC; HTTP knows whole seconds.
    aware = date.replace(tzinfo=datetime.UTC) if date.tzinfo is None else date.astimezone(datetime.UTC)
    return aware.replace(microsecond=0)


def _date(text: str | None) -> datetime.datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except (TypeError, ValueError):
        return None
    return found.replace(tzinfo=datetime.UTC) if found is not None and found.tzinfo is None else found


def _tags(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",")]


def _has_failed(headers: Mapping[str, str], tag: str, modified: datetime.datetime | None) -> bool:
    if "if-match" in headers:
        return not {"*", tag} & set(_tags(headers["if-match"]))
    since = _date(headers.get("if-unmodified-since"))
    return since is not None and modified is not None and modified > since


def _is_known(headers: Mapping[str, str], tag: str, modified: datetime.datetime | None) -> bool:
    if "if-none-match" in headers:
        return bool({"*", tag} & {known.removeprefix("W/") for known in _tags(headers["if-none-match"])})
    since = _date(headers.get("if-modified-since"))
    return since is not None and modified is not None and modified <= since


def _is_same(headers: Mapping[str, str], tag: str, modified: datetime.datetime | None) -> bool:
    """Return whether the client's partial copy is of this file (`If-Range`)."""
    condition = headers.get("if-range")
    if condition is None:
        return True
    return condition == tag if condition.startswith(('"', "W/")) else _date(condition) == modified


def _range(text: str, length: int) -> tuple[int, int] | None:
    """Return the requested range; an empty one if it cannot be satisfied; None if the header is not a range."""
    unit, _, asked = text.partition("=")
    if unit.strip().lower() != "bytes":
        return None
    if "," in asked:
        return 0, 0
    first, dash, last = (part.strip() for part in asked.partition("-"))
    if (
        not dash
        or not (first or last)
        or not all(part.isascii() and part.isdigit() for part in (first, last) if part)
    ):
        return None
    # No file's size has more digits.
    if max(len(first), len(last)) > 19:
        return 0, 0
    if not first:
        return max(0, length - int(last)), length
    stop = min(length, int(last) + 1) if last else length
    if last and int(last) < int(first):
        return None
    return int(first), stop
