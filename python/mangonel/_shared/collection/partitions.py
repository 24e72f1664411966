"""Splits a query of a collection into parts that are read separately, here or in other processes."""

from __future__ import annotations

from mangonel._light import Generic
from mangonel._shared.base import CommandSource
from mangonel._shared.face_result import FaceResult
from mangonel._shared.upper_modules import upper_module
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    # Classes of libraries that need not be installed.
    PolarsLazyFrame: TypeAlias = Any
    ArrowDataset: TypeAlias = Any

    from mangonel._shared.partitions.part import _Partition


class CollectionPartitions(CommandSource, Generic[_DocumentType]):
    """The parts of a collection's queries."""

    # Set by each face in `api.py`.
    _partition_class: type[Any]
    _cursor_class: type[Any]

    def partitions(
        self,
        count: int,
        filter: Mapping[str, Any] | None = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        *,
        snapshot: bool = False,
        ordered: bool = False,
        by: str = "auto",
        connect: Callable[[], object] | str | None = None,
        batch_size: int = 0,
        comment: Any | None = None,
        max_time_ms: int | None = None,
        no_cursor_timeout: bool = False,
        allow_partial_results: bool = False,
        let: Mapping[str, Any] | None = None,
    ) -> FaceResult[list[_Partition[_DocumentType]]]:
        """Split a query into parts of about the same size that are read separately, here or in other processes.

        Together the parts return each document once if it exists, with the same `_id`, from this call to the end of the
        reads; so writers do not matter to it. If the collection is dropped, renamed or replaced before a part is read,
        that read raises OperationFailure; servers older than 6.0 cannot notice it. The parts are in the order of `_id`,
        which may have several types. They can be pickled and read in other processes and on other machines. A pickle
        holds the client's hosts and options, and no password.

        Args:
            count: how many parts; fewer if there are few documents; one more if a document has MaxKey as its `_id`.
            filter, projection: as for `find`. The size of the parts does not depend on the filter.
            snapshot: all parts read the data of one moment, that of this call. Servers keep it for
                `minSnapshotHistoryWindowInSeconds`, 300 by default. Needs a replica set or sharded cluster of 5.0.
            ordered: each part returns its documents in the order of `_id`. A chunk map with another order is not used.
            by: how the parts are found. "sample": from a sample of `_id`. "chunks": from the chunk map of a sharded
                collection; bounds are values of the shard key, and a part has whole chunks. "auto": from the chunk map
                if it has at least `count` chunks. With the chunk map, parts are in the order of the shard key; and a
                document whose shard key changes meanwhile may be in two parts or in none, unless `snapshot` is set.
            connect: how another process gets its client. None: from the environment variable `MANGONEL_URI`, or, if it
                is not set, from this client's hosts and options, which suffice if none of them is secret. A string: the
                name of another environment variable with a URI. A function that can be pickled: called once in that
                process; it returns a client, a URI, or a mapping of a client's arguments.
            batch_size, comment, max_time_ms, no_cursor_timeout, allow_partial_results, let: as for `find`.

        Raises:
            ValueError: `count` or `by` is not one of these values. Nothing was sent.
            TypeError: `connect` is neither a function nor a name. Nothing was sent.
            InvalidOperation: a session is bound here; or `count` is above 1, and the filter has `$text`, `$near` or
                `$nearSphere`, or the collection is a view or a time series, which has no index on `_id`.
            SnapshotUnavailable: the deployment, or the collection, has no snapshot; the message says why.
            ConfigurationError: `by` is "chunks", and the collection has no usable chunk map; the message says why. Or
                `connect` is a URI.
            OperationFailure, AutoReconnect: as for `find`.

        Example:
            >>> parts = client.shop.orders.partitions(4, {"total": {"$gt": 1}})
            >>> sum(len(part.to_arrow()) for part in parts)
            2
        """
        from mangonel._shared.partitions.part import partitions_flow
        from mangonel._shared.partitions.plan import METHODS, check

        cursor = self._cursor_class(
            self,
            filter,
            projection,
            batch_size=batch_size,
            comment=comment,
            max_time_ms=max_time_ms,
            no_cursor_timeout=no_cursor_timeout,
            allow_partial_results=allow_partial_results,
            let=let,
        )
        if by not in METHODS:
            raise ValueError(f"expected one of {list(METHODS)} for by, got {by!r}")
        check(cursor, count, "part as count", wanted="partitions() reads ranges of an index")
        return self._port.flow(
            partitions_flow(
                cursor,
                self._partition_class,
                count,
                by=by,
                is_snapshot=snapshot,
                is_ordered=ordered,
                connect=connect,
            )
        )

    def scan_polars(
        self,
        schema: Any,
        filter: Mapping[str, Any] | None = None,
        *,
        on_invalid: str = "raise",
        parallel: int = 1,
        connect: Callable[[], object] | str | None = None,
    ) -> PolarsLazyFrame:
        """Return a query as a `polars.LazyFrame`. The query is sent whenever the frame is collected.

        Polars passes on the columns that it needs, its predicate, its limit and the size of batches. The server sends
        only these columns. A predicate is sent if it means the same in MongoDB as in Polars, and is always applied to
        arriving rows, so sending it does not change the result. A document that the server filters out raises no
        ColumnError.

        Args:
            schema: names and types of the columns, as for `Cursor.to_arrow`.
            filter: query document, sent in addition; it has MongoDB's meaning.
            on_invalid: how to treat a value that does not fit its column. "raise": raise; "null": make it null;
                "string": in a text column make it extended JSON, in any other column raise.
            parallel: how many cursors read at a time, as for `Cursor.to_arrow`. With the collection's read concern
                "snapshot" they all read the data of one moment.
            connect: how a pickled frame gets its client in another process, as for `partitions`. Engines read in
                threads, with blocking clients; on asyncio, this process's blocking client is made in the same way.

        Raises:
            ImportError: polars is not installed.
            ValueError, TypeError: `schema` is not a schema, or an argument has another value.
            ColumnError, OperationFailure, AutoReconnect: when the frame is collected, in the form in which Polars
                reports errors.

        Example:
            >>> frame = client.shop.orders.scan_polars({"_id": int, "total": float})
            >>> frame.filter(polars.col("total") > 5).select("_id").collect().rows()
            [(1,)]
        """
        made = self._lazy(schema, filter, on_invalid, parallel, connect)
        return upper_module("mangonel.arrow._lazy").scan(made)

    def dataset(
        self,
        schema: Any,
        filter: Mapping[str, Any] | None = None,
        *,
        on_invalid: str = "raise",
        parallel: int = 1,
        connect: Callable[[], object] | str | None = None,
    ) -> ArrowDataset:
        """Return a query as a `pyarrow.dataset.Dataset`. The query is sent whenever the dataset is scanned.

        DuckDB queries it by the name of its variable, Polars with `scan_pyarrow_dataset`, pyarrow with `to_table`. They
        pass on columns and predicates, which are sent as for `scan_polars`.

        Args:
            schema, filter, on_invalid, parallel, connect: as for `scan_polars`.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError, TypeError: `schema` is not a schema, or an argument has another value.

        Example:
            >>> big = client.shop.orders.dataset({"_id": int, "total": float})
            >>> duckdb.sql("select _id from big where _id < 2").fetchall()
            [(1,)]
        """
        made = self._lazy(schema, filter, on_invalid, parallel, connect)
        return upper_module("mangonel.arrow._lazy").dataset(made)

    def _lazy(self, schema: Any, filter: Any, on_invalid: str, parallel: int, connect: Any) -> Any:
        from mangonel._shared.partitions.part import whole

        part = whole(self._cursor_class(self, filter), self._partition_class, connect)
        return upper_module("mangonel.arrow._lazy").Source(
            part, schema, on_invalid=on_invalid, parallel=parallel
        )
