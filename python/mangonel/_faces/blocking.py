"""The blocking face: waits in the socket, in a lock or in a sleep. Under gevent these are gevent's own.

Knows no BSON and no command: the exchange says what to send and what a reply means.
"""

from __future__ import annotations

import _thread
import os
import time
from _weakref import ref

from mangonel import _core
from mangonel._core import (
    ASK,
    CONNECT,
    DONE,
    READ,
    SLEEP,
    WAIT,
    WRITE,
    Exchange,
    begin,
    begin_ahead,
    finished_with,
    run_fused,
    run_now,
)
from mangonel._faces.deadline import within
from mangonel._faces.port import LARGEST_MESSAGE, close_dropped
from mangonel._faces.sockets import (
    IS_WINDOWS,
    acquire_within,
    is_patched_by_gevent,
    open_socket,
    wait_readable,
)
from mangonel._light import TypeVar
from mangonel.errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from mangonel._faces.port import Address
    from mangonel._faces.secure import SecureSocket
    from mangonel._options.tls import Security

T = TypeVar("T")

# socket.SHUT_RDWR: connections are also closed at interpreter exit, when nothing can be imported any more.
_SHUT_RDWR = 2

# A timeout of zero would make the socket non-blocking; this least timeout lets it read bytes that have arrived.
_SHORTEST_WAIT = 0.001


class BlockingLoop:
    """Does the steps of one exchange or monitor after another, in the caller's thread."""

    _is_fused = False

    def __init__(self, core: _core.Core) -> None:
        self._security = core.security
        self._proxy = core.proxy

    def drive(self, exchange: _core.Exchange | _core.Monitor, is_kept: bool = False) -> Any:
        """Run `exchange` to its end and return its result.

        Args:
            exchange: the exchange.
            is_kept: if the caller is interrupted while waiting for the reply, keep the exchange so that it can be
                driven again, unless a part of the reply may be lost.
        """
        try:
            while True:
                if self._is_fused and _core.transfer(exchange):  # type: ignore[arg-type]  # only ports are fused
                    return exchange.result()
                step = exchange.step
                if step == WRITE or step == READ:
                    self._talk(exchange, is_kept)
                elif step == DONE:
                    return exchange.result()
                else:
                    self._prepare(exchange, step)
        finally:
            link = exchange.link if is_kept and exchange.step == READ else None
            if link is None or link.has_lost_count:
                exchange.close()

    def _prepare(self, exchange: _core.Exchange | _core.Monitor, step: int) -> None:
        if step == CONNECT:
            self._connect(exchange)
        elif step == WAIT:
            self._wait(exchange)
        elif step == SLEEP:
            time.sleep(exchange.time_left or 0)
            exchange.handle_timeout()
        elif step == ASK:
            self._ask(exchange)  # type: ignore[arg-type]  # monitors do not authenticate

    def _connect(self, exchange: _core.Exchange | _core.Monitor) -> None:
        sock: socket | SecureSocket

        def limit() -> float | None:
            return exchange.step_timeout

        try:
            heard = exchange.handle_proxy if type(exchange) is _core.Monitor else None
            sock = open_socket(exchange.address, limit, self._proxy, heard)
            if self._security is not None:
                if type(exchange) is _core.Monitor:
                    exchange.handle_securing()
                sock = secure_socket(sock, exchange.address, limit, self._security)
        except OSError as error:
            exchange.handle_network_error(error, isinstance(error, TimeoutError))
        else:
            # Checked for each connection: gevent may patch after the client was made, but not after its first use.
            is_patched = is_patched_by_gevent()
            link = exchange.handle_connected(_Transport(sock), -1 if is_patched else sock.fileno())
            if is_patched and isinstance(exchange, _core.Exchange):
                link.probe = sock.fileno()
            if self._security is not None:
                sock.secured.attach(link)  # type: ignore[union-attr]

    def _ask(self, exchange: _core.Exchange) -> None:
        try:
            answer = exchange.question()
        except Exception as error:
            exchange.handle_no_answer(error)
        else:
            exchange.handle_answer(answer)

    def _talk(self, exchange: _core.Exchange | _core.Monitor, is_kept: bool = False) -> None:
        """Send and receive through the socket object: the specification of `_core.transfer`.

        `is_kept`: wait before each receive, since an interrupt in the wait loses no byte, while one in a receive may.
        """
        link = exchange.link
        if link is None:
            return
        is_write = exchange.step == WRITE
        if is_write and link.is_stale:
            exchange.handle_link_lost()
            return
        transport = link.transport
        if transport is None:
            exchange.handle_network_error(ConnectionResetError("another thread closed the connection"))
            return
        sock = transport.sock
        try:
            timeout = exchange.step_timeout
            _limit(sock, timeout)
            if is_write:
                exchange.handle_sending()
                # gevent sends in Python: its error's frames would hold the message, which could then not be stamped for
                # another attempt.
                sock.sendall(bytes(exchange) if is_patched_by_gevent() else exchange)
                exchange.handle_sent()
                if exchange.step == DONE:
                    return
            # This limit covers the whole reply, so a peer that sends byte by byte gains no time.
            timeout = exchange.step_timeout
            until = None if timeout is None else time.monotonic() + timeout
            is_whole = link.has_message
            while not is_whole:
                if is_kept:
                    sock.wait_readable() if link.is_secure else wait_readable(sock)
                is_whole = link.received(sock.recv_into(link))
                if until is not None:
                    sock.settimeout(max(until - time.monotonic(), _SHORTEST_WAIT))
        except OSError as error:
            exchange.handle_network_error(error, isinstance(error, TimeoutError))
        except ProtocolError as error:
            exchange.handle_protocol_error(str(error))
        else:
            exchange.handle_reply()

    def _wait(self, exchange: _core.Exchange | _core.Monitor) -> None:
        woken = _thread.allocate_lock()
        woken.acquire()
        exchange.set_waker(woken.release)
        if acquire_within(woken, exchange.time_left):
            exchange.handle_wake()
        else:
            exchange.handle_timeout()


class BlockingPort(BlockingLoop):
    """Runs operations in the caller's thread."""

    is_async = False
    preparation = None
    largest_batch = LARGEST_MESSAGE
    is_encrypting = False

    def __init__(self, core: _core.Core, *, owns_core: bool = True) -> None:
        super().__init__(core)
        self._core = core
        self._owns_core = owns_core
        self._shard = core.open_shard(ref(self) if owns_core else None)
        self.timeout = core.timeout
        self.limit: float | None = None
        self._is_fused = os.environ.get("MANGONEL_IMPL") != "reference"
        if self.timeout is None:
            # Saves a frame for each flow.
            self.flow = run_now  # type: ignore[method-assign]

    @property
    def distance(self) -> float:
        return self._core.least_round_trip

    def run(self, operation: _core.Operation) -> Any:
        # With an idle connection, one call runs the whole operation.
        found = (run_fused if self._is_fused else begin)(self._core, operation, self._shard)
        return self.drive(found) if type(found) is Exchange else found

    def arun(self, operation: _core.Operation) -> Awaitable[Any]:
        # Runs like `run` and returns no coroutine: the operation has ended before the caller awaits.
        found = (run_fused if self._is_fused else begin)(self._core, operation, self._shard)
        return finished_with(self.drive(found) if type(found) is Exchange else found)

    def begin(self, operation: _core.Operation) -> None:
        """Begin an operation and give it up at once: this starts monitoring. Does not wait."""
        begin(self._core, operation, self._shard).close()

    def fill_pool(self, operation: _core.Operation, _shard: int) -> None:
        """Open a connection that the pool lacks; failures are ignored."""
        self._attempt(operation)

    def end_pinned(self, operation: _core.Operation, link: int, _shard: int) -> None:
        """Kill a dropped cursor on the connection that it is bound to, and give that back; failures are ignored."""
        self._attempt(operation)
        self.release_pinned(link, is_drained=True)

    def _attempt(self, operation: _core.Operation) -> None:
        try:
            self.run(operation)
        except Exception:
            # Also an exception from the application's OIDC callback: the thread has more to do.
            return

    def flow(self, steps: Coroutine[Any, Any, T]) -> T:
        return run_now(steps if self.timeout is None else within(self.timeout, steps))

    async def call(self, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return callback(*args, **options)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def start(self, operation: _core.Operation, connects: bool = False) -> _core.Exchange:
        exchange = begin_ahead(self._core, operation, self._shard)
        try:
            self._send_ahead(exchange, connects)
        except BaseException:
            exchange.close()
            raise
        return exchange

    def _send_ahead(self, exchange: _core.Exchange, connects: bool) -> None:
        while connects and ((step := exchange.step) == CONNECT or exchange.is_handshake):
            if step == WRITE or step == READ:
                self._talk(exchange)
                if (link := exchange.link) is not None and (transport := link.transport) is not None:
                    # Without a time limit the core's receive waits in one call.
                    _limit(transport.sock, None)
            else:
                self._prepare(exchange, step)
        # Nothing drives the exchange until `finish`, so it must not block exchanges that wait for a connection.
        exchange.step_aside()
        # Only a message that can be sent without waiting goes ahead; `finish` does the rest.
        if exchange.step == WRITE and exchange.link.fd >= 0:
            try:
                if exchange.link.is_secure:
                    # An encrypted message is sent in any case, and a getMore is small.
                    sock = exchange.link.transport.sock
                    _limit(sock, sock.gettimeout())
                    sock.sendall(exchange)
                    exchange.handle_sent()
                    return
                sent = _core.send_some(exchange, 0)
                if sent:
                    if sent < len(exchange):
                        sock = exchange.link.transport.sock
                        _limit(sock, sock.gettimeout())
                        sock.sendall(memoryview(exchange)[sent:])
                    exchange.handle_sent()
            except OSError as error:
                exchange.handle_network_error(error)

    async def finish(self, started: _core.Exchange) -> Any:
        started.resume()
        return self.drive(started)

    async def outlast(self, started: _core.Exchange) -> Any:
        started.resume()
        return self.drive(started, True)

    def may_wait(self, started: _core.Exchange) -> bool:
        return started.step == WAIT

    def give_up(self, started: _core.Exchange) -> None:
        started.close()

    def release_pinned(self, link: int, is_drained: bool) -> None:
        self._core.release_pinned(link, is_drained)

    def has_idle_link(self) -> bool:
        return self._core.pool_sizes(self._shard)[0] > 0

    def close(self) -> None:
        pass

    def __del__(self) -> None:
        # No operation can run here any more. A constructor that raised leaves no shard behind.
        shard = getattr(self, "_shard", None)
        if shard is None:
            return
        if self._owns_core:
            close_dropped(self._core)
        else:
            self._core.close_shard(shard)


def secure_socket(
    plain: socket, address: Address, limit: Callable[[], float | None], security: Security
) -> SecureSocket:
    """Do the TLS handshake with the server at `address` over a connected socket, which is closed if that fails."""
    from mangonel._faces.secure import Secured, SecureSocket

    secure = SecureSocket(plain, Secured(security, address))
    try:
        secure.settimeout(limit())
        secure.shake_hands()
        secure.settimeout(None)
    except BaseException:
        secure.close()
        raise
    return secure


def _limit(sock: socket | SecureSocket, timeout: float | None) -> None:
    """Set `timeout` for each call of the socket object."""
    # `_core` makes these sockets non-blocking without the object's knowledge.
    if IS_WINDOWS or sock.gettimeout() != timeout:
        sock.settimeout(timeout)


class _Transport:
    """A link's transport: the socket, which any thread can close at once."""

    __slots__ = ("sock",)

    def __init__(self, sock: socket | SecureSocket) -> None:
        self.sock = sock

    def close(self) -> None:
        """Close the connection; a thread that waits in it wakes with an error."""
        # Closing alone would leave a thread waiting in recv. A signal handler may raise in either call.
        try:
            self.interrupt()
        finally:
            self.sock.close()

    def interrupt(self) -> None:
        """Wake the thread that waits in the connection; it keeps the descriptor until it returns."""
        # No `contextlib` here: this may run at interpreter shutdown, when nothing can be imported.
        try:
            self.sock.shutdown(_SHUT_RDWR)
        except OSError:
            return

    def abandon(self) -> None:
        """Close this process's copy of the socket, as a forked child must: the connection is the parent's."""
        self.sock.close()
