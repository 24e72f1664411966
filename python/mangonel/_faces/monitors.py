"""Monitors of servers, for every face: the blocking loop runs each in its own daemon thread.

So a busy event loop can never delay a heartbeat and make a healthy server look dead. If gevent has patched the process,
the threads are greenlets.
"""

from __future__ import annotations

import _thread
import sys
import time
from _weakref import ref
from os import getpid

from mangonel import _core
from mangonel._faces.blocking import BlockingLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mangonel._options.seed_list import SeedList

# The cores of the running monitors, by the lists that record their start: the dict calls below need no lock, since
# nothing can interrupt either of them.
_running: dict[int, Callable[[], _core.Core | None]] = {}

# How many seconds the interpreter's exit waits for monitors. They are interrupted, so only an overloaded machine needs
# this long.
_EXIT_TIMEOUT_S = 1.0

# The role of the thread that maintains the pools, and its interval in seconds.
_KEEP_UP = 2
_UPKEEP_PERIOD_S = 1.0

# The least validity of a DNS answer in seconds (polling-srv-records, "rescanSRVIntervalMS").
_FIRST_PAUSE_S = 60.0


def forget_all() -> None:
    """Forget all monitors, in a forked child: their threads exist only in the parent."""
    _running.clear()


def wait_for_all() -> None:
    """End every monitor, at interpreter exit, and wait until all have ended.

    Python ends a thread that requests the GIL during shutdown, and ending a thread inside the Rust module crashes the
    process.
    """
    for core_of in list(_running.values()):
        # Its client may be gone: a coroutine of an operation that was broken off keeps only the port.
        core = core_of()
        if core is not None:
            core.dismiss_watchers()
        del core
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    while _running and time.monotonic() < deadline:
        time.sleep(0.0005)


class _MonitorLoop(BlockingLoop):
    """Does the steps of monitors. Any exception is a failed check: a monitor that ended would leave its server unseen.

    An application's own `ssl_context` may raise anything.
    """

    def _connect(self, exchange: _core.Exchange | _core.Monitor) -> None:
        try:
            super()._connect(exchange)
        except Exception as error:
            exchange.handle_network_error(error)

    def _talk(self, exchange: _core.Exchange | _core.Monitor, is_kept: bool = False) -> None:
        try:
            super()._talk(exchange, is_kept)
        except Exception as error:
            exchange.handle_network_error(error)


class Starter:
    """Called by the core to start the monitoring of a server.

    `seed_list`: the DNS source of the hosts, polled in its own thread; None if the URI lists the hosts.
    """

    def __init__(self, core: _core.Core, seed_list: SeedList | None = None) -> None:
        # The core keeps this object; a strong reference back would keep both for ever.
        self._core = ref(core)
        self._loop = _MonitorLoop(core)
        self._seed_list = seed_list
        # The process in which the seed list's thread was started, and that thread.
        self._following: tuple[int, list[int]] | None = None

    def __call__(self, address: str, role: int, started: list[int]) -> None:
        """Start a thread and record it in `started`, unless a signal handler raises first."""
        core = self._core()
        if core is None:
            return
        if role == _KEEP_UP:
            _start(started, self._core, _keep_up, self._core)
            return
        monitor = _core.Monitor(core, address, role)
        try:
            # This one first: after the other has started, there is no second call.
            if self._seed_list is not None:
                self._follow_hosts(core, self._seed_list)
            _start(started, self._core, self._loop.drive, monitor)
        except RuntimeError as error:
            # The system allows no more threads: a failed check. An operation that needs the server tries again.
            monitor.handle_network_error(error)
            if monitor.step == _core.WAIT:
                monitor.set_waker(lambda: self(address, role, []))

    def _follow_hosts(self, core: _core.Core, seed_list: SeedList) -> None:
        if self._following is None or self._following[0] != getpid():
            self._following = (getpid(), [])
        started = self._following[1]
        if not started:
            bell = _thread.allocate_lock()
            bell.acquire()
            core.on_end(bell.release)
            _start(started, self._core, _follow, self._core, seed_list, bell)


def _start(
    started: list[int],
    core_of: Callable[[], _core.Core | None],
    work: Callable[..., None],
    *args: Any,
    is_finalizing: Callable[[], bool] = sys.is_finalizing,
) -> None:
    # During interpreter shutdown the client is dropped, so there is nothing to monitor; and since 3.12 CPython starts
    # no threads then. `is_finalizing` is a default argument, since the module's globals may be gone by then.
    if is_finalizing():
        return
    _running[id(started)] = core_of
    try:
        # One call, which no signal handler can interrupt: the thread is started and recorded, or neither.
        started.extend(map(_thread.start_new_thread, (_run,), ((started, work, args),)))
    finally:
        if not started:
            _running.pop(id(started), None)


def _run(started: list[int], work: Callable[..., None], args: tuple[Any, ...]) -> None:
    try:
        work(*args)
    finally:
        _running.pop(id(started), None)


def _keep_up(core_of: Callable[[], _core.Core | None]) -> None:
    """Close connections that are idle for too long, and open missing ones, while the client lives."""
    bell = _thread.allocate_lock()
    bell.acquire()

    def ring() -> None:
        try:
            bell.release()
        except RuntimeError:
            # Already unlocked, and not yet noticed.
            return

    while True:
        core = core_of()
        openings = None if core is None else core.keep_up(ring)
        del core
        if openings is None:
            return
        for opener, shard, address in openings:
            port = opener()
            if port is not None:
                port.fill_pool(_core.Operation.filling(address), shard)
            del port
        bell.acquire(timeout=_UPKEEP_PERIOD_S)


def _follow(core_of: Callable[[], _core.Core | None], seed_list: SeedList, bell: Any) -> None:
    """Poll DNS for the hosts when its answer may have changed, while only mongos or unknown servers are known."""
    pause: float | None = _FIRST_PAUSE_S
    while pause is not None and not bell.acquire(timeout=pause):
        core = core_of()
        if core is None:
            return
        pause = core.follow_srv(_hosts_of(seed_list), seed_list.max_hosts)
        # Not held while waiting: an unreferenced client must be freed.
        del core


def _hosts_of(seed_list: SeedList) -> tuple[list[tuple[str, int]], float] | None:
    try:
        return seed_list.poll()
    except Exception:
        # If DNS fails, the last answer stays valid.
        return None
