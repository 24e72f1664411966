"""Inserts the rows of tables: `_core` converts Arrow columns to BSON, sent as `insert_many` sends documents.

`mangonel.arrow`, on a higher floor and imported by name, converts other libraries' objects to ones with Arrow's
interface.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._shared.above import above
from mangonel._shared.collection.write_support import WritingSource
from mangonel._shared.returns import Returns
from mangonel.common import MAX_WRITE_BATCH_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mangonel._shared.collection.bulk_run import BulkRunner, Run
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.results import BulkWriteResult


class CollectionArrow(WritingSource):
    """Inserts tables into a collection."""

    def insert_arrow(
        self,
        table: Any,
        ordered: bool = True,
        *,
        exclude_none: bool = False,
        bypass_document_validation: bool | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
    ) -> Returns[BulkWriteResult]:
        """Insert the rows of a table as documents, in as few commands as the server's limits allow.

        Columns become BSON without Python objects and without the GIL. Rows without an `_id` get an ObjectId. Dates
        keep milliseconds, as in BSON; dates without a time zone are in UTC.

        Args:
            table: an object with Arrow's interface (pyarrow, Polars, DuckDB, `to_arrow`), or a stream of any length.
                With pyarrow installed also a pandas DataFrame, whose index is not stored, a structured NumPy array, or
                a dict of arrays.
            ordered: stop at the first row that fails. False: try all of them.
            exclude_none: leave out fields that are null.
            bypass_document_validation, session, comment: as for `insert_one`.

        Raises:
            BulkWriteError: some rows were not stored, or not confirmed; `details` has the counts, and the errors with
                the index of each row.
            ColumnError: a row cannot be stored (the message says which and why), or the table's parts differ in their
                columns; rows of earlier commands are stored. Or a column's name contains a NUL: nothing was sent.
            TypeError: not a table, or a column has a type that BSON lacks. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. How many were stored is not known.

        Example:
            >>> client.shop.copies.insert_arrow(client.shop.orders.find().to_arrow()).inserted_count
            2
        """
        reader = _core.ArrowReader(above("mangonel.arrow.frames").table_of(table), exclude_none)
        runner = self._bulk_runner(
            self, self._client, self._name, ordered, bypass_document_validation, comment, None, session
        )
        return self._port.flow(_insert_flow(runner, reader))


async def _insert_flow(runner: BulkRunner, reader: _core.ArrowReader) -> BulkWriteResult:
    from mangonel._shared.collection.bulk_run import new_result
    from mangonel.results import BulkWriteResult

    result = await runner.run_flow(_runs(reader), name="insert")
    return BulkWriteResult(new_result() if result is None else result, result is not None)


def _runs(reader: _core.ArrowReader) -> Iterator[Run]:
    from mangonel._shared.collection.bulk_run import TableRun

    count = 0
    while (rows := reader.next_part(MAX_WRITE_BATCH_SIZE)) is not None:
        # A sequence as far as its user needs one.
        yield TableRun("insert", rows, range(count, count + len(rows)))  # type: ignore[arg-type]  # rows, not a list
        count += len(rows)
