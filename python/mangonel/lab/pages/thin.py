"""The least that an asyncio driver in Python can do: nonblocking sockets, one future per reply, PyMongo's C codec.

No server selection, no sessions kept apart, no retries, no timeouts: what is left is the ceiling for a driver without
native code of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders import _wire

LINES = 100
PAGE = 30


class Line:
    """One connection: a message out, a future for its reply."""

    def __init__(self, uri: str, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = _wire.connect(uri)
        self._socket.setblocking(False)
        self._loop = loop
        self._received = b""
        self._waiter: asyncio.Future[bytes] | None = None
        loop.add_reader(self._socket.fileno(), self._readable)

    def ask(self, message: bytes | bytearray) -> asyncio.Future[bytes]:
        """Send a small message; the future's result is the reply."""
        self._waiter = waiter = self._loop.create_future()
        self._socket.send(message)
        return waiter

    def _readable(self) -> None:
        waiter = self._waiter
        data = self._socket.recv(65536)
        if not data or waiter is None:
            self._loop.remove_reader(self._socket.fileno())
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnectionResetError("the server closed the connection"))
            return
        self._received = received = self._received + data if self._received else data
        if len(received) >= 4 and len(received) == _wire.INT32.unpack_from(received)[0]:
            self._received = b""
            self._waiter = None
            waiter.set_result(received)


def open_thin(uri: str, database: str, collection: str, *, newest: bool) -> Callable[[], Awaitable[bytes]]:
    """Return the function that reads the page over a pool of lines, the last one used first."""
    import bson

    from mangonel.lab.pages.stacks import render

    target = Target(uri, database, collection)
    idle: list[tuple[Line, bytearray]] = []
    waiting: deque[asyncio.Future[None]] = deque()
    opened = 0

    async def line() -> tuple[Line, bytearray]:
        nonlocal opened
        while not idle:
            if opened < LINES:
                opened += 1
                new = Line(uri, asyncio.get_running_loop())
                time = _wire.cluster_time(memoryview(await new.ask(_wire.hello())))
                commands = _wire.Commands(target, time)
                sort: dict[str, Any] = {"sort": {"created": -1}} if newest else {}
                return new, commands.find_page(PAGE, sort)
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting.append(turn)
            await turn
        return idle.pop()

    async def page() -> bytes:
        taken = await line()
        reply = await taken[0].ask(taken[1])
        idle.append(taken)
        if waiting:
            waiting.popleft().set_result(None)
        return render(bson.decode(reply[_wire.BODY :])["cursor"]["firstBatch"])

    return page
