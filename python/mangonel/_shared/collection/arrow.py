"""Inserting the rows of tables: Arrow's columns become BSON in `_core`, sent as `insert_many` sends documents.

What turns the objects of other libraries into something with Arrow's interface is in `mangonel.arrow`, a floor above,
which is asked for by name.
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
    """Tables into a collection."""

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

        Columns go to BSON without a Python object for a value, and without the GIL. Rows without an `_id` get an
        ObjectId. Dates keep milliseconds, as BSON has them; a date without a zone is one of UTC.

        Args:
            table: what has Arrow's interface (pyarrow, Polars, DuckDB, `to_arrow`), also as a stream of any length.
                With pyarrow installed also a frame of pandas, whose index is not stored, a structured array of NumPy,
                and a dict of arrays.
            ordered: stop at the first row that fails. False: try them all.
            exclude_none: leave columns that are null in a row out of its document.
            bypass_document_validation, session, comment: as for `insert_one`.

        Raises:
            BulkWriteError: some rows were not stored, or not confirmed; `details` has the counts, and the errors with
                the index of each row.
            ColumnError: a row cannot be stored, the message says which and why; or the table's parts do not fit
                together. Rows of earlier commands are stored. Or a column's name holds a NUL: nothing was sent.
            TypeError: this is no table, or a column is of a type that BSON does not have. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. How many were stored is not known.

        Example:
            >>> client.shop.copies.insert_arrow(client.shop.orders.find().to_arrow()).inserted_count
            2
        """
        from mangonel._shared.collection.bulk_run import BulkRunner

        reader = _core.ArrowReader(above("mangonel.arrow.frames").table_of(table), exclude_none)
        runner = BulkRunner(
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
        # A sequence in all that is asked of it.
        yield TableRun("insert", rows, range(count, count + len(rows)))  # type: ignore[arg-type]  # rows, not a list
        count += len(rows)
