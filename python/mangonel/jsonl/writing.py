"""Exports collections to files of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from mangonel.bson import Decimal128, MaxKey, json_util
from mangonel.bson.codec_options import DatetimeConversion
from mangonel.bson.errors import BSONError
from mangonel.errors import OperationFailure
from mangonel.jsonl.errors import JSONLinesError
from mangonel.jsonl.files import is_compressed, open_lines
from mangonel.jsonl.in_thread import check_face

__all__ = ["Exported", "export_jsonl"]

_MODES = {"canonical": 0, "relaxed": 1, "plain": 2}
_NEWLINE = 10
_WITHOUT_INDEX = {"view": "view", "timeseries": "time series"}
_TAIL = 1 << 16
_NO_LINE: Any = object()
# Dates outside of datetime's range stay DatetimeMS.
_OPTIONS = json_util.JSONOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)


@dataclass
class Exported:
    """The result of an export."""

    documents: int = 0
    """Documents written by this call."""
    bytes: int = 0
    """Bytes of text written by this call, before compression."""


def export_jsonl(
    collection: Any,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    filter: Mapping[str, Any] | None = None,
    projection: Any = None,
    mode: str = "canonical",
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write the documents of a collection to a file, one per line.

    Args:
        collection: a collection of the blocking face.
        target: the file, which is overwritten; `.gz` and `.zst` are compressed. Or an open binary file, which stays
            open.
        filter: query document. None: all documents.
        projection: fields to write. None: all fields.
        mode: "canonical" extended JSON keeps every type; "relaxed" is easier to read; "plain" is ordinary JSON for
            other programs.
        resume: write in order of `_id`, and continue after the last whole line of an existing file. For uncompressed
            files with `_id`, in canonical or relaxed mode. Not of views and time series, which have no index on `_id`.
        progress: called with the bytes and documents done so far.

    Raises:
        TypeError: `collection` is no collection of the blocking face.
        ValueError: the mode is unknown, or an open file is to be continued.
        JSONLinesError: the file cannot be continued.
        OSError: the file cannot be written.
        OperationFailure, AutoReconnect: as for `find`.

    Example:
        >>> export_jsonl(client.shop.orders, "orders.jsonl", mode="relaxed").documents
        2
    """
    if mode not in _MODES:
        raise ValueError(f"expected one of {list(_MODES)} as mode, got {mode!r}")
    check_face(collection, is_async=False, twin="aexport_jsonl")
    if isinstance(target, str | os.PathLike):
        path, already = Path(target), None
    elif resume:
        raise ValueError(f"expected the name of a file for resume, got {type(target).__name__}")
    else:
        path, already = Path(), nullcontext(target)
    cursors = [collection.find(filter or {}, projection, prefetch=True)]
    last = _NO_LINE
    if resume:
        if is_compressed(path) or mode == "plain":
            raise JSONLinesError("expected extended JSON without compression for resume, got another file")
        _check_index(collection)
        cursors[0].sort("_id", 1).hint([("_id", 1)])
        last = _cut_to_last_line(path)
        if last is not _NO_LINE:
            # Index bounds span types; a comparison does not. The bounds exclude MaxKey, and nothing sorts after it.
            if isinstance(last, MaxKey):
                cursors = []
            else:
                cursors[0].min([("_id", last)])
                greatest = {"$and": [filter or {}, {"_id": MaxKey()}]}
                cursors.append(collection.find(greatest, projection))
    found = Exported()
    with already or (path.open("ab") if last is not _NO_LINE else open_lines(path, "wb")) as file:
        for cursor in cursors:
            with cursor:
                for count, text in cursor._json_batches(_MODES[mode], _NEWLINE):
                    if last is not _NO_LINE:
                        # The bound itself, if it still exists.
                        first, _, others = text.partition(b"\n")
                        if _as_key(_id_of(first)) == _as_key(last):
                            count, text = count - 1, others
                        last = _NO_LINE
                    if count:
                        file.write(text)
                        file.write(b"\n")
                        found.documents += count
                        found.bytes += len(text) + 1
                    if progress is not None:
                        progress(found.bytes, found.documents)
    return found


def _check_index(collection: Any) -> None:
    """Raise if a collection is known to have no index on `_id`: a view or a time series."""
    try:
        found = collection.database.list_collections(
            filter={"name": collection.name}, authorizedCollections=True
        ).to_list()
    except OperationFailure:
        # The user may read without the action listCollections.
        return
    kind = _WITHOUT_INDEX.get(found[0].get("type")) if found else None
    if kind is not None:
        raise JSONLinesError(
            f"expected an index on _id for resume, got the {kind} {collection.full_name}; leave out resume"
        )


def _cut_to_last_line(path: Path) -> Any:
    """Cut off everything after the last whole line, and return that line's `_id` if there is a line."""
    if not path.exists():
        return _NO_LINE
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        tail, start = b"", end
        while start and tail.count(b"\n") < 2:
            step = min(_TAIL, start)
            start -= step
            file.seek(start)
            tail = file.read(step) + tail
        whole = tail.rfind(b"\n") + 1
        file.truncate(start + whole)
        if not whole:
            return _NO_LINE
        return _id_of(tail[:whole].rstrip(b"\n").rpartition(b"\n")[2])


def _id_of(line: bytes) -> Any:
    try:
        return json_util.loads(line, json_options=_OPTIONS)["_id"]
    except (ValueError, TypeError, KeyError, BSONError) as error:
        raise JSONLinesError(
            f"expected a document with an _id on the file's last line, got {line[:60]!r}"
        ) from error


def _as_key(value: Any) -> Any:
    """Return the key of a value in the `_id` index: numbers are equal by value, others by type and value."""
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return "NaN" if value != value else value
    return json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS)
