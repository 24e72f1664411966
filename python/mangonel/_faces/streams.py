"""Connections on loops that watch no descriptors, such as Windows' own: there the loop sends and receives.

`aio.py` uses them on loops without `add_reader`. They are slower by one turn of the loop, and received bytes are copied
into the link, even those that other connections receive in place. Knows no BSON and no command.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio import BufferedProtocol
from typing import TYPE_CHECKING, Any

from mangonel.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mangonel import _core
    from mangonel._core import Waiter
    from mangonel._faces.secure import Secured

    Expire = Callable[[asyncio.Future[Any], float], None]

# The size of a receive buffer; larger while a large message arrives.
_LEAST_ROOM = 64 * 1024
_MOST_ROOM = 1024 * 1024

# How many bytes are copied for one send. Loops get a copy because they might keep the message itself.
_PIECE = 256 * 1024

_CLOSED_BY_SERVER = "the server closed the connection"


class Stream(BufferedProtocol):
    """A link's transport that passes on the bytes that its loop receives, and sends as fast as the loop accepts."""

    # There are no descriptors for the descriptor-based paths of `_core`.
    fd = -1

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        core: _core.Core,
        sock: socket.socket,
        secured: Secured | None,
    ) -> None:
        self.secured = secured
        # Why nothing is sent or received any more; empty while the connection is open.
        self.ending = ""
        self._loop = loop
        self._core = core
        self._sock = sock
        # The loop's transport, from `connection_made` on.
        self._writer: asyncio.Transport
        self._link: _core.Link | None = None
        self._room = memoryview(bytearray(_LEAST_ROOM))
        # Bytes that arrived before there was a link: the peer's part of TLS continues after the handshake.
        self._early: list[bytes] = []
        # Set while the loop holds unsent bytes.
        self._drained: asyncio.Future[None] | None = None

    def itself(self) -> Stream:
        """Return the stream; a loop calls this for its protocol."""
        return self

    def check_open(self) -> None:
        """Raise ConnectionResetError if the connection is closed."""
        if self.ending:
            raise ConnectionResetError(self.ending)

    def start(self, link: _core.Link) -> None:
        """Receive into `link` from now on, until closed."""
        link.probe = self._sock.fileno()
        self._link = link
        early, self._early = self._early, []
        for arrived in early:
            self._take(link, memoryview(arrived))
        if self.ending:
            self._core.link_lost(link)

    async def send(
        self, exchange: _core.Exchange, waiter: Waiter, timeout: float | None, expire: Expire
    ) -> None:
        """Pass the whole message to the operating system within `timeout` seconds, without blocking the loop.

        Raises:
            ConnectionError: the connection ended, or the server answered before the end of the message.
            TimeoutError: the time is over.
        """
        until = None if timeout is None else self._loop.time() + timeout
        sent, total = 0, len(exchange)
        while sent < total:
            self.check_open()
            # Released before any wait: the message may have to be stamped for another attempt.
            with memoryview(exchange) as message, message[sent : sent + _PIECE] as piece:
                if self.secured is None:
                    taken, data = len(piece), bytes(piece)
                else:
                    taken, data = self.secured.encrypt(piece)
            sent += taken
            self._writer.write(data)
            if self._drained is not None:
                drained = self._drained
                if until is not None:
                    expire(drained, until - self._loop.time())
                await until_done(drained, waiter)

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the loop's transport, which from now on reports unsent bytes."""
        self._writer = transport  # type: ignore[assignment]  # a socket's has both directions
        self._writer.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the receive buffer. Each connection has its own: some loops keep it while they wait."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Process the received bytes."""
        room = self._room
        if nbytes == len(room) < _MOST_ROOM:
            self._room = memoryview(bytearray(4 * nbytes))
        arrived = room[:nbytes]
        if self._link is None:
            self._early.append(bytes(arrived))
        else:
            self._take(self._link, arrived)

    def eof_received(self) -> None:
        """Give the connection up: a peer that has ended its sending will not answer."""
        self._lose(ConnectionResetError(_CLOSED_BY_SERVER))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the waiting sender or receiver with the error."""
        self._lose(exc or ConnectionResetError(_CLOSED_BY_SERVER))

    def pause_writing(self) -> None:
        """Make `send` wait: the socket has not accepted everything."""
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Make `send` continue: the socket has accepted everything."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # Called by the core.

    def close(self) -> None:
        """Close the connection; callable from any thread."""
        close_on(self._loop, self._close)

    def interrupt(self) -> None:
        """Do nothing: no thread is ever inside a system call on the connection."""

    def abandon(self) -> None:
        """Close this process's copy of the socket, as a forked child must: loop and connection are the parent's."""
        self.ending, self._link = "the connection is another process's", None
        self._sock.close()

    def _close(self) -> None:
        self._end(ConnectionResetError("the client closed the connection"))

    def _take(self, link: _core.Link, arrived: memoryview) -> None:
        try:
            is_whole = self._fill(link, arrived)
        except (OSError, ProtocolError, MemoryError) as error:
            self._lose(error)
            return
        if is_whole:
            if len(self._room) > _LEAST_ROOM:
                self._room = memoryview(bytearray(_LEAST_ROOM))
            # If no operation waits for the message, `has_message` finds it, or it makes the link unfit for reuse.
            waiter, link.waiter = link.waiter, None
            if waiter is not None:
                waiter()

    def _fill(self, link: _core.Link, arrived: memoryview) -> bool:
        """Move the received bytes into the link; return whether a whole message is there."""
        is_whole = False
        if self.secured is not None:
            self.secured.take(arrived)
            while (count := self.secured.decrypt_into(link)) is not None:
                is_whole = link.received(count)
            return is_whole
        while arrived:
            with memoryview(link) as window:
                count = min(len(window), len(arrived))
                window[:count] = arrived[:count]
            is_whole = link.received(count)
            arrived = arrived[count:]
        return is_whole

    def _lose(self, error: Exception) -> None:
        link = self._link
        if not self._end(error) and link is not None:
            # An idle connection leaves the pool now. One in use is closed by its exchange, which needs the reason.
            self._core.link_lost(link)

    def _end(self, error: Exception) -> bool:
        """Stop sending and receiving; wake a waiting operation with the error, and return whether there was one."""
        if self.ending:
            return False
        self.ending = str(error) or type(error).__name__
        link, self._link = self._link, None
        if self._loop.is_closed():
            self._sock.close()
            return False
        self._writer.abort()
        # The loop closes the socket in its next turn, which may never come; this tells the server at once.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(error)
        if link is None or link.waiter is None:
            return False
        waiter, link.waiter = link.waiter, None
        waiter.set_exception(error)
        return True


async def until_done(sent: asyncio.Future[Any], waiter: Waiter) -> None:
    """Wait until a message was sent, while `waiter` waits for its reply.

    Raises:
        OSError: the error that ended either.
    """
    try:
        # The reader notices a server that closes in the middle of a message; the writer does not.
        # Futures of two result types, of which `wait` accepts one.
        await asyncio.wait((sent, waiter), return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if not sent.done():
            waiter.result()
            raise ConnectionResetError("the server answered before it had read the whole command")
        sent.result()
    finally:
        forget(sent)


def forget(future: asyncio.Future[Any]) -> None:
    """Discard the result of `future` without the loop's warning about it."""
    if not future.cancel() and not future.cancelled():
        future.exception()


def close_on(loop: asyncio.AbstractEventLoop, close: Callable[[], None]) -> None:
    """Call `close` on its loop, from any thread; here if the loop is closed."""
    if loop.is_closed() or asyncio._get_running_loop() is loop:
        close()
    else:
        try:
            loop.call_soon_threadsafe(close)
        except RuntimeError:
            # The loop was closed at this moment.
            close()
