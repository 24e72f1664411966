"""Sessions and transactions of models, shared by all operations in a context. Spec: transactions, sessions."""

from __future__ import annotations

import functools
import inspect
import random
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from mangonel.errors import OperationFailure, PyMongoError
from mangonel.odm.connections.context import sessions
from mangonel.odm.connections.touched import Touched
from mangonel.odm.errors import OdmError

if TYPE_CHECKING:
    from mangonel.odm.connections.connection import Connection

T = TypeVar("T")
P = ParamSpec("P")

# The transaction of this context.
_current: ContextVar[Transaction | None] = ContextVar("mangonel_odm_transaction", default=None)

# How long transactions and commits are retried, by the specification.
RETRY_S = 120.0
_TRANSIENT, _UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"


class _Block:
    """A driver session that all operations in the context use."""

    def __init__(self, connection: Connection, options: dict[str, Any]) -> None:
        self._connection = connection
        self._options = options
        self._session: Any = None
        self._token: Any = None

    @property
    def session(self) -> Any:
        """The driver's session, or None outside the block."""
        return self._session

    def _enter(self) -> None:
        self._token = sessions.set({**(sessions.get() or {}), self._connection.clients: self._session})

    def _leave(self) -> None:
        if self._token is not None:
            sessions.reset(self._token)
            self._token = None


class SessionBlock(_Block):
    """A session for `with` or `async with`: its reads see its writes, or a snapshot of the data.

    Example:
        >>> with db.session(causal_consistency=True):
        ...     user.save()
        ...     User.find().options(read_preference=ReadPreference.SECONDARY).count()
    """

    def __enter__(self) -> Self:
        self._session = self._connection.client.start_session(**self._options)
        self._enter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._leave()
        self._session.end_session()

    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        return self._connection.clients.get(True)._port.flow(self._aenter_flow())

    def __aexit__(self, *exc_info: object) -> Coroutine[Any, Any, None]:
        self._leave()
        return self._session.end_session()

    async def _aenter_flow(self) -> Self:
        self._session = self._connection.aclient.start_session(**self._options)
        self._enter()
        return self


class Transaction(_Block):
    """A transaction for `with` or `async with`, or a decorator that retries functions in a transaction.

    It commits at the end of the block, or aborts after an exception; then every document that it touched is restored to
    its earlier state. A transaction inside another one of the same deployment becomes part of it; if the inner one
    fails, the outer one cannot commit any more.

    Example:
        >>> with db.transaction():
        ...     a.cents -= 5
        ...     a.save()
    """

    def __init__(self, connection: Connection, options: dict[str, Any], retry: bool = False) -> None:
        super().__init__(connection, options)
        self._retry = retry
        self._outer: Transaction | None = None
        self._owns_session = True
        self._is_doomed = False
        self._touched = Touched()
        self._after_commit: list[Callable[[], Any]] = []
        self._after_rollback: list[Callable[[], Any]] = []
        self._around: Transaction | None = None
        self._mark: Any = None

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Make a function run in its own transaction, and again after transient failures."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            def arun(*args: P.args, **kwargs: P.kwargs) -> Any:
                return self._connection.arun(functools.partial(function, *args, **kwargs), **self._options)

            return arun

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            return self._connection.run(functools.partial(function, *args, **kwargs), **self._options)

        return run

    def _begin(self, client: Any) -> bool:
        """Join the context's transaction or session; return whether to start a transaction."""
        if self._retry:
            raise OdmError(
                "expected a function for a transaction with retry=True, got a block, which cannot run again; "
                "use db.run(function), or the transaction as a decorator"
            )
        session = (sessions.get() or {}).get(self._connection.clients)
        outer = _current.get()
        while outer is not None and outer._connection.clients is not self._connection.clients:
            outer = outer._around
        if outer is not None and session is outer._session:
            self._outer, self._session = outer, session
            return False
        self._owns_session = session is None
        self._session = client.start_session() if session is None else session
        return True

    def _enter(self) -> None:
        if self._outer is None:
            super()._enter()
            self._around = _current.get()
            self._mark = _current.set(self)
            self._touched.begin(self._session)

    def _leave(self) -> None:
        if self._outer is None and self._mark is not None:
            self._touched.end()
            _current.reset(self._mark)
            self._mark = None
            super()._leave()

    def __enter__(self) -> Self:
        client = self._connection.clients.get(False)
        return client._port.flow(self._enter_flow(client))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        port = self._connection.clients.get(False)._port
        port.flow(self._exit_flow(kind, port))

    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        client = self._connection.clients.get(True)
        return client._port.flow(self._enter_flow(client))

    def __aexit__(self, kind: Any, error: Any, trace: Any) -> Coroutine[Any, Any, None]:
        port = self._connection.clients.get(True)._port
        return port.flow(self._exit_flow(kind, port))

    async def _enter_flow(self, client: Any) -> Self:
        if self._begin(client):
            await client._port.call(self._session.start_transaction, **self._options)
        self._enter()
        return self

    async def _exit_flow(self, kind: Any, port: Any) -> None:
        if self._outer is not None:
            self._outer._is_doomed = self._outer._is_doomed or kind is not None
            return
        self._leave()
        is_committed = False
        try:
            if kind is None and not self._is_doomed:
                await self._commit_flow(port)
                is_committed = True
            else:
                await port.call(self._session.abort_transaction)
        except BaseException as error:
            if kind is None and not self._is_doomed and not _is_refusal(error):
                self._touched.doubt()
            raise
        finally:
            if not is_committed:
                self._touched.put_back()
            self._touched.release()
            if self._owns_session:
                await port.call(self._session.end_session)
        errors: list[Exception] = []
        for hook in self._after_commit if is_committed else self._after_rollback:
            try:
                await port.call(hook)
            except Exception as error:
                # The outcome is fixed, so the other hooks still run.
                errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"another hook raised {other!r}")
            raise errors[0]
        if kind is None and not is_committed:
            raise OdmError("cannot commit: a transaction inside this one failed; everything was rolled back")

    async def _commit_flow(self, port: Any) -> None:
        end = time.monotonic() + RETRY_S
        while True:
            try:
                await port.call(self._session.commit_transaction)
                return
            except PyMongoError as error:
                if not error.has_error_label(_UNKNOWN) or time.monotonic() > end:
                    raise


def _is_refusal(error: BaseException) -> bool:
    """Whether a commit that failed with this error has certainly stored nothing."""
    if is_transient(error):
        return True
    return isinstance(error, OperationFailure) and not (error.timeout or error.has_error_label(_UNKNOWN))


def is_transient(error: BaseException) -> bool:
    """Whether the whole transaction may be run again."""
    return isinstance(error, PyMongoError) and error.has_error_label(_TRANSIENT)


async def run_flow(make: Callable[[], Transaction], function: Callable[[], Any], client: Any) -> Any:
    """Run a function in a transaction, and again after transient failures."""
    port = client._port
    end = time.monotonic() + RETRY_S
    pause_s = 0.005
    while True:
        block = make()
        try:
            await block._enter_flow(client)
            try:
                made = await port.call(function)
            except BaseException as error:
                await block._exit_flow(type(error), port)
                raise
            await block._exit_flow(None, port)
        except PyMongoError as error:
            # Part of another transaction cannot be retried alone.
            if block._outer is not None or not is_transient(error) or time.monotonic() > end:
                raise
        else:
            return made
        await port.pause(random.uniform(0, pause_s))
        pause_s = min(pause_s * 1.5, 0.5)


async def after_commit_flow(port: Any, hook: Callable[[], Any]) -> None:
    """Run a hook when this context's transaction commits; without a transaction, now."""
    transaction = _current.get()
    if transaction is not None:
        transaction._after_commit.append(hook)
        return
    await port.call(hook)


def after_rollback(hook: Callable[[], Any]) -> None:
    """Run a hook when the transaction of this context is rolled back; without a transaction, never."""
    transaction = _current.get()
    if transaction is not None:
        transaction._after_rollback.append(hook)
