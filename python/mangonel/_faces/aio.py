"""The asyncio face: one reader callback per connection, one future per reply, one timer for all deadlines.

This holds for loops with `add_reader`: asyncio's own, uvloop's, and so Tornado's. On other loops, such as Windows'
default one, each connection is a `Stream`. The core sends and waits for replies (`driver/awaited.rs`); everything else
is here. Knows no BSON and no command.
A connection belongs to the loop on which it was opened; one client may be used from several loops.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import socket
import sys
from _weakref import ref
from asyncio import get_running_loop
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import isawaitable
from os import strerror
from ssl import SSLError
from typing import TYPE_CHECKING, Any, TypeVar

from mangonel import _core
from mangonel._core import (
    ASK,
    CONNECT,
    SLEEP,
    WRITE,
    Waiter,
    receive_ready,
    send_some,
)
from mangonel._faces.deadline import within
from mangonel._faces.port import LARGEST_MESSAGE, close_dropped
from mangonel._faces.secure import Secured
from mangonel._faces.sockets import begin_lookup, is_numeric, resolve, tune
from mangonel._faces.streams import Stream, close_on, forget, until_done

if TYPE_CHECKING:
    from mangonel._faces.port import Address
    from mangonel._options.proxy import Proxy
    from mangonel._options.tls import Security

T = TypeVar("T")

_LEAST_PRUNED = 1024
_CHUNK = 64 * 1024


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop.

    Raises:
        RuntimeError: no asyncio loop runs in this thread.
    """
    try:
        return get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no running event loop of asyncio, which an asyncio client needs; a trio program opens one by "
            "trio_asyncio.open_loop() and calls by trio_asyncio.aio_as_trio(), others use asyncio.run() or MongoClient"
        ) from None


class AioPort(_core.LoopPort):
    """Runs operations as coroutines of the running loop."""

    is_async = True
    largest_batch = LARGEST_MESSAGE
    is_encrypting = False

    def __init__(self, core: _core.Core) -> None:
        self._core = core
        self.timeout = core.timeout
        # Not of the class: an instance's attribute is read in a fifth of the time.
        self.limit: float | None = None
        self._homes: list[_LoopState] = []
        self._keeping: set[asyncio.Task[Any]] = set()
        # Called once, off the loop, before the first operation; if it fails, again before the next.
        self.preparation: Callable[[], None] | None = None

    @property
    def distance(self) -> float:
        return self._core.least_round_trip

    async def run(self, operation: _core.Operation) -> Any:
        # A coroutine, and not only an awaitable, since programs pass it to code that checks `inspect.iscoroutine`.
        return await self.arun(operation)

    # Python's warning about a missing `await` shows this name; in development mode the command's, which costs a frame.
    run.__qualname__ = "mangonel operation"
    if sys.flags.dev_mode:
        _unnamed = run

        def run(self, operation: _core.Operation) -> Coroutine[Any, Any, Any]:
            coroutine: Any = self._unnamed(operation)
            coroutine.__qualname__ = f"mangonel {operation.name}"
            return coroutine

    # Called by the Rust base, which does everything else.

    def _require_loop(self) -> asyncio.AbstractEventLoop:
        return running_loop()

    async def _arrive(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the port ready for the running loop, which differs from the loop of its last operation."""
        if self.preparation is not None:
            await loop.run_in_executor(None, self.preparation)
            self.preparation = None
        self._enter(loop)

    async def _take_step(self, home: _LoopState, exchange: _core.Exchange, sent: int) -> None:
        """Do a step that needs more than sending and waiting; the base handles its errors."""
        step = exchange.step
        if step == CONNECT:
            connection = await home.connect(exchange.address, exchange.step_timeout)
            link = exchange.handle_connected(connection, connection.fd)
            if connection.secured is not None:
                connection.secured.attach(link)
            # Fails if the system allows no more descriptors to be watched.
            connection.start(link)
        elif step == SLEEP:
            await asyncio.sleep(exchange.time_left or 0)
            exchange.handle_timeout()
        elif step == ASK:
            try:
                # Runs off the event loop: hashing a password blocks for milliseconds, a person's login for minutes.
                answer = await home.loop.run_in_executor(None, exchange.question, home.loop)
            except Exception as error:
                exchange.handle_no_answer(error)
            else:
                exchange.handle_answer(answer)
        else:
            await self._talk(home, exchange, sent)

    async def _talk(self, home: _LoopState, exchange: _core.Exchange, sent: int) -> None:
        """Do the steps WRITE and READ, after `sent` bytes of the message were sent."""
        link = exchange.link
        waiter = link.waiter = Waiter(home.loop)
        stream = link.transport if home.streams else None
        if exchange.step == WRITE:
            if stream is not None:
                exchange.handle_sending()
                await stream.send(exchange, waiter, exchange.step_timeout, home.expire)
            else:
                sent += send_some(exchange, sent)
                if sent < len(exchange):
                    await home.send_rest(link, exchange, sent)
            if not exchange.expects_reply:
                link.waiter = None
                exchange.handle_sent()
                return
        elif stream is not None:
            stream.check_open()
        elif link.fd < 0:
            raise ConnectionResetError("the connection was closed")
        if not link.has_message:
            timeout = exchange.step_timeout
            if timeout is not None:
                home.expire(waiter, timeout)
            await waiter
        link.waiter = None
        exchange.handle_reply()

    def _enter(self, loop: asyncio.AbstractEventLoop) -> _LoopState:
        for home in list(self._homes):
            if home.loop is loop:
                self._home = home
                return home
            if home.loop.is_closed():
                # Another loop's thread may have been faster.
                with contextlib.suppress(ValueError):
                    self._homes.remove(home)
                    self._core.close_shard(home.shard)
        home = _LoopState(loop, self._core, ref(self))
        self._homes.append(home)
        self._home = home
        return home

    def fill_pool(self, operation: _core.Operation, shard: int) -> None:
        """Open a missing connection of a loop's pool on that loop; callable from any thread."""
        for home in list(self._homes):
            if home.shard == shard:
                # A closed loop needs no connections.
                with contextlib.suppress(RuntimeError):
                    home.loop.call_soon_threadsafe(self._keep_here, operation)

    def end_pinned(self, operation: _core.Operation, link: int, shard: int) -> None:
        """Kill a dropped cursor on the connection that it is bound to, and give that back; callable from any thread."""
        for home in list(self._homes):
            if home.shard == shard:
                with contextlib.suppress(RuntimeError):
                    home.loop.call_soon_threadsafe(self._end_pinned_here, operation, link)
                    return
        self.release_pinned(link, is_drained=False)

    def _end_pinned_here(self, operation: _core.Operation, link: int) -> None:
        task = self._keep_here(operation)
        task.add_done_callback(lambda _: self.release_pinned(link, is_drained=True))

    def _keep_here(self, operation: _core.Operation) -> asyncio.Task[Any]:
        task = get_running_loop().create_task(self.arun(operation))
        self._keeping.add(task)
        task.add_done_callback(self._kept)
        return task

    def _kept(self, task: asyncio.Task[Any]) -> None:
        self._keeping.discard(task)
        forget(task)

    def flow(self, steps: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return steps if self.timeout is None else within(self.timeout, steps)

    async def call(self, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        value = callback(*args, **options)
        return await value if isawaitable(value) else value

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def start(self, operation: _core.Operation, connects: bool = False) -> asyncio.Task[Any]:
        return running_loop().create_task(self.arun(operation))

    async def finish(self, started: asyncio.Task[Any]) -> Any:
        return await started

    async def outlast(self, started: asyncio.Task[Any]) -> Any:
        return await asyncio.shield(started)

    def may_wait(self, started: asyncio.Task[Any]) -> bool:
        return not started.done()

    def give_up(self, started: asyncio.Task[Any]) -> None:
        loop = started.get_loop()
        # A cursor may be dropped anywhere, even after its loop has ended, so failures are ignored.
        started._log_destroy_pending = False  # type: ignore[attr-defined]
        if started.done():
            forget(started)
        elif asyncio._get_running_loop() is loop:
            started.add_done_callback(forget)
            started.cancel()
        else:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.give_up, started)

    def release_pinned(self, link: int, is_drained: bool) -> None:
        self._core.release_pinned(link, is_drained)

    def has_idle_link(self) -> bool:
        home = self._home
        return (
            home is not None and home.loop is get_running_loop() and self._core.pool_sizes(home.shard)[0] > 0
        )

    def close(self) -> None:
        self._homes.clear()
        self._home = None

    def __del__(self) -> None:
        # Every running operation holds the port, so no operation uses these connections; but the loops still watch
        # them, and threads monitor the servers.
        if hasattr(self, "_core"):
            close_dropped(self._core)


class _LoopState:
    """The client's state for one event loop: its connections' shard, and its one timer."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, core: _core.Core, opener: Callable[[], AioPort | None]
    ) -> None:
        self.loop = loop
        self.core = core
        self.shard = core.open_shard(opener)
        self._security: Security | None = core.security
        self._proxy: Proxy | None = core.proxy
        self._deadlines: list[tuple[float, int, asyncio.Future[Any] | Waiter]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._ticket = 0
        self._longest = _LEAST_PRUNED
        # Whether connections are streams, because the loop watches no descriptors; decided at the first connection.
        self.streams = False
        self._is_tried = False

    def expire(self, future: asyncio.Future[Any] | Waiter, timeout: float) -> None:
        """Fail `future` with TimeoutError after `timeout` seconds, unless it is done by then."""
        when = self.loop.time() + timeout
        self._ticket += 1
        if len(self._deadlines) > self._longest:
            # With a socketTimeoutMS every operation leaves an entry, which would stay until its deadline.
            self._deadlines = [entry for entry in self._deadlines if not entry[2].done()]
            heapq.heapify(self._deadlines)
            self._longest = max(_LEAST_PRUNED, 2 * len(self._deadlines))
        heapq.heappush(self._deadlines, (when, self._ticket, future))
        if self._timer is None or when < self._rings_at:
            self._arm(when)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # Stored here, since uvloop's handle has no time if it is due at once.
        self._rings_at = when
        self._timer = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self.loop.time()
        while self._deadlines:
            when, _, future = self._deadlines[0]
            if not future.done() and when > now:
                self._arm(when)
                return
            heapq.heappop(self._deadlines)
            if not future.done():
                future.set_exception(TimeoutError("timed out"))

    async def connect(self, address: Address, timeout: float | None) -> _Connection | Stream:
        """Return an open connection that nothing reads yet.

        Args:
            address: the address to connect to.
            timeout: seconds for the name look-up, and for each of its addresses.
        """
        proxy = None if address[1] is None else self._proxy
        reached = address if proxy is None else proxy.address
        try:
            targets = resolve(reached) if is_numeric(reached) else await self._resolve(reached, timeout)
        except OSError as error:
            if proxy is not None:
                raise proxy.named(error) from None
            raise
        failure: OSError = OSError(f"expected {reached[0]!r} to resolve to an address, got none")
        for family, target in targets:
            sock = socket.socket(family, socket.SOCK_STREAM)
            # Kept in a name: CPython 3.11 crashes if an unreferenced task and its timeout are freed in the middle of
            # the statement.
            limit = asyncio.timeout(timeout)
            try:
                sock.setblocking(False)
                secured, is_reached, is_asking = None, False, False
                async with limit:
                    await self._connect(sock, target)
                    is_reached = True
                    tune(sock)
                    if proxy is not None:
                        send, receive = self.loop.sock_sendall, self.loop.sock_recv
                        is_asking = True
                        await proxy.connect_flow(address, partial(send, sock), partial(receive, sock))
                        is_asking = False
                    if self._security is not None:
                        secured = await self._shake_hands(sock, address, self._security)
                    if self._is_streamed(sock):
                        stream = Stream(self.loop, self.core, sock, secured)
                        await self.loop.create_connection(stream.itself, sock=sock)
                        return stream
            except OSError as error:
                sock.close()
                # asyncio's own timeout has no message.
                failure = TimeoutError(f"no connection within {timeout} s") if limit.expired() else error
                if proxy is not None and is_asking and limit.expired():
                    failure = proxy.silence()
                elif proxy is not None and not is_reached:
                    failure = proxy.named(failure)
            except BaseException:
                sock.close()
                raise
            else:
                return _Connection(self, sock, secured)
        raise failure

    async def _resolve(self, address: Address, timeout: float | None) -> list[tuple[int, Any]]:
        lookup, woken = begin_lookup(address), self.loop.create_future()

        def wake() -> None:
            # A closed loop waits for nothing.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(_settle, woken)

        lookup.wakers.append(wake)
        if not lookup.is_done:
            if timeout is not None:
                self.expire(woken, timeout)
            try:
                await woken
            except TimeoutError:
                raise TimeoutError(f"no name server answered for {address[0]!r} within {timeout} s") from None
        return lookup.answer

    def _is_streamed(self, sock: socket.socket) -> bool:
        """Return whether the loop must do all I/O, by trying it with the first connection."""
        if not self._is_tried:
            try:
                self.loop.add_reader(sock, _nothing)
            except NotImplementedError:
                self.streams = True
            else:
                self.loop.remove_reader(sock)
            self._is_tried = True
        return self.streams

    async def _connect(self, sock: socket.socket, target: Any) -> None:
        try:
            await self.loop.sock_connect(sock, target)
        except OSError as error:
            if error.errno is None:
                raise
            # The operating system's message: loops replace it by the address.
            raise OSError(error.errno, strerror(error.errno)) from None

    async def _shake_hands(self, sock: socket.socket, address: Address, security: Security) -> Secured:
        secured = Secured(security, address)
        received = None
        try:
            while True:
                saying, is_answered = secured.shake(received)
                if saying:
                    await self.loop.sock_sendall(sock, saying)
                if not is_answered:
                    if secured.checks_revocation:
                        # The check may query the certificate's authority.
                        await self.loop.run_in_executor(None, secured.check_revocation, None)
                    return secured
                received = await self.loop.sock_recv(sock, _CHUNK)
        except ConnectionError as error:
            raise secured.explain(error) from error
        except SSLError:
            # The peer receives the reason if the socket accepts it at once.
            with contextlib.suppress(OSError):
                sock.send(secured.farewell())
            raise

    async def send_rest(self, link: _core.Link, exchange: _core.Exchange, sent: int) -> None:
        """Send the bytes that the socket did not accept at once, as it accepts them, without blocking the loop."""
        done = self.loop.create_future()
        fd, total = link.fd, len(exchange)

        def writable() -> None:
            nonlocal sent
            if done.done():
                return
            try:
                sent += send_some(exchange, sent)
            except OSError as error:
                done.set_exception(error)
            else:
                if sent == total:
                    done.set_result(None)

        timeout = exchange.step_timeout
        if timeout is not None:
            self.expire(done, timeout)
        self.loop.add_writer(fd, writable)
        try:
            await until_done(done, link.waiter)
        finally:
            if link.fd == fd:
                self.loop.remove_writer(fd)


class _Connection:
    """A link's transport: closes the socket on the loop that watches it."""

    __slots__ = ("_home", "_link", "_sock", "fd", "secured")

    def __init__(self, home: _LoopState, sock: socket.socket, secured: Secured | None) -> None:
        self._home = home
        self._sock = sock
        self.secured = secured
        self._link: _core.Link | None = None
        self.fd = sock.fileno()

    def start(self, link: _core.Link) -> None:
        """Receive into `link` from now on, until closed."""
        # Closing the client meanwhile closed this connection too.
        if self.fd >= 0:
            self._link = link
            self._home.loop.add_reader(self.fd, receive_ready, link, self._lose)

    def _lose(self) -> None:
        link = self._link
        if link is not None:
            # An idle connection leaves the pool now; one in use is also closed by its exchange.
            self._home.core.link_lost(link)
            self._close()

    def close(self) -> None:
        """Close the socket; callable from any thread."""
        close_on(self._home.loop, self._close)

    def interrupt(self) -> None:
        """Do nothing: code that uses the connection runs on the loop's thread, and closes it itself."""

    def abandon(self) -> None:
        """Close this process's copy of the socket, as a forked child must: loop and connection are the parent's."""
        self.fd, self._link = -1, None
        self._sock.close()

    def _close(self) -> None:
        fd, self.fd, link, self._link = self.fd, -1, self._link, None
        if fd < 0:
            return
        loop = self._home.loop
        if not loop.is_closed():
            loop.remove_reader(fd)
            loop.remove_writer(fd)
            waiter = None if link is None else link.waiter
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnectionResetError("the client closed the connection"))
        self._sock.close()


def _nothing() -> None:
    """Do nothing; never called."""


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
