"""Processor time and memory of a process and its descendants, for engines whose workers are processes. Linux only."""

from __future__ import annotations

import os
from pathlib import Path


def _stats(root: int) -> dict[int, list[str]]:
    """Return the fields of /proc/PID/stat behind the name, of a process and those below it."""
    found: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # The process has ended.
            continue
        found[int(folder.name)] = fields
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    below, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        if pid in found:
            below[pid] = found[pid]
        waiting += children.get(pid, [])
    return below


def processor_ns(root: int) -> float:
    """Return the processor time of a process and its descendants, including those that ended and were waited for."""
    tick = 1e9 / os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, fields[11:15])) for fields in _stats(root).values()) * tick


def resident_bytes(root: int) -> int:
    """Return the memory of a process and its descendants; shared pages count for each."""
    return sum(int(fields[21]) for fields in _stats(root).values()) * os.sysconf("SC_PAGE_SIZE")
