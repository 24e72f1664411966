"""Kills the server cursors of dropped cursor objects and of commands that were given up, behind the user's back."""

from __future__ import annotations

from _weakref import ref

from mangonel import _core
from mangonel._faces.background import Background
from mangonel._light import deque
from mangonel._shared.operation import build_operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal


# A command that was given up may still be on its way to the server when its connection is closed; killing its session
# before it arrives would kill nothing.
_SWEEP_S = 2.0

# How many cursors one command kills. While it runs others are abandoned, and go together with the next.
_MOST_AT_ONCE = 1_000


class AbandonedCursors:
    """Tidies up after one client."""

    def __init__(self, core: _core.Core) -> None:
        self._background = Background(core)
        # Server, database, collection and id of each.
        self._cursors: deque[tuple[str, str, str, int]] = deque()
        self._is_scheduled = False

    def abandon_cursor(self, server: str, database: str, collection: str, id: int) -> None:
        """Leave a note that the cursor `id`, which `server` has open, has lost its owner. Safe in a finalizer."""
        self._cursors.append((server, database, collection, id))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._background.run_later(self._kill)

    def _kill(self) -> list[_core.Operation]:
        """Return the commands that kill what was abandoned so far: one for each namespace of each server."""
        # In this order: what a finalizer adds from here on is taken now, or schedules anew.
        self._is_scheduled = False
        together: dict[tuple[str, str, str], list[int]] = {}
        operations = []
        while self._cursors:
            try:
                server, database, collection, id = self._cursors.popleft()
            except IndexError:
                # The client is being closed in another thread, which was quicker.
                break
            place = (server, database, collection)
            ids = together.setdefault(place, [])
            ids.append(id)
            if len(ids) == _MOST_AT_ONCE:
                operations.append(_kill_cursors(place, together.pop(place)))
        operations += [_kill_cursors(place, ids) for place, ids in together.items()]
        return operations

    def sweeper(self) -> Callable[[str, bytes], None]:
        """Return what the core calls when a command that opens a cursor was given up before its reply.

        Nobody knows the cursor's id, but its session is known, and nobody else uses it.
        """
        # The core keeps the function; a strong reference back would keep both for ever.
        to_background = ref(self._background)

        collected: dict[str, deque[bytes]] = {}
        scheduled: set[str] = set()

        def sweep(server: str, session: bytes) -> None:
            collected.setdefault(server, deque()).append(session)
            background = to_background()
            if server not in scheduled and background is not None:
                scheduled.add(server)
                background.run_after(_SWEEP_S, lambda: kill(server))

        def kill(server: str) -> list[_core.Operation]:
            # In this order: what another thread adds from here on is taken now, or schedules anew.
            scheduled.discard(server)
            sessions, found = collected[server], []
            while sessions:
                found.append(sessions.popleft())
            return [_kill_sessions(server, found)]

        return sweep

    def left_to_do(self) -> list[_core.Operation]:
        """Return the operations that are still to be run, once."""
        return [operation for make in self._background.take_notes() for operation in make()]

    def retire(self) -> None:
        """Take no more notes: in a forked child, where the cursors of that time are the parent's."""
        self._background.retire()


def _kill_cursors(place: tuple[str, str, str], ids: list[int]) -> _core.Operation:
    server, database, collection = place
    return _operation(server, database, {"killCursors": collection, "cursors": ids})


def _kill_sessions(server: str, sessions: list[bytes]) -> _core.Operation:
    from mangonel.bson.binary import UUID_SUBTYPE, Binary

    ids = [{"id": Binary(session, UUID_SUBTYPE)} for session in sessions]
    return _operation(server, "admin", {"killSessions": ids}, False)


def _operation(
    server: str, database: str, command: dict[str, Any], session: Literal[False] | None = None
) -> _core.Operation:
    from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS

    # An error leaves the cursor to the server's own time-out.
    return build_operation(
        command,
        database=database,
        codec=_core.Codec(DEFAULT_CODEC_OPTIONS),
        kind=_core.KIND_WRITE,
        reading=_core.READ_UNCHECKED,
        session=session,
        server=server,
    )
