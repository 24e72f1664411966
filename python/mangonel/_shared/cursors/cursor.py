"""Cursors: fetch batch after batch, and end server cursors that are no longer needed.

The current batch lives in Rust (`_core.BatchCursor`); this code runs once per batch, not per document.
Spec: find-getmore-killcursors-commands, crud (read).
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect
from mangonel._core import (
    KIND_READ_ONCE,
    KIND_WRITE,
    READ_BATCH,
    READ_RAW,
    REPLIES_EXHAUST,
    REPLIES_ONE,
)
from mangonel._faces.deadline import anew
from mangonel._faces.port import address_of
from mangonel._light import Generic
from mangonel._shared.cursors.tables import CursorTables
from mangonel._shared.face_result import FaceResult
from mangonel._shared.of_this_process import OfThisProcess
from mangonel._shared.operation import build_operation
from mangonel._shared.upper_modules import document_shape
from mangonel.errors import ConnectionFailure, CursorNotFound, InvalidOperation, ProtocolError, PyMongoError
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from mangonel._faces.port import Port
    from mangonel._shared.client.abandoned_cursors import AbandonedCursors
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.operation import SessionHandle
    from mangonel._shared.sessions.session import _ClientSession

# With prefetch the driver must choose a batch size: the server's default would put all small documents into one reply.
PREFETCH_BATCH_SIZE = 10_000
# The `_is_plain` of a plain query whose documents become instances of a class.
PLAIN_INTO = 2
# The server's errors for a lost cursor: CappedPositionLost, CursorNotFound, QueryPlanKilled, CursorKilled.
_CURSOR_ENDED = frozenset([136, 43, 175, 237])
_JSON_MODES = {"canonical": 0, "relaxed": 1, "plain": 2}


class BatchedCursor(OfThisProcess, CursorTables, Generic[_DocumentType]):
    """The common behaviour of cursors, once the server has opened them."""

    _instead = "read it here and pass the documents; parts made by Collection.partitions() can be pickled"

    _port: Port
    _collection: _Collection[_DocumentType]
    _codec: _core.Codec
    # Client state from the opening of the cursor: a forked child must not end its parent's cursors.
    _abandoned_cursors: AbandonedCursors
    _reading = READ_BATCH
    _batch: _core.Batch | None
    # How many documents have arrived; the current batch is counted only when `retrieved` is read.
    _retrieved: int
    # Whether a call is waiting for a batch. A second task or thread must not wait then: both would get the same
    # documents, or the later batch would replace the earlier one.
    _is_asking = False
    # Whether its query has nothing but a filter and a limit, and was not sent yet. Such a cursor sets few attributes:
    # the defaults below hold for the others, and its first batch reads none of them. PLAIN_INTO: it has set `_into`,
    # too, which its first batch reads.
    _is_plain: bool | int = False
    # The defaults below are class attributes, since an object with up to thirty attributes needs no dict of its own,
    # and is made in half the time. A query with options sets those that it reads: reading them from the object takes a
    # tenth of the time (CPython 3.11).
    # Whether the query can match nothing, so that no request is needed.
    _is_empty = False
    # Whether the query has `min` or `max`, and so needs a hint.
    _has_index_bounds = False
    # The class of returned documents, instead of the document class.
    _into: Any = None
    _started: Any = None
    # Whether the server sends more on that connection without a request.
    _is_streaming = False
    _pace = 0
    _is_exhaust = False
    _is_tailable = False
    _max_await_time_ms: int | None = None
    # The server's id; None before the first batch, 0 once the server has no more.
    _id: int | None = None
    # The id when the cursor was closed.
    _last_id: int | None = None
    # Set while the server has the cursor open; dropping the last reference ends the server's cursor.
    _opened: _core.OpenCursor | None = None
    _namespace: tuple[str, str] = ("", "")
    # The session that the user passed, and the core's handle of the cursor's session.
    _explicit: _ClientSession | None = None
    _session: SessionHandle = None
    _pinned: int | None = None
    _server = ""
    _is_closed = False
    _batch_size = 0
    _limit = 0
    _comment: Any | None = None
    _prefetch = False

    def _begin_state(self, collection: _Collection[_DocumentType], codec: _core.Codec) -> None:
        self._collection = collection
        port = collection._port
        self._port = port if port.limit is None else port.for_cursor()  # type: ignore[attr-defined]
        self._codec = codec

    if TYPE_CHECKING:
        # Of the Rust bases.
        def _take_last(self, batch: _core.Batch) -> bool | None: ...

    # Called by the Rust bases.

    def _refill(self) -> bool:
        # A cursor that has ended sends nothing.
        return self._id != 0 and self._port.flow(self._fetch_flow())

    async def _next_flow(self) -> _DocumentType:
        if self._id != 0 and await self._fetch_flow():
            batch = self._batch
            if batch is not None:
                for document in batch:
                    return document
        raise StopAsyncIteration

    # One batch after another.

    def _check_query(self) -> None:
        """Raise if the query cannot be sent; the caller can then correct it and use the cursor."""

    def _first_operation(self) -> _core.Operation:
        raise InvalidOperation("expected a cursor that was opened by a command, got none")

    def _plain_operation(self) -> _core.Operation:
        return self._first_operation()

    async def _fetch_flow(self) -> bool:
        """Load the next batch that has documents; return False if there is none (for now, if tailable)."""
        while self._is_plain or not self._is_empty:
            if await self._fetch_once_flow():
                return True
            if self._is_closed or self._id == 0 or self._is_tailable:
                break
        return False

    async def _fetch_once_flow(self) -> bool:
        """Load the next batch; return whether it has documents."""
        id, is_plain = self._id, self._is_plain
        if is_plain:
            self._is_plain = False
        else:
            # None is checked first, since comparing it with 0 would cost a call.
            if self._is_closed or (id is not None and id == 0):
                return False
            if self._has_index_bounds and id is None:
                self._check_query()
            if self._is_asking:
                self._refuse_second()
        batch: _core.Batch | None
        try:
            self._is_asking = True
            if is_plain:
                batch = await self._port.arun(self._plain_operation())
            elif self._started is not None:
                started, self._started = self._started, None
                batch = await self._port.finish(started)
            elif id is None:
                batch = await self._port.arun(self._first_operation())
            else:
                batch = await self._port.arun(self._more_operation())
            if batch is None:
                raise ProtocolError("expected a cursor in the reply, got none")
            has_documents = None
            if is_plain is True or self._opened is self._into is self._pinned is None:
                # The same as `_take`, without its frame.
                has_documents = self._take_last(batch)
            if has_documents is None:
                self._take(batch)
                has_documents = not batch.is_empty
            else:
                self._id, self._session = 0, None
            if self._is_closed:
                # Closed by another task or thread, which did not know the server's cursor yet.
                self._abandon()
        except PyMongoError as error:
            if self._is_tailable and getattr(error, "code", None) in _CURSOR_ENDED:
                # The collection was dropped or has overwritten the cursor's position: this counts as the end.
                self._end()
                return False
            # After an error reply the server may still have the cursor open; after a broken connection it is not
            # contacted again.
            if isinstance(error, ConnectionFailure):
                self._abandon()
            elif not isinstance(error, CursorNotFound):
                await self._close_flow()
            self._end()
            raise
        except BaseException:
            # Cancelled or interrupted: a batch may be lost, and continuing would skip its documents.
            self._abandon()
            raise
        finally:
            self._is_asking = False
        return has_documents

    def _refuse_second(self) -> NoReturn:
        refuse_second("cursor", "batch", "documents")

    def _take(self, batch: _core.Batch) -> None:
        if self._into is not None:
            batch.become(document_shape(self._into, self._collection.codec_options))
        if not batch.id and batch.pinned is None:
            # The server has no more documents, so nothing more is sent, and no cursor can be lost.
            self._batch, self._id, self._session = batch, 0, None
            if self._opened is not None:
                self._opened.disown()
                self._opened = None
            if self._pinned is not None:
                drained, self._pinned = self._pinned, None
                self._port.release_pinned(drained, is_drained=True)
            return
        database, _, collection = batch.namespace.partition(".")
        session = None if self._explicit is None else self._explicit._handle
        pinned, former = batch.pinned, self._pinned
        # If a signal handler raises here, the batch or this object still ends the server's cursor when it is dropped.
        opened = batch.opened
        if opened is not None:
            self._note_opened(opened)
        elif self._opened is not None:
            self._opened.pinned, self._opened.is_streaming = pinned, batch.is_streaming
        self._pinned = pinned
        self._server = batch.server
        if collection:
            self._namespace = (database, collection)
        self._is_streaming = batch.is_streaming
        self._id = batch.id
        self._session = batch.session if session is None else session
        self._batch = batch
        if pinned is None and former is not None:
            self._port.release_pinned(former, is_drained=True)
        if self._id and self._limit and self._retrieved >= self._limit:
            # The query's limit was reached, but the server did not treat this as the end.
            self._abandon()
        elif self._id and self._prefetch and self._pinned is None:
            self._started = self._port.start(self._more_operation())

    def _note_opened(self, opened: _core.OpenCursor) -> None:
        self._opened = opened
        self._abandoned_cursors = self._collection._client._abandoned_cursors

    def _more_operation(self) -> _core.Operation:
        database, collection = self._namespace
        command: dict[str, Any] = {"getMore": self._id, "collection": collection}
        size = self._batch_size or self._pace
        if self._limit:
            left = self._limit - self._retrieved
            size = min(size, left) if size else left
        elif self._prefetch and not size:
            size = PREFETCH_BATCH_SIZE
        if size:
            command["batchSize"] = size
        if self._max_await_time_ms is not None:
            command["maxTimeMS"] = self._max_await_time_ms
        if self._comment is not None:
            command["comment"] = self._comment
        # The cursor stays on its server, whatever the read preference.
        return build_operation(
            command,
            database=database,
            codec=self._codec,
            kind=KIND_READ_ONCE,
            reading=self._reading,
            replies=REPLIES_EXHAUST if self._is_exhaust else REPLIES_ONE,
            session=self._session,
            pinned=self._pinned,
            is_under_way=self._is_streaming,
            server=self._server,
        )

    # The end.

    def _end(self) -> None:
        """Reset the state; the server has closed its cursor, or cannot be reached."""
        if not self._is_closed:
            self._is_closed = True
            self._last_id = self._id
        self._is_plain = False
        self._id = 0
        self._session = None
        if self._opened is not None:
            self._opened.disown()
            self._opened = None
        if self._started is not None:
            self._port.give_up(self._started)
            self._started = None
        if self._pinned is not None:
            self._port.release_pinned(self._pinned, is_drained=False)
            self._pinned = None

    def _abandon(self) -> None:
        """End without waiting: the server's cursor is killed in the background."""
        if self._opened is not None:
            self._opened.end_soon()
            # The connection is released with the cursor.
            self._pinned = None
        self._end()

    def __del__(self) -> None:
        # If a signal handler raises here, Python drops its exception; the server's cursor still ends.
        if self._id:
            heard = self._abandoned_cursors.heard
            if heard is not None:
                heard(self._id)
            self._abandon()

    def close(self, *, timeout_ms: float | None = None) -> FaceResult[None]:
        """End the cursor, also on the server if it is open there. Closing twice does nothing.

        Documents that have arrived can still be read.

        Args:
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            TypeError, ValueError: `timeout_ms` is not a number of 0 or more. If the server does not answer, nothing is
                raised: it ends the cursor by itself, after ten minutes by default.

        Example:
            >>> cursor.close()
        """
        if timeout_ms is not None:
            from mangonel._faces.limited import limited

            self._port = limited(self._port, timeout_ms, is_call=True)
        return self._port.flow(self._close_flow())

    async def _close_flow(self) -> None:
        id, session = self._id, self._session
        # Behind a load balancer only the service at the end of this connection knows the cursor.
        kept = None if self._is_streaming else self._pinned
        is_streaming = self._is_streaming and self._pinned is not None
        if kept is not None:
            self._pinned = None
        # If this is cancelled or interrupted from here on, the cursor is ended when `opened` is dropped.
        opened, self._opened = self._opened, None
        self._end()
        try:
            if id and not is_streaming:
                await self._kill_flow(id, session, kept)
            if opened is not None:
                opened.disown()
        finally:
            if kept is not None:
                self._port.release_pinned(kept, is_drained=True)

    async def _kill_flow(self, id: int, session: SessionHandle, pinned: int | None) -> None:
        database, collection = self._namespace
        command = {"killCursors": collection, "cursors": [id]}
        try:
            # Even after the end of a block's time, the cursor must be closed.
            with anew():
                await self._port.arun(
                    build_operation(
                        command,
                        database=database,
                        codec=self._codec,
                        kind=KIND_WRITE,
                        reading=READ_RAW,
                        session=session,
                        pinned=pinned,
                        server=self._server,
                    )
                )
        except PyMongoError:
            # The server's own timeout ends the cursor.
            return

    @property
    def collection(self) -> _Collection[_DocumentType]:
        """The collection of the documents."""
        return self._collection

    @property
    def alive(self) -> bool:
        """Whether more documents may come; True is no promise."""
        batch = self._batch
        return bool(batch is not None and not batch.is_empty) or (not self._is_closed and self._id != 0)

    @property
    def cursor_id(self) -> int | None:
        """The server's id: None before the first batch, 0 when the server has no more. Closing does not change it.

        An id is an `Int64`, the only type that a server accepts in a command such as `killCursors`.
        """
        id = self._last_id if self._is_closed else self._id
        if id is None:
            return None
        from mangonel.bson.int64 import Int64

        return Int64(id)

    @property
    def address(self) -> tuple[str, int | None] | None:
        """The server that answered, or None before the first batch."""
        server = self._server
        if not server and self._batch is not None:
            # The first batch was the last.
            server = self._batch.server
        return address_of(server) if server else None

    @property
    def session(self) -> _ClientSession | None:
        """The explicit session of the cursor, or None."""
        return self._explicit

    @property
    def retrieved(self) -> int:
        """How many documents the server has sent so far."""
        return self._retrieved

    def to_list(self, length: int | None = None) -> FaceResult[list[_DocumentType]]:
        """Return the remaining documents, decoded at once.

        Args:
            length: at most this many; None for all.

        Raises:
            TypeError, ValueError: `length` is not an integer, or below 1.
            OperationFailure, AutoReconnect: as for iterating; documents fetched before are lost.

        Example:
            >>> client.shop.orders.find({}, {"_id": 1}).to_list(2)
            [{'_id': 1}, {'_id': 2}]
        """
        if length is not None:
            expect("length", length, int, "an int or None")
            if length < 1:
                raise ValueError(f"to_list() length must be greater than 0, not {length}")
        return self._port.flow(self._to_list_flow(length))

    async def _to_list_flow(self, length: int | None) -> list[_DocumentType]:
        documents: list[_DocumentType] = []
        if self._is_plain:
            await self._fetch_once_flow()
        while True:
            batch = self._batch
            if batch is not None:
                batch.drain_into(documents, None if length is None else length - len(documents))
            if self._id == 0 or self._is_empty or (length is not None and len(documents) >= length):
                return documents
            # A cursor that waits for new data never ends: an empty batch counts as its end.
            if not await self._fetch_once_flow() and (
                self._is_tailable or self._max_await_time_ms is not None
            ):
                return documents

    def to_json(self, mode: str = "relaxed") -> FaceResult[bytes]:
        """Return the remaining documents as a JSON array, made directly from their BSON.

        Args:
            mode: `"relaxed"` or `"canonical"` extended JSON, or `"plain"`: ObjectIds, dates (ISO 8601, UTC) and
                decimals as strings, binary data as base64.

        Raises:
            ValueError: another mode.
            OperationFailure, AutoReconnect: as for iterating.

        Example:
            >>> client.shop.orders.find({"_id": 1}, {"total": 1}).to_json("plain")
            b'[{"_id":1,"total":9.5}]'
        """
        try:
            number = _JSON_MODES[mode]
        except (KeyError, TypeError):
            raise ValueError(f"expected one of {list(_JSON_MODES)} as mode, got {mode!r}") from None
        return self._port.flow(self._to_json_flow(number))

    async def _to_json_flow(self, mode: int) -> bytes:
        # Saves the coroutine of `_fetch_flow`. For a cursor that waits for new data, an empty batch is the end.
        if (
            (self._is_plain or (self._id is None and not self._is_empty))
            and not await self._fetch_once_flow()
            and self._is_tailable
        ):
            return b"[]"
        pieces: list[bytes] = []
        while True:
            batch = self._batch
            is_over = self._id == 0 or self._is_empty
            if batch is not None:
                if is_over and not pieces:
                    return batch.json_array(mode)
                if not batch.is_empty:
                    pieces.append(batch.json(mode))
            if is_over or (not await self._fetch_once_flow() and self._is_tailable):
                return b"[" + b",".join(pieces) + b"]"

    async def _next_or_none_flow(self) -> _DocumentType | None:
        while True:
            batch = self._batch
            if batch is not None:
                for document in batch:
                    return document
            if not await self._fetch_flow():
                return None


def refuse_second(reader: str, awaited: str, results: str) -> NoReturn:
    """Raise InvalidOperation: a second task or thread must not wait for the same results."""
    raise InvalidOperation(
        f"another task or thread is waiting for the next {awaited} of this {reader}; read it in one, and pass the "
        f"{results} on by a queue"
    )
