"""Kills the server's cursors of dropped cursor objects and cancelled commands, in the background."""

from __future__ import annotations

from _weakref import ref

from mangonel import _core
from mangonel._faces.background import Background
from mangonel._light import deque
from mangonel._shared.operation import build_operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Literal


# A cancelled command may still be on its way to the server when its connection is closed; if its session is killed
# before the command arrives, nothing is killed.
_SWEEP_S = 2.0

# How many cursors one command kills. The next command kills the cursors abandoned while it runs.
_MOST_AT_ONCE = 1_000


class AbandonedCursors:
    """Cleans up after one client."""

    def __init__(self, core: _core.Core) -> None:
        self._background = Background(core)
        # Server, database, collection and id of each cursor.
        self._cursors: deque[tuple[str, str, str, int]] = deque()
        # The same with a link, for cursors that only the service at the end of that connection knows.
        self._bound: deque[tuple[str, str, str, int, int]] = deque()
        self._is_scheduled = False
        # During development, called with the id of each cursor that was dropped without being closed.
        self.heard: Callable[[int], None] | None = None

    def abandon_cursor(self, server: str, database: str, collection: str, id: int) -> None:
        """Record that the object of the cursor `id` on `server` was dropped. Safe in a finalizer."""
        self._cursors.append((server, database, collection, id))
        if not self._is_scheduled:
            self._is_scheduled = True
            try:
                self._background.run_later(self._kill)
            except BaseException:
                # A signal handler raised. The core calls again, and that call must schedule the run.
                self._is_scheduled = False
                raise

    def abandon_bound_cursor(self, server: str, database: str, collection: str, id: int, link: int) -> None:
        """Record that the object of a cursor that is bound to a connection was dropped. Safe in a finalizer."""
        self._bound.append((server, database, collection, id, link))
        self._background.run_later(self._end_bound)

    def _end_bound(self) -> list[_core.Operation]:
        """End the cursors that are bound to connections, through the connections' ports; return no operation."""
        core = self._background.core
        for link, operation in self._take_bound():
            opener, shard = core.opener_of(link) or (None, 0)
            port = opener and opener()
            if port:
                port.end_pinned(operation, link, shard)
            else:
                core.release_pinned(link, is_drained=False)
        return []

    def _take_bound(self) -> Iterator[tuple[int, _core.Operation]]:
        while self._bound:
            try:
                server, database, collection, id, link = self._bound.popleft()
            except IndexError:
                # Another thread is closing the client and took the entry first.
                return
            yield link, _kill_cursors((server, database, collection), [id], link)

    def _kill(self) -> list[_core.Operation]:
        """Return the commands that kill the recorded cursors: one for each namespace of each server."""
        # In this order: a cursor added by a finalizer from here on is either taken now or schedules a new run.
        self._is_scheduled = False
        together: dict[tuple[str, str, str], list[int]] = {}
        operations = []
        while self._cursors:
            try:
                server, database, collection, id = self._cursors.popleft()
            except IndexError:
                # Another thread is closing the client and took the entry first.
                break
            place = (server, database, collection)
            ids = together.setdefault(place, [])
            ids.append(id)
            if len(ids) == _MOST_AT_ONCE:
                operations.append(_kill_cursors(place, together.pop(place)))
        operations += [_kill_cursors(place, ids) for place, ids in together.items()]
        return operations

    def sweepers(
        self,
    ) -> tuple[Callable[[str, bytes], None], Callable[[str, str, int, int | None], None]]:
        """Return functions for the core to call when a command opened a cursor that no object owns.

        The first is for a command that was cancelled before its reply: the cursor's id is unknown, but its session is
        known and not shared. The second is for a lost reply: server, namespace and id are known.
        """
        # The core keeps the functions; a strong reference back would keep both for ever.
        to_self, to_background = ref(self), ref(self._background)

        collected: dict[str, deque[bytes]] = {}
        scheduled: set[str] = set()

        def sweep(server: str, session: bytes) -> None:
            collected.setdefault(server, deque()).append(session)
            background = to_background()
            if server not in scheduled and background is not None:
                try:
                    scheduled.add(server)
                    background.run_after(_SWEEP_S, lambda: kill(server))
                except BaseException:
                    scheduled.discard(server)
                    raise

        def kill(server: str) -> list[_core.Operation]:
            # In this order: an entry added by another thread from here on is either taken now or schedules a new run.
            scheduled.discard(server)
            sessions, found = collected[server], []
            while sessions:
                found.append(sessions.popleft())
            return [_kill_sessions(server, found)]

        def abandon(server: str, namespace: str, id: int, link: int | None) -> None:
            owner = to_self()
            if owner is not None:
                database, _, collection = namespace.partition(".")
                if link is None:
                    owner.abandon_cursor(server, database, collection, id)
                else:
                    owner.abandon_bound_cursor(server, database, collection, id, link)

        return sweep, abandon

    def left_to_do(self) -> list[_core.Operation]:
        """Return the pending operations, once."""
        bound = [operation for _, operation in self._take_bound()]
        return bound + [operation for make in self._background.take_notes() for operation in make()]

    def retire(self) -> None:
        """Record no more cursors: in a forked child, they are the parent's."""
        self._background.retire()


def _kill_cursors(place: tuple[str, str, str], ids: list[int], link: int | None = None) -> _core.Operation:
    server, database, collection = place
    return _operation(server, database, {"killCursors": collection, "cursors": ids}, link=link)


def _kill_sessions(server: str, sessions: list[bytes]) -> _core.Operation:
    from mangonel.bson.binary import UUID_SUBTYPE, Binary

    ids = [{"id": Binary(session, UUID_SUBTYPE)} for session in sessions]
    return _operation(server, "admin", {"killSessions": ids}, False)


def _operation(
    server: str,
    database: str,
    command: dict[str, Any],
    session: Literal[False] | None = None,
    link: int | None = None,
) -> _core.Operation:
    from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS

    # After an error, the server's own timeout ends the cursor.
    return build_operation(
        command,
        database=database,
        codec=_core.Codec(DEFAULT_CODEC_OPTIONS),
        kind=_core.KIND_WRITE,
        reading=_core.READ_UNCHECKED,
        session=session,
        pinned=link,
        server=server,
    )
