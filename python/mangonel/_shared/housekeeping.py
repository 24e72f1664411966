"""Kills the server cursors of dropped cursor objects, behind the user's back.

A finalizer may run on any thread, in the middle of anything, so it only leaves a note here. One daemon thread with
blocking connections of its own does the work for every face, and ends when there is nothing left to do.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque

from mangonel import _core
from mangonel.errors import PyMongoError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel._faces.blocking import BlockingPort
    from mangonel._faces.port import Address

_IDLE_S = 1.0


class Housekeeper:
    """The notes of one client, and the thread that works them off."""

    def __init__(self, core: _core.Core, address: Address) -> None:
        self._core = core
        self._address = address
        self._notes: deque[tuple[str, str, int]] = deque()
        self._port: BlockingPort | None = None
        self._is_running = False
        self._is_retired = False
        self._noted = threading.Event()

    def abandon_cursor(self, database: str, collection: str, id: int) -> None:
        """Leave a note that the cursor `id` has lost its owner."""
        if self._is_retired:
            return
        self._notes.append((database, collection, id))
        self._noted.set()
        if not self._is_running:
            self._is_running = True
            # No thread can be started once the interpreter is going down; the server times the cursor out by itself.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._work, name="mangonel-housekeeper", daemon=True).start()

    def retire(self) -> None:
        """Take no more notes: in a forked child, where the cursors of that time are the parent's."""
        self._is_retired = True

    def _work(self) -> None:
        while True:
            while self._notes:
                self._kill(*self._notes.popleft())
            if not self._noted.wait(_IDLE_S):
                self._is_running = False
                # A note left between the wait and the line above would have found a thread that still ran.
                if not self._notes:
                    return
                self._is_running = True
            self._noted.clear()

    def _kill(self, database: str, collection: str, id: int) -> None:
        from mangonel._faces.blocking import BlockingPort
        from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS

        if self._core.is_closed:
            return
        if self._port is None:
            self._port = BlockingPort(self._core, self._address)
        # An error leaves the cursor to the server's own time-out.
        with contextlib.suppress(PyMongoError):
            self._port.run(
                _core.Operation(
                    database,
                    {"killCursors": collection, "cursors": [id]},
                    _core.Codec(DEFAULT_CODEC_OPTIONS),
                    _core.KIND_WRITE,
                    _core.READ_UNCHECKED,
                )
            )
