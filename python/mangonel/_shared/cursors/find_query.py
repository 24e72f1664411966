"""The query of a `find`: its arguments, the methods that change it, and the command it becomes. Sends nothing.

Spec: crud (find), find-getmore-killcursors-commands.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._light import Generic, Mapping
from mangonel._options.index_keys import bounds, hint_document, index_document, index_list
from mangonel._shared.cursors.cursor import _PREFETCH_BATCH_SIZE, BatchedCursor
from mangonel._shared.returns import Returns
from mangonel._shared.settings import session_of
from mangonel.collation import validate_collation_or_none
from mangonel.cursor_shared import CursorType
from mangonel.errors import InvalidOperation
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.typings import _CollationIn, _IndexKeyHint, _IndexList

_TAILABLE = 2
_OPLOG_REPLAY = 8
_NO_CURSOR_TIMEOUT = 16
_AWAIT_DATA = 32
_EXHAUST = 64
_PARTIAL = 128
_CURSOR_TYPES = (
    CursorType.NON_TAILABLE,
    CursorType.TAILABLE,
    CursorType.TAILABLE_AWAIT,
    CursorType.EXHAUST,
)
_FLAG_FIELDS = {
    _TAILABLE: "tailable",
    _OPLOG_REPLAY: "oplogReplay",
    _NO_CURSOR_TIMEOUT: "noCursorTimeout",
    _AWAIT_DATA: "awaitData",
    _PARTIAL: "allowPartialResults",
}

# The modifiers that the old wire protocol put beside the query, and their fields today.
_MODIFIERS = {
    "$orderby": "sort",
    "$hint": "hint",
    "$comment": "comment",
    "$maxScan": "maxScan",
    "$max": "max",
    "$min": "min",
    "$returnKey": "returnKey",
    "$showDiskLoc": "showRecordId",
    "$showRecordId": "showRecordId",
    "$maxTimeMS": "maxTimeMS",
    "$snapshot": "snapshot",
}
# The query itself, and what the operation says by other means.
_DROPPED = ("$query", "$readPreference")


class FindQuery(BatchedCursor[_DocumentType], Generic[_DocumentType]):
    """A query until its first batch is asked for; from then on it stays as it is. The arguments are `Cursor`'s."""

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
        self._begin_state(collection, collection._codec)
        if into is not None:
            self._into = into
        if session is not None:
            # One that has ended is refused when the query is sent.
            self._explicit = session if _has_ended(session) else session_of(self._port, session)
        if filter is None:
            filter = {}
        elif type(filter) is not dict and not isinstance(filter, Mapping):
            raise TypeError(f"filter must be a mapping type, not {type(filter)}")
        if not isinstance(skip, int):
            raise TypeError(f"skip must be an instance of int, not {type(skip)}")
        if not isinstance(limit, int):
            raise TypeError(f"limit must be an instance of int, not {type(limit)}")
        # Almost every query leaves these as they are, and need not pay for a look at each.
        if not (no_cursor_timeout is allow_partial_results is oplog_replay is False):
            _check_bools(
                no_cursor_timeout=no_cursor_timeout,
                allow_partial_results=allow_partial_results,
                oplog_replay=oplog_replay,
            )
        if cursor_type not in _CURSOR_TYPES:
            raise ValueError("not a valid value for cursor_type")
        if allow_disk_use is not None and not isinstance(allow_disk_use, bool):
            raise TypeError(f"allow_disk_use must be a bool, not {type(allow_disk_use)}")
        if let is not None and not isinstance(let, Mapping):
            raise TypeError(f"let must be an instance of dict or of another Mapping, not {type(let)}")
        if cursor_type == CursorType.EXHAUST and limit:
            raise InvalidOperation("Can't use limit and exhaust together.")
        self._filter: Mapping[str, Any] = filter
        self._projection = None if projection is None else _projection_document(projection)
        self._skip = skip
        self._asked_limit = limit
        flags = cursor_type
        if no_cursor_timeout:
            flags |= _NO_CURSOR_TIMEOUT
        if allow_partial_results:
            flags |= _PARTIAL
        if oplog_replay:
            flags |= _OPLOG_REPLAY
        self._flags = flags
        # Unlike `sort()`, and as in the field, no single key, and nothing for no sorting.
        self._sort = index_document(sort) if sort else None
        self._fields: dict[str, Any] = {}
        if return_key is not None:
            self._fields["returnKey"] = return_key
        if show_record_id is not None:
            self._fields["showRecordId"] = show_record_id
        if snapshot is not None:
            self._fields["snapshot"] = snapshot
        if max_scan:
            self._fields["maxScan"] = max_scan
        if allow_disk_use is not None:
            self._fields["allowDiskUse"] = allow_disk_use
        # Nothing where it means nothing: servers older than 5.0 know no variables.
        if let:
            self._fields["let"] = let
        self._comment = comment
        self._collation = None if collation is None else validate_collation_or_none(collation)
        self._hint = None if hint is None else hint_document(hint)
        self._max = bounds(max) if max else None
        self._min = bounds(min) if min else None
        self._prefetch = prefetch
        self._max_time_ms: int | None = None
        if batch_size or type(batch_size) is not int:
            self.batch_size(batch_size)
        if max_time_ms is not None:
            self.max_time_ms(_whole(max_time_ms))

    # Building the query.

    def _check_unused(self) -> None:
        if self.cursor_id is not None:
            raise InvalidOperation("cannot set options after executing query")

    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self:
        """Sort by a key, or by (key, direction) pairs; return the cursor.

        Args:
            key_or_list: a key, or pairs in the order of their importance.
            direction: of a single key: 1 (as None) or -1, or "text" and the like.

        Example:
            >>> cursor.sort([("total", -1), ("_id", 1)])
        """
        self._check_unused()
        self._sort = index_document(index_list(key_or_list, direction))
        return self

    def limit(self, limit: int) -> Self:
        """Return at most `limit` documents; 0 for all, negative for a single batch. Returns the cursor.

        Args:
            limit: how many documents.

        Raises:
            TypeError: not an integer.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().limit(1).to_list())
            1
        """
        if not isinstance(limit, int):
            raise TypeError(f"limit must be an integer, not {type(limit)}")
        if self._flags & _EXHAUST:
            raise InvalidOperation("Can't use limit and exhaust together.")
        self._check_unused()
        self._asked_limit = limit
        self._is_empty = False
        return self

    def skip(self, skip: int) -> Self:
        """Leave out the first `skip` matches; return the cursor.

        Args:
            skip: how many documents; not negative.

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
            raise ValueError("skip must be >= 0")
        self._check_unused()
        self._skip = skip
        return self

    def batch_size(self, batch_size: int) -> Self:
        """Ask for `batch_size` documents per reply; 0 lets the server choose. Returns the cursor.

        Args:
            batch_size: documents for each reply; the server never sends more than 16 MiB in one.

        Raises:
            TypeError, ValueError: not an integer, or negative.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().batch_size(500).to_list())
            2
        """
        if not isinstance(batch_size, int):
            raise TypeError(f"batch_size must be an integer, not {type(batch_size)}")
        if batch_size < 0:
            raise ValueError("batch_size must be >= 0")
        self._check_unused()
        self._batch_size = batch_size
        return self

    def hint(self, index: _IndexKeyHint | None) -> Self:
        """Use this index, by name or keys; None lets the server choose. Returns the cursor.

        Args:
            index: the index's name, or its keys as given to `create_index`.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().hint([("_id", 1)]).to_list()[0]["_id"]
            1
        """
        self._check_unused()
        self._hint = hint_document(index)
        return self

    def comment(self, comment: Any) -> Self:
        """Show `comment` in the server's logs and profile; return the cursor.

        Args:
            comment: text, or any value that BSON has.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().comment("nightly report").to_list()[0]["_id"]
            1
        """
        self._check_unused()
        self._comment = comment
        return self

    def collation(self, collation: _CollationIn | None) -> Self:
        """Compare strings by the rules of `collation`; return the cursor.

        Args:
            collation: a `Collation`, or a document of its options. None: the collection's own.

        Raises:
            TypeError: neither of them.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find({"customer": "ADA"}).collation(Collation("en", strength=2)).to_list()[0]["_id"]
            1
        """
        self._check_unused()
        self._collation = validate_collation_or_none(collation)
        return self

    def max(self, spec: _IndexList) -> Self:
        """Stop before these index keys; needs `hint`. Returns the cursor.

        Args:
            spec: pairs of key and value, in the order of the index; the bound is left out.

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
        self._max = bounds(spec)
        return self

    def min(self, spec: _IndexList) -> Self:
        """Start at these index keys; needs `hint`. Returns the cursor.

        Args:
            spec: pairs of key and value, in the order of the index; the bound is taken in.

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
        self._min = bounds(spec)
        return self

    def max_time_ms(self, max_time_ms: int | None) -> Self:
        """Let the server spend at most so many milliseconds; None for no limit. Returns the cursor.

        Args:
            max_time_ms: milliseconds of the server's work for each command, not of waiting for the reply.

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
        self._max_time_ms = max_time_ms
        return self

    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self:
        """Let a TAILABLE_AWAIT cursor wait so many milliseconds for new data. Returns the cursor.

        Args:
            max_await_time_ms: milliseconds for each further batch; None for the server's default, one second.

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
        # Only a tailable cursor that awaits data waits for any.
        if self._flags & CursorType.TAILABLE_AWAIT == CursorType.TAILABLE_AWAIT:
            self._max_await_time_ms = max_await_time_ms
        return self

    def max_scan(self, max_scan: int | None) -> Self:
        """Deprecated by the server: look at so many documents at most. Returns the cursor.

        Args:
            max_scan: how many documents. Servers of today refuse the option.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> cursor = client.shop.orders.find().max_scan(1_000)
        """
        self._check_unused()
        self._fields["maxScan"] = max_scan
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
        self._fields["allowDiskUse"] = allow_disk_use
        return self

    def where(self, code: Any) -> Self:
        """Keep only documents for which JavaScript `code` is true; return the cursor.

        Args:
            code: an expression, or a function without arguments; `this` is the document. Never text from outside.

        Raises:
            TypeError: neither text nor `Code`.
            InvalidOperation: the cursor was read from before.

        Example:
            >>> client.shop.orders.find().where("this.total > 5").to_list()[0]["_id"]
            1
        """
        from mangonel.bson.code import Code

        self._check_unused()
        # The caller's own mapping stays as it is.
        self._filter = {**self._filter, "$where": code if isinstance(code, Code) else Code(code)}
        return self

    def prefetch(self, prefetch: bool = True) -> Self:
        """Ask for the next batch while the current one is handed out; return the cursor.

        The server's own batches put everything after the first 101 small documents into one reply, so unless
        `batch_size` is set, batches of 10 000 are asked for.

        Args:
            prefetch: False: ask for the next batch when the current one is used up.

        Raises:
            InvalidOperation: the cursor was read from before.

        Example:
            >>> len(client.shop.orders.find().prefetch().to_list())
            2
        """
        self._check_unused()
        self._prefetch = prefetch
        return self

    def add_option(self, mask: int) -> Returns[Self]:
        """Set query flags by their bits of the old wire protocol; return the cursor.

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
        if mask & _EXHAUST and self._asked_limit:
            raise InvalidOperation("Can't use limit and exhaust together.")
        self._flags |= mask
        return self

    def remove_option(self, mask: int) -> Self:
        """Clear query flags by their bits of the old wire protocol; return the cursor.

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
        self._flags &= ~mask
        return self

    # The command.

    def _narrow(self, names: dict[str, int]) -> None:
        if self._projection is None:
            self._projection = names

    def _command(self) -> dict[str, Any]:
        query: Any = self._filter
        modifiers: dict[str, Any] | None = None
        if "$query" in query:
            query, modifiers = _unwrap(query)
        command: dict[str, Any] = {"find": self._collection._name, "filter": query}
        if modifiers:
            command.update(modifiers)
        if self._sort is not None:
            command["sort"] = self._sort
        if self._projection:
            command["projection"] = self._projection
        if self._skip:
            command["skip"] = self._skip
        limit = self._asked_limit
        if limit:
            command["limit"] = abs(limit)
            if limit < 0:
                # A negative limit asks for a single batch (crud, "limit").
                command["singleBatch"] = True
        size = self._batch_size or (_PREFETCH_BATCH_SIZE if self._prefetch and not limit else 0)
        if size:
            # With equal sizes the server would keep the cursor open for one more, empty batch.
            command["batchSize"] = size + 1 if size == limit else size
        if self._hint:
            command["hint"] = self._hint
        if self._collation:
            command["collation"] = self._collation
        if self._comment is not None:
            command["comment"] = self._comment
        if self._max is not None:
            command["max"] = self._max
        if self._min is not None:
            command["min"] = self._min
        if self._max_time_ms is not None:
            command["maxTimeMS"] = self._max_time_ms
        if self._fields:
            command.update(self._fields)
        if self._flags:
            for flag, name in _FLAG_FIELDS.items():
                if self._flags & flag:
                    command[name] = True
        self._collection._add_read_concern(command, self._explicit)
        return command


def _check_bools(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be an instance of bool, not {type(flag)}")


def _has_ended(session: Any) -> bool:
    return type(getattr(session, "_handle", None)) is _core.Session and session.has_ended


def _whole(milliseconds: Any) -> Any:
    """Return 1500 for 1500.0, which the server takes as well; `find(max_time_ms=seconds * 1000)` is often written."""
    is_whole = isinstance(milliseconds, float) and milliseconds.is_integer()
    return int(milliseconds) if is_whole else milliseconds


def _unwrap(query: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    if "$explain" in query:
        raise InvalidOperation("$explain in a query is not supported; call explain() of the cursor")
    modifiers = {_MODIFIERS.get(key, key): value for key, value in query.items() if key not in _DROPPED}
    return query["$query"], modifiers


def _projection_document(projection: Any) -> dict[str, Any]:
    if isinstance(projection, Mapping):
        return dict(projection)
    if isinstance(projection, (list, tuple, set, frozenset)):
        if not all(isinstance(name, str) for name in projection):
            raise TypeError(f"projection must be a list of field names, each as str, not {projection!r}")
        return dict.fromkeys(projection, 1)
    raise TypeError(f"projection must be a mapping or a list of field names, not {type(projection)}")
