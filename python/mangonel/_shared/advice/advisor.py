"""Listens to a client's commands and warns of slow ones: once for each shape and line of the program.

The server explains each new shape when the client has been idle for a moment, over the advisor's own connection.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock, get_ident
from time import monotonic, sleep

from mangonel import _core
from mangonel._faces.background import Background
from mangonel._light import deque
from mangonel._shared.advice.places import Place, place_of_program
from mangonel._shared.advice.plans import findings
from mangonel._shared.advice.shapes import explainable, query_of, shape_of, sort_of
from mangonel._shared.operation import build_operation
from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS
from mangonel.errors import PyMongoError
from mangonel.monitoring import CommandListener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

UNBOUNDED = 1_000
"""A list of more documents than this, without a limit, is worth advice."""
LOOP = 10
"""This many finds of one shape from one line are a loop."""
FETCHES = 3
"""This many fetches of one reference from one line are a loop."""
# Seconds: a pause that ends a loop, and a pause that counts as idle.
_PAUSE_S = 0.1
_IDLE_S = 0.05
# How many shapes, lines and cursors are remembered, so that a program that always makes new ones cannot fill memory.
_MOST = 10_000


class _Sent:
    """A command on its way, or a cursor that is open."""

    __slots__ = ("count", "cursor", "has_limit", "place", "shape")

    def __init__(self, place: Place, shape: str, has_limit: bool) -> None:
        self.place = place
        self.shape = shape
        self.has_limit = has_limit
        self.count = 0
        # The id of the cursor while it is open, otherwise 0.
        self.cursor = 0


class Advisor(CommandListener):
    """Advises the program of one client.

    Attributes:
        told: the advice so far: its kind, its text, and the line of the program.
    """

    def __init__(self, core: _core.Core) -> None:
        self.told: list[tuple[str, str, Place]] = []
        self._core = core
        self._background = Background(core)
        self._port: Any = None
        self._lock = allocate_lock()
        self._said: set[tuple[str, str, tuple[str, int]]] = set()
        self._running: dict[int, _Sent] = {}
        self._cursors: dict[int, _Sent] = {}
        # (thread, task, line, fetched thing) -> the time of the last fetch, and the number of fetches in a row.
        self._loops: dict[Any, tuple[float, int]] = {}
        self._hushed: set[tuple[str, int]] = set()
        self._explained: set[tuple[str, tuple[str, int]]] = set()
        # Database, name and command, with the line of the program.
        self._waiting: deque[tuple[str, str, dict[str, Any], Place]] = deque()
        self._abandoned: deque[int] = deque()
        self._last = 0.0
        self._is_explaining = False

    # Called by the client.

    def started(self, event: Any) -> None:
        """Examine a command that is about to be sent."""
        name = event.command_name
        if name == "getMore":
            sent = self._cursors.get(event.command["getMore"])
            if sent is not None:
                self._running[event.request_id] = sent
            return
        if name == "killCursors":
            self._look_at_abandoned()
            for id in event.command["cursors"]:
                self._cursors.pop(id, None)
            return
        command: Mapping[str, Any] = event.command
        plain = explainable(name, command)
        if name not in ("find", "aggregate") and plain is None:
            return
        place = place_of_program()
        if place is None:
            return
        self._last = monotonic()
        shape = f"{name} {event.database_name}.{command.get(name)} {_shape(name, command)}"
        if len(self._running) < _MOST:
            has_limit = bool(command.get("limit")) or name != "find"
            self._running[event.request_id] = _Sent(place, shape, has_limit)
        if name == "find":
            self._look_at_loop(place, shape)
        key = (shape, place.key)
        if plain is not None and key not in self._explained and len(self._explained) < _MOST:
            self._explained.add(key)
            self._waiting.append((event.database_name, name, plain, place))
            self._schedule()

    def succeeded(self, event: Any) -> None:
        """Examine the reply to a command."""
        sent = self._running.pop(event.request_id, None)
        if sent is None:
            return
        cursor = event.reply.get("cursor")
        if not isinstance(cursor, dict):
            return
        batch = cursor.get("firstBatch", cursor.get("nextBatch")) or ()
        sent.count += len(batch)
        if cursor.get("id") and len(self._cursors) < _MOST:
            sent.cursor = cursor["id"]
            self._cursors[sent.cursor] = sent
        else:
            self._cursors.pop(sent.cursor, None)
        if sent.count > UNBOUNDED and sent.place.loads_all and not sent.has_limit:
            self.say(
                "unbounded list",
                sent.shape,
                sent.place,
                f"unbounded list: more than {UNBOUNDED} documents of {sent.shape} are loaded at once; "
                "set a limit, or iterate over the cursor",
            )

    def failed(self, event: Any) -> None:
        """Forget a command that failed, and its cursor."""
        sent = self._running.pop(event.request_id, None)
        if sent is not None:
            self._cursors.pop(sent.cursor, None)

    def abandoned(self, id: int) -> None:
        """Record that a cursor object was dropped while the server kept the cursor. Safe in a finalizer."""
        self._abandoned.append(id)

    # Advice.

    def say(self, kind: str, shape: str, place: Place, text: str) -> None:
        """Warn, once for each kind, shape and line.

        Args:
            kind: the kind of problem.
            shape: the command's shape, or another text that distinguishes findings on one line.
            place: the line of the program.
            text: the advice.
        """
        key = (kind, shape, place.key)
        with self._lock:
            if key in self._said or len(self._said) >= _MOST:
                return
            self._said.add(key)
        self.told.append((kind, text, place))
        place.warn(text)

    def repeated(self, what: str, text: str) -> None:
        """Record a fetch that a line made for one document; several in a row are a loop.

        Args:
            what: the name of the fetched thing.
            text: the advice in case of a loop.
        """
        place = place_of_program()
        if place is not None and self._count_of(place, what) == FETCHES:
            # This advice is more precise than "a find in a loop".
            self._hushed.add(place.key)
            self.say("reference in a loop", what, place, text)

    def settle(self, seconds: float = 10.0) -> None:
        """Wait until all new shapes were explained, for tests and at the end of scripts.

        Args:
            seconds: how long to wait at most.
        """
        end = monotonic() + seconds
        while (self._waiting or self._is_explaining) and monotonic() < end:
            sleep(0.01)
        self._look_at_abandoned()

    def retire(self) -> None:
        """Stop explaining: the client is closed, or belongs to the parent of this process."""
        self._background.retire()
        self._waiting.clear()

    def _look_at_loop(self, place: Place, shape: str) -> None:
        if self._count_of(place, shape) == LOOP and place.key not in self._hushed:
            self.say(
                "find in a loop",
                shape,
                place,
                f"find in a loop: {LOOP} times {shape} in a row; one find with $in, or $lookup, can replace them",
            )

    def _count_of(self, place: Place, what: str) -> int:
        """Return how often in a row the running thread or task did this on a line."""
        now = monotonic()
        key = (get_ident(), _task(), place.key, what)
        when, count = self._loops.get(key, (0.0, 0))
        count = count + 1 if now - when < _PAUSE_S else 1
        if len(self._loops) >= _MOST:
            self._loops.clear()
        self._loops[key] = (now, count)
        return count

    def _look_at_abandoned(self) -> None:
        while self._abandoned:
            sent = self._cursors.pop(self._abandoned.popleft(), None)
            if sent is not None:
                self.say(
                    "cursor never closed",
                    sent.shape,
                    sent.place,
                    f"cursor never closed: {sent.shape} was not read to its end; close it, or read it in a with block",
                )

    # Explanations.

    def _schedule(self) -> None:
        if not self._is_explaining:
            self._is_explaining = True
            self._background.run_after(_IDLE_S, self._explain)

    def _explain(self) -> list[_core.Operation]:
        """Explain the waiting commands, or try again later if the client is busy. Runs in the background."""
        try:
            while self._waiting and not self._core.is_closed:
                if monotonic() - self._last < _IDLE_S:
                    self._background.run_after(_IDLE_S, self._explain)
                    return []
                database, name, command, place = self._waiting[0]
                self._explain_one(database, name, command, place)
                self._waiting.popleft()
        except IndexError:
            # The advisor was retired meanwhile.
            pass
        self._is_explaining = False
        return []

    def _explain_one(self, database: str, name: str, command: dict[str, Any], place: Place) -> None:
        from mangonel._faces.blocking import BlockingPort

        if self._port is None:
            self._port = BlockingPort(self._core, owns_core=False)
        operation = build_operation(
            {"explain": command, "verbosity": "executionStats"},
            database=database,
            codec=_core.Codec(DEFAULT_CODEC_OPTIONS),
            kind=_core.KIND_READ,
            session=False,
        )
        operation.silence()
        try:
            reply = self._port.run(operation)
        except PyMongoError:
            # The program may lack the right to explain, or the command fails anyway.
            return
        shape = f"{database} {shape_of(command)}"
        for kind, text in findings(name, command, reply):
            self.say(kind, shape, place, text)


def _shape(name: str, command: Mapping[str, Any]) -> str:
    if name == "aggregate":
        return shape_of(command.get("pipeline") or [])
    query = shape_of(query_of(name, command)) if name != "getMore" else ""
    sort = sort_of(name, command)
    return f"{query} sorted by {sort}" if sort else query


def _task() -> int:
    """Return a number that identifies the running task; 0 outside of event loops."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return 0
    try:
        return id(asyncio.current_task())
    except (RuntimeError, AttributeError):
        return 0
