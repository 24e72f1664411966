"""A port with a time limit of its own: that of a database, a collection, a session, a cursor or a single call.

It runs operations and flows of another port in a block of `deadline`. A collection without a limit has no such port and
pays nothing. Knows no collection. Spec: client-side-operations-timeout.
"""

from __future__ import annotations

from mangonel._faces.deadline import Limit, block_deadline, deadline_after, limit_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from mangonel import _core
    from mangonel._faces.port import Port


def limited(port: Port, timeout_ms: float, *, is_call: bool = False) -> LimitedPort:
    """Return `port` with another time limit.

    Args:
        port: the port of the client, or one with a limit, which this one replaces.
        timeout_ms: milliseconds for each operation, retries included; 0: no limit.
        is_call: the limit is that of a single call, so it also holds in a `timeout()` block, which it can only shorten.

    Raises:
        TypeError, ValueError: `timeout_ms` is no number of 0 or more.
    """
    plain = port._plain if isinstance(port, LimitedPort) else port
    return LimitedPort(plain, limit_seconds("timeout_ms", timeout_ms), is_call)


class LimitedPort:
    """Runs operations on another port, each within `limit` seconds; 0: without a limit.

    Attributes:
        home: the client's own port, whose sessions are accepted.
        is_call: see `limited`.
    """

    def __init__(self, plain: Any, seconds: float, is_call: bool, *, is_lifetime: bool = False) -> None:
        self._plain = plain
        self.home = getattr(plain, "home", plain)
        self.is_async = plain.is_async
        self._seconds = seconds
        self.timeout: float | None = seconds
        self.limit: float | None = seconds
        self.is_call = is_call
        # A cursor has one limit for its life. It begins with the first batch.
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
        """Return a port for a new cursor: the limit is for its first command and all of its batches together."""
        made = LimitedPort(self._plain, self._seconds, self.is_call, is_lifetime=True)
        # If its first command was sent in this block, the time runs already.
        made._until = block_deadline(self._seconds)
        return made

    def begin_anew(self) -> None:
        """Give each batch its own limit: the cursor waits for new data and has no end."""
        self._is_lifetime = False

    def run(self, operation: _core.Operation) -> Any:
        if self.is_async:
            return self.arun(operation)
        with self._block():
            return self._plain.run(operation)

    async def arun(self, operation: _core.Operation) -> Any:
        with self._block():
            return await self._plain.arun(operation)

    def flow(self, steps: Coroutine[Any, Any, Any]) -> Any:
        if self.is_async:
            return self._flow_on_loop(steps)
        with self._block():
            return self._plain.flow(steps)

    async def _flow_on_loop(self, steps: Coroutine[Any, Any, Any]) -> Any:
        with self._block():
            return await self._plain.flow(steps)

    def start(self, operation: _core.Operation, connects: bool = False) -> Any:
        with self._block():
            return self._plain.start(operation, connects)
