"""Formats of files of tables: each writes a file, joins files of one schema, and reads rows from any position.

Knows no collection. pyarrow is imported on demand.
"""

from __future__ import annotations

import base64
import os
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from mangonel.files.errors import TransferError

__all__ = ["FORMATS", "Format", "RefusedRows", "Writer", "format_of"]

_OBJECT_ID, _UUID = 12, 16


class Writer(Protocol):
    """Writes tables of one schema to a file."""

    def write(self, table: Any) -> None:
        """Append a `pyarrow.Table`."""

    def close(self) -> None:
        """Complete the file."""


class RefusedRows:
    """The rows of a file that are left out because they have more or fewer columns than its header.

    Args:
        is_skipping: whether reading goes on after such a row.
    """

    def __init__(self, *, is_skipping: bool) -> None:
        self._answer = "skip" if is_skipping else "error"
        # Of each refused row: how many of the others precede it, and its columns.
        self._before, self._columns = array("q"), array("q")
        self._expected = 0

    def add(self, row: Any) -> str:
        """Record a `pyarrow.csv.InvalidRow`, and return what pyarrow does then."""
        # Its number counts the header too.
        self._before.append(row.number - 2 - len(self._before))
        self._columns.append(row.actual_columns)
        self._expected = row.expected_columns
        return self._answer

    def number(self, row: int) -> int:
        """Return the number in the file, from 1, of a row that was read; these are counted from 0."""
        return row + 1 + bisect_right(self._before, row)

    def within(self, first: int, end: int) -> list[tuple[int, str]]:
        """Return the numbers in the file of rows refused between two rows that were read, and why they were."""
        found = range(bisect_left(self._before, first), bisect_left(self._before, end))
        return [(self._before[at] + at + 1, self._problem(at)) for at in found]

    def last(self) -> tuple[int, str]:
        """Return the number in the file of the last refused row, and why it was."""
        return self._before[-1] + len(self._before), self._problem(-1)

    def _problem(self, at: int) -> str:
        return f"expected {self._expected} columns, as in the header, got {self._columns[at]}"


class Format(Protocol):
    """Writes and reads one kind of file."""

    endings: tuple[str, ...]
    """Endings of names."""
    is_nested: bool
    """Whether columns may be documents and arrays."""

    def writer(self, path: Path, schema: Any, *, is_part: bool) -> Writer:
        """Return a writer of tables of a schema to a file; a part is joined to others later."""

    def join(self, parts: Sequence[Path], path: Path, schema: Any) -> None:
        """Write one file with the rows of all parts, in their order and in bounded memory."""

    def rows(
        self, path: Path, start: int, count: int, schema: Any, refused: RefusedRows | None = None
    ) -> Iterator[Any]:
        """Yield tables of about `count` rows, from row number `start` on.

        Args:
            path: the file.
            start: the number of the first row, from 0; refused rows do not count.
            count: about how many.
            schema: types of columns, only for CSV.
            refused: gets the rows that are left out. None: such a row raises.

        Raises:
            TransferError: a row has more or fewer columns than the header, and is not to be left out.
        """

    def total(self, path: Path) -> int:
        """Return the number of rows, or 0 if it is unknown until the file is read."""


# Without checksums, a damaged page may read as other rows; files of other programs may lack checksums.
_WRITTEN: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
_CHECKED: dict[str, Any] = {"page_checksum_verification": True}


class _Parquet:
    endings: tuple[str, ...] = (".parquet", ".pq")
    is_nested: bool = True

    def writer(self, path: Path, schema: Any, *, is_part: bool) -> Writer:
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(path, schema, **_WRITTEN)

    def join(self, parts: Sequence[Path], path: Path, schema: Any) -> None:
        import pyarrow.parquet

        # The schema as pyarrow reads it back, so that nothing is converted.
        kept = pyarrow.parquet.read_schema(parts[0])
        with pyarrow.parquet.ParquetWriter(path, kept, **_WRITTEN) as writer:
            for part in parts:
                with pyarrow.parquet.ParquetFile(part, **_CHECKED) as file:
                    for group in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(group))

    def rows(
        self, path: Path, start: int, count: int, schema: Any, refused: RefusedRows | None = None
    ) -> Iterator[Any]:
        import pyarrow.parquet

        # Pages are read as they are needed: groups of other programs may be large.
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, **_CHECKED) as file:
            first = 0
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if first + size > start:
                    batches = file.iter_batches(batch_size=count, row_groups=[group])
                    yield from _from(batches, max(start - first, 0))
                first += size

    def total(self, path: Path) -> int:
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(path).num_rows)


class _Ipc:
    endings: tuple[str, ...] = (".arrow", ".ipc", ".feather")
    is_nested: bool = True

    def writer(self, path: Path, schema: Any, *, is_part: bool) -> Writer:
        import pyarrow

        return pyarrow.ipc.new_file(path, schema)

    def join(self, parts: Sequence[Path], path: Path, schema: Any) -> None:
        import pyarrow

        with pyarrow.ipc.new_file(path, schema) as writer:
            for part in parts:
                for table in self.rows(part, 0, 0, None):
                    writer.write_table(table)

    def rows(
        self, path: Path, start: int, count: int, schema: Any, refused: RefusedRows | None = None
    ) -> Iterator[Any]:
        import pyarrow

        with pyarrow.memory_map(str(path)) as source:
            file = pyarrow.ipc.open_file(source)
            batches = (file.get_batch(place) for place in range(file.num_record_batches))
            yield from _from(batches, start)

    def total(self, path: Path) -> int:
        import pyarrow

        with pyarrow.memory_map(str(path)) as source:
            file = pyarrow.ipc.open_file(source)
            return sum(file.get_batch(place).num_rows for place in range(file.num_record_batches))


class _Csv:
    endings: tuple[str, ...] = (".csv",)
    is_nested: bool = False

    def writer(self, path: Path, schema: Any, *, is_part: bool) -> Writer:
        return _CsvWriter(path, schema, has_header=not is_part)

    def join(self, parts: Sequence[Path], path: Path, schema: Any) -> None:
        _CsvWriter(path, schema, has_header=True).close()
        with path.open("ab") as target:
            for part in parts:
                with part.open("rb") as source:
                    while data := source.read(1 << 20):
                        target.write(data)

    def rows(
        self, path: Path, start: int, count: int, schema: Any, refused: RefusedRows | None = None
    ) -> Iterator[Any]:
        import pyarrow
        from pyarrow import csv

        kinds, texts = _csv_types(schema)
        refused = RefusedRows(is_skipping=False) if refused is None else refused
        convert = csv.ConvertOptions(
            column_types=kinds | _guessed_times(path, kinds),
            # An empty text is written in quotes; an empty field is null.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refused.add)
        # With several threads, which save no time here, pyarrow does not number the rows that it refuses.
        read = csv.ReadOptions(use_threads=False)
        try:
            with csv.open_csv(path, read, parse, convert) as reader:
                _check_columns(path.name, reader.schema, kinds)
                for batch in _from(reader, start):
                    yield _bytes_of_texts(batch, texts, path.name, start, refused)
                    start += batch.num_rows
        except pyarrow.ArrowInvalid as error:
            if not str(error).startswith("CSV parse error: Row"):
                raise
            number, problem = refused.last()
            raise TransferError(f"{path.name}, row {number}: {problem}") from error

    def total(self, path: Path) -> int:
        return 0


def _guessed_times(path: Path, kinds: dict[str, Any]) -> dict[str, Any]:
    """Return microseconds as the type of the columns that have times with fractions in the first rows.

    pyarrow guesses nanoseconds, which hold the years 1678 to 2261 only; for other years in the first rows, text.

    Args:
        path: the file.
        kinds: the columns to leave out, since their types are known.
    """
    import pyarrow
    from pyarrow import csv

    # Refused rows are counted when the rows are read.
    parse = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    convert = csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    found: dict[str, Any] = {}
    try:
        with csv.open_csv(path, csv.ReadOptions(use_threads=False), parse, convert) as reader:
            rows = next(iter(reader), None)
    except pyarrow.ArrowInvalid:
        return {}
    for name, values in [] if rows is None else zip(rows.schema.names, rows.columns, strict=True):
        if name in kinds:
            continue
        is_text = pyarrow.types.is_string(values.type) and values.null_count < len(values)
        if is_text or (pyarrow.types.is_timestamp(values.type) and values.type.unit == "ns"):
            zones = ("UTC", None) if is_text else (values.type.tz,)
            for kind in (pyarrow.timestamp("us", zone) for zone in zones):
                try:
                    values.cast(kind)
                except pyarrow.ArrowInvalid:
                    continue
                found[name] = kind
    return found


def _check_columns(name: str, schema: Any, kinds: dict[str, Any]) -> None:
    """Raise TransferError if columns that have a type are not in the file, or their text is not UTF-8."""
    import pyarrow

    if lacking := [column for column in kinds if column not in schema.names]:
        raise TransferError(
            f"{name}: expected the columns of the schema, got {schema.names}, which lack {lacking}"
        )
    # pyarrow returns text in another encoding as bytes.
    if binary := [column.name for column in schema if pyarrow.types.is_binary(column.type)]:
        raise TransferError(f"{name}: expected UTF-8 in the columns {binary}, got other bytes; recode it")


class _CsvWriter:
    """Ids and UUIDs become hexadecimal text, other bytes base64."""

    def __init__(self, path: Path, schema: Any, *, has_header: bool) -> None:
        import pyarrow
        from pyarrow import csv

        fields = [(field.name, _written_as(field.type)) for field in schema]
        self._texts = {name: write for name, (write, _) in fields if write is not None}
        plain = pyarrow.schema([pyarrow.field(name, kind) for name, (_, kind) in fields])
        self._writer = csv.CSVWriter(path, plain, write_options=csv.WriteOptions(include_header=has_header))

    def write(self, table: Any) -> None:
        self._writer.write(_as_texts(table, self._texts))

    def close(self) -> None:
        self._writer.close()


def _written_as(kind: Any) -> tuple[Callable[[bytes], Any] | None, Any]:
    """Return the function that converts a column's bytes to text, and the column's type in the file."""
    import pyarrow

    plain = getattr(kind, "storage_type", kind)
    if pyarrow.types.is_dictionary(plain):
        return None, plain.value_type
    if not (pyarrow.types.is_fixed_size_binary(plain) or pyarrow.types.is_binary(plain)):
        return None, plain if not pyarrow.types.is_null(plain) else pyarrow.string()
    width = plain.byte_width if pyarrow.types.is_fixed_size_binary(plain) else 0
    if width == _OBJECT_ID:
        return bytes.hex, pyarrow.string()
    if width == _UUID:
        return (lambda data: str(uuid.UUID(bytes=data))), pyarrow.string()
    return (lambda data: base64.b64encode(data).decode()), pyarrow.string()


def _csv_types(schema: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the types to read for the columns of a schema, and the kinds of those that are bytes.

    Raises:
        TransferError: a column has documents or arrays.
    """
    import pyarrow

    from mangonel.arrow._texts import WIDTHS
    from mangonel.arrow.schema import fields_of
    from mangonel.files.columns import arrow_field

    types: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name, kind in [] if schema is None else fields_of(schema):
        if not isinstance(kind, str) and kind[0] != "decimal":
            raise TransferError(
                f"expected a type without documents and arrays for {name!r} of CSV, got a {kind[0]}; read it as str"
            )
        if kind in WIDTHS:
            texts[name] = kind
        types[name] = pyarrow.string() if kind in WIDTHS else arrow_field(name, kind).type
    return types, texts


def _bytes_of_texts(table: Any, texts: dict[str, str], name: str, first: int, refused: RefusedRows) -> Any:
    """Convert the columns of text in a table to bytes.

    Args:
        table: rows of a file.
        texts: the kinds of these columns, by name.
        name: the file's name, for an error's message.
        first: the number of rows before these.
        refused: the file's rows that were left out.
    """
    import pyarrow

    from mangonel.arrow._texts import WIDTHS, bytes_of
    from mangonel.files.columns import OBJECT_ID

    for column, kind in texts.items():
        values = []
        for row, text in enumerate(table.column(column).to_pylist()):
            try:
                values.append(None if text is None else bytes_of(text, kind))
            except ValueError as error:
                raise TransferError(
                    f"{name}, row {refused.number(first + row)}: {error} in the column {column!r}"
                ) from error
        width = WIDTHS[kind]
        made = pyarrow.array(values, pyarrow.binary() if width is None else pyarrow.binary(width))
        if kind == "uuid":
            made = pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), made)
        field = pyarrow.field(column, made.type, metadata=OBJECT_ID if kind == "object_id" else None)
        table = table.set_column(table.schema.get_field_index(column), field, made)
    return table


def _as_texts(table: Any, texts: dict[str, Callable[[bytes], str]]) -> Any:
    """Convert the columns of bytes in a table to text."""
    import pyarrow

    for name, convert in texts.items():
        place = table.schema.get_field_index(name)
        chunks = [getattr(chunk, "storage", chunk) for chunk in table.column(place).chunks]
        values = [
            None if value is None else convert(value) for chunk in chunks for value in chunk.to_pylist()
        ]
        table = table.set_column(place, name, pyarrow.array(values, pyarrow.string()))
    return table


def _from(batches: Any, start: int) -> Iterator[Any]:
    """Yield tables of batches without their first rows."""
    import pyarrow

    for batch in batches:
        if start < batch.num_rows:
            yield pyarrow.table(batch.slice(start) if start else batch)
        start = max(start - batch.num_rows, 0)


FORMATS: dict[str, Format] = {"parquet": _Parquet(), "arrow": _Ipc(), "csv": _Csv()}


def format_of(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """Return the format with this name, or the one of the file's ending.

    Args:
        path: the file, or a folder whose files have the format.
        name: "parquet", "arrow" or "csv". None: from the ending.

    Raises:
        TransferError: the format is unknown.
    """
    if name is not None:
        if name not in FORMATS:
            raise TransferError(f"expected one of {list(FORMATS)} as format, got {name!r}")
        return FORMATS[name]
    endings = [ending for each in FORMATS.values() for ending in each.endings]
    paths = [Path(path), *(sorted(Path(path).glob("*")) if Path(path).is_dir() else ())]
    for each in paths:
        for found in FORMATS.values():
            if each.suffix in found.endings:
                return found
    raise TransferError(
        f"expected a name that ends in {', '.join(endings)}, got {Path(path).name!r}; or give a format"
    )
