"""Reads queries as tables of columns, on either face, without Python documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from mangonel._core import ArrowTable
from mangonel._shared.cursors.tables import ArrowTables, table_flow
from mangonel.arrow import frames
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import QueryColumnsTwins
from mangonel.odm.query.builder import limited_flow
from mangonel.odm.query.reads import QueryReads
from mangonel.odm.query.request import Request

if TYPE_CHECKING:
    from typing import Unpack

    from mangonel._shared.cursors.table_options import TableOptions

__all__ = ["QueryColumns"]

T = TypeVar("T")

_ROWS = 65_536


class QueryColumns(QueryReads[T], QueryColumnsTwins[T]):
    """The methods of a query that return columns."""

    __slots__ = ()

    def _found(self, request: Request) -> Any:
        if self._is_none:
            # No filter of the server expresses "nothing" as cheaply.
            return request.collection.find({"$expr": False}, **{**request.keywords, "limit": 1})
        return request.collection.find(request.filter, **request.keywords)

    async def _columns_flow(
        self, request: Request, convert: Callable[[Any], Any] | None, schema: Any, options: TableOptions
    ) -> Any:
        source, builder = self._found(request)._columns(schema, **options)
        return await table_flow(source, builder, convert)

    @terminal
    def to_arrow(self, schema: Any = None, **options: Unpack[TableOptions]) -> ArrowTable:
        """Return the documents as an Arrow table, with a column for each key in the database.

        Args:
            schema: names and types of the columns, as for a cursor's `to_arrow`; a model has its own. None: infer the
                columns.
            options: `on_invalid`, `missing`, `categorical` and `parallel`, as for a cursor's `to_arrow`.

        Raises:
            ColumnError: a value does not fit.

        Example:
            >>> User.find().to_arrow({"name": str}).column_names
            ['name']
        """
        return self._run(IS_ASYNC, "to_arrow", self._columns_flow, None, schema, options)

    @terminal
    def to_polars(self, schema: Any = None, **options: Unpack[TableOptions]) -> Any:
        """Return the documents as a `polars.DataFrame`. Takes the arguments of `to_arrow`."""
        return self._run(IS_ASYNC, "to_arrow", self._columns_flow, frames.polars_of, schema, options)

    @terminal
    def to_pandas(self, schema: Any = None, **options: Unpack[TableOptions]) -> Any:
        """Return the documents as a `pandas.DataFrame`; needs pandas and pyarrow. Arguments as for `to_arrow`."""
        return self._run(IS_ASYNC, "to_arrow", self._columns_flow, frames.pandas_of, schema, options)

    @terminal
    def to_numpy(self, schema: Any = None, **options: Unpack[TableOptions]) -> dict[str, Any]:
        """Return a numpy array for each column; needs numpy and pyarrow. Arguments as for `to_arrow`."""
        return self._run(IS_ASYNC, "to_arrow", self._columns_flow, frames.numpy_of, schema, options)

    @terminal
    def iter_arrow(
        self, schema: Any = None, *, rows: int = _ROWS, **options: Unpack[TableOptions]
    ) -> Iterator[ArrowTable]:
        """Iterate over the documents as Arrow tables that share a schema.

        Args:
            schema: as for `to_arrow`.
            rows: number of rows in each table except the last.
            options: as for `to_arrow`.

        Example:
            >>> [len(table) for table in User.find().iter_arrow(rows=1_000)]
            [2]
        """
        request = Request(self, "iter_arrow", IS_ASYNC)
        return _Tables(self._seconds, request, self._found(request).iter_arrow(schema, rows=rows, **options))


class _Tables(ArrowTables):
    """The tables of `iter_arrow`; the query's time limit applies to each."""

    def __init__(self, seconds: float | None, request: Request, tables: Any) -> None:
        self._seconds = seconds
        self._port = request.port
        self._tables = tables

    async def _table_flow(self) -> ArrowTable | None:
        if self._seconds is None:
            return await self._tables._table_flow()
        return await limited_flow(self._seconds, self._tables._table_flow)
