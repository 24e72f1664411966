"""Reads cursors into tables of columns: `_core.ColumnBuilder` receives batches directly, without Python documents.

`mangonel.arrow`, on a higher floor and imported by name, converts tables for other libraries.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._shared.face_result import FaceResult
from mangonel._shared.upper_modules import upper_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self, TypeAlias, Unpack

    from mangonel._faces.port import Port
    from mangonel._shared.cursors.ranges import Ranges
    from mangonel._shared.cursors.table_options import TableOptions

    # Classes of libraries that need not be installed.
    PolarsFrame: TypeAlias = Any
    PandasFrame: TypeAlias = Any
    NumpyArrays: TypeAlias = dict[str, Any]

_ROWS = 65_536

# Bytes of a batch: a small part of the table, so that it needs little extra memory, but large enough for few round
# trips, and at most the server's limit.
_PART, _LEAST, _MOST = 16, 512 * 1024, 16 * 1024 * 1024


class CursorTables:
    """The methods of a cursor that return columns instead of documents."""

    _port: Port
    _batch: _core.Batch | None
    _id: int | None
    # Size of the next batch in documents, if the user has not set one.
    _pace: int

    async def _fetch_flow(self) -> bool:
        raise NotImplementedError

    async def _close_flow(self) -> None:
        raise NotImplementedError

    def _narrow(self, names: dict[str, int]) -> None:
        """Add a projection to these fields, if nothing was requested yet."""

    @staticmethod
    def _pace_of(rows: int, size: int) -> int:
        """Return how many documents the next batch should have; the last one had `rows` documents of `size` bytes."""
        wanted = min(max(size // _PART, _LEAST), _MOST)
        return max(wanted * rows // max(size, 1), 1)

    def _columns(
        self,
        schema: Any,
        *,
        rows: int = _ROWS,
        on_invalid: str = "raise",
        missing: str = "null",
        categorical: bool = False,
        parallel: int = 1,
        ordered: bool = False,
        **others: Any,
    ) -> tuple[CursorTables | Ranges, _core.ColumnBuilder]:
        """Return the source of batches (this cursor, or cursors over several ranges) and the builder.

        Raises:
            TypeError: `others` has an unknown option; `TableOptions` lists the known ones.
        """
        if others:
            raise TypeError(
                "expected only on_invalid, missing, categorical, parallel and ordered as options of a table, got "
                f"{', '.join(others)}; convert pyarrow.table(cursor.to_arrow()) with another library's options"
            )
        source: CursorTables | Ranges = self
        if not (type(parallel) is int and parallel == 1) or ordered:
            from mangonel._shared.cursors.ranges import Ranges

            source = Ranges(self, parallel, is_ordered=ordered)
        if type(rows) is not int or rows < 1:
            raise ValueError(f"expected at least 1 row in a chunk, got {rows!r}")
        if schema is None:
            return source, _core.ColumnBuilder(None, on_invalid, rows, missing, categorical)
        if categorical:
            raise ValueError(
                'expected no schema beside categorical; name such columns "category" in the schema'
            )
        schemas = upper_module("mangonel.arrow.schema")
        fields = schemas.fields_of(schema)
        builder = _core.ColumnBuilder(fields, on_invalid, rows, missing)
        if self._id is None and self._batch is None:
            names = schemas.projection_of(fields, is_deep=missing != "distinguish")
            if names is not None:
                self._narrow(names)
        return source, builder

    async def _add_flow(self, builder: _core.ColumnBuilder, chunks: int | None) -> bool:
        """Add batches until the builder has this many chunks (None: all); return whether there may be more."""
        try:
            while True:
                batch = self._batch
                if batch is not None and not batch.is_empty:
                    builder.add(batch)
                    self._pace = self._pace_of(*builder.appended)
                if chunks is not None and builder.full_chunks >= chunks:
                    return True
                if self._id == 0 or not await self._fetch_flow():
                    return False
        except ValueError:
            # A document did not fit, so the remaining ones are not needed.
            await self._close_flow()
            raise

    def _json_batches(self, mode: int, separator: int) -> Iterator[tuple[int, bytes]]:
        """Yield the number of documents of each batch, and their JSON with `separator` between them; blocking only."""
        while True:
            batch = self._batch
            if batch is not None and not batch.is_empty:
                yield len(batch), batch.json(mode, separator)
            if self._id == 0 or not self._port.flow(self._fetch_flow()):
                return

    def to_arrow(
        self,
        schema: Any = None,
        *,
        rows: int = _ROWS,
        **options: Unpack[TableOptions],
    ) -> FaceResult[_core.ArrowTable]:
        """Return the remaining documents as a table of columns, made directly from their BSON.

        Any library that reads Arrow accepts it without copying: `pyarrow.table(found)`, `polars.DataFrame(found)`,
        `duckdb.sql("from found")`. Making it needs none of them. The GIL is released while columns are built.

        Args:
            schema: names and types of the columns: a mapping, a `mangonel.arrow.Schema` or a `pyarrow.Schema`. Only
                these fields are fetched. None: infer columns from the documents, widening null to any type, and int32
                to int64 to double.
            rows: number of rows in one chunk of the table.
            options: the keywords below; `to_polars` and similar methods take them too.
            on_invalid: how to treat a value that does not fit its column. "raise", the default, raises ColumnError;
                "null" makes it null; "string" turns an inferred column into text: values of other types become
                extended JSON.
            missing: "null", the default, treats a field that a document lacks as null. "distinguish" adds a last
                column "$null" with the paths of the fields that are null in the document; any other null is a missing
                field. `insert_arrow` turns such a table back into the same documents.
            categorical: dictionary-encode inferred columns of strings, which become categoricals of pandas and
                Polars. False by default. In a schema, the type "category" does this for one column.
            parallel: how many cursors read at a time, each over a range of `_id`. 1 by default. Batches of different
                ranges alternate, so rows have no order. The server uses the index on `_id`, whatever the filter. Each
                cursor holds a connection. For many documents on servers with idle cores. It cannot be combined with
                sort, skip, limit, hint, min, max, collation, a session, or a tailable or exhaust cursor. With read
                concern "snapshot" all cursors read the data of one moment.
            ordered: rows in the order of `_id`, with any `parallel`; batches that arrive early wait in memory. False by
                default. It has the same restrictions as `parallel`.

        Raises:
            ColumnError: a value does not fit; the message has the value's path and the document's `_id`.
            ValueError: an argument has another value.
            InvalidOperation: `parallel` does not work with this query, a view or a time series; the message says why.
            SnapshotUnavailable, SnapshotTooOld: the read concern is "snapshot", and the server does not have the data
                of that moment. Nothing was returned; read again.
            OperationFailure, AutoReconnect: as for iterating.

        Example:
            >>> client.shop.orders.find({}, {"total": 1}).to_arrow().column_names
            ['_id', 'total']
        """
        source, builder = self._columns(schema, rows=rows, **options)
        return self._port.flow(table_flow(source, builder))

    def iter_arrow(
        self,
        schema: Any = None,
        *,
        rows: int = _ROWS,
        **options: Unpack[TableOptions],
    ) -> ArrowTables:
        """Iterate over the remaining documents as tables of `rows` rows.

        All tables have one schema: without `schema`, that of the first table. Later values must fit it, and fields
        outside it are ignored.

        Args:
            schema: as for `to_arrow`.
            rows: number of rows in one table; the last may have fewer.
            options: `on_invalid`, `missing`, `categorical`, `parallel` and `ordered`, as for `to_arrow`.

        Raises:
            ValueError: an argument has another value.
            InvalidOperation: `parallel` does not work with this query.

        Example:
            >>> [len(table) for table in client.shop.orders.find().iter_arrow(rows=1_000)]
            [2]
        """
        return ArrowTables(*self._columns(schema, rows=rows, **options))

    def to_polars(self, schema: Any = None, **options: Unpack[TableOptions]) -> FaceResult[PolarsFrame]:
        """Return the remaining documents as a `polars.DataFrame`.

        Args:
            schema: as for `to_arrow`.
            options: `on_invalid`, `missing`, `categorical`, `parallel` and `ordered`, as for `to_arrow`.

        Raises:
            ColumnError: a value does not fit.
            ImportError: polars is not installed.
            OperationFailure, AutoReconnect: as for iterating.

        Example:
            >>> client.shop.orders.find({}, {"total": 1}).to_polars().shape
            (2, 2)
        """
        source, builder = self._columns(schema, **options)
        return self._port.flow(table_flow(source, builder, upper_module("mangonel.arrow.frames").polars_of))

    def to_pandas(self, schema: Any = None, **options: Unpack[TableOptions]) -> FaceResult[PandasFrame]:
        """Return the remaining documents as a `pandas.DataFrame`; needs pandas and pyarrow.

        A column of integers and nulls becomes doubles. If a double cannot hold one of the integers, the column becomes
        `Int64`, or Python objects if it has lists or documents.

        Args:
            schema: as for `to_arrow`.
            options: `on_invalid`, `missing`, `categorical`, `parallel` and `ordered`, as for `to_arrow`.

        Raises:
            ColumnError: a value does not fit.
            ImportError: pandas or pyarrow is not installed.
            OperationFailure, AutoReconnect: as for iterating.

        Example:
            >>> client.shop.orders.find({}, {"total": 1}).to_pandas().shape
            (2, 2)
        """
        source, builder = self._columns(schema, **options)
        return self._port.flow(table_flow(source, builder, upper_module("mangonel.arrow.frames").pandas_of))

    def to_numpy(self, schema: Any = None, **options: Unpack[TableOptions]) -> FaceResult[NumpyArrays]:
        """Return the remaining documents as a dict with a `numpy.ndarray` per column; needs numpy and pyarrow.

        A column of integers and nulls becomes doubles. If a double cannot hold one of the integers, the array has
        Python objects.

        Args:
            schema: as for `to_arrow`.
            options: `on_invalid`, `missing`, `categorical`, `parallel` and `ordered`, as for `to_arrow`.

        Raises:
            ColumnError: a value does not fit.
            ImportError: numpy or pyarrow is not installed.
            OperationFailure, AutoReconnect: as for iterating.

        Example:
            >>> sorted(client.shop.orders.find({}, {"total": 1}).to_numpy())
            ['_id', 'total']
        """
        source, builder = self._columns(schema, **options)
        return self._port.flow(table_flow(source, builder, upper_module("mangonel.arrow.frames").numpy_of))


async def table_flow(source: CursorTables | Ranges, builder: _core.ColumnBuilder, convert: Any = None) -> Any:
    """Return the table of all remaining batches, or what `convert` makes of it."""
    await source._add_flow(builder, None)
    table = builder.take()
    return table if convert is None else convert(table)


class ArrowTables:
    """The tables of `iter_arrow`: `for` on the blocking face, `async for` on asyncio."""

    def __init__(self, source: CursorTables | Ranges, builder: _core.ColumnBuilder) -> None:
        self._port = source._port
        self._source = source
        self._builder = builder
        self._has_more = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _core.ArrowTable:
        table: _core.ArrowTable | None = self._port.flow(self._table_flow())
        if table is None:
            raise StopIteration
        return table

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Any:
        return self._port.flow(self._next_flow())

    async def _next_flow(self) -> _core.ArrowTable:
        table = await self._table_flow()
        if table is None:
            raise StopAsyncIteration
        return table

    async def _table_flow(self) -> _core.ArrowTable | None:
        if self._has_more and not self._builder.full_chunks:
            self._has_more = await self._source._add_flow(self._builder, 1)
        table = self._builder.take_chunk()
        return table if len(table) else None
