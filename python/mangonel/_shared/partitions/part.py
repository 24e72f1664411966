"""One partition of a query: it reads with its collection's client here, and with another client elsewhere."""

from __future__ import annotations

from mangonel._arguments import told_by_public_name
from mangonel._light import Generic
from mangonel._shared.face_result import FaceResult
from mangonel._shared.partitions.carry import Carried, carried, check_connect, client_for
from mangonel._shared.partitions.plan import Plan, Range, plan_flow
from mangonel.errors import InvalidOperation
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, Unpack

    from mangonel import _core
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.cursors.find_cursor import _Cursor
    from mangonel._shared.cursors.table_options import TableOptions
    from mangonel._shared.cursors.tables import ArrowTables, PolarsFrame
    from mangonel.bson.raw_bson import RawBSONDocument
    from mangonel.bson.timestamp import Timestamp

# The cursor options outside the command that a partition keeps.
_CURSOR_STATE = ("_batch_size", "_into", "_prefetch")
# The attributes of a partition in its pickle, besides those of its collection.
_STATE = ("_low", "_high", "_shard", "_moment", "_index", "_count", "_cursor_state", "_connect")


@told_by_public_name
class _Partition(Generic[_DocumentType]):
    """A part of a query that is read separately. Made by `Collection.partitions`.

    It can be pickled and read in another process or on another machine; there, all partitions share one client. It may
    be read any number of times. Without a snapshot, two reads may differ.

    Example:
        >>> part, = client.shop.orders.partitions(1)
        >>> len(part.to_arrow())
        2
    """

    # Set by each face: the class of clients that other processes make.
    _client_class: type[Any]

    _collection: _Collection[_DocumentType] | None
    _carried: Carried | None
    # Database, collection, codec options, read preference.
    _settings: tuple[Any, ...]
    _low: bytes | None
    _high: bytes | None
    _shard: str | None
    _moment: Timestamp | None
    _index: int
    _count: int
    # The find command as BSON, so that values of any type arrive unchanged.
    _query: bytes
    _cursor_state: dict[str, Any]
    _connect: Callable[[], object] | str | None

    def __init__(self) -> None:
        raise InvalidOperation(f"a {type(self).__name__} is made by partitions() of a collection")

    @classmethod
    def _made(cls, cursor: _Cursor[Any], plan: Plan, place: int, *, connect: Any, is_ordered: bool) -> Self:
        from mangonel import _core
        from mangonel.read_concern import ReadConcern

        collection, range = cursor._collection, plan.ranges[place]
        query = {**cursor._query}
        range.narrow(query, is_ordered=is_ordered)
        concern = plan.read_concern or collection._read_concern.document
        if concern:
            query["readConcern"] = concern
        if plan.identity is not None:
            query["collectionUUID"] = plan.identity
        self = object.__new__(cls)
        self._query = _core.encode(query, codec_options=collection._codec_options)
        self._cursor_state = {name: getattr(cursor, name) for name in _CURSOR_STATE if getattr(cursor, name)}
        # The query has the read concern.
        self._collection = collection.with_options(read_concern=ReadConcern())
        self._carried = None
        self._connect = connect
        self._settings = (
            collection._database_name,
            collection._name,
            collection._codec_options,
            collection._read_preference,
        )
        self._low, self._high = _bytes_of(range.low), _bytes_of(range.high)
        self._shard, self._moment = range.shard, plan.moment
        self._index, self._count = place, len(plan.ranges)
        return self

    def _carry(self) -> Carried:
        if self._carried is None:
            assert self._collection is not None
            self._carried = carried(self._collection._client, self._connect)
        return self._carried

    def __reduce__(self) -> tuple[object, ...]:
        state = {name: getattr(self, name) for name in _STATE}
        state |= {"_query": self._query, "_carried": self._carry(), "_settings": self._settings}
        return _restored, (type(self), state)

    def __repr__(self) -> str:
        name = f"{self._settings[0]}.{self._settings[1]}"
        return f"{type(self).__name__}({name!r}, index={self._index}, count={self._count})"

    @property
    def index(self) -> int:
        """The position of this part among all parts of the query, from 0."""
        return self._index

    @property
    def count(self) -> int:
        """How many parts the query has."""
        return self._count

    @property
    def namespace(self) -> str:
        """The collection: `database.collection`."""
        return f"{self._settings[0]}.{self._settings[1]}"

    @property
    def low(self) -> RawBSONDocument | None:
        """The first key of the part, as a document of the index's fields; None: the part begins with the index."""
        return _raw(self._low)

    @property
    def high(self) -> RawBSONDocument | None:
        """The key before which the part ends; None: the part ends with the index."""
        return _raw(self._high)

    @property
    def shard(self) -> str | None:
        """The name of the shard that has all chunks of the part; None if several shards have them, or if not known."""
        return self._shard

    @property
    def snapshot_time(self) -> Timestamp | None:
        """The moment that all parts read, or None without a snapshot."""
        return self._moment

    def on(self, client: Any) -> Any:
        """Return the same part, read with another client. Sends nothing.

        Args:
            client: a client of either face, which decides the face of the returned part.

        Raises:
            TypeError: not a client.

        Example:
            >>> part, = client.shop.orders.partitions(1)
            >>> part.on(client).index
            0
        """
        if getattr(type(client), "_port_class", None) is None:
            raise TypeError(f"expected a client, got {type(client).__name__}")
        collection = self._on(client)
        made = object.__new__(collection._partition_class)
        vars(made).update(vars(self))
        made._collection, made._carried = collection, None
        return made

    def _on(self, client: Any) -> Any:
        from mangonel.read_concern import ReadConcern

        database, name, codec_options, read_preference = self._settings
        return client.get_database(database).get_collection(
            name, codec_options, read_preference, None, ReadConcern()
        )

    def _source(self) -> _Collection[_DocumentType]:
        if self._collection is None:
            assert self._carried is not None
            self._collection = self._on(client_for(self._carried, self._client_class))
        return self._collection

    def find(self) -> _Cursor[_DocumentType]:
        """Return a cursor over the documents of the part. Sends nothing until the first document is requested.

        Raises:
            ConfigurationError: this is another process, and its environment lacks the URI or a secret, which the
                message names.

        Example:
            >>> part, = client.shop.orders.partitions(1)
            >>> [order["_id"] for order in part.find()]
            [1, 2]
        """
        from mangonel.bson.raw_bson import RawBSONDocument

        collection = self._source()
        cursor: _Cursor[_DocumentType] = collection._cursor_class(collection)
        cursor._query = dict(RawBSONDocument(self._query))
        if "min" in cursor._query or "max" in cursor._query:
            cursor._has_index_bounds = True
        for name, value in self._cursor_state.items():
            setattr(cursor, name, value)
        return cursor

    def to_arrow(
        self, schema: Any = None, *, rows: int | None = None, **options: Unpack[TableOptions]
    ) -> FaceResult[_core.ArrowTable]:
        """Return the documents of the part as a table of columns.

        Args:
            schema, options: as for `Cursor.to_arrow`. Without a schema each part infers its own, so the tables of two
                parts may differ in their types.
            rows: number of rows in one chunk of the table; None: the default of `Cursor.to_arrow`.

        Raises:
            ColumnError: a value does not fit its column.
            ConfigurationError: as for `find`.
            SnapshotTooOld: the server no longer keeps the snapshot's data; make the parts again.
            OperationFailure, AutoReconnect: as for iterating. The part may be read again.

        Example:
            >>> part, = client.shop.orders.partitions(1)
            >>> len(part.to_arrow({"_id": int, "total": float}))
            2
        """
        return self.find().to_arrow(schema, **_with_rows(rows), **options)

    def iter_arrow(
        self, schema: Any = None, *, rows: int | None = None, **options: Unpack[TableOptions]
    ) -> ArrowTables:
        """Iterate over the documents of the part as tables of `rows` rows.

        Args:
            schema, options: as for `Cursor.iter_arrow`.
            rows: number of rows in one table; None: the default of `Cursor.iter_arrow`.

        Raises:
            ValueError: an argument has another value.
            ConfigurationError: as for `to_arrow`.

        Example:
            >>> part, = client.shop.orders.partitions(1)
            >>> [len(table) for table in part.iter_arrow(rows=1)]
            [1, 1]
        """
        return self.find().iter_arrow(schema, **_with_rows(rows), **options)

    def to_polars(self, schema: Any = None, **options: Unpack[TableOptions]) -> FaceResult[PolarsFrame]:
        """Return the documents of the part as a `polars.DataFrame`.

        Args:
            schema, options: as for `Cursor.to_polars`.

        Raises:
            ImportError: polars is not installed.
            ColumnError, ConfigurationError, OperationFailure, AutoReconnect: as for `to_arrow`.

        Example:
            >>> part, = client.shop.orders.partitions(1)
            >>> part.to_polars({"_id": int, "total": float}).shape
            (2, 2)
        """
        return self.find().to_polars(schema, **options)


def _restored(kind: type[_Partition[Any]], state: dict[str, Any]) -> _Partition[Any]:
    """Make a partition from its pickle."""
    made = object.__new__(kind)
    vars(made).update(state)
    made._collection = None
    return made


async def partitions_flow(
    cursor: _Cursor[Any],
    kind: type[Any],
    count: int,
    *,
    by: str,
    is_snapshot: bool,
    is_ordered: bool,
    connect: Any,
) -> list[Any]:
    """Return the parts of a checked query; see `Collection.partitions`."""
    check_connect(connect)
    is_snapshot = is_snapshot or cursor._collection._read_concern._level == "snapshot"
    plan = await plan_flow(cursor, count, by=by, is_snapshot=is_snapshot, is_ordered=is_ordered, is_kept=True)
    return [
        kind._made(cursor, plan, place, connect=connect, is_ordered=is_ordered)
        for place in range(len(plan.ranges))
    ]


def whole(cursor: _Cursor[Any], kind: type[Any], connect: Any) -> Any:
    """Return the whole query as a single part. Sends nothing."""
    check_connect(connect)
    return kind._made(cursor, Plan([Range(None, None)], None), 0, connect=connect, is_ordered=False)


def _with_rows(rows: int | None) -> dict[str, Any]:
    return {} if rows is None else {"rows": rows}


def _bytes_of(bound: RawBSONDocument | None) -> bytes | None:
    return None if bound is None else bytes(bound.raw)


def _raw(data: bytes | None) -> RawBSONDocument | None:
    from mangonel.bson.raw_bson import RawBSONDocument

    return None if data is None else RawBSONDocument(data)
