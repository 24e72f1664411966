"""Runs clean-up operations: one daemon thread with its own blocking connections, for every face.

A finalizer may run on any thread at any moment, so requesting an operation only leaves a note. The first note starts
the thread; it ends when no notes are left. Knows no BSON and no command.
"""

from __future__ import annotations

import _thread
import sys
from math import inf
from time import monotonic

from mangonel._light import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mangonel import _core
    from mangonel._faces.blocking import BlockingPort

_IDLE_S = 1.0


class Background:
    """The notes of one client, and the thread that processes them."""

    def __init__(self, core: _core.Core) -> None:
        self.core = core
        self._notes: deque[Callable[[], list[_core.Operation]]] = deque()
        # Notes with the time before which each must not run; all have the same delay.
        self._later: deque[tuple[float, Callable[[], list[_core.Operation]]]] = deque()
        self._port: BlockingPort | None = None
        self._is_running = False
        self._is_retired = False
        # Unlocked when there is a new note; a plain lock, since `threading` is imported only on demand.
        self._bell = _thread.allocate_lock()
        self._bell.acquire()

    def run_later(
        self, make: Callable[[], list[_core.Operation]], is_finalizing: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """Run the operations that `make` returns at some later time; results and errors are ignored."""
        # During interpreter shutdown no thread runs any more; the server's own timeouts clean up.
        # `is_finalizing` is a default argument, since the module's globals may be gone by then.
        if self._is_retired or is_finalizing():
            return
        self._notes.append(make)
        self._wake()

    def run_after(self, seconds: float, make: Callable[[], list[_core.Operation]]) -> None:
        """Do the same as `run_later`, but not before `seconds` have passed; the delay is the same for every note."""
        if not self._is_retired and not sys.is_finalizing():
            self._later.append((monotonic() + seconds, make))
            self._wake()

    def _wake(self) -> None:
        self._ring()
        if not self._is_running:
            self._is_running = True
            try:
                # Not `threading.Thread`: its start() waits for the thread to run, and for locks that a finalizer may
                # have interrupted.
                _thread.start_new_thread(self._work, ())
            except RuntimeError:
                self._is_retired = True

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:
            # Already unlocked, and not yet noticed.
            return

    def take_notes(self) -> list[Callable[[], list[_core.Operation]]]:
        """Return and forget the pending notes; the caller runs them, since the client is about to close."""
        notes = []
        while note := self._next(inf):
            notes.append(note)
        return notes

    def _next(self, now: float) -> Callable[[], list[_core.Operation]] | None:
        """Take a note that is due at `now`, if any; two threads may call this at once."""
        try:
            if self._notes:
                return self._notes.popleft()
            if self._later and self._later[0][0] <= now:
                return self._later.popleft()[1]
        except IndexError:
            # The other thread was faster.
            pass
        return None

    def retire(self) -> None:
        """Accept no more notes: in a forked child, the notes concern the parent."""
        self._is_retired = True

    def _work(self) -> None:
        while True:
            while note := self._next(monotonic()):
                self._run(note)
            if not self._bell.acquire(timeout=_IDLE_S) and not self._later:
                self._is_running = False
                # A note left between the wait and the line above started no thread, since this one was still running.
                if not self._notes and not self._later:
                    return
                self._is_running = True

    def _run(self, make: Callable[[], list[_core.Operation]]) -> None:
        from mangonel._faces.blocking import BlockingPort

        if self.core.is_closed:
            return
        if self._port is None:
            self._port = BlockingPort(self.core, owns_core=False)
        for operation in make():
            try:
                self._port.run(operation)
            except Exception:
                # Also an exception from the application's OIDC callback: more notes may follow.
                continue
