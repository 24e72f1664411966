"""A port with its own time limit: that of a database, a collection, a session, a cursor or a single call.

It runs operations and flows of another port in a block of `deadline`. A collection without a limit has no such port and
pays nothing. Knows no collection. Spec: client-side-operations-timeout.
"""

from __future__ import annotations

from mangonel._core import Limit
from mangonel._faces.deadline import block_deadline, deadline_after, is_in_block, limit_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from mangonel import _core
    from mangonel._faces.port import Port


CURSOR_LIFETIME, ITERATION = "cursor_lifetime", "iteration"


def limited(port: Port, timeout_ms: float, *, is_call: bool = False) -> LimitedPort:
    """Return `port` with another time limit.

    Args:
        port: the client's port, or one with a limit, which `timeout_ms` replaces.
        timeout_ms: milliseconds for each operation, retries included; 0: no limit.
        is_call: the limit is that of a single call: in a `timeout()` block it applies too, but can only shorten it.

    Raises:
        TypeError, ValueError: `timeout_ms` is not a number of 0 or more.
    """
    plain = port._plain if isinstance(port, LimitedPort) else port
    return LimitedPort(plain, limit_seconds("timeout_ms", timeout_ms), is_call)


def limited_cursor(port: Port, timeout_ms: float | None, timeout_mode: str | None) -> LimitedPort:
    """Return `port` for a call that opens a cursor.

    Args:
        port: as for `limited`.
        timeout_ms: milliseconds, as for `limited`. None: the limit that the port has already.
        timeout_mode: "iteration": the limit holds for the first command, and again for each later batch.
            "cursor_lifetime" or None: it holds for all of them together.

    Raises:
        ValueError: another mode.
        ConfigurationError: a mode without a limit.
    """
    made = _in_mode(port) if timeout_ms is None else limited(port, timeout_ms, is_call=True)
    if timeout_mode not in (None, CURSOR_LIFETIME, ITERATION):
        raise ValueError(
            f'expected timeout_mode to be "{CURSOR_LIFETIME}" or "{ITERATION}", got {timeout_mode!r}'
        )
    made.mode = timeout_mode
    return made


def _in_mode(port: Port) -> LimitedPort:
    """Return a port with the limit that `port` has."""
    if is_in_block():
        # The block's own limit applies.
        return LimitedPort(port._plain if isinstance(port, LimitedPort) else port, 0.0, True)
    if isinstance(port, LimitedPort):
        return LimitedPort(port._plain, port._seconds, True)
    if port.timeout is None:
        from mangonel.errors import ConfigurationError

        raise ConfigurationError(
            "timeout_mode needs a time limit: give timeout_ms as well, or set timeoutMS of the client"
        )
    return LimitedPort(port, port.timeout, True)


class LimitedPort:
    """Runs operations on another port, each within `limit` seconds; 0: without a limit.

    Attributes:
        home: the client's own port, whose sessions are accepted.
        is_call: see `limited`.
        mode: see `limited_cursor`.
    """

    def __init__(self, plain: Any, seconds: float, is_call: bool, *, is_lifetime: bool = False) -> None:
        self._plain = plain
        self.home = getattr(plain, "home", plain)
        self.is_async = plain.is_async
        self._seconds = seconds
        self.timeout: float | None = seconds
        self.limit: float | None = seconds
        self.is_call = is_call
        self.mode: str | None = None
        # A cursor has one limit for its life. The time starts with the first batch.
        self._is_lifetime = is_lifetime
        self._until: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def _block(self) -> Limit:
        if not self._is_lifetime:
            return Limit(self._seconds, is_nested=self.is_call)
        if self._until is None:
            self._until = deadline_after(self._seconds)
        return Limit(self._seconds, is_nested=self.is_call, until=self._until)

    def for_cursor(self) -> LimitedPort:
        """Return a port for a new cursor: the limit is for its first command and all of its batches together.

        In the mode `iteration` each command has its own.
        """
        if self.mode == ITERATION:
            return self
        made = LimitedPort(self._plain, self._seconds, self.is_call, is_lifetime=True)
        made.mode = self.mode
        # If the cursor's first command was sent in this block, the time runs already.
        made._until = block_deadline(self._seconds)
        return made

    def refuse_iteration(self) -> None:
        """Raise ConfigurationError in the mode `iteration`: an aggregation that writes has one command."""
        if self.mode == ITERATION:
            from mangonel.errors import ConfigurationError

            raise ConfigurationError(
                f'expected no timeout_mode "{ITERATION}" of an aggregation with $out or $merge, which has no '
                "batches; leave it out"
            )

    def begin_anew(self) -> None:
        """Give each batch its own limit: the cursor waits for new data and has no end.

        Raises:
            ConfigurationError: `timeout_mode` sets one limit for all batches. Nothing was sent.
        """
        if self.mode == CURSOR_LIFETIME:
            from mangonel.errors import ConfigurationError

            raise ConfigurationError(
                f'expected timeout_mode "{ITERATION}" of a tailable cursor, which has no end, '
                f'got "{CURSOR_LIFETIME}"; leave it out'
            )
        self._is_lifetime = False

    def _told(self, operation: _core.Operation) -> _core.Operation:
        # The server would take the limit of the first command for all batches.
        if self.mode == ITERATION:
            operation.omit_max_time()
        return operation

    def run(self, operation: _core.Operation) -> Any:
        if self.is_async:
            return self.arun(operation)
        with self._block():
            return self._plain.run(self._told(operation))

    async def arun(self, operation: _core.Operation) -> Any:
        with self._block():
            return await self._plain.arun(self._told(operation))

    def flow(self, steps: Coroutine[Any, Any, Any]) -> Any:
        if self.is_async:
            return self._flow_on_loop(steps)
        with self._flow_block():
            return self._plain.flow(steps)

    def _flow_block(self) -> Limit:
        # In the mode `iteration` each command of a flow has its own limit, in place of the client's for the whole flow.
        return Limit(0.0, is_nested=False) if self.mode == ITERATION else self._block()

    async def _flow_on_loop(self, steps: Coroutine[Any, Any, Any]) -> Any:
        with self._flow_block():
            return await self._plain.flow(steps)

    def start(self, operation: _core.Operation, connects: bool = False) -> Any:
        with self._block():
            return self._plain.start(self._told(operation), connects)
