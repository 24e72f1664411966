"""The interface of a face for `_shared`.

A *port* runs operations (one command each) and flows (several in a row). On a blocking face the methods without an `a`
return values; on asyncio they return coroutines. Inside a flow, only `arun` and `call` are awaited, on every face. A
port that never suspends runs a flow with `_core.run_now`.
"""

from __future__ import annotations

import _thread
import os
import sys

from mangonel._light import Protocol, TypeVar
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from mangonel import _core

T = TypeVar("T")

LARGEST_MESSAGE = 48_000_000
"""The protocol's limit for one message, in bytes."""

Address = tuple[str, int | None]
"""Host and port, or the path of a UNIX socket and None."""


class Port(Protocol):
    """One way of waiting."""

    is_async: bool
    timeout: float | None
    """The client's `timeoutMS` in seconds."""
    limit: float | None
    """The limit of a database, a collection or a call in seconds, if it has its own."""
    largest_batch: int
    """How many bytes of writes one command may hold; the server may allow fewer."""
    is_encrypting: bool
    """Whether a cipher processes replies, and perhaps commands."""
    distance: float
    """Seconds of the least round trip to a server; 0 while it is unknown."""
    # Called once, off the loop, before the first operation; asyncio's faces only.
    preparation: Callable[[], None] | None

    def run(self, operation: _core.Operation) -> Any:
        """Run one operation; return its result, or a coroutine for it."""

    def flow(self, steps: Coroutine[Any, Any, T]) -> Any | T:
        """Run a flow; return its result, or a coroutine for it."""

    def arun(self, operation: _core.Operation) -> Awaitable[Any]:
        """Run one operation inside a flow."""

    def call(self, callback: Callable[..., Any], *args: Any, **options: Any) -> Awaitable[Any]:
        """Call the user's function inside a flow; on asyncio it may be a coroutine function."""

    def pause(self, seconds: float) -> Awaitable[None]:
        """Wait inside a flow."""

    def start(self, operation: _core.Operation, connects: bool = False) -> Any:
        """Send one operation without waiting for its reply; pass the result to `finish` or `give_up`.

        Without an idle connection, a blocking port sends only in `finish`, unless `connects` makes it open one now. It
        also waits for `finish` while other started operations use all connections but one.
        """

    def finish(self, started: Any) -> Awaitable[Any]:
        """Wait inside a flow for the result of a started operation."""

    def outlast(self, started: Any) -> Awaitable[Any]:
        """Wait as `finish` does; if the caller is cancelled, the operation continues and can be awaited again."""

    def may_wait(self, started: Any) -> bool:
        """Return whether a started operation may still be waiting for server selection."""

    def give_up(self, started: Any) -> None:
        """Close the connection of a started operation, which still owes a reply."""

    def release_pinned(self, link: int, is_drained: bool) -> None:
        """Check in the connection of an exhaust cursor; close it unless its last reply was read."""

    def has_idle_link(self) -> bool:
        """Return whether an operation could be sent at once."""

    def close(self) -> None:
        """Release the port's resources other than connections."""


def close_dropped(
    core: _core.Core,
    is_finalizing: Callable[[], bool] = sys.is_finalizing,
    start: Callable[..., Any] = _thread.start_new_thread,
) -> None:
    """Close the client of a port that is being dropped. A Ctrl-C meanwhile interrupts the program afterwards.

    The functions are default arguments, since the module's globals may be gone by then.
    """
    try:
        if is_finalizing():
            # Listeners can no longer import modules.
            core.set_publisher(None, 0)
        # The things that the core watches must be released too.
        core.close()
    except KeyboardInterrupt:
        core.close()
        # Python drops what a finalizer raises, and the program would go on. Signals are handled in the main thread,
        # most probably after the finalizer.
        start(_interrupt_again, ())


def _interrupt_again() -> None:
    from signal import SIGINT, getsignal

    if sys.platform == "win32":
        _thread.interrupt_main()
    elif callable(getsignal(SIGINT)):
        # A real signal also ends a wait of the main thread.
        os.kill(os.getpid(), SIGINT)


def refuse_encryption(port: Port, what: str) -> None:
    """Raise InvalidOperation for a client with automatic encryption: PyMongo refuses `what` with one."""
    if port.is_encrypting:
        raise InvalidOperation(
            f"{what} not support auto encryption; use a client without auto_encryption_opts"
        )


def address_of(server: str) -> tuple[str, int | None]:
    """Return host and port of an address in the core's notation; a Unix socket has no port."""
    host, colon, port = server.rpartition(":")
    if not colon or not port.isdigit():
        return server, None
    return host.removeprefix("[").removesuffix("]"), int(port)
