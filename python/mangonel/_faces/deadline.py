"""Time limits for blocks of operations: `timeout()`, and the remaining time.

The limit is a context variable, so every task and thread has its own; the Rust half reads it when an operation begins.
Knows no client. Spec: client-side-operations-timeout.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

from mangonel._core import Limit, use_limit_variables
from mangonel._light import TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractContextManager
    from typing import Any

T = TypeVar("T")

# None: no block, so the client's own limit applies. Otherwise a time of `time.monotonic()`; infinite: no limit.
_DEADLINE: ContextVar[float | None] = ContextVar("mangonel_deadline", default=None)
# The innermost block's limit in seconds, for operations that must run even after the deadline.
_SECONDS: ContextVar[float | None] = ContextVar("mangonel_timeout", default=None)
use_limit_variables(_DEADLINE, _SECONDS)


def timeout(seconds: float | None) -> AbstractContextManager[None]:
    """Limit the total time of a block of operations.

    Each operation in the block gets the remaining time: for server selection, for waiting for a connection, for sending
    and receiving, for retries, and for the server's own work (`maxTimeMS`). The limit replaces `timeoutMS`,
    `socketTimeoutMS`, `waitQueueTimeoutMS` and `wtimeout`. Blocks may be nested; an inner one can only shorten the
    limit.

    Args:
        seconds: the limit; 0 means no limit, None applies the client's `timeoutMS`.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: `seconds` is negative or NaN.

    In the block, an operation that runs out of time raises an error whose `timeout` is True: `ExecutionTimeout` (from
    the server, or before sending), `NetworkTimeout` (the outcome is unknown), `ServerSelectionTimeoutError` or
    `WaitQueueTimeoutError` (nothing was sent).

    Example:
        >>> with mangonel.timeout(2.5):
        ...     order = client.shop.orders.find_one({"_id": 7})
        ...     client.shop.log.insert_one({"seen": order["_id"]})
    """
    if not isinstance(seconds, (int, float, type(None))):
        raise TypeError(f"timeout must be None, an int, or a float, not {type(seconds)}")
    # Written so that it refuses NaN, too, for which every comparison is false.
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"expected seconds of 0 or more, got {seconds}; 0 means no limit")
    return Limit(seconds)


def limit_seconds(name: str, milliseconds: Any) -> float:
    """Return a time limit in milliseconds as seconds; 0 means no limit and stays 0.

    Raises:
        TypeError, ValueError: `milliseconds` is not a number of 0 or more.
    """
    if not isinstance(milliseconds, (int, float)):
        raise TypeError(f"expected milliseconds as a number for {name}, got {type(milliseconds).__name__}")
    if not milliseconds >= 0:
        raise ValueError(f"expected {name} of 0 or more, got {milliseconds}; 0 means no limit")
    return milliseconds / 1000.0


def remaining() -> float | None:
    """Return the remaining seconds of the current block, at least 0; None without a limit."""
    deadline = _DEADLINE.get()
    if deadline is None or math.isinf(deadline):
        return None
    return max(0.0, deadline - time.monotonic())


def is_in_block() -> bool:
    """Return whether a block sets the limit, so that the client's own does not apply."""
    return _DEADLINE.get() is not None


def limits_by_name(
    client_s: float | None, socket_s: float | None, connect_s: float | None
) -> dict[str, float]:
    """Return the configured limits of an operation in milliseconds, by option name.

    Args:
        client_s, socket_s, connect_s: the client's `timeoutMS`, `socketTimeoutMS`, `connectTimeoutMS`, in seconds.
    """
    whole = _SECONDS.get() if is_in_block() else client_s
    # With a limit for the whole operation, the socket's limit does not apply.
    limits = {
        "timeoutMS": whole,
        "socketTimeoutMS": None if whole else socket_s,
        "connectTimeoutMS": connect_s,
    }
    return {name: seconds * 1000 for name, seconds in limits.items() if seconds}


async def within(seconds: float | None, steps: Coroutine[Any, Any, T]) -> T:
    """Run the steps of a flow under the client's limit, unless a surrounding block sets another.

    Args:
        seconds: the client's `timeoutMS` in seconds, or None.
        steps: the flow.
    """
    if seconds is None or is_in_block():
        return await steps
    with Limit(seconds):
        return await steps


def check_wait(max_await_time_ms: int | None, client_seconds: float | None) -> None:
    """Refuse a cursor that lets the server wait for as long as the whole operation may take.

    Args:
        max_await_time_ms: milliseconds that the server may wait for new data, or None.
        client_seconds: the client's `timeoutMS` in seconds, or None.

    Raises:
        TypeError: `max_await_time_ms` is neither an integer nor None.
        ConfigurationError: `max_await_time_ms` is not below the limit. Nothing was sent.
    """
    if max_await_time_ms is None:
        return
    if not isinstance(max_await_time_ms, int):
        raise TypeError(f"max_await_time_ms must be an integer or None, not {type(max_await_time_ms)}")
    seconds = _SECONDS.get() if is_in_block() else client_seconds
    if seconds and max_await_time_ms >= seconds * 1000:
        from mangonel.errors import ConfigurationError

        raise ConfigurationError(
            f"expected max_await_time_ms below the time limit of {seconds * 1000:g} ms, got {max_await_time_ms}; "
            "lower it, or raise timeoutMS or the argument of timeout()"
        )


def deadline_after(seconds: float) -> float:
    """Return the `time.monotonic()` of the deadline in `seconds` from now; infinite for 0, which means no limit."""
    return time.monotonic() + seconds if seconds else math.inf


def block_deadline(seconds: float) -> float | None:
    """Return the deadline of the innermost block if its limit is `seconds`, otherwise None."""
    return _DEADLINE.get() if _SECONDS.get() == seconds else None


def anew() -> AbstractContextManager[None]:
    """Return a block in which the limit of the surrounding blocks starts again."""
    return Limit(_SECONDS.get(), is_anew=True)
