"""Observers of servers, for every face: each is driven by the blocking loop in a daemon thread of its own.

A busy event loop can so never delay a heartbeat and make a healthy server look dead. When gevent has patched the
process the threads are greenlets.
"""

from __future__ import annotations

import time
from _thread import start_new_thread
from _weakref import ref

from mangonel import _core
from mangonel._faces.blocking import BlockingLoop

# How many observers run: one entry for each, since taking from and adding to a list needs no lock.
_running: list[None] = []

# How long the interpreter's exit waits for them, in seconds. They are interrupted, so this is for a starved machine.
_PATIENCE_S = 1.0


def _observe(loop: BlockingLoop, monitor: _core.Monitor) -> None:
    try:
        loop.drive(monitor)
    finally:
        _running.pop()


def forget_all() -> None:
    """Count from none again, in a forked child: the threads stayed with the parent."""
    _running.clear()


def wait_for_all() -> None:
    """Wait until every observer has ended, at interpreter exit.

    A thread that comes back for the interpreter's lock once that is going down is ended on the spot, and a thread that
    is ended inside the Rust module takes the process with it.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while _running and time.monotonic() < deadline:
        time.sleep(0.0005)


class Starter:
    """What the core calls when a server is to be observed."""

    def __init__(self, core: _core.Core) -> None:
        # The core keeps this object; a strong reference back would keep both for ever.
        self._core = ref(core)
        self._loop = BlockingLoop(core)

    def __call__(self, address: str, role: int) -> None:
        core = self._core()
        if core is not None:
            monitor = _core.Monitor(core, address, role)
            _running.append(None)
            try:
                start_new_thread(_observe, (self._loop, monitor))
            except BaseException:
                _running.pop()
                raise
