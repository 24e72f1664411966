"""Transactions of models: a session of the driver that everything in the context takes part in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mangonel.odm.connections.context import sessions

if TYPE_CHECKING:
    from mangonel.odm.connections.connection import Connection

# Hooks that run once the transaction of this context has committed.
_pending: ContextVar[list[Callable[[], Any]] | None] = ContextVar("mangonel_odm_commit_hooks", default=None)


class Transaction:
    """A transaction, for `with` or `async with`. It commits at the end, and is aborted when an error passes.

    Example:
        >>> with db.transaction():
        ...     a.cents -= 5
        ...     a.save()
    """

    def __init__(self, connection: Connection, options: dict[str, Any]) -> None:
        self._connection = connection
        self._options = options
        self._session: Any = None
        self._tokens: tuple[Any, Any] | None = None
        self._hooks: list[Callable[[], Any]] = []

    @property
    def session(self) -> Any:
        """The driver's session."""
        return self._session

    def _enter(self) -> None:
        running = {**(sessions.get() or {}), self._connection.alias: self._session}
        self._tokens = (sessions.set(running), _pending.set(self._hooks))

    def _leave(self) -> None:
        if self._tokens is not None:
            sessions.reset(self._tokens[0])
            _pending.reset(self._tokens[1])
            self._tokens = None

    def __enter__(self) -> Transaction:
        self._session = self._connection.client.start_session()
        self._session.start_transaction(**self._options)
        self._enter()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._leave()
        try:
            if kind is None:
                self._session.commit_transaction()
            else:
                self._session.abort_transaction()
        finally:
            self._session.end_session()
        if kind is None:
            for hook in self._hooks:
                hook()

    def __aenter__(self) -> Any:
        return self._connection.aclient._port.flow(self._aenter_flow())

    def __aexit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return self._connection.aclient._port.flow(self._aexit_flow(kind))

    async def _aenter_flow(self) -> Transaction:
        client = self._connection.aclient
        self._session = client.start_session()
        await client._port.call(_started, self._session, self._options)
        self._enter()
        return self

    async def _aexit_flow(self, kind: Any) -> None:
        self._leave()
        port = self._connection.aclient._port
        try:
            await port.call(
                self._session.commit_transaction if kind is None else self._session.abort_transaction
            )
        finally:
            await port.call(self._session.end_session)
        if kind is None:
            for hook in self._hooks:
                await port.call(hook)


def _started(session: Any, options: dict[str, Any]) -> Any:
    return session.start_transaction(**options)


async def after_commit_flow(port: Any, hook: Callable[[], Any]) -> None:
    """Run a hook when the transaction of this context commits, or now when there is none."""
    waiting = _pending.get()
    if waiting is not None:
        waiting.append(hook)
        return
    await port.call(hook)


def is_awaitable(value: Any) -> bool:
    """Whether a hook returned something to wait for."""
    return inspect.isawaitable(value)
