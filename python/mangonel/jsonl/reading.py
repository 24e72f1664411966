"""Imports files of JSON lines: pieces are read in order, inserted by several threads, and counted in order.

A document without an `_id` gets one made of eight bytes of the import and its line number. So lines that are read again
after an interruption get the same `_id`, and the server refuses them as duplicates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from mangonel import _core
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import BulkWriteError
from mangonel.jsonl.errors import JSONLinesError
from mangonel.jsonl.files import damages, open_lines
from mangonel.jsonl.importing import AHEAD, Done, KeptPlace, insert_in_order
from mangonel.jsonl.in_thread import check_face

__all__ = ["Imported", "import_jsonl"]

# Bytes that a thread takes at once: some thousand documents.
_PIECE = 1 << 20
# As JSON, the largest document that a server accepts is shorter.
_LONGEST_LINE = 1 << 28
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# With one more document, the server refuses the whole command.
_LARGEST = 16 << 20


@dataclass
class Imported:
    """The result of an import."""

    lines: int = 0
    """Lines read by this call."""
    inserted: int = 0
    """Documents inserted by this call."""
    present: int = 0
    """Documents that were there from before the break, after `resume`."""
    failed: int = 0
    """Lines that are no document, or were refused, with `skip_errors`."""
    problems: list[str] = field(default_factory=list)
    """Why the first of those failed."""


class _Piece(NamedTuple):
    """Whole lines of the file, with their position."""

    data: bytes
    offset: int
    first_line: int
    lines: int


def import_jsonl(
    collection: Any,
    source: str | os.PathLike[str],
    *,
    threads: int = 2,
    skip_errors: bool = False,
    resume: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Insert the documents of a file of JSON lines: extended JSON of either format, one document on each line.

    Args:
        collection: a collection of the blocking face.
        source: the file; `.gz` and `.zst` are decompressed. Blank lines are skipped.
        threads: how many threads parse and insert at the same time; above 1 the documents' order is not kept.
        skip_errors: count lines that are not documents or were refused, and continue.
        resume: a file that records the progress of this import; if an earlier call left one, continue from there. It is
            removed at the end.
        progress: called with the bytes and lines done so far.

    Raises:
        TypeError: `collection` is no collection of the blocking face.
        JSONLinesError: a line holds no document, or was refused. Earlier documents are stored; some later ones may be.
        OSError: a file cannot be read or written.
        OperationFailure, AutoReconnect: as for `insert_many`.

    Example:
        >>> export_jsonl(client.shop.orders, "orders.jsonl").documents
        2
        >>> import_jsonl(client.shop.copies, "orders.jsonl", threads=1).inserted
        2
    """
    if type(threads) is not int or threads < 1:
        raise ValueError(f"expected at least 1 thread, got {threads!r}")
    check_face(collection, is_async=False, twin="aimport_jsonl")
    path = Path(source)
    state = _State(collection.full_name, path, None if resume is None else Path(resume))
    # An earlier call may have inserted documents up to this offset without recording them.
    doubtful_end = state.offset + (threads * AHEAD + 1) * _PIECE * 2 if state.is_resumed else 0
    found = Imported()

    def insert(piece: _Piece) -> Done:
        return _insert(collection, piece, state.prefix, skip_errors, piece.offset < doubtful_end)

    def finish(piece: _Piece, done: Done) -> None:
        found.lines += piece.lines
        error = None if skip_errors else JSONLinesError
        done.add_to(found, lambda line: f"{path.name}, line {line + 1}", error)
        state.note(offset=piece.offset + len(piece.data), line=piece.first_line + piece.lines)
        if progress is not None:
            progress(state.offset, state.line)

    with open_lines(path, "rb") as file:
        insert_in_order(_pieces(file, path, state.offset, state.line), insert, finish, threads)
    state.remove()
    return found


def _pieces(file: IO[bytes], path: Path, offset: int, line: int) -> Iterator[_Piece]:
    broken = damages(path)
    rest = b""
    try:
        if offset:
            # A pipe, which cannot be resumed, has no positions.
            file.seek(offset)
        while data := file.read(_PIECE):
            end = data.rfind(b"\n") + 1
            if not end:
                rest += data
                if len(rest) > _LONGEST_LINE:
                    raise JSONLinesError(
                        f"{path.name}, line {line + 1}: expected a document, "
                        f"got more than {_LONGEST_LINE} bytes without an end"
                    )
                continue
            piece = rest + data[:end]
            rest = data[end:]
            lines = piece.count(b"\n")
            yield _Piece(piece, offset, line, lines)
            offset += len(piece)
            line += lines
    except broken as error:
        raise JSONLinesError(
            f"{path.name}, after line {line}: expected compressed data up to its end, got {error}"
        ) from error
    if rest:
        yield _Piece(rest, offset, line, 1)


def _insert(collection: Any, piece: _Piece, prefix: bytes, skip_errors: bool, is_doubtful: bool) -> Done:
    done = Done()
    data, line = piece.data, piece.first_line
    if not piece.offset:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    while True:
        documents, problem = _core.documents_of_json_lines(data, prefix, line % 2**32)
        lines, raw = [], []
        for at, document in enumerate(documents):
            if document is None:
                continue
            if len(document) > _LARGEST:
                done.problems.append((line + at, f"expected at most {_LARGEST} bytes, got {len(document)}"))
                continue
            lines.append(line + at)
            raw.append(RawBSONDocument(document))
        if raw:
            _insert_many(collection, raw, lines, done, is_doubtful)
        if problem is None:
            return done
        number, what = problem
        done.problems.append((line + number, what))
        if not skip_errors:
            return done
        data = data.split(b"\n", number + 1)[number + 1] if data.count(b"\n") > number else b""
        line += number + 1
        if not data:
            return done


def _insert_many(
    collection: Any, raw: list[RawBSONDocument], lines: list[int], done: Done, is_doubtful: bool
) -> None:
    try:
        collection.insert_many(raw, ordered=False)
        done.inserted += len(raw)
    except BulkWriteError as error:
        done.refused(error, is_doubtful, lines.__getitem__)


class _State(KeptPlace):
    """The place behind the last line that is stored: bytes and lines."""

    offset: int
    line: int

    def __init__(self, collection: str, source: Path, path: Path | None) -> None:
        told = {"source": source.name, "size": source.stat().st_size, "collection": collection}
        super().__init__(told, ("offset", "line"), path, JSONLinesError)
