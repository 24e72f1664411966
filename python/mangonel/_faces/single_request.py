"""One request over TLS on its own connection, for services other than MongoDB; blocking and on asyncio.

Knows no service: the request is bytes, and the caller says how many bytes of the response are missing.
"""

from __future__ import annotations

import time

from mangonel._faces.blocking import secure_socket
from mangonel._faces.sockets import open_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Awaitable, Callable
    from typing import Any, Protocol

    from mangonel._options.tls import Security

    class Request(Protocol):
        """A request, and the destination of its response."""

        @property
        def message(self) -> bytes: ...
        @property
        def missing(self) -> int: ...
        def feed(self, data: bytes) -> None: ...


_SHORTEST_WAIT = 0.001


def ask(
    request: Request,
    address: tuple[str, int],
    security: Security,
    seconds: float,
    plain: socket | None = None,
) -> None:
    """Send the request and feed it the response, within `seconds` in total. Blocks.

    Args:
        plain: a connected socket to use and close. None: open one.

    Raises:
        TimeoutError: the time is over.
        OSError: connecting failed, the certificate is not trusted, or the connection broke.
    """
    until = time.monotonic() + seconds
    if plain is None:
        plain = open_socket(address, lambda: _left(until))
    sock = secure_socket(plain, address, lambda: _left(until), security)
    try:
        sock.settimeout(_left(until))
        sock.sendall(request.message)
        while (missing := request.missing) > 0:
            sock.settimeout(_left(until))
            buffer = bytearray(min(missing, _MOST_AT_ONCE))
            count = sock.recv_into(buffer)
            _check(count)
            request.feed(bytes(buffer[:count]))
    finally:
        sock.close()


async def ask_on_loop(
    request: Request,
    address: tuple[str, int],
    security: Security,
    seconds: float,
    plain: socket | None = None,
) -> None:
    """Do the same as `ask`, as a coroutine of the running loop."""
    import asyncio
    from ssl import SSLError

    host, port = address
    is_open = False
    # Kept in a name, as in aio.py.
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            # Loading the system's certificates takes as long as many operations.
            context = await off_loop(lambda: security.context)
            target: dict[str, Any] = {"host": host, "port": port} if plain is None else {"sock": plain}
            if plain is not None:
                plain.setblocking(False)
            reader, writer = await asyncio.open_connection(ssl=context, server_hostname=host, **target)
            is_open = True
            try:
                writer.write(request.message)
                await writer.drain()
                while (missing := request.missing) > 0:
                    data = await reader.read(min(missing, _MOST_AT_ONCE))
                    _check(len(data))
                    request.feed(data)
            finally:
                # Aborted at once, since a peer may not answer the close_notify.
                writer.transport.abort()
    except TimeoutError as error:
        raise TimeoutError(_LATE) from error
    except OSError as error:
        if is_open and not isinstance(error, SSLError):
            raise
        raise security.explain(error, address) from error
    finally:
        if plain is not None and not is_open:
            plain.close()


def call(callback: Callable[[], Any], seconds: float | None = None) -> Any:
    """Call a function that may block. Python cannot end it, so it must keep the limit of `seconds` itself."""
    return callback()


async def answer_on_loop(callback: Callable[[], Awaitable[Any]], seconds: float) -> Any:
    """Await a coroutine function's result for at most `seconds`; then cancel it and raise TimeoutError."""
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await callback()
    except TimeoutError as error:
        raise TimeoutError(str(error) or _LATE) from error


async def off_loop(callback: Callable[[], Any]) -> Any:
    """Call a function that may block in a thread, without blocking the loop."""
    from asyncio import get_running_loop

    return await get_running_loop().run_in_executor(None, callback)


_MOST_AT_ONCE = 64 * 1024
_LATE = "the answer did not come in time"


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(_LATE)
    return max(left, _SHORTEST_WAIT)


def _check(count: int) -> None:
    if not count:
        raise ConnectionResetError("the connection was closed before the answer was complete")
