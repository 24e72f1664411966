"""Imports files of JSON lines: pieces are read in order, inserted by several threads, and counted in order.

A document without an `_id` gets one made of eight bytes of the import and its line number. So lines that are read again
after an interruption are the same documents, and the server refuses them as duplicates.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from mangonel import _core
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.errors import BulkWriteError
from mangonel.jsonl.errors import JSONLinesError
from mangonel.jsonl.files import damages, open_lines

__all__ = ["Imported", "import_jsonl"]

# Bytes that a thread takes at once: some thousand documents.
_PIECE = 1 << 20
# Pieces in flight for each thread.
_AHEAD = 2
# As JSON, the largest document that a server accepts is shorter.
_LONGEST_LINE = 1 << 28
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DUPLICATE_KEY = 11000
# With one more, the server refuses all documents of the command.
_LARGEST = 16 << 20
_REMEMBERED = 100


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
    """The first of what was wrong with those."""


class _Piece(NamedTuple):
    """Whole lines of the file, with their position."""

    data: bytes
    offset: int
    first_line: int
    lines: int


@dataclass
class _Done:
    """The result of a piece."""

    inserted: int = 0
    duplicates: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)


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
    path = Path(source)
    state = _State(path, None if resume is None else Path(resume))
    # Before this line, an earlier call may have inserted documents that it could not record.
    doubtful_end = state.offset + (threads * _AHEAD + 1) * _PIECE * 2 if state.is_resumed else 0
    found = Imported()
    waiting: deque[tuple[_Piece, Future[_Done]]] = deque()

    def finish() -> None:
        piece, future = waiting.popleft()
        done = future.result()
        if piece.offset < doubtful_end:
            found.present += done.duplicates
        found.lines += piece.lines
        found.inserted += done.inserted
        found.failed += len(done.problems)
        for line, what in done.problems:
            text = f"{path.name}, line {line + 1}: {what}"
            if not skip_errors:
                raise JSONLinesError(text)
            if len(found.problems) < _REMEMBERED:
                found.problems.append(text)
        state.note(piece)
        if progress is not None:
            progress(state.offset, state.line)

    with open_lines(path, "rb") as file, ThreadPoolExecutor(threads) as pool:
        try:
            for piece in _pieces(file, path, state.offset, state.line):
                is_doubtful = piece.offset < doubtful_end
                work = pool.submit(_insert, collection, piece, state.prefix, skip_errors, is_doubtful)
                waiting.append((piece, work))
                if len(waiting) >= threads * _AHEAD:
                    finish()
            while waiting:
                finish()
        finally:
            # A piece that has not begun need not begin.
            pool.shutdown(wait=True, cancel_futures=True)
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
                        f"found more than {_LONGEST_LINE} bytes without an end"
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
            f"{path.name}, behind line {line}: expected compressed data up to its end, got {error}"
        ) from error
    if rest:
        yield _Piece(rest, offset, line, 1)


def _insert(collection: Any, piece: _Piece, prefix: bytes, skip_errors: bool, is_doubtful: bool) -> _Done:
    done = _Done()
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
    collection: Any, raw: list[RawBSONDocument], lines: list[int], done: _Done, is_doubtful: bool
) -> None:
    try:
        collection.insert_many(raw, ordered=False)
        done.inserted += len(raw)
    except BulkWriteError as error:
        details: Any = error.details
        done.inserted += details["nInserted"]
        for refused in details["writeErrors"]:
            if (
                is_doubtful
                and refused["code"] == _DUPLICATE_KEY
                and list(refused.get("keyPattern", "")) == ["_id"]
            ):
                done.duplicates += 1
                continue
            done.problems.append((lines[refused["index"]], refused["errmsg"]))


class _State:
    """The progress of an import, kept in a file if one is named."""

    def __init__(self, source: Path, path: Path | None) -> None:
        self.offset = self.line = 0
        # Like the start of an ObjectId: the seconds, then random bytes.
        self.prefix = int(time.time()).to_bytes(4, "big") + os.urandom(4)
        self._path = path
        self._told = {"source": source.name, "size": source.stat().st_size}
        self.is_resumed = path is not None and path.exists()
        if path is not None and self.is_resumed:
            self._read(path)
        else:
            self._write()

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text())
            told = {name: kept[name] for name in self._told}
            self.offset, self.line = int(kept["offset"]), int(kept["line"])
            self.prefix = bytes.fromhex(kept["prefix"])
        except (ValueError, KeyError, TypeError) as error:
            raise JSONLinesError(
                f"expected the progress of an import in {path}, got something else"
            ) from error
        if told != self._told:
            raise JSONLinesError(f"{path} is of an import of another file: expected {self._told}, got {told}")

    def note(self, piece: _Piece) -> None:
        """Record that a piece, and all before it, is stored."""
        self.offset = piece.offset + len(piece.data)
        self.line = piece.first_line + piece.lines
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        kept = self._told | {"offset": self.offset, "line": self.line, "prefix": self.prefix.hex()}
        # Replaced atomically, so that an interruption leaves the old file or the new one.
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(json.dumps(kept))
        beside.replace(self._path)

    def remove(self) -> None:
        """Remove the file: the import is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
