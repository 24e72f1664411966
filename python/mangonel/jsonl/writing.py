"""Collections into files of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mangonel.bson import json_util
from mangonel.jsonl.errors import JSONLinesError
from mangonel.jsonl.files import is_compressed, open_lines

__all__ = ["Exported", "export_jsonl"]

_MODES = {"canonical": 0, "relaxed": 1, "plain": 2}
_NEWLINE = 10
_TAIL = 1 << 16


@dataclass
class Exported:
    """What an export did."""

    documents: int = 0
    """Documents written by this call."""
    bytes: int = 0
    """Bytes of text written by this call, before compression."""


def export_jsonl(
    collection: Any,
    target: str | os.PathLike[str],
    *,
    filter: Mapping[str, Any] | None = None,
    projection: Any = None,
    mode: str = "canonical",
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write the documents of a collection to a file, one on each line.

    Args:
        collection: a collection of the blocking face.
        target: the file, which is replaced; `.gz` and `.zst` are compressed.
        filter: which documents; None: all.
        projection: which fields; None: all.
        mode: "canonical" extended JSON keeps every type; "relaxed" is easier to read; "plain" is for other readers.
        resume: write in order of `_id`, and go on after the last whole line of the file if there is one. For files
            that are not compressed, in canonical or relaxed mode, with the `_id` in them.
        progress: called with the bytes and the documents that are done.

    Raises:
        ValueError: another mode.
        JSONLinesError: the file cannot be gone on with.
        OSError: the file cannot be written.
        OperationFailure, AutoReconnect: as for `find`.

    Example:
        >>> export_jsonl(client.shop.orders, "orders.jsonl", mode="relaxed").documents
        2
    """
    if mode not in _MODES:
        raise ValueError(f"expected one of {list(_MODES)} as mode, got {mode!r}")
    path = Path(target)
    cursor = collection.find(filter or {}, projection, prefetch=True)
    has_last = False
    if resume:
        if is_compressed(path) or mode == "plain":
            raise JSONLinesError("expected a file without compression and of extended JSON to go on with")
        cursor = cursor.sort("_id", 1).hint([("_id", 1)])
        last = _cut_to_last_line(path)
        if last is not None:
            has_last = True
            # Bounds of the index go across types, which a comparison does not.
            cursor = cursor.min([("_id", last)])
    found = Exported()
    with cursor, path.open("ab") if has_last else open_lines(path, "wb") as file:
        batches = cursor._json_batches(_MODES[mode], _NEWLINE)
        for count, text in batches:
            if has_last:
                # The bound itself, if it is still there.
                has_last = False
                first, _, others = text.partition(b"\n")
                if _id_of(first) == last:
                    count, text = count - 1, others
            if count:
                file.write(text)
                file.write(b"\n")
                found.documents += count
                found.bytes += len(text) + 1
            if progress is not None:
                progress(found.bytes, found.documents)
    return found


def _cut_to_last_line(path: Path) -> Any:
    """Cut what stands after the last whole line, and return that line's `_id`; None: there is no line."""
    if not path.exists():
        return None
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
            return None
        return _id_of(tail[:whole].rstrip(b"\n").rpartition(b"\n")[2])


def _id_of(line: bytes) -> Any:
    try:
        return json_util.loads(line)["_id"]
    except (ValueError, TypeError, KeyError) as error:
        raise JSONLinesError("expected a document with an _id on the last line of the file") from error
