"""The query of a `find`: its arguments and the methods that change it. Sends nothing.

The command exists from the start, and the methods change its fields.
Spec: crud (find), find-getmore-killcursors-commands.
"""

from __future__ import annotations

from mangonel._light import Generic, Mapping
from mangonel._options.index_keys import bounds, hint_document, index_document, index_list
from mangonel._shared.cursors.cursor import PLAIN_INTO, BatchedCursor
from mangonel._shared.face_result import FaceResult
from mangonel._shared.find_command import EXHAUST, FLAG_FIELDS, check_size, find_command
from mangonel._shared.settings import session_of
from mangonel.collation import validate_collation_or_none
from mangonel.cursor_shared import CursorType
from mangonel.errors import InvalidOperation
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from mangonel._shared.base import CollectionContext
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.typings import _CollationIn, _IndexKeyHint, _IndexList


class FindQuery(BatchedCursor[_DocumentType], Generic[_DocumentType]):
    """A query, which may change until its first batch is requested. Arguments as for `Cursor`."""

    _query: dict[str, Any]
    # Negative for a single batch.
    _asked_limit = 0
    # The database's name, unless the collection has a read preference or a read concern. Stored, since attribute access
    # is slow in a class with `__getattr__`.
    _plain_database: str | None

    def __init__(
        self,
        collection: _Collection[_DocumentType],
        filter: Mapping[str, Any] | None = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = CursorType.NON_TAILABLE,
        sort: _IndexList | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any | None = None,
        session: _ClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
        into: Any = None,
    ) -> None:
        if filter is None:
            filter = {}
        elif type(filter) is not dict and not isinstance(filter, Mapping):
            raise TypeError(f"filter must be a mapping type, not {type(filter)}")
        self._begin(collection, collection._context, filter, 0)
        self._begin_options()
        self._into, self._prefetch = into, prefetch
        if session is not None:
            # An ended session is refused when the query is sent.
            has_ended = getattr(session, "has_ended", False) is True
            self._explicit = session if has_ended else session_of(self._port, session)
        if not (
            # Compared one by one, which is cheaper than a comparison of tuples.
            projection is None and sort is None and collation is None and hint is None and max_time_ms is None
            and comment is None and max is None and min is None and max_scan is None and return_key is None
            and show_record_id is None and snapshot is None and allow_disk_use is None and let is None
            and no_cursor_timeout is allow_partial_results is oplog_replay is False
            and type(skip) is type(cursor_type) is int
            and skip == cursor_type == 0
            and "$query" not in filter
        ):  # fmt: skip
            self._query = find_command(
                collection._name,
                filter,
                projection=projection,
                skip=skip,
                no_cursor_timeout=no_cursor_timeout,
                cursor_type=cursor_type,
                sort=sort,
                allow_partial_results=allow_partial_results,
                oplog_replay=oplog_replay,
                collation=collation,
                hint=hint,
                max_scan=max_scan,
                max_time_ms=max_time_ms,
                max=max,
                min=min,
                return_key=return_key,
                show_record_id=show_record_id,
                snapshot=snapshot,
                comment=comment,
                allow_disk_use=allow_disk_use,
                let=let,
            )
            if cursor_type == EXHAUST:
                self._is_exhaust = True
            if max or min:
                self._has_index_bounds = True
        if limit or type(limit) is not int:
            if not isinstance(limit, int):
                raise TypeError(f"limit must be an instance of int, not {type(limit)}")
            if cursor_type == EXHAUST:
                raise InvalidOperation("Can't use limit and exhaust together.")
            self._set_limit(limit)
        if batch_size or type(batch_size) is not int:
            check_size(batch_size)
            self._batch_size = batch_size

    def _begin(
        self, collection: Any, context: CollectionContext, filter: Mapping[str, Any], limit: int
    ) -> None:
        """Set the state of a plain query: one with nothing but a filter and a limit, which is not negative."""
        self._collection = collection
        port, database, name, self._codec, is_plain, _, _ = context
        self._plain_database = database if is_plain else None
        self._port = port if port.limit is None else port.for_cursor()  # type: ignore[attr-defined]
        # The command without the fields that are added before sending: read concern, and bounds other than a limit.
        self._query = {"find": name, "filter": filter}
        if limit > 0:
            self._query["limit"] = limit
        self._asked_limit = limit
        self._id = None
        self._is_closed = False
        self._is_plain = True

    def _begin_into(self, into: Any) -> None:
        """Have the documents of a plain query made instances of a class."""
        self._into, self._is_plain = into, PLAIN_INTO

    def _begin_options(self) -> None:
        """Let the query have options, and set what its first batch reads.

        Reading it from the object takes a tenth of the time that a class attribute takes (CPython 3.11).
        """
        self._into, self._is_plain = self._into, False
        self._opened = self._pinned = self._started = None
        self._explicit = self._max_await_time_ms = None
        self._is_empty = self._is_asking = self._is_exhaust = self._has_index_bounds = self._prefetch = False
        self._batch_size = 0

    # Building the query.

    def _check_unused(self) -> None:
        """Raise InvalidOperation if the query was sent. Call it before a change of anything but the limit."""
        # A cursor without an id was not sent yet, so this saves reading `cursor_id`.
        if self._id is not None and self.cursor_id is not None:
            raise InvalidOperation("cannot set options after executing query")
        if self._is_plain:
            self._begin_options()

    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self:
        """Sort by a key, or by (key, direction) pairs; return the cursor.

        Args:
            key_or_list: a key, or pairs in order of importance.
            direction: direction of a single key: 1 (also for None), -1, or "text" and the like.

        Example:
            >>> cursor.sort([("total", -1), ("_id", 1)])
        """
        self._check_unused()
        self._query["sort"] = index_document(index_list(key_or_list, direction))
        return self

    def limit(self, limit: int) -> Self:
        """Return at most `limit` documents; 0 for all, negative for a single batch. Return the cursor.

        Args:
            limit: the number of documents.

        Raises:
            TypeError: not an integer.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().limit(1).to_list())
            1
        """
        if self._is_plain and type(limit) is int and limit > 0:
            # The usual case, without another frame.
            self._asked_limit = self._query["limit"] = limit
            return self
        if not isinstance(limit, int):
            raise TypeError(f"limit must be an integer, not {type(limit)}")
        if self._is_exhaust:
            raise InvalidOperation("Can't use limit and exhaust together.")
        self._check_unused()
        self._set_limit(limit)
        self._is_empty = False
        return self

    def _set_limit(self, limit: int) -> None:
        self._asked_limit = limit
        if limit > 0:
            # Also makes an int of a bool.
            self._query["limit"] = abs(limit)
        else:
            self._query.pop("limit", None)

    def skip(self, skip: int) -> Self:
        """Leave out the first `skip` matches; return the cursor.

        Args:
            skip: the number of documents; not negative.

        Raises:
            TypeError, ValueError: not an integer, or negative.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> [order["_id"] for order in client.shop.orders.find().sort("_id").skip(1)]
            [2]
        """
        if not isinstance(skip, int):
            raise TypeError(f"skip must be an integer, not {type(skip)}")
        if skip < 0:
            raise ValueError(f"skip must be >= 0, not {skip}")
        self._check_unused()
        self._set("skip", skip)
        return self

    def batch_size(self, batch_size: int) -> Self:
        """Request `batch_size` documents per reply; 0 lets the server choose. Return the cursor.

        Args:
            batch_size: documents per reply; a reply never exceeds 16 MiB.

        Raises:
            TypeError, ValueError: not an integer, or negative.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().batch_size(500).to_list())
            2
        """
        check_size(batch_size)
        self._check_unused()
        self._batch_size = batch_size
        return self

    def hint(self, index: _IndexKeyHint | None) -> Self:
        """Use this index, by name or keys; None lets the server choose. Return the cursor.

        Args:
            index: the index's name, or its keys as given to `create_index`.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().hint([("_id", 1)]).to_list()[0]["_id"]
            1
        """
        self._check_unused()
        self._set("hint", hint_document(index))
        return self

    def comment(self, comment: Any) -> Self:
        """Show `comment` in the server's logs and profile; return the cursor.

        Args:
            comment: text, or any value that BSON can store.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().comment("nightly report").to_list()[0]["_id"]
            1
        """
        self._check_unused()
        if comment is None:
            self._query.pop("comment", None)
        else:
            self._query["comment"] = comment
        return self

    def collation(self, collation: _CollationIn | None) -> Self:
        """Compare strings according to `collation`; return the cursor.

        Args:
            collation: a `Collation`, or a document of its options. None: the collection's own.

        Raises:
            TypeError: `collation` is neither of them.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find({"customer": "ADA"}).collation(Collation("en", strength=2)).to_list()[0]["_id"]
            1
        """
        self._check_unused()
        self._set("collation", validate_collation_or_none(collation))
        return self

    def max(self, spec: _IndexList) -> Self:
        """Stop before these index keys; needs `hint`. Return the cursor.

        Args:
            spec: pairs of key and value, in the order of the index; an exclusive bound. Empty: no bound.

        Raises:
            TypeError: neither a list nor a tuple.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().hint([("_id", 1)]).max([("_id", 2)]).to_list()[0]["_id"]
            1
        """
        if not isinstance(spec, (list, tuple)):
            raise TypeError(f"spec must be an instance of list or tuple, not {type(spec)}")
        self._check_unused()
        return self._bound("max", spec)

    def min(self, spec: _IndexList) -> Self:
        """Start at these index keys; needs `hint`. Return the cursor.

        Args:
            spec: pairs of key and value, in the order of the index; an inclusive bound. Empty: no bound.

        Raises:
            TypeError: neither a list nor a tuple.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().hint([("_id", 1)]).min([("_id", 2)]).to_list()[0]["_id"]
            2
        """
        if not isinstance(spec, (list, tuple)):
            raise TypeError(f"spec must be an instance of list or tuple, not {type(spec)}")
        self._check_unused()
        return self._bound("min", spec)

    def max_time_ms(self, max_time_ms: int | None) -> Self:
        """Limit the server's time to `max_time_ms` milliseconds; None for no limit. Return the cursor.

        Args:
            max_time_ms: milliseconds of the server's work on each command, without the wait for the reply.

        Raises:
            TypeError: neither an integer nor None.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().max_time_ms(10_000).to_list())
            2
        """
        if not isinstance(max_time_ms, int) and max_time_ms is not None:
            raise TypeError(f"max_time_ms must be an integer or None, not {type(max_time_ms)}")
        self._check_unused()
        if max_time_ms is None:
            self._query.pop("maxTimeMS", None)
        else:
            self._query["maxTimeMS"] = max_time_ms
        return self

    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self:
        """Let a TAILABLE_AWAIT cursor wait for new data for this many milliseconds. Return the cursor.

        Args:
            max_await_time_ms: milliseconds for each later batch; None for the server's default, one second.

        Raises:
            TypeError: neither an integer nor None.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> from mangonel import CursorType
            >>> cursor = client.shop.log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(500)
        """
        if not isinstance(max_await_time_ms, int) and max_await_time_ms is not None:
            raise TypeError(f"max_await_time_ms must be an integer or None, not {type(max_await_time_ms)}")
        self._check_unused()
        # Only a tailable cursor with awaitData waits.
        if "tailable" in self._query and "awaitData" in self._query:
            self._max_await_time_ms = max_await_time_ms
        return self

    def max_scan(self, max_scan: int | None) -> Self:
        """Deprecated by the server: scan at most this many documents. Return the cursor.

        Args:
            max_scan: the number of documents. Current servers refuse the option.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> cursor = client.shop.orders.find().max_scan(1_000)
        """
        self._check_unused()
        self._set("maxScan", max_scan)
        return self

    def allow_disk_use(self, allow_disk_use: bool) -> Self:
        """Let a large sort use the disk; return the cursor.

        Args:
            allow_disk_use: False: a sort that needs more than 100 MiB fails.

        Raises:
            TypeError: not a bool.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> [order["_id"] for order in client.shop.orders.find().sort("total").allow_disk_use(True)]
            [2, 1]
        """
        if not isinstance(allow_disk_use, bool):
            raise TypeError(f"allow_disk_use must be a bool, not {type(allow_disk_use)}")
        self._check_unused()
        self._query["allowDiskUse"] = allow_disk_use
        return self

    def where(self, code: Any) -> Self:
        """Return only documents for which the JavaScript `code` is true. Return the cursor.

        Args:
            code: an expression, or a function without arguments; `this` is the document. Never use untrusted text.

        Raises:
            TypeError: neither text nor `Code`.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().where("this.total > 5").to_list()[0]["_id"]
            1
        """
        from mangonel.bson.code import Code

        self._check_unused()
        # The caller's own mapping must not change.
        script = code if isinstance(code, Code) else Code(code)
        self._query["filter"] = {**self._query["filter"], "$where": script}
        return self

    def prefetch(self, prefetch: bool = True) -> Self:
        """Request the next batch while the current one is being read. Return the cursor.

        The server's default puts everything after the first 101 small documents into one reply, so batches of 10 000
        are requested unless `batch_size` is set.

        Args:
            prefetch: False: request the next batch when the current one has been read.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().prefetch().to_list())
            2
        """
        self._check_unused()
        self._prefetch = prefetch
        return self

    def add_option(self, mask: int) -> FaceResult[Self]:
        """Set query flags by their bits in the old wire protocol. Return the cursor.

        Args:
            mask: the sum of bits: 2 tailable, 16 no timeout, 32 await data, 64 exhaust, 128 partial.

        Raises:
            TypeError: not an integer.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> cursor = client.shop.orders.find().add_option(16)
        """
        return self._port.flow(self._add_option_flow(mask))

    async def _add_option_flow(self, mask: int) -> Self:
        if not isinstance(mask, int):
            raise TypeError(f"mask must be an int, not {type(mask)}")
        self._check_unused()
        if mask & EXHAUST:
            if self._asked_limit:
                raise InvalidOperation("Can't use limit and exhaust together.")
            self._is_exhaust = True
        self._query.update((field, True) for flag, field in FLAG_FIELDS.items() if mask & flag)
        return self

    def remove_option(self, mask: int) -> Self:
        """Clear query flags by their bits in the old wire protocol. Return the cursor.

        Args:
            mask: the sum of bits, as for `add_option`.

        Raises:
            TypeError: not an integer.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> cursor = client.shop.orders.find().remove_option(16)
        """
        if not isinstance(mask, int):
            raise TypeError(f"mask must be an int, not {type(mask)}")
        self._check_unused()
        if mask & EXHAUST:
            self._is_exhaust = False
        self._drop_flags(mask)
        return self

    def _drop_flags(self, mask: int) -> None:
        for flag, field in FLAG_FIELDS.items():
            if mask & flag:
                self._query.pop(field, None)

    def _set(self, field: str, value: Any) -> None:
        """Set a field of the command, or remove it: the server's own default has no value."""
        if value:
            self._query[field] = value
        else:
            self._query.pop(field, None)

    def _bound(self, field: str, spec: _IndexList) -> Self:
        self._set(field, bounds(spec))
        self._has_index_bounds = "min" in self._query or "max" in self._query
        return self

    def _narrow(self, names: dict[str, int]) -> None:
        self._query.setdefault("projection", names)


# Errors about wrong keywords show this name.
FindQuery.__init__.__qualname__ = "find"
