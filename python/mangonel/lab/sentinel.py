"""Measures how quiet the machine is: a fixed loop, a small fsync, pressure and steal; and the CPU time of another
process. Knows no driver and no server.

A loop slower than the run's best means that other processes run. A round that begins like this is marked, and repeated
at the end.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 100_000
DISTURBED = 1.25  # this many times the run's best
STOLEN = 0.03  # share of a round's processor time that the hypervisor gave to others
FSYNC_BYTES = 4096
# The kernel's clock id for a process's CPU time, from the process id: see clock_getcpuclockid(3).
PROCESS_CLOCK = 2


def loop_ns() -> int:
    """Return the current duration in ns of a fixed piece of Python."""
    start = time.perf_counter_ns()
    total = 0
    while total < STEPS:
        total += 1
    return time.perf_counter_ns() - start


def fsync_ns() -> int:
    """Return the duration in ns of writing 4 KiB and waiting for the disk."""
    with tempfile.TemporaryFile() as file:
        file.write(b"\0" * FSYNC_BYTES)
        file.flush()
        start = time.perf_counter_ns()
        os.fsync(file.fileno())
        return time.perf_counter_ns() - start


def pressure() -> float:
    """Return the percentage of the last ten seconds in which a task waited for a core; -1: unknown."""
    for word in (read("/proc/pressure/cpu") or "").split():
        if word.startswith("avg10="):
            return float(word.partition("=")[2])
    return -1.0


def ticks() -> tuple[int, int]:
    """Return the stolen and the total processor time, in ticks since the machine started."""
    words = (read("/proc/stat") or "").partition("\n")[0].split()[1:]
    figures = [int(word) for word in words[:8]]
    return (figures[7], sum(figures)) if len(figures) == 8 else (0, 0)


def stolen(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return the share of processor time that the hypervisor took between two `ticks`."""
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def look() -> dict[str, Any]:
    """Return the state of the machine before a round."""
    return {
        "loop_ns": min(loop_ns() for _ in range(3)),
        "fsync_ns": fsync_ns(),
        "pressure": pressure(),
        "load": round(os.getloadavg()[0], 2),
    }


def read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def cpu_ns(pid: int) -> int:
    """Return the processor time of a process in ns, including threads that have exited.

    /proc/PID/task leaves those out: a server with a thread for each connection would seem to work less, the sooner its
    clients leave. OSError if there is no such process.
    """
    return time.clock_gettime_ns(~pid << 3 | PROCESS_CLOCK)
