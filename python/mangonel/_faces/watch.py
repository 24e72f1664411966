"""Observers of servers, for every face: each is driven by the blocking loop in a daemon thread of its own.

A busy event loop can so never delay a heartbeat and make a healthy server look dead. When gevent has patched the
process the threads are greenlets.
"""

from __future__ import annotations

from _thread import start_new_thread
from _weakref import ref

from mangonel import _core
from mangonel._faces.blocking import BlockingLoop

_loop = BlockingLoop()


class Starter:
    """What the core calls when a server is to be observed."""

    def __init__(self, core: _core.Core) -> None:
        # The core keeps this object; a strong reference back would keep both for ever.
        self._core = ref(core)

    def __call__(self, address: str, role: int) -> None:
        core = self._core()
        if core is not None:
            start_new_thread(_loop.drive, (_core.Monitor(core, address, role),))
