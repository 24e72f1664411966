"""The cursor of a query from its first batch on: iteration, copies, and other commands with the same query.

`find_query` holds the query. Spec: find-getmore-killcursors-commands, crud (find).
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import told_by_public_name
from mangonel._core import KIND_READ, READ_RAW_BATCH, read_operation
from mangonel._faces.deadline import check_wait
from mangonel._faces.port import refuse_encryption
from mangonel._light import Generic
from mangonel._shared.cursors.cursor import PREFETCH_BATCH_SIZE
from mangonel._shared.cursors.find_query import FindQuery
from mangonel._shared.face_result import FaceResult
from mangonel._shared.find_command import AWAIT_DATA, TAILABLE, refuse_bounds, set_bounds
from mangonel._shared.operation import PRIMARY_MODE, build_operation
from mangonel._shared.settings import BOUND, preference_in, session_handle, session_of
from mangonel.errors import InvalidOperation
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


@told_by_public_name
class _Cursor(FindQuery[_DocumentType], Generic[_DocumentType]):
    """The documents that match a query, fetched in batches on demand.

    Nothing is sent until the first document is requested; before that, the methods that return the cursor itself may
    change the query. Made by `Collection.find`.

    Args:
        collection: the collection to search.
        filter: query document; None matches all.
        projection: names of fields to return, or a document of them; `_id` is included unless excluded.
        skip: how many matches to leave out at the start.
        limit: the most documents to return; 0 for all, negative for a single batch.
        no_cursor_timeout: keep the server from ending the cursor after ten idle minutes.
        cursor_type: one of CursorType: tailable cursors of capped collections, or EXHAUST.
        sort: keys, or (key, direction) pairs, or a mapping of them.
        allow_partial_results: let a mongos return results while some shards are down.
        batch_size: documents per reply; 0 lets the server choose.
        collation: language rules for comparing strings.
        hint: the index to use, by name or keys.
        max_time_ms: milliseconds the server may spend; then ExecutionTimeout.
        max, min: bounds on an index's keys, exclusive and inclusive; need `hint`.
        return_key: return only the index's fields.
        show_record_id: add the storage position as `$recordId`.
        comment: shown in the server's logs and profile.
        session: run in this session; it must come from the same client.
        allow_disk_use: let a large sort use the disk.
        let: variables for expressions, as `$$name`.
        prefetch: request the next batch while the current one is being read. Needs memory for one more batch.
        into: the class of returned documents: a `mangonel.odm` model, a dataclass, a
            `msgspec.Struct` or a `TypedDict`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or range.

    Example:
        >>> for order in client.shop.orders.find({"total": {"$gt": 5}}).sort("total", -1).limit(3):
        ...     print(order["total"])
    """

    # The first batch.

    def _enter_session(self) -> _core.Session | None:
        if self._explicit is None:
            if not BOUND:
                return None
            self._explicit = session_of(self._port, None)
            self._is_plain = False
        else:
            session_of(self._port, self._explicit)
        return session_handle(self._explicit)

    def _check_query(self) -> None:
        if self._has_index_bounds and "hint" not in self._query:
            refuse_bounds()

    def _command(self) -> dict[str, Any]:
        command = {**self._query}
        limit = self._asked_limit
        size = self._batch_size or (PREFETCH_BATCH_SIZE if self._prefetch and not limit else 0)
        set_bounds(command, limit, size)
        return command

    def _plain_operation(self) -> _core.Operation:
        database = self._plain_database
        if database is None or BOUND:
            return self._first_operation()
        self._limit = self._asked_limit
        return read_operation(database, self._query, self._codec, self._reading)

    def _first_operation(self) -> _core.Operation:
        query, collection, limit = self._query, self._collection, self._asked_limit
        if limit:
            self._limit = abs(limit)
        # Without these settings, the query is already the command.
        command = self._command() if self._batch_size or self._prefetch or limit < 0 else query
        if len(query) > 3 or (len(query) == 3 and limit <= 0):
            self._comment = query.get("comment")
            self._is_tailable = "tailable" in query
            if self._is_tailable and self._port.limit is not None:
                self._port.begin_anew()  # type: ignore[attr-defined]
        if self._max_await_time_ms is not None:
            check_wait(self._max_await_time_ms, self._port.timeout)
        if self._is_exhaust:
            refuse_encryption(self._port, "exhaust cursors do")
        plain = self._plain_database
        if plain is not None and self._explicit is None and not BOUND:
            return read_operation(plain, command, self._codec, self._reading)
        preference, handle = collection._read_preference, None
        # A part of a snapshot has its own read concern.
        has_concern = collection._read_concern._level is not None and "readConcern" not in query
        if self._explicit is not None or BOUND:
            handle = self._enter_session()
            preference = preference_in(self._explicit, preference)
            has_concern = has_concern and not (handle is not None and handle.in_transaction)
        if has_concern:
            command = {**command, "readConcern": collection._read_concern.document}
        return _core.Operation(
            collection._database_name,
            command,
            self._codec,
            KIND_READ,
            self._reading,
            read_preference=None if preference._MODE == PRIMARY_MODE else preference.document,
            session=handle,
        )

    def _find_one(self) -> FaceResult[_DocumentType | None]:
        self.limit(-1)
        return self._port.flow(self._next_or_none_flow())

    # Rewinding, and copies.

    def rewind(self) -> FaceResult[Self]:
        """Reset the cursor: the query will be sent again. Return the cursor.

        Example:
            >>> cursor.rewind()
        """
        return self._port.flow(self._rewind_flow())

    async def _rewind_flow(self) -> Self:
        if self._is_asking:
            self._refuse_second()
        await self._close_flow()
        return self._start_over()

    def _start_over(self) -> Self:
        self._batch = None
        self._id = None
        self._server = ""
        self._retrieved = 0
        self._is_closed = self._is_tailable = False
        return self

    def clone(self) -> Self:
        """Return a new, unused cursor with the same query."""
        return self._clone(deep=True)

    def __copy__(self) -> Self:
        return self._clone(deep=False)

    def __deepcopy__(self, memo: Any) -> Self:
        return self._clone(deep=True)

    def _clone(self, deep: bool) -> Self:
        copy = type(self)(self._collection)
        copy._explicit = self._explicit
        self._copy_query(copy, deep)
        return copy

    def _copy_query(self, other: Any, deep: bool) -> None:
        """Copy the query to another cursor."""
        other._query = _deep_copy(self._query) if deep else {**self._query}
        for name in _QUERY_STATE:
            value = getattr(self, name)
            # Values equal to the default stay class attributes.
            if value != getattr(other, name):
                setattr(other, name, value)

    # Slices and items.

    def __getitem__(self, index: Any) -> Any:
        if self._port.is_async:
            raise IndexError(f"{type(self).__name__} does not support indexing")
        self._check_unused()
        if isinstance(index, slice):
            return self._slice(index)
        if not isinstance(index, int):
            raise TypeError(f"index {index!r} cannot be applied to {type(self).__name__} instances")
        if index < 0:
            raise IndexError(f"{type(self).__name__} instances do not support negative indices")
        self._is_empty = False
        one = self.clone().skip(index + self._query.get("skip", 0)).limit(-1)
        # A tailable cursor has no end to count from.
        one._drop_flags(TAILABLE | AWAIT_DATA)
        for document in one:  # type: ignore[attr-defined]
            return document
        raise IndexError(f"no such item for {type(self).__name__} instance")

    def _slice(self, index: slice) -> Self:
        name = type(self).__name__
        if index.step is not None:
            raise IndexError(f"{name} instances do not support slice steps")
        skip = index.start or 0
        if skip < 0:
            raise IndexError(f"{name} instances do not support negative indices")
        limit = 0 if index.stop is None else index.stop - skip
        if limit < 0:
            raise IndexError(f"stop index must be greater than start index for slice {index!r}")
        self._set("skip", skip)
        self._set_limit(limit)
        # A limit of 0 would mean all.
        self._is_empty = index.stop is not None and limit == 0
        return self

    # Other commands with the same query.

    def distinct(self, key: str) -> FaceResult[list[Any]]:
        """Return the distinct values of `key` in all matches; skip and limit are ignored.

        Args:
            key: a field; for an array, its elements.

        Raises:
            OperationFailure: the server refused.
            AutoReconnect: the connection broke twice. A read is safe to repeat.

        Example:
            >>> client.shop.orders.find({"total": {"$gt": 5}}).distinct("customer")
            ['Ada']
        """
        query = self._query
        asked = {name: query[name] for name in ("maxTimeMS", "collation") if name in query}
        return self._collection.distinct(
            key, query["filter"] or None, session=self._explicit, comment=query.get("comment"), **asked
        )

    def explain(self) -> FaceResult[dict[str, Any]]:
        """Return the server's plan for the query: its `explain` reply.

        Example:
            >>> client.shop.orders.find({"_id": 1}).explain()["queryPlanner"]["winningPlan"]
            {...}
        """
        self._check_query()
        session = self._enter_session()
        return self._port.run(
            build_operation(
                # Without a verbosity the server returns everything. No server version accepts a read concern in the
                # explained command.
                {"explain": self._command()},
                database=self._collection._database_name,
                codec=self._codec,
                kind=KIND_READ,
                read_preference=preference_in(self._explicit, self._collection._read_preference),
                session=session,
            )
        )


@told_by_public_name
class _RawBatchCursor(_Cursor[_DocumentType], Generic[_DocumentType]):
    """The documents that match a query, a batch at a time, as the concatenated bytes of its documents.

    Made by `Collection.find_raw_batches`. Arguments as for `Cursor`.
    """

    _reading = READ_RAW_BATCH

    def __getitem__(self, index: Any) -> Any:
        raise InvalidOperation("Cannot call __getitem__ on RawBatchCursor")


# The attributes of a query besides its command.
_QUERY_STATE = (
    "_asked_limit",
    "_batch_size",
    "_has_index_bounds",
    "_into",
    "_is_empty",
    "_is_exhaust",
    "_max_await_time_ms",
    "_prefetch",
)


def _deep_copy(value: Any) -> Any:
    """Copy documents and lists; everything else is kept, since compiled patterns, for example, cannot be copied."""
    if isinstance(value, dict):
        return {key: _deep_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_deep_copy(item) for item in value]
    return value
