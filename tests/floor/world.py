"""Virtual time, and the greenlets that wait in it: with one thread and one seed, each run is the same.

    with World(seed=1) as world:
        world.run(program)        # what it waits for takes no time of the machine

Threads of the driver become greenlets here, its locks, sleeps and blocking sockets are the world's, and `VirtualLoop`
is asyncio in it. Sockets are pairs of the system's, since the driver's core sends on descriptors. If all wait and no
timer is set, the test fails: something would have waited for ever.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import heapq
import itertools
import math
import os
import random
import select
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import greenlet
import pytest

from mangonel._faces import background, blocking, monitors
from tools.faces import StreamsLoop

_NANOSECONDS = 10**9
_START_S = 1_000
# More turns than any program here takes, to stop an endless loop.
_LONGEST_RUN_S = 3_600


class BrokenOff(BaseException):
    """Raised in a program at the step at which a test breaks it off."""


class World:
    """Virtual time from construction to the end of the block.

    Args:
        seed: what is left to chance depends on it.

    Attributes:
        now: nanoseconds of the clock.
    """

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.now = _START_S * _NANOSECONDS
        self._tickets = itertools.count()
        self._timers: list[tuple[int, int, Callable[[], object]]] = []
        self._ready: deque[Callable[[], object]] = deque()
        # By descriptor, in the order in which they began to wait.
        self._readers: dict[int, Callable[[], object]] = {}
        self._poll = select.poll()
        self._hub = greenlet.getcurrent()
        self._greenlets: set[Any] = set()
        self._clocks: list[tuple[Any, int]] = []
        self._thread = get_ident()
        self._outside = 0
        # By greenlet: its number of waits, the wait at which it is interrupted, and how.
        self._programs: dict[Any, tuple[int, int, str]] = {}
        self._patches = pytest.MonkeyPatch()

    # Time

    def monotonic(self) -> float:
        return self.now / _NANOSECONDS

    def keep_time(self, client: Any) -> Any:
        """Move the clock of a new client with the world's; return the client."""
        client._core.set_clock(0.0)
        self._clocks.append((client._core, self.now))
        return client

    def call_after(self, seconds: float, callback: Callable[[], object]) -> None:
        heapq.heappush(self._timers, (self.moment(seconds), next(self._tickets), callback))

    def moment(self, seconds: float) -> int:
        """Return the clock's nanoseconds in this many seconds, rounded up, or time would not advance."""
        return self.now + math.ceil(seconds * _NANOSECONDS)

    def turn(self) -> None:
        """Run every greenlet that is ready."""
        self._hub = greenlet.getcurrent()
        while True:
            while self._ready:
                self._ready.popleft()()
            found = {fd for fd, _ in self._poll.poll(0)}
            if not found:
                return
            for fd, reader in list(self._readers.items()):
                if fd in found and self._readers.get(fd) is reader:
                    reader()

    def is_busy(self) -> bool:
        """Return whether anything can run now."""
        return bool(self._ready or self._poll.poll(0))

    def advance(self, until: int | None = None) -> None:
        """Advance to the next event, but not past `until`."""
        if not self._timers and until is None:
            raise AssertionError("everything waits, and nothing will happen")
        if until is None or (self._timers and self._timers[0][0] <= until):
            until = self._timers[0][0]
        assert until < (_START_S + _LONGEST_RUN_S) * _NANOSECONDS, "an hour has passed"
        self.now = max(self.now, until)
        for core, start in self._clocks:
            core.set_clock((self.now - start) / _NANOSECONDS)
        while self._timers and self._timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(self._timers)[2])

    # Greenlets

    def spawn(self, work: Callable[..., Any], *args: Any) -> Any:
        """Start a greenlet, which runs from the next turn on."""

        def steps() -> Any:
            try:
                return work(*args)
            finally:
                self._greenlets.discard(greenlet.getcurrent())

        made = greenlet.greenlet(steps)
        self._greenlets.add(made)
        self._ready.append(partial(self._switch, made))
        return made

    def run(self, *programs: Callable[[], Any]) -> list[Any]:
        """Run programs side by side to their ends; return their results."""
        results: dict[int, Any] = {}

        def keep(number: int, program: Callable[[], Any]) -> None:
            try:
                results[number] = (program(), None)
            except BaseException as error:
                results[number] = (None, error)

        for number, program in enumerate(programs):
            self.spawn(keep, number, program)
        while True:
            self.turn()
            if len(results) == len(programs):
                break
            self.advance()
        for _, error in results.values():
            if error is not None:
                raise error
        return [results[number][0] for number in range(len(programs))]

    def in_greenlets(self) -> int:
        """Return how many greenlets have not ended: programs, and the stand-ins for threads."""
        return len(self._greenlets)

    @contextlib.contextmanager
    def break_off(self, at: int, kind: str) -> Iterator[Callable[[], int]]:
        """Raise BrokenOff in the running greenlet at one of its waits; return a function that counts its waits.

        Args:
            at: the number of the wait, from one; 0 raises nothing.
            kind: "early": while it waits. "late": what it waited for has come.
        """
        me = greenlet.getcurrent()
        self._programs[me] = (0, at, kind)
        try:
            yield lambda: self._programs[me][0]
        finally:
            del self._programs[me]

    def wait(self, begin: Callable[[Callable[[], object]], object], seconds: float | None = None) -> bool:
        """Suspend the running greenlet; return whether it was woken within `seconds`.

        Args:
            begin: called with what wakes the greenlet.
            seconds: None waits for ever.
        """
        me = greenlet.getcurrent()
        assert me is not self._hub, "expected a greenlet that waits, got the one that moves the time"
        is_over = False

        def end(is_woken: bool) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._ready.append(partial(self._switch, me, is_woken))

        is_late = False
        if me in self._programs:
            waits, at, kind = self._programs[me]
            self._programs[me] = (waits + 1, at, kind)
            if waits + 1 == at and kind == "early":
                is_over = True
                self._ready.append(partial(self._switch, me, BrokenOff()))
            is_late = waits + 1 == at and kind == "late"
        begin(partial(end, True))
        if seconds is not None:
            self.call_after(seconds, partial(end, False))
        woken = self._hub.switch()
        if isinstance(woken, BaseException):
            raise woken
        if is_late:
            raise BrokenOff
        return bool(woken)

    def sleep(self, seconds: float) -> None:
        self.wait(lambda _: None, seconds)

    def wait_readable(self, fd: int, seconds: float | None) -> bool:
        """Suspend the running greenlet until the descriptor can be read or was forgotten."""
        try:
            return self.wait(partial(self.watch, fd), seconds)
        finally:
            self.forget(fd)

    def watch(self, fd: int, reader: Callable[[], object]) -> None:
        """Call `reader` in each turn in which the descriptor can be read."""
        self._readers[fd] = reader
        self._poll.register(fd, select.POLLIN | select.POLLHUP)

    def forget(self, fd: int) -> Callable[[], object] | None:
        reader = self._readers.pop(fd, None)
        if reader is not None:
            self._poll.unregister(fd)
        return reader

    def _switch(self, to: Any, value: Any = None) -> None:
        to.parent = self._hub
        to.switch() if value is None else to.switch(value)

    # The driver inside of it

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Let the calls in this block use the machine's clock."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def leave_outside(self, client: Any) -> Any:
        """Run all operations of a blocking client outside the world; return it."""

        def outside(call: Callable[..., Any]) -> Callable[..., Any]:
            def work(*args: Any) -> Any:
                with self.outside():
                    return call(*args)

            return work

        port = client._port
        port.run, port.arun = outside(port.run), outside(port.arun)
        return client

    def __enter__(self) -> World:
        gc.collect()
        # A garbage collection at another moment would make another run.
        gc.disable()
        self._patch(time, "monotonic", self.monotonic)
        self._patch(time, "sleep", self.sleep)
        self._patch(background, "monotonic", self.monotonic)
        self._patch(random, "random", self.chance.random)
        threads = SimpleNamespace(**vars(_thread))
        for module in (background, blocking, monitors):
            self._patches.setattr(module, "_thread", threads)
        self._patch(threads, "allocate_lock", partial(Lock, self))
        self._patch(threads, "start_new_thread", self._start_thread)
        self._patch(blocking, "is_patched_by_gevent", lambda: True)
        self._patch(blocking, "wait_readable", Socket.wait_readable)
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.undo()
        gc.enable()

    def _patch(self, module: Any, name: str, virtual: Callable[..., Any]) -> None:
        """Replace a function, inside the world and in its thread alone."""
        real = getattr(module, name)

        def choose(*args: Any, **options: Any) -> Any:
            is_inside = not self._outside and get_ident() == self._thread
            return (virtual if is_inside else real)(*args, **options)

        self._patches.setattr(module, name, choose)

    def connect_by(self, connect: Callable[[], socket.socket]) -> None:
        """Have each blocking connection made by this function."""

        def open_socket(
            address: Any, limit: Callable[[], float | None], proxy: Any = None, heard: Any = None
        ) -> Socket:
            self.sleep(0.001)
            return Socket(self, connect())

        self._patch(blocking, "open_socket", open_socket)

    def _start_thread(self, work: Callable[..., None], args: tuple[Any, ...]) -> int:
        self.spawn(work, *args)
        return next(self._tickets) + 1


class Lock:
    """A lock of `_thread` whose waiters are greenlets."""

    def __init__(self, world: World) -> None:
        self._world, self._is_locked = world, False
        self._waiters: deque[Callable[[], object]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        end = None if timeout < 0 else self._world.monotonic() + timeout
        while self._is_locked:
            left = None if end is None else end - self._world.monotonic()
            if not blocking or (left is not None and left <= 0):
                return False
            self._world.wait(self._waiters.append, left)
        self._is_locked = True
        return True

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        while self._waiters:
            self._waiters.popleft()()


class Socket:
    """A blocking socket whose waiters are greenlets."""

    def __init__(self, world: World, near: socket.socket) -> None:
        self._world, self._near = world, near
        self._timeout: float | None = None

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    def fileno(self) -> int:
        return self._near.fileno()

    def sendall(self, message: Any) -> None:
        sent = self._near.send(message)
        assert sent == len(message), f"{len(message)} bytes fill the socket"
        # Another greenlet may run, as it may in a system call.
        self._world.sleep(0)

    def recv_into(self, buffer: Any) -> int:
        while True:
            try:
                return self._near.recv_into(buffer)
            except BlockingIOError:
                self.wait_readable()

    def wait_readable(self) -> None:
        fd = self._near.fileno()
        if fd >= 0 and not self._world.wait_readable(fd, self._timeout):
            raise TimeoutError("timed out")

    def shutdown(self, how: int) -> None:
        self._near.shutdown(how)

    def close(self) -> None:
        if self._near.fileno() >= 0 and (reader := self._world.forget(self._near.fileno())):
            reader()
        self._near.close()


class _Selector(selectors.DefaultSelector):
    """Looks at a loop's descriptors; instead of waiting it advances the world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        until = None if timeout is None else self._world.moment(timeout)
        loop = asyncio._get_running_loop()
        # Greenlets that stand for other threads run here.
        asyncio._set_running_loop(None)
        try:
            while True:
                self._world.turn()
                found = super().select(0)
                if found or (until is not None and self._world.now >= until):
                    break
                self._world.advance(until)
        finally:
            asyncio._set_running_loop(loop)
        # Numbers of descriptors may differ from run to run.
        ages = list(self.get_map())
        return sorted(found, key=lambda event: ages.index(event[0].fd))


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio in a world.

    Args:
        world: whose time it has.
        connect: makes a connection; returns its end.
    """

    def __init__(self, world: World, connect: Callable[[], socket.socket]) -> None:
        self._world, self._connect_now = world, connect
        super().__init__(_Selector(world))

    def time(self) -> float:
        return self._world.monotonic()

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await asyncio.sleep(0.001)
        with self._connect_now() as near:
            os.dup2(near.fileno(), sock.fileno(), inheritable=False)


class VirtualStreamsLoop(VirtualLoop, StreamsLoop):
    """The same, without watching descriptors for others."""
