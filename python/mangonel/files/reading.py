"""Imports files of tables into collections, in pieces and by several threads."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mangonel.errors import BulkWriteError
from mangonel.files.columns import OBJECT_ID
from mangonel.files.errors import TransferError
from mangonel.files.formats import Format, format_of

__all__ = ["ImportedTable", "import_table"]

# Rows of a piece, and pieces in flight for each thread.
_ROWS, _AHEAD = 10_000, 2
_DUPLICATE_KEY = 11000
_REMEMBERED = 100


@dataclass
class ImportedTable:
    """The result of an import."""

    rows: int = 0
    """Rows read by this call."""
    inserted: int = 0
    """Documents inserted by this call."""
    present: int = 0
    """Documents that were there from before the break, after `resume`."""
    failed: int = 0
    """Rows that were refused, with `skip_errors`."""
    problems: list[str] = field(default_factory=list)
    """The first of what was wrong with those."""


class _Piece(NamedTuple):
    """Rows of a file, with their place: the file's number, the first row in it, and the first row of all files."""

    table: Any
    file: int
    first: int
    overall: int


@dataclass
class _Done:
    """The result of a piece."""

    inserted: int = 0
    duplicates: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)


def import_table(
    collection: Any,
    source: str | os.PathLike[str],
    *,
    format: str | None = None,
    schema: Any = None,
    exclude_none: bool = False,
    threads: int = 2,
    skip_errors: bool = False,
    resume: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportedTable:
    """Insert the rows of a file of Parquet, Arrow IPC or CSV, or of all files of a folder.

    Args:
        collection: a collection of the blocking face.
        source: the file, or a folder with files of one format, which are read in the order of their names.
        format: "parquet", "arrow" or "csv". None: by the ending of the name.
        schema: types of columns of CSV, as for `Cursor.to_arrow`; others are inferred from the first rows. Not for the
            other formats, which have types.
        exclude_none: leave out fields that are null.
        threads: how many threads insert at the same time; above 1 the documents' order is not kept.
        skip_errors: count rows that were refused, and continue.
        resume: a file that records the progress of this import; if an earlier call left one, continue from there. It is
            removed at the end. Rows without an `_id` get one that depends on their place, so none is stored twice.
        progress: called with the bytes and rows done so far.

    Raises:
        TransferError: a file cannot be read, a row was refused, or the progress is of another import. Earlier rows are
            stored; some later ones may be.
        ColumnError, TypeError: a value or a type cannot be stored in BSON.
        ImportError: pyarrow is not installed.
        OSError: a file cannot be read or written.
        OperationFailure, AutoReconnect: as for `insert_many`.

    Example:
        >>> export_table(client.shop.orders, "orders.arrow").documents
        2
        >>> import_table(client.shop.copies, "orders.arrow", threads=1).inserted
        2
    """
    if type(threads) is not int or threads < 1:
        raise ValueError(f"expected at least 1 thread, got {threads!r}")
    if collection._port.is_async:
        raise TypeError(
            "expected a collection of the blocking face, got one of asyncio; run this in a thread"
        )
    made = format_of(source, format)
    if schema is not None and made.is_nested:
        raise TransferError("expected a schema for CSV alone: files of the other formats have types")
    paths = _paths(Path(source), made)
    state = _State(paths, None if resume is None else Path(resume))
    # Behind what is recorded, an earlier call may have inserted rows.
    doubtful_end = state.overall + (threads * _AHEAD + 1) * _ROWS * 2 if state.is_resumed else 0
    found = ImportedTable()
    waiting: deque[tuple[_Piece, Future[_Done]]] = deque()

    def finish() -> None:
        piece, future = waiting.popleft()
        done = future.result()
        found.present += done.duplicates
        found.rows += len(piece.table)
        found.inserted += done.inserted
        found.failed += len(done.problems)
        for row, what in done.problems:
            text = f"{paths[piece.file].name}, row {piece.first + row + 1}: {what}"
            if not skip_errors:
                raise TransferError(text)
            if len(found.problems) < _REMEMBERED:
                found.problems.append(text)
        state.note(piece)
        if progress is not None:
            progress(state.bytes_of(piece), state.overall)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for piece in _pieces(paths, made, state, schema):
                is_doubtful = piece.overall < doubtful_end
                work = pool.submit(_insert, collection, piece, state.prefix, exclude_none, is_doubtful)
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


def _paths(source: Path, made: Format) -> list[Path]:
    if not source.is_dir():
        return [source]
    paths = sorted(path for path in source.iterdir() if path.suffix in made.endings)
    if not paths:
        raise TransferError(f"expected files that end in {', '.join(made.endings)} in {source}, got none")
    return paths


def _pieces(paths: list[Path], made: Format, state: _State, schema: Any) -> Iterator[_Piece]:
    """Yield the rows from the recorded place on."""
    from pyarrow.lib import ArrowException

    start_file, start = state.file, state.row
    overall = state.overall
    for number, path in enumerate(paths):
        if number < start_file:
            continue
        first = start if number == start_file else 0
        try:
            for table in made.rows(path, first, _ROWS, schema):
                for at in range(0, len(table), _ROWS):
                    piece = table.slice(at, _ROWS)
                    yield _Piece(piece, number, first, overall)
                    first += len(piece)
                    overall += len(piece)
        except ArrowException as error:
            raise TransferError(f"{path.name}, behind row {first}: cannot be read: {error}") from error


def _insert(collection: Any, piece: _Piece, prefix: bytes, exclude_none: bool, is_doubtful: bool) -> _Done:
    table = piece.table
    if "_id" not in table.column_names:
        table = _with_ids(table, prefix, piece.overall)
    done = _Done()
    try:
        done.inserted = collection.insert_arrow(
            table, ordered=False, exclude_none=exclude_none
        ).inserted_count
    except BulkWriteError as error:
        details: Any = error.details
        done.inserted = details["nInserted"]
        for refused in details["writeErrors"]:
            if is_doubtful and _is_same_id(refused):
                done.duplicates += 1
            else:
                done.problems.append((refused["index"], refused["errmsg"]))
        if details["writeConcernErrors"]:
            raise
    return done


def _is_same_id(refused: Any) -> bool:
    return refused["code"] == _DUPLICATE_KEY and list(refused.get("keyPattern", "")) == ["_id"]


def _with_ids(table: Any, prefix: bytes, overall: int) -> Any:
    """Return the table with an `_id` that depends on each row's place."""
    import pyarrow

    ids = b"".join(prefix + (row % 2**32).to_bytes(4, "big") for row in range(overall, overall + len(table)))
    array = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(12), len(table), [None, pyarrow.py_buffer(ids)]
    )
    return table.add_column(0, pyarrow.field("_id", pyarrow.binary(12), metadata=OBJECT_ID), array)


class _State:
    """The progress of an import, kept in a file if one is named."""

    def __init__(self, paths: list[Path], path: Path | None) -> None:
        self.file = self.row = self.overall = 0
        # Like the start of an ObjectId: the seconds, then random bytes.
        self.prefix = int(time.time()).to_bytes(4, "big") + os.urandom(4)
        self._path = path
        self._sizes = [each.stat().st_size for each in paths]
        self._told = {"sources": [each.name for each in paths], "sizes": self._sizes}
        self.is_resumed = path is not None and path.exists()
        if path is not None and self.is_resumed:
            self._read(path)
        else:
            self._write()

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            told = {name: kept[name] for name in self._told}
            self.file, self.row, self.overall = int(kept["file"]), int(kept["row"]), int(kept["overall"])
            self.prefix = bytes.fromhex(kept["prefix"])
        except (ValueError, KeyError, TypeError) as error:
            raise TransferError(
                f"expected the progress of an import in {path}, got something else"
            ) from error
        if told != self._told:
            raise TransferError(f"{path} is of an import of other files: expected {self._told}, got {told}")

    def note(self, piece: _Piece) -> None:
        """Record that a piece, and all before it, is stored."""
        self.file = piece.file
        self.row = piece.first + len(piece.table)
        self.overall = piece.overall + len(piece.table)
        self._write()

    def bytes_of(self, piece: _Piece) -> int:
        """Return the bytes of the files before the one of a piece."""
        return sum(self._sizes[: piece.file])

    def _write(self) -> None:
        if self._path is None:
            return
        places = {"file": self.file, "row": self.row, "overall": self.overall, "prefix": self.prefix.hex()}
        # Replaced atomically, so that an interruption leaves the old file or the new one.
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(json.dumps(self._told | places), encoding="utf-8")
        beside.replace(self._path)

    def remove(self) -> None:
        """Remove the file: the import is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
