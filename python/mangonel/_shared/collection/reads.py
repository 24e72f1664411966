"""Reads documents of a collection. Spec: crud (read), find-getmore-killcursors-commands."""

from __future__ import annotations

from mangonel._core import READ_BATCH, READ_FIRST, bare_cursor, read_operation
from mangonel._faces.port import refuse_encryption
from mangonel._light import Generic, Mapping
from mangonel._shared.base import CommandSource
from mangonel._shared.face_result import FaceResult
from mangonel._shared.find_command import EXHAUST, by_name, find_command, refuse_bounds
from mangonel._shared.settings import BOUND
from mangonel._shared.upper_modules import document_shape
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mangonel._shared.base import CollectionContext
    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.client.database import _Database
    from mangonel._shared.cursors.find_cursor import _Cursor, _RawBatchCursor


class CollectionReads(CommandSource, Generic[_DocumentType]):
    """The read methods of a collection."""

    _client: _MongoClient[_DocumentType]
    _database: _Database[_DocumentType]
    _name: str
    _context: CollectionContext
    _cursor_class: type[Any]
    _raw_cursor_class: type[Any]

    def find_one(
        self, filter: Any = None, *args: Any, timeout_ms: float | None = None, **kwargs: Any
    ) -> FaceResult[_DocumentType | None]:
        """Return the first document that matches, or None.

        Args:
            filter: query document; anything that is not a mapping is taken as `_id`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            *args, **kwargs: as for `find`.

        Raises:
            ServerSelectionTimeoutError: no suitable server in time. Nothing was sent.
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> client.shop.users.find_one({"email": "ada@example.org"})["name"]
            'Ada'
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if type(filter) is not dict:
            filter = _as_filter(filter)
        port, database, name, codec, is_plain, _, _ = self._context
        if not args and "$query" not in filter and (not kwargs or (len(kwargs) == 1 and "into" in kwargs)):
            command: dict[str, Any] = {"find": name, "filter": filter, "limit": 1, "singleBatch": True}
            if kwargs and kwargs["into"] is not None:
                return self._first_batch(command, document_shape(kwargs["into"], self.codec_options))
            if is_plain and not BOUND:
                return port.run(read_operation(database, command, codec, READ_FIRST))
            return port.run(self._read_operation(command, READ_FIRST))
        if len(args) == 1 and "projection" not in kwargs:
            kwargs["projection"] = args[0]
        elif args:
            kwargs = by_name(args, kwargs)
        # Not fields of the command, so they are taken out.
        session, into = kwargs.pop("session", None), kwargs.pop("into", None)
        kwargs.pop("prefetch", None)
        if kwargs.get("cursor_type") == EXHAUST or not isinstance(kwargs.get("limit", 0), int):
            # A limit is refused as for a cursor.
            find_command(name, filter, **{"limit": 1, **kwargs})
        kwargs.pop("limit", None)
        command = find_command(name, filter, **kwargs)
        command["limit"], command["singleBatch"] = 1, True
        if ("min" in command or "max" in command) and "hint" not in command:
            refuse_bounds()
        if into is None:
            return port.run(self._read_operation(command, READ_FIRST, session=session))
        shape = document_shape(into, self.codec_options)
        return port.run(self._read_operation(command, READ_BATCH, session=session, answer=shape))

    def find(
        self, *args: Any, timeout_ms: float | None = None, timeout_mode: str | None = None, **kwargs: Any
    ) -> _Cursor[_DocumentType]:
        """Return a cursor over the documents that match. Sends nothing until the first document is requested.

        Args:
            args, kwargs: as for `Cursor`, without the collection.
            timeout_ms: milliseconds for the first command and all batches together; 0: no limit. None: the usual limit.
            timeout_mode: `"iteration"`: the limit holds for the first command, and again for each later batch.
                `"cursor_lifetime"` or None: it is for all of them together.

        Example:
            >>> [order["_id"] for order in client.shop.orders.find({"total": {"$gt": 5}}, limit=10)]
            [1]
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        context = self._context
        if len(args) <= 1 and (not kwargs or len(kwargs) == ("limit" in kwargs) + ("into" in kwargs)):
            filter, limit = args[0] if args else {}, kwargs.get("limit", 0)
            if type(filter) is dict and type(limit) is int and limit >= 0 and "$query" not in filter:
                # The same as the constructor does, without its many arguments.
                cursor: _Cursor[_DocumentType] = bare_cursor(context[6])
                cursor._begin(self, context, filter, limit)
                if kwargs and kwargs.get("into") is not None:
                    cursor._begin_into(kwargs["into"])
                return cursor
        return context[6](self, *args, **kwargs)

    def _first_batch(self, command: dict[str, Any], answer: Callable[[Any], Any]) -> FaceResult[Any]:
        """Return the result of a function called with the first batch of a read; the batch must hold all documents.

        Args:
            command: a complete find, or an aggregate that writes nothing; the read concern may be added.
            answer: function called with the batch.
        """
        port, database, _, codec, is_plain, _, _ = self._context
        if is_plain and not BOUND:
            return port.run(read_operation(database, command, codec, READ_BATCH, answer))
        return port.run(self._read_operation(command, READ_BATCH, answer=answer))

    def find_raw_batches(
        self, *args: Any, timeout_ms: float | None = None, timeout_mode: str | None = None, **kwargs: Any
    ) -> _RawBatchCursor[_DocumentType]:
        """Return a cursor over batches of the matching documents, one bytes object of BSON each.

        Sends nothing until the first batch is requested.

        Args:
            args, kwargs, timeout_ms, timeout_mode: as for `find`.

        Raises:
            InvalidOperation: the client has `auto_encryption_opts`.

        Example:
            >>> for batch in client.shop.orders.find_raw_batches({"total": {"$gt": 5}}):
            ...     print(mangonel.bson.decode_all(batch))
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        refuse_encryption(self._port, "find_raw_batches does")
        return self._raw_cursor_class(self, *args, **kwargs)


def _as_filter(filter: Any) -> Any:
    if filter is None:
        return {}
    return filter if isinstance(filter, Mapping) else {"_id": filter}
