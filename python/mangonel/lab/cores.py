"""Assigns the measuring equipment to some cores and leaves the others to the contender; and undoes it.

Equipment is everything that a site under load needs: the load generator, the servers behind the site, proxies in
between. A contender itself is never pinned, since some have their own threads. Knows no driver, server or experiment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# Look again for threads that were started during the move; once their parents are moved, new threads inherit the cores.
LOOKS = 20


@dataclass(frozen=True)
class Places:
    """Numbers of the cores for servers and proxies, and for the load generator."""

    servers: tuple[int, ...]
    load: tuple[int, ...]

    @property
    def words(self) -> str:
        """Return the cores in words for reports: "core 1"."""
        if self.servers == self.load:
            return _words(self.servers)
        return f"{_words(self.servers)}, the load on {_words(self.load)}"


@dataclass(frozen=True)
class Equipment:
    """The lab's own servers of a run, and the cores for equipment while a site is loaded."""

    pids: tuple[int, ...]  # processes that run for longer than one experiment
    places: Places

    @contextlib.contextmanager
    def placed(self, others: Iterable[int] = ()) -> Iterator[None]:
        """Pin the servers and `others` for the duration of this block; restore them afterwards."""
        before: dict[int, Collection[int]] = {}
        try:
            for pid in (*self.pids, *others):
                with contextlib.suppress(OSError):
                    before[pid] = os.sched_getaffinity(pid)
                    _move(pid, self.places.servers)
            yield
        finally:
            for pid, cores in before.items():
                with contextlib.suppress(OSError):
                    _move(pid, cores)


def available() -> list[int]:
    """Return the cores that this process may use, in order; empty if unknown."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def places(cores: Collection[int]) -> Places | None:
    """Return the cores for equipment: the last of several, or the upper half of four and more. None: no pinning."""
    ordered = sorted(cores)
    if len(ordered) < 2:
        return None
    last = (ordered[-1],)
    if len(ordered) < 4:
        return Places(last, last)
    return Places(tuple(ordered[len(ordered) // 2 : -1]), last)


def equipment(pids: Iterable[int]) -> Equipment | None:
    """Return the equipment of a run that has started servers with these process ids.

    None if nothing can be pinned, or if the run has started no server: a server that was running before is not moved,
    and a pinned load beside an unpinned server would be yet another layout.
    """
    found, known = places(available()), tuple(pids)
    return Equipment(known, found) if found is not None and known else None


_here: Places | None = None


def use(found: dict[str, Any] | None) -> None:
    """Set the cores that `kept` uses from now on. None: no pinning."""
    global _here
    _here = Places(tuple(found["servers"]), tuple(found["load"])) if found else None


@contextlib.contextmanager
def kept(role: str) -> Iterator[None]:
    """Pin processes started within this block to the cores of their role, "servers" or "load".

    A child inherits the cores of the thread that starts it, so it is pinned from its first instruction, with all its
    threads. Afterwards this thread is as before; the process's other threads are never touched.
    """
    if _here is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, getattr(_here, role))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _move(pid: int, cores: Collection[int]) -> None:
    """Pin every thread of a process to these cores."""
    wanted = set(cores)
    for _ in range(LOOKS):
        is_done = True
        for name in os.listdir(f"/proc/{pid}/task"):
            # A thread that has exited needs no core.
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(int(name)) != wanted:
                    is_done = False
                    os.sched_setaffinity(int(name), wanted)
        if is_done:
            return


def _words(cores: tuple[int, ...]) -> str:
    if len(cores) == 1:
        return f"core {cores[0]}"
    if cores == tuple(range(cores[0], cores[-1] + 1)):
        return f"cores {cores[0]} to {cores[-1]}"
    return "cores " + ", ".join(map(str, cores))
