"""Explicit sessions: causal consistency, snapshots and transactions as users see them.

The core holds a session's state between commands; this module holds its options and the flows of transactions.
Spec: sessions, causal-consistency, transactions, transactions-convenient-api.
"""

from __future__ import annotations

from contextvars import ContextVar

from mangonel import _core
from mangonel._arguments import told_by_public_name
from mangonel._core import KIND_ABORT, KIND_COMMIT
from mangonel._faces.deadline import is_in_block
from mangonel._light import Mapping
from mangonel._shared.face_result import FaceResult
from mangonel._shared.of_this_process import OfThisProcess
from mangonel._shared.sessions.options import SessionOptions, TransactionOptions
from mangonel._shared.settings import BOUND
from mangonel.errors import InvalidOperation, NetworkTimeout, PyMongoError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from mangonel._faces.port import Port
    from mangonel._shared.client.client import _MongoClient
    from mangonel.bson.timestamp import Timestamp
    from mangonel.read_concern import ReadConcern
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern

# `with_transaction` (transactions-convenient-api): for how many seconds it retries, and its back-off.
_RETRY_LIMIT = 120.0
_FIRST_BACKOFF = 0.005
_LONGEST_BACKOFF = 0.5
_BACKOFF_GROWTH = 1.5
_MAX_TIME_EXPIRED = 50
_TIMESTAMP_MARKER = 17
_NO_OPTIONS = TransactionOptions()
_EMPTY = b"\x05\0\0\0\0"  # a document of BSON

_bound: ContextVar[_ClientSession | None] = ContextVar("mangonel_bound_session", default=None)


def bound_session() -> _ClientSession | None:
    """Return the session that is bound around the running code, of any client."""
    return _bound.get()


@told_by_public_name
class _ClientSession(OfThisProcess):
    """A session: for ordered, causally consistent or transactional operations.

    Made by `MongoClient.start_session`. Use it from one thread or task at a time. `end_session()` or the end of a
    `with` block ends it and aborts an open transaction.

    Example:
        >>> with client.start_session() as session, session.start_transaction():
        ...     orders.insert_one({"_id": 1, "item": "tea"}, session=session)
        ...     stock.update_one({"_id": "tea"}, {"$inc": {"left": -1}}, session=session)
    """

    _instead = "start one there; its cluster_time and operation_time can be passed"
    # Set by each face in `api.py`.
    _binding_class: type[Any]
    _transaction_class: type[Any]
    # Class attributes, so that `start_session` needs no import.
    _options_class = SessionOptions
    _usual_options = SessionOptions()
    # Whether a callback of `with_transaction` is running whose operations share one limit.
    _keeps_limit = False
    # The client's tracer, once a transaction was started.
    _tracer: Any = None

    def __init__(self, client: _MongoClient[Any], options: SessionOptions) -> None:
        port: Any = getattr(client, "_port", None)
        if port is None:
            raise TypeError(f'expected a client for "client", got {type(client).__name__}')
        self._client = client
        self._port = port
        self._options = options
        self._handle = _core.Session(port._core, options._causal_consistency, bool(options._snapshot))
        self._transaction_options = _NO_OPTIONS

    def __copy__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be copied, create a new session instead")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()

    def _check_ended(self) -> None:
        if self._handle.has_ended:
            raise InvalidOperation("Cannot use ended session")

    @property
    def client(self) -> _MongoClient[Any]:
        """The client of the session."""
        return self._client

    @property
    def options(self) -> SessionOptions:
        """The options of the session."""
        return self._options

    @property
    def session_id(self) -> Mapping[str, Any]:
        """The document that identifies the session to the server."""
        from mangonel.bson.binary import UUID_SUBTYPE, Binary

        self._check_ended()
        return {"id": Binary(self._handle.session_id, UUID_SUBTYPE)}

    @property
    def cluster_time(self) -> Mapping[str, Any] | None:
        """The newest cluster time in the session's replies, or None."""
        return self._handle.cluster_time

    @property
    def operation_time(self) -> Timestamp | None:
        """The time of the session's last operation, or None."""
        from mangonel.bson.timestamp import Timestamp

        time = self._handle.operation_time
        return None if time is None else Timestamp(*time)

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended; then it cannot be used any more."""
        return self._handle.has_ended

    @property
    def in_transaction(self) -> bool:
        """Whether operations now belong to a transaction."""
        return self._handle.in_transaction

    @property
    def _transaction_preference(self) -> _ServerMode:
        preference = self._transaction_options.read_preference
        return self._client._read_preference if preference is None else preference

    def advance_cluster_time(self, cluster_time: Mapping[str, Any]) -> None:
        """Advance to the cluster time of another session; an older one changes nothing.

        Args:
            cluster_time: `cluster_time` of the other session.

        Raises:
            TypeError: `cluster_time` is not a cluster time document.

        Example:
            >>> session.advance_cluster_time(other.cluster_time)
        """
        from mangonel.bson import encode

        if not isinstance(cluster_time, Mapping):
            raise TypeError(f"cluster_time must be a mapping, not {type(cluster_time)}")
        if not _is_timestamp(cluster_time.get("clusterTime")):
            raise TypeError("Invalid cluster_time: expected a Timestamp as its clusterTime")
        self._handle.advance_cluster_time(encode(cluster_time))

    def advance_operation_time(self, operation_time: Timestamp) -> None:
        """Advance to the operation time of another session: reads here see its earlier operations.

        Args:
            operation_time: `operation_time` of the other session.

        Raises:
            TypeError: `operation_time` is not a Timestamp.

        Example:
            >>> session.advance_operation_time(other.operation_time)
        """
        if not _is_timestamp(operation_time):
            raise TypeError(f"operation_time must be an instance of Timestamp, not {type(operation_time)}")
        self._handle.advance_operation_time(operation_time.time, operation_time.inc)

    def bind(self, end_session: bool = True) -> Any:
        """Return a context in which every operation of this client uses this session by default.

        Args:
            end_session: end the session with the context. False: the caller ends it.

        Example:
            >>> with client.start_session() as session, session.bind():
            ...     client.shop.orders.insert_one({"_id": 1})
        """
        return self._binding_class(self, _bound, BOUND, bool(end_session))

    # Transactions.

    def start_transaction(
        self,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
    ) -> FaceResult[Any]:
        """Start a transaction. Sends nothing before its first operation.

        Use the result in `with` (`async with`): it commits at the end of the block, or aborts after an exception.

        Args:
            read_concern: which data the transaction sees. None here and below: the session's default, or without one
                the client's.
            write_concern: how many members confirm the commit.
            read_preference: where it reads; only the primary is allowed.
            max_commit_time_ms: milliseconds that the server may spend on one commit.

        Raises:
            InvalidOperation: a transaction is open, or the session has ended, or is a snapshot session.
            ConfigurationError: the write concern is unacknowledged.

        Example:
            >>> with session.start_transaction():
            ...     orders.insert_one({"_id": 1}, session=session)
        """
        client, own = self._client, self._options
        has_options = read_concern or write_concern or read_preference or max_commit_time_ms is not None
        is_plain = not (has_options or own._default_transaction_options or own._snapshot)
        start = client._plain_start if is_plain else None
        if start is None:
            start = self._prepare_start(read_concern, write_concern, read_preference, max_commit_time_ms)
            if is_plain:
                client._plain_start = start
        self._handle.start_transaction(start[1], start[2])
        self._transaction_options, _, _, tracer = start
        if tracer is not None:
            self._tracer = tracer
            tracer.transaction_started(self._handle.number, self)
        return self._transaction_class(self)

    def _prepare_start(
        self,
        read_concern: ReadConcern | None,
        write_concern: WriteConcern | None,
        read_preference: _ServerMode | None,
        max_commit_time_ms: int | None,
    ) -> tuple[TransactionOptions, bytes, bytes, Any]:
        """Return the options of a transaction, its concerns as BSON, and the client's tracer."""
        handle, client = self._handle, self._client
        self._check_ended()
        if self._options._snapshot:
            raise InvalidOperation("Transactions are not supported in snapshot sessions")
        if handle.in_transaction:
            raise InvalidOperation("Transaction already in progress")
        defaults = self._options._default_transaction_options or _NO_OPTIONS
        if max_commit_time_ms is None:
            max_commit_time_ms = defaults._max_commit_time_ms
        read_concern = read_concern or defaults._read_concern or client._read_concern
        write_concern = write_concern or defaults._write_concern or client._write_concern
        read_preference = read_preference or defaults._read_preference or client._read_preference
        return (
            TransactionOptions(read_concern, write_concern, read_preference, max_commit_time_ms),
            _core.encode(read_concern.document) if read_concern._level else _EMPTY,
            _core.encode(write_concern._document) if write_concern._document else _EMPTY,
            client._tracer,
        )

    def _port_within(self, timeout_ms: float | None) -> Port:
        """Return the port of a call: with the call's own limit, or the session's, or the client's."""
        milliseconds = self._options.default_timeout_ms if timeout_ms is None else timeout_ms
        if milliseconds is None:
            return self._port
        from mangonel._faces.limited import limited

        return limited(self._port, milliseconds, is_call=timeout_ms is not None)

    def commit_transaction(self, *, timeout_ms: float | None = None) -> FaceResult[None]:
        """Commit the open transaction. May be repeated if the outcome is unknown.

        Args:
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            InvalidOperation: no transaction was started, or it was aborted. Nothing was sent.
            OperationFailure, ConnectionFailure: check the labels. `TransientTransactionError`: it was not committed;
                run the whole transaction again. `UnknownTransactionCommitResult`: it may have been committed; commit
                again.
            WriteConcernError: committed, but the write concern was not satisfied.

        Example:
            >>> session.commit_transaction()
        """
        return self._end_transaction(KIND_COMMIT, timeout_ms)

    def abort_transaction(self, *, timeout_ms: float | None = None) -> FaceResult[None]:
        """Abort the open transaction. Errors are not raised, since the server ends the transaction by itself.

        Args:
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            InvalidOperation: no transaction was started, or it has ended already. Nothing was sent.

        Example:
            >>> session.abort_transaction()
        """
        return self._end_transaction(KIND_ABORT, timeout_ms)

    def _end_transaction(self, kind: int, timeout_ms: float | None) -> FaceResult[None]:
        port = self._port
        if timeout_ms is not None or self._options._default_timeout_ms is not None:
            port = self._port_within(timeout_ms)
        if self._tracer is not None:
            return port.flow(self._end_transaction_flow(kind))
        return port.run(self._handle.ending(kind, self._transaction_options._max_commit_time_ms))

    async def _end_transaction_flow(self, kind: int) -> None:
        # The core changes the state of the session, sends nothing if the server knows of no transaction, and raises no
        # errors of an abort.
        try:
            await self._port.arun(self._handle.ending(kind, self._transaction_options._max_commit_time_ms))
        finally:
            if self._tracer is not None:
                self._tracer.transaction_ended(self._handle.number)

    def with_transaction(
        self,
        callback: Any,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[Any]:
        """Run `callback` in a transaction and commit it; return the result of `callback`.

        If the transaction fails transiently, everything runs again after a short, growing pause. A commit with an
        unknown outcome is sent again. The total limit is 120 seconds.

        Args:
            callback: called with this session, perhaps more than once; on asyncio a coroutine function. It must not
                catch the driver's errors, and must not run operations in this session concurrently.
            read_concern, write_concern, read_preference, max_commit_time_ms: as for `start_transaction`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            TypeError: `callback` cannot be called, or is a coroutine function on the blocking face. Nothing was sent.
            Exception: raised by `callback`, after the transaction was aborted; or the error of the commit.
            NetworkTimeout: the time is over; its cause is the last error.

        Example:
            >>> def buy(session):
            ...     orders.insert_one({"_id": 1, "item": "tea"}, session=session)
            ...     stock.update_one({"_id": "tea"}, {"$inc": {"left": -1}}, session=session)
            >>> with client.start_session() as session:
            ...     session.with_transaction(buy)
        """
        if not callable(callback):
            raise TypeError(f'expected a function for "callback", got {type(callback).__name__}')
        settings = (read_concern, write_concern, read_preference, max_commit_time_ms)
        port = self._port_within(timeout_ms)
        try:
            return port.flow(self._with_transaction_flow(callback, settings))
        except RuntimeError as error:
            # A coroutine, and so a flow, cannot raise StopIteration: Python puts that of a callback below this error.
            stop = error.__cause__
            raised: Any = stop and stop.__traceback__
            if isinstance(stop, StopIteration) and raised.tb_frame.f_code is self._port.call.__code__:
                raise stop from None
            raise

    async def _with_transaction_flow(self, callback: Any, settings: tuple[Any, ...]) -> Any:
        from random import random
        from time import monotonic

        deadline = monotonic() + _RETRY_LIMIT
        tries = 0
        failure: BaseException | None = None
        while True:
            if failure is not None:
                longest = min(_FIRST_BACKOFF * _BACKOFF_GROWTH**tries, _LONGEST_BACKOFF)
                pause = random() * longest
                if monotonic() + pause >= deadline:
                    raise _timed_out(failure) from failure
                await self._port.pause(pause)
            tries += 1
            self.start_transaction(*settings)
            self._keeps_limit = is_in_block()
            try:
                result = await self._port.call(callback, self)
                if not self._port.is_async:
                    _expect_no_coroutine(callback, result)
            except BaseException as error:
                if self._handle.in_transaction:
                    await self._end_transaction_flow(KIND_ABORT)
                if not (
                    isinstance(error, PyMongoError) and error.has_error_label("TransientTransactionError")
                ):
                    raise
                if monotonic() >= deadline:
                    raise _timed_out(error) from error
                failure = error
                continue
            finally:
                self._keeps_limit = False
            if not self._handle.in_transaction:
                # The callback ended the transaction itself, on purpose.
                return result
            failure = await self._commit_until_flow(deadline)
            if failure is None:
                return result

    async def _commit_until_flow(self, deadline: float) -> PyMongoError | None:
        """Commit until the outcome is known; return an error after which the transaction may run again, or None."""
        from time import monotonic

        while True:
            try:
                await self._end_transaction_flow(KIND_COMMIT)
            except PyMongoError as error:
                is_unknown = error.has_error_label("UnknownTransactionCommitResult")
                if is_unknown and getattr(error, "code", None) == _MAX_TIME_EXPIRED:
                    is_unknown = False
                if not is_unknown and not error.has_error_label("TransientTransactionError"):
                    raise
                if monotonic() >= deadline:
                    raise _timed_out(error) from error
                if not is_unknown:
                    return error
            else:
                return None

    # The end.

    def end_session(self) -> FaceResult[None]:
        """End the session, aborting an open transaction. Ending it twice does nothing.

        Example:
            >>> session.end_session()
        """
        port = self._port_within(None)
        return port.flow(self._end_flow())

    async def _end_flow(self) -> None:
        try:
            if self._handle.in_transaction:
                await self._end_transaction_flow(KIND_ABORT)
        finally:
            self._handle.end()


def _is_timestamp(value: Any) -> bool:
    # A value of another `bson` package is accepted too.
    return getattr(value, "_type_marker", None) == _TIMESTAMP_MARKER


def _expect_no_coroutine(callback: Any, result: Any) -> None:
    """Raise TypeError if a blocking callback returned a coroutine, which nothing would run."""
    from types import CoroutineType

    if isinstance(result, CoroutineType):
        result.close()
        name = getattr(callback, "__name__", callback)
        raise TypeError(
            f"expected a function without async for the blocking face, got {name!r}, which returns a coroutine; "
            "use AsyncMongoClient, or drop async and await"
        )


def _timed_out(error: BaseException) -> NetworkTimeout:
    timed_out = NetworkTimeout(str(error))
    if isinstance(error, PyMongoError):
        timed_out._error_labels = set(error._error_labels)
    return timed_out
