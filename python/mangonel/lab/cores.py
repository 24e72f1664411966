"""Which cores the measuring equipment is kept to, so that the contender has the others: placing and placing back.

Equipment is what a site under load needs beside itself: the load generator, the servers that it asks, the proxies
between. A contender is never kept anywhere: some have threads of their own. Knows no driver, server or experiment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# A server that makes threads while it is placed has them looked for again; they inherit once their makers are placed.
LOOKS = 20


@dataclass(frozen=True)
class Places:
    """Cores by number: those of servers and proxies, and those of what makes the load."""

    servers: tuple[int, ...]
    load: tuple[int, ...]

    @property
    def words(self) -> str:
        """Return where that is, as reports say it: "core 1"."""
        if self.servers == self.load:
            return _words(self.servers)
        return f"{_words(self.servers)}, the load on {_words(self.load)}"


@dataclass(frozen=True)
class Equipment:
    """The servers of a run that are the lab's own, and where equipment is kept while a site is loaded."""

    pids: tuple[int, ...]  # processes that run for longer than one experiment
    places: Places

    @contextlib.contextmanager
    def placed(self, others: Iterable[int] = ()) -> Iterator[None]:
        """Keep the servers and `others` where they belong within this block; afterwards they are as they were."""
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
    """Return the cores that this process may use, in order; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def places(cores: Collection[int]) -> Places | None:
    """Return where equipment belongs: the last of several cores, of four and more the upper half; None: nowhere."""
    ordered = sorted(cores)
    if len(ordered) < 2:
        return None
    last = (ordered[-1],)
    if len(ordered) < 4:
        return Places(last, last)
    return Places(tuple(ordered[len(ordered) // 2 : -1]), last)


def equipment(pids: Iterable[int]) -> Equipment | None:
    """Return the equipment of a run with these servers of its own.

    None where nothing can be kept anywhere, and without servers: one that is not ours is not moved, and a load that
    is kept beside one that wanders would be another layout again.
    """
    found, known = places(available()), tuple(pids)
    return Equipment(known, found) if found is not None and known else None


_here: Places | None = None


def use(found: dict[str, Any] | None) -> None:
    """Let `kept` place what this process starts from here on; None: nowhere."""
    global _here
    _here = Places(tuple(found["servers"]), tuple(found["load"])) if found else None


@contextlib.contextmanager
def kept(role: str) -> Iterator[None]:
    """Keep what is started within this block to the cores of its role, "servers" or "load".

    A child inherits from the thread that starts it, so it is there from its first instruction and with all its
    threads; this thread is as it was afterwards, and the process's others are not touched.
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
    """Keep every thread of a process to these cores."""
    wanted = set(cores)
    for _ in range(LOOKS):
        is_done = True
        for name in os.listdir(f"/proc/{pid}/task"):
            # A thread that ended in the meantime needs no place.
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
