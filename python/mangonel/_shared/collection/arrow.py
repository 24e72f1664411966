"""Inserts the rows of tables: `_core` converts Arrow columns to BSON, which is sent as by `insert_many`.

`mangonel.arrow`, on a higher floor and imported by name, converts other libraries' objects to objects with Arrow's
interface.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._shared.collection.write_support import WritingSource
from mangonel._shared.face_result import FaceResult
from mangonel._shared.settings import session_of
from mangonel._shared.upper_modules import upper_module
from mangonel.common import MAX_WRITE_BATCH_SIZE
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from mangonel._shared.collection.bulk_run import BulkRunner, Run
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.results import BulkWriteResult


MARKERS = "mangonel_once"
"""The collection that has a document for each table stored with `once`."""

_DUPLICATE_KEY = 11000


class CollectionArrow(WritingSource):
    """Inserts tables into a collection."""

    def insert_arrow(
        self,
        table: Any,
        ordered: bool = True,
        *,
        exclude_none: bool = False,
        key: str | Sequence[str] | None = None,
        once: str | None = None,
        bypass_document_validation: bool | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        timeout_ms: float | None = None,
    ) -> FaceResult[BulkWriteResult]:
        """Insert the rows of a table as documents, in as few commands as the server's limits allow.

        Columns become BSON without Python objects and without the GIL. Rows without an `_id` get an ObjectId. Dates
        keep milliseconds, as in BSON; dates without a time zone are in UTC.

        Args:
            table: an object with Arrow's interface (pyarrow, Polars, DuckDB, `to_arrow`), or a stream of any length.
                If pyarrow is installed, also a pandas DataFrame, whose index is not stored, a structured NumPy array,
                or a dict of arrays.
            ordered: stop at the first row that fails. False: try all of them.
            exclude_none: leave out fields that are null.
            key: a column, or several, whose values identify a document: a row replaces the document with the same
                values, or is inserted if there is none. So storing a table twice stores it once. Rows become Python
                objects. A key other than `_id` should have a unique index.
            once: a unique name for this table. One transaction stores its rows and a document with this name in the
                database's collection `mangonel_once`; a later call with the same name stores nothing and returns
                counts of 0. For jobs that may be repeated after an unknown outcome. Needs a replica set or sharded
                cluster; storing the table must take less than the server's limit for transactions, 60 seconds by
                default.
            bypass_document_validation, session, comment: as for `insert_one`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            BulkWriteError: some rows were not stored, or not confirmed (with `once`: no row was stored); `details` has
                the counts, and the errors with the index of each row.
            ColumnError: a row cannot be stored (the message says which and why), or the table's parts differ in their
                columns; rows of earlier commands are stored. Or a column's name contains a NUL: nothing was sent.
            TypeError: `table` is not a table, or a column has a type that BSON lacks. Nothing was sent.
            InvalidOperation: `once` and a session were both passed; nothing was sent. Or a table with this name was
                stored in another collection, or had another number of rows; nothing was stored.
            AutoReconnect: the connection broke, twice with `retryWrites`. How many rows were stored is not known.

        Example:
            >>> client.shop.copies.insert_arrow(client.shop.orders.find().to_arrow()).inserted_count
            2
        """
        self = self._limited(timeout_ms)
        found = upper_module("mangonel.arrow.frames").table_of(table)
        keys = None if key is None else _keys_of(key)
        # The core generates an `_id` for rows without one; a replacement must not use it.
        has_id = (
            keys is None or "_id" in keys or "_id" in upper_module("mangonel.arrow.frames").names_of(found)
        )
        reader = _core.ArrowReader(found, exclude_none)

        def runner_of(collection: Any, session: _ClientSession | None) -> BulkRunner:
            bypass = bypass_document_validation if collection is self else None
            return self._bulk_runner(
                collection,
                ordered=ordered,
                bypass_document_validation=bypass,
                comment=comment,
                session=session,
            )

        runs = _runs(reader) if keys is None else _replacements(reader, keys, has_id=has_id)
        if once is None:
            return self._port.flow(_insert_flow(runner_of(self, session), runs))
        if session_of(self._port, session) is not None:
            raise InvalidOperation(
                "expected no session beside once, which makes a transaction of its own, got one"
            )
        marker = {"_id": once, "collection": self._name}
        return self._port.flow(_once_flow(self, runner_of, runs, marker))


async def _insert_flow(runner: BulkRunner, runs: Iterable[Run]) -> BulkWriteResult:
    from mangonel._shared.collection.bulk_run import new_result
    from mangonel.results import BulkWriteResult

    result = await runner.run_flow(runs, name="insert")
    return BulkWriteResult(new_result() if result is None else result, result is not None)


async def _once_flow(
    collection: Any, runner_of: Any, runs: Iterable[Run], marker: dict[str, Any]
) -> BulkWriteResult:
    """Store rows and their marker in one transaction, or nothing if the marker exists."""
    from mangonel._shared.collection.bulk_run import new_result
    from mangonel.errors import BulkWriteError
    from mangonel.read_preferences import ReadPreference
    from mangonel.results import BulkWriteResult

    markers = collection._database.get_collection(MARKERS, read_preference=ReadPreference.PRIMARY)
    # A stream can be read only once, but the transaction may have to run again.
    kept = list(runs)
    marker["rows"] = sum(len(run.writes) for run in kept)

    async def store_flow(session: _ClientSession) -> BulkWriteResult | None:
        runner = runner_of(markers, session)
        try:
            await runner.run_flow([runner.insert_run([marker])], name="insert")
        except BulkWriteError as error:
            if any(refused["code"] == _DUPLICATE_KEY for refused in (error.details or {})["writeErrors"]):
                # The server has aborted the transaction.
                await session._end_transaction_flow(_core.KIND_ABORT)
                return None
            raise
        return await _insert_flow(runner_of(collection, session), kept)

    port = collection._port
    session = collection._client.start_session()
    try:
        stored = await session._with_transaction_flow(
            lambda session: port.flow(store_flow(session)), (None, None, None, None)
        )
    finally:
        await session._end_flow()
    if stored is not None:
        return stored
    for found in await markers.find({"_id": marker["_id"]}, limit=1)._to_list_flow(None):
        if (other := found.get("collection")) != marker["collection"]:
            raise InvalidOperation(
                f"expected a new name for once=, got {marker['_id']!r}, by which a table was stored in "
                f"{collection.database.name}.{other}; nothing was stored, give this one another name"
            )
        if (rows := found.get("rows")) != marker["rows"]:
            raise InvalidOperation(
                f"expected the {rows} rows that were stored by the name {marker['_id']!r}, got {marker['rows']}; "
                "nothing was stored: give another table another name, and a job the parts of its earlier run"
            )
    return BulkWriteResult(new_result(), True)


def _keys_of(key: str | Sequence[str]) -> tuple[str, ...]:
    keys: tuple[Any, ...] = (key,) if isinstance(key, str) or not hasattr(key, "__iter__") else tuple(key)
    if not keys or not all(isinstance(each, str) for each in keys):
        raise TypeError(f"expected the name of a column, or several, as key, got {key!r}")
    return keys


def _replacements(reader: _core.ArrowReader, keys: tuple[str, ...], *, has_id: bool) -> Iterator[Run]:
    """Yield upserts of rows, each filtered by the values of its keys.

    Raises:
        ColumnError: a row has no value for a key.
    """
    from mangonel.operations import ReplaceOne

    count = 0
    while (rows := reader.next_part(MAX_WRITE_BATCH_SIZE)) is not None:
        requests = []
        for place in range(len(rows)):
            document = rows[place]
            if not has_id:
                del document["_id"]
            query = {each: document.get(each) for each in keys}
            if None in query.values():
                raise upper_module("mangonel.arrow.errors").ColumnError(
                    f"expected a value for each key of row {count + place}, got {query}; "
                    f"its fields are {list(document)}"
                )
            requests.append(ReplaceOne(query, document, upsert=True))
        from mangonel._shared.collection.bulk_run import BulkRunner, Run

        for run in BulkRunner.runs_of(requests, True):
            yield Run(run.command, run.writes, range(count, count + len(requests)))
        count += len(rows)


def _runs(reader: _core.ArrowReader) -> Iterator[Run]:
    from mangonel._shared.collection.bulk_run import TableRun

    count = 0
    while (rows := reader.next_part(MAX_WRITE_BATCH_SIZE)) is not None:
        # `rows` has the methods of a sequence that the run uses.
        yield TableRun("insert", rows, range(count, count + len(rows)))  # type: ignore[arg-type]  # rows, not a list
        count += len(rows)
