"""Results of the lab as a file of them would read, made of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FINGERPRINT = {
    "date": "2026-01-01T00:00:00Z",
    "cpu": "a processor",
    "cores": 2,
    "memory_mb": 2048,
    "virtual": True,
    "kernel": "6",
    "python": "3.11",
    "load": [0.5],
    "commit": "abc",
    "server": {"version": "6.0", "topology": "standalone", "ping_us": 90},
    "versions": {"pymongo": "4.20.0"},
}


def cell(
    experiment: str,
    part: str,
    contender: str,
    walls_us: float | Sequence[float],
    *,
    cpu_us: float = 0.5,
    sentinel_ns: int = 1000,
    extras: dict[str, float] | None = None,
    failures: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a cell with a round of one sample for each figure, three of them where there is one."""
    walls = [walls_us] * 3 if isinstance(walls_us, int | float) else walls_us
    sample = {"ops": 1, "cpu_ns": cpu_us * 1000, "peak_rss": 9_000_000, "extras": extras or {}}
    return {
        "experiment": experiment,
        "version": 1,
        "part": part,
        "title": "one at a time" if part == "blocking" else part,
        "unit": "operation",
        "write_concern": "",
        "judge": "wall",
        "contender": contender,
        "failures": list(failures),
        "rounds": [
            {"round": number, "sentinel_ns": sentinel_ns, "samples": [{**sample, "wall_ns": wall * 1000}]}
            for number, wall in enumerate(walls)
        ],
    }


def content(
    cells: Sequence[dict[str, Any]], plan: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a run of these cells."""
    names = list(dict.fromkeys(each["experiment"] for each in cells))
    return {
        "fingerprint": FINGERPRINT,
        "plan": {"experiments": names, "seed": 1, "quick": True, "order": [], **(plan or {})},
        "cells": list(cells),
        "missing": [],
        "exits": [],
        "marked": [],
        "end": {"how": "complete"},
        **more,
    }
