"""Imports files of tables into collections, in pieces and with several threads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mangonel.arrow.errors import ColumnError
from mangonel.arrow.schema import fields_of
from mangonel.errors import BulkWriteError
from mangonel.files.columns import OBJECT_ID
from mangonel.files.errors import TransferError
from mangonel.files.formats import FORMATS, Format, RefusedRows, format_of
from mangonel.jsonl.importing import AHEAD, Done, KeptPlace, insert_in_order
from mangonel.jsonl.in_thread import check_face

__all__ = ["ImportedTable", "import_table"]

# Rows of a piece.
_ROWS = 10_000


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
    """Why the first of those failed."""
    guessed: dict[str, str] = field(default_factory=dict)
    """The types other than text that columns of CSV have by their first rows, since no schema names them."""


class _Piece(NamedTuple):
    """Rows of a file, with their place: the file's number, the first row in it, and the first row of all files."""

    table: Any
    file: int
    first: int
    overall: int
    refused: RefusedRows
    """The file's rows that were left out."""

    def number(self, row: int) -> int:
        """Return the number in the file, from 1, of a row of the piece."""
        return self.refused.number(self.first + row)

    def problems(self) -> list[tuple[int, str]]:
        """Return the numbers in the file of the rows that were left out beside the piece's, and why they were."""
        # A piece without rows holds the place of those at the end of the file.
        return self.refused.within(self.first, self.first + max(len(self.table), 1))


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
        format: "parquet", "arrow" or "csv". None: from the ending of the name.
        schema: types of columns of CSV, as for `Cursor.to_arrow`; types that it lacks are guessed from the first rows:
            text of digits, for example, becomes a number. Only for CSV, since the other formats have types.
        exclude_none: leave out fields that are null.
        threads: how many threads insert at the same time; above 1 the documents' order is not kept.
        skip_errors: count rows that were refused, and continue. Rows of CSV with more or fewer columns than the header
            are refused too.
        resume: a file that records the progress of this import; if an earlier call left one, continue from there. It is
            removed at the end. Rows without an `_id` get one that depends on their place, so none is stored twice.
        progress: called with the bytes and rows done so far.

    Raises:
        TypeError: `collection` is no collection of the blocking face.
        TransferError: a file cannot be read, a row was refused, BSON cannot hold a value or the type of a column, a
            folder has files of several formats, or `resume` belongs to another import. Earlier rows are stored; some
            later ones may be.
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
    check_face(collection, is_async=False, twin="aimport_table")
    made = format_of(source, format)
    if schema is not None and made.is_nested:
        raise TransferError(f"expected a schema only for CSV, got one for {made.endings[0]}; leave it out")
    fields = None if schema is None else fields_of(schema)
    paths = _paths(Path(source), made)
    target = {
        "collection": collection.full_name,
        # As it is read back from JSON, since it is compared with that.
        "schema": json.loads(json.dumps(fields)),
        "exclude_none": exclude_none,
    }
    state = _State(target, paths, None if resume is None else Path(resume))
    # An earlier call may have inserted rows after the recorded position.
    doubtful_end = state.overall + (threads * AHEAD + 1) * _ROWS * 2 if state.is_resumed else 0
    found = ImportedTable()

    def insert(piece: _Piece) -> Done:
        try:
            return _insert(collection, piece, state.prefix, exclude_none, piece.overall < doubtful_end)
        except (ColumnError, TypeError) as error:
            # These errors count rows from the start of the piece.
            raise TransferError(f"{paths[piece.file].name}, after row {piece.first}: {error}") from error

    def finish(piece: _Piece, done: Done) -> None:
        if not made.is_nested and not found.rows:
            found.guessed = _guessed(piece.table, [name for name, _ in fields or ()])
        rows, refused = len(piece.table), piece.problems()
        found.rows += rows + len(refused)
        error = None if skip_errors else TransferError
        done.problems = sorted([(piece.number(row), text) for row, text in done.problems] + refused)
        done.add_to(found, lambda number: f"{paths[piece.file].name}, row {number}", error)
        state.note(file=piece.file, row=piece.first + rows, overall=piece.overall + rows)
        if progress is not None:
            progress(state.bytes_of(piece), state.overall)

    insert_in_order(_pieces(paths, made, state, schema, skip_errors), insert, finish, threads)
    state.remove()
    return found


def _guessed(table: Any, named: list[str]) -> dict[str, str]:
    from pyarrow.types import is_null, is_string

    return {
        column.name: str(column.type)
        for column in table.schema
        if column.name not in named and not is_string(column.type) and not is_null(column.type)
    }


def _paths(source: Path, made: Format) -> list[Path]:
    if not source.is_dir():
        return [source]
    paths = sorted(path for path in source.iterdir() if path.suffix in made.endings)
    others = {ending for each in FORMATS.values() if each is not made for ending in each.endings}
    if mixed := sorted(path.name for path in source.iterdir() if path.suffix in others):
        raise TransferError(
            f"expected files of one format in {source}, got {mixed[0]} beside those that end in {made.endings[0]}; "
            "move them to another folder"
        )
    if not paths:
        raise TransferError(f"expected files that end in {', '.join(made.endings)} in {source}, got none")
    return paths


def _pieces(
    paths: list[Path], made: Format, state: _State, schema: Any, skip_errors: bool
) -> Iterator[_Piece]:
    """Yield the rows from the recorded place on."""
    from pyarrow import table as table_of
    from pyarrow.lib import ArrowException

    start_file, start = state.file, state.row
    overall = state.overall
    for number, path in enumerate(paths):
        if number < start_file:
            continue
        first = start if number == start_file else 0
        refused = RefusedRows(is_skipping=skip_errors)
        try:
            for table in made.rows(path, first, _ROWS, schema, refused):
                for at in range(0, len(table), _ROWS):
                    piece = table.slice(at, _ROWS)
                    yield _Piece(piece, number, first, overall, refused)
                    first += len(piece)
                    overall += len(piece)
            if refused.within(first, first + 1):
                yield _Piece(table_of({}), number, first, overall, refused)
        except (ArrowException, OSError, UnicodeDecodeError) as error:
            # pyarrow raises some errors of the contents as OSError, without an errno.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise TransferError(f"{path.name}, after row {first}: cannot be read: {error}") from error


def _insert(collection: Any, piece: _Piece, prefix: bytes, exclude_none: bool, is_doubtful: bool) -> Done:
    table = piece.table
    if not len(table):
        return Done()
    if "_id" not in table.column_names:
        table = _with_ids(table, prefix, piece.overall)
    done = Done()
    try:
        done.inserted = collection.insert_arrow(
            table, ordered=False, exclude_none=exclude_none
        ).inserted_count
    except BulkWriteError as error:
        done.refused(error, is_doubtful, int)
    return done


def _with_ids(table: Any, prefix: bytes, overall: int) -> Any:
    """Return the table with an `_id` that depends on each row's place."""
    import pyarrow

    ids = b"".join(prefix + (row % 2**32).to_bytes(4, "big") for row in range(overall, overall + len(table)))
    array = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(12), len(table), [None, pyarrow.py_buffer(ids)]
    )
    return table.add_column(0, pyarrow.field("_id", pyarrow.binary(12), metadata=OBJECT_ID), array)


class _State(KeptPlace):
    """The place behind the last row that is stored: the file's number, its rows, and the rows of all files."""

    file: int
    row: int
    overall: int

    def __init__(self, target: dict[str, Any], paths: list[Path], path: Path | None) -> None:
        self._sizes = [each.stat().st_size for each in paths]
        told = {"sources": [each.name for each in paths], "sizes": self._sizes, **target}
        super().__init__(told, ("file", "row", "overall"), path, TransferError)

    def bytes_of(self, piece: _Piece) -> int:
        """Return the bytes of the files before the one of a piece."""
        return sum(self._sizes[: piece.file])
