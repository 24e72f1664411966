"""Change streams: the changes of a collection, a database or a deployment, resumed after errors and failovers.

A change stream is an aggregation whose cursor never ends, together with the resume token of the last returned change.
With that token a new cursor continues where a lost one stopped. Spec: change-streams.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import told_by_public_name
from mangonel._core import KIND_READ, READ_WITH_BATCH
from mangonel._faces.deadline import check_wait
from mangonel._light import Generic, Mapping
from mangonel._options.checks import non_negative_integer
from mangonel._shared.cursors.cursor import refuse_second
from mangonel._shared.face_result import FaceResult
from mangonel._shared.of_this_process import OfThisProcess
from mangonel._shared.settings import preference_in, session_of
from mangonel.collation import validate_collation_or_none
from mangonel.common import validate_list
from mangonel.errors import (
    ConnectionFailure,
    CursorNotFound,
    InvalidOperation,
    OperationFailure,
    ProtocolError,
    PyMongoError,
)
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict, Unpack

    from mangonel._shared.collection.aggregation import AggregatingSource
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.cursors.command_cursor import _CommandCursor
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.timestamp import Timestamp
    from mangonel.typings import _CollationIn, _Pipeline

    class WatchOptions(TypedDict):
        """The arguments of `watch`."""

        pipeline: _Pipeline | None
        full_document: str | None
        resume_after: Mapping[str, Any] | None
        max_await_time_ms: int | None
        batch_size: int | None
        collation: _CollationIn | None
        start_at_operation_time: Timestamp | None
        session: _ClientSession | None
        start_after: Mapping[str, Any] | None
        comment: Any
        full_document_before_change: str | None
        show_expanded_events: bool | None


@told_by_public_name
class _ChangeStream(OfThisProcess, Generic[_DocumentType]):
    """Changes in the order in which they happened; made by `watch` of a collection, a database or a client.

    After a network error, a failover or a lost cursor the stream resumes by itself and neither misses nor repeats a
    change. Iterating waits for the next change; `try_next` sends at most one request. On asyncio a cancelled call loses
    nothing: the stream stays open, and the next call continues after the last returned change.

    Example:
        >>> with client.shop.orders.watch([{"$match": {"operationType": "insert"}}]) as stream:
        ...     for change in stream:
        ...         print(change["fullDocument"])
    """

    _instead = "pass its resume_token, and continue there with watch(resume_after=)"
    # Whether the stream covers all databases.
    _is_of_cluster = False
    # Whether a call is waiting for a change. A second task or thread must not wait then.
    _is_asking = False

    def __init__(
        self,
        source: AggregatingSource,
        target: str | int,
        collection: _Collection[Any],
        **options: Unpack[WatchOptions],
    ) -> None:
        from copy import deepcopy

        full_document, batch_size = options["full_document"], options["batch_size"]
        pipeline = options["pipeline"]
        if full_document is not None and not isinstance(full_document, str):
            raise TypeError(f"full_document must be an instance of str, not {type(full_document)}")
        if batch_size is not None:
            batch_size = non_negative_integer("batchSize", batch_size)
        self._port = source._port
        self._source = source
        self._target = target
        self._collection = collection
        self._pipeline = deepcopy(validate_list("pipeline", [] if pipeline is None else pipeline))
        self._collation = validate_collation_or_none(options["collation"])
        self._options: dict[str, Any] = {}
        for name, value in (
            ("fullDocument", full_document),
            ("fullDocumentBeforeChange", options["full_document_before_change"]),
            ("showExpandedEvents", options["show_expanded_events"] or None),
            ("allChangesForCluster", self._is_of_cluster or None),
        ):
            if value is not None:
                self._options[name] = value
        self._max_await_time_ms = options["max_await_time_ms"]
        # Only here: an open stream resumes within a shorter limit of a later call too.
        check_wait(self._max_await_time_ms, self._port.timeout)
        self._batch_size = batch_size
        self._comment = options["comment"]
        self._session = session_of(self._port, options["session"])
        start_after, resume_after = options["start_after"], options["resume_after"]
        # The position to continue from: the bytes of a token from the server, or the caller's own token.
        self._token: bytes | Mapping[str, Any] | None = deepcopy(start_after or resume_after)
        self._starts_after = start_after is not None
        self._is_resumed = resume_after is not None or start_after is not None
        self._start_time = options["start_at_operation_time"]
        self._cursor: _CommandCursor[Any] | None = None
        self._is_closed = False

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """The token of the last returned change, for `resume_after` of another stream.

        None before the first change of a stream that found changes when it was opened; with `batch_size=0` never None.
        """
        from copy import deepcopy

        token = self._token
        if isinstance(token, bytes):
            return _core.decode(token, self._source._codec_options)
        return deepcopy(token)

    @property
    def alive(self) -> bool:
        """Whether more changes may come: False after `close`, and after a change that invalidates the stream."""
        return not self._is_closed

    def try_next(self) -> FaceResult[_DocumentType | None]:
        """Return the next change, or None if there is none now; sends at most one request.

        The server waits for a change for `max_await_time_ms`, or a second.

        Raises:
            OperationFailure: the server refused, and resuming cannot help; the stream is closed.
            AutoReconnect: the connection broke, and resuming failed too; the next call tries again.
            InvalidOperation: the pipeline removed the `_id` of the changes, which is their resume token.

        Example:
            >>> while stream.alive:
            ...     change = stream.try_next()
        """
        return self._port.flow(self._try_next_flow())

    async def _try_next_flow(self) -> _DocumentType | None:
        change = self._pop()
        if change is not None or self._is_closed:
            return change
        if self._is_asking:
            refuse_second("change stream", "change", "changes")
        try:
            self._is_asking = True
            try:
                if self._is_lost():
                    await self._open_flow()
                    change = self._pop()
                if change is None and self._cursor is not None and self._cursor.alive:
                    await self._cursor._fetch_once_flow()
                    change = self._pop()
            except PyMongoError as error:
                # Another task or thread closed the stream while this one waited: it has ended without an error, and is
                # not reopened.
                if self._is_closed:
                    return None
                if not is_resumable(error):
                    raise
                self._cursor = None
                await self._open_flow()
                change = self._pop()
        except PyMongoError as error:
            if not is_resumable(error) and not error.timeout:
                self._end()
            raise
        finally:
            self._is_asking = False
        if change is None:
            self._note_position()
        self._notice_end()
        return change

    async def _next_or_end_flow(self) -> _DocumentType | None:
        while not self._is_closed:
            change = await self._try_next_flow()
            if change is not None:
                return change
        return None

    # Changes and their tokens.

    def _pop(self) -> _DocumentType | None:
        """Return the next change of the current batch, and store its token."""
        batch = None if self._cursor is None else self._cursor._batch
        if batch is None:
            return None
        found = batch.next_change()
        if found is None:
            return None
        change, token = found
        if token is None:
            self._end()
            raise InvalidOperation(
                "Cannot provide resume functionality when the resume token is missing; "
                "keep the _id of the changes in the pipeline"
            )
        self._token = token
        self._starts_after = False
        self._is_resumed = True
        self._start_time = None
        if batch.is_empty:
            self._token = batch.post_batch_resume_token or token
            self._notice_end()
        return change

    def _note_position(self) -> None:
        """Store how far the server has searched without finding a change, so that it does not search there again."""
        batch = None if self._cursor is None else self._cursor._batch
        token = None if batch is None else batch.post_batch_resume_token
        if token is not None:
            self._token = token
            self._start_time = None

    def _is_lost(self) -> bool:
        return self._cursor is None or not self._cursor.alive

    def _notice_end(self) -> None:
        if self._cursor is not None and not self._cursor.alive:
            self._is_closed = True

    # Cursors.

    async def _open_flow(self) -> None:
        """Open a cursor where the last one stopped, or at the caller's start."""
        batch_size = self._batch_size
        source, session = self._source, self._session
        options = dict(self._options)
        if self._token is not None:
            options["startAfter" if self._starts_after else "resumeAfter"] = self._raw_token(self._token)
        elif self._start_time is not None:
            options["startAtOperationTime"] = self._start_time
        command: dict[str, Any] = {
            "aggregate": self._target,
            "pipeline": [{"$changeStream": options}, *self._pipeline],
            "cursor": {} if batch_size is None else {"batchSize": batch_size},
        }
        if self._collation:
            command["collation"] = self._collation
        if self._comment is not None:
            command["comment"] = self._comment
        session = session_of(self._port, session)
        source._add_read_concern(command, session)
        operation = source._operation(
            command,
            kind=KIND_READ,
            reading=READ_WITH_BATCH,
            read_preference=preference_in(session, source._read_preference),
            session=session,
        )
        reply, batch = await self._port.arun(operation)
        if batch is None:
            raise ProtocolError("expected a cursor in the reply, got none")
        self._cursor = self._collection._command_cursor_class(
            self._collection,
            batch,
            source._codec,
            batch_size or 0,
            self._max_await_time_ms,
            self._comment,
            session,
        )
        if self._is_closed:
            # Another task or thread closed the stream, and did not know this cursor.
            self._end()
            return
        # The limit holds for each change anew.
        self._cursor._port = self._port
        if batch.is_empty:
            self._note_start(reply, batch)

    def _note_start(self, reply: Mapping[str, Any], batch: _core.Batch) -> None:
        """Store where the stream starts, so that it can resume from there before the first change."""
        token = batch.post_batch_resume_token
        if token is not None:
            self._token = token
        elif self._start_time is None and not self._is_resumed:
            self._start_time = reply.get("operationTime")
            if self._start_time is None:
                raise OperationFailure(
                    f"Expected field 'operationTime' missing from command response : {reply!r}"
                )

    def _raw_token(self, token: bytes | Mapping[str, Any]) -> Any:
        if not isinstance(token, bytes):
            return token
        from mangonel.bson.raw_bson import RawBSONDocument

        return RawBSONDocument(token)

    def _end(self) -> None:
        self._is_closed = True
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor._abandon()

    def close(self, *, timeout_ms: float | None = None) -> FaceResult[None]:
        """End the stream, on the server too. Closing twice does nothing.

        Args:
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            TypeError, ValueError: as for `Cursor.close`.

        Example:
            >>> stream.close()
        """
        if timeout_ms is not None:
            from mangonel._faces.limited import limited

            self._port = limited(self._port, timeout_ms, is_call=True)
        return self._port.flow(self._close_flow())

    async def _close_flow(self) -> None:
        self._is_closed = True
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await cursor._close_flow()


class _CollectionChangeStream(_ChangeStream[_DocumentType], Generic[_DocumentType]):
    """The changes in one collection; made by `Collection.watch`."""


class _DatabaseChangeStream(_ChangeStream[_DocumentType], Generic[_DocumentType]):
    """The changes in all collections of a database; made by `Database.watch`."""


class _ClusterChangeStream(_DatabaseChangeStream[_DocumentType], Generic[_DocumentType]):
    """The changes in all collections of a deployment; made by `MongoClient.watch`."""

    _is_of_cluster = True


def is_resumable(error: PyMongoError) -> bool:
    """Return whether a stream may resume after this error of its cursor."""
    if isinstance(error, (ConnectionFailure, CursorNotFound)):
        return True
    return isinstance(error, OperationFailure) and error.has_error_label("ResumableChangeStreamError")
