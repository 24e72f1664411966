"""Lab results in the form of a result file, made from given figures; and runs with noise from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.record import Plan, Record
from mangonel.lab.results import Results

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


class Subject(Experiment):
    """The results of the runs below."""

    id = "subject"

    def __init__(self, version: int = 1) -> None:
        self.version = version


def new_record(size: Size, rounds: int, seed: int, path: Path | None = None, **machine: Any) -> Record:
    """Return the record of a run that has begun; with a path, in a file."""
    plan = Plan("", ("subject",), ("pymongo", "mangonel"), size, rounds, seed)
    record = Record(plan, path, {**FINGERPRINT, **machine})
    record.describe({"version": "6.0", "topology": "standalone", "ping_us": 90})
    return record


def tell(
    record: Record, where: tuple[Experiment, str, str], number: int, walls_ns: list[int], **more: Any
) -> None:
    """Add a round of one cell, by experiment, part and contender; each sample is ten operations."""
    experiment, part, name = where
    contender = Contender(name, name, frozenset())
    usual = {"ops": 10, "peak_rss": 10**7, "extras": {}}
    samples = [{"wall_ns": wall, "cpu_ns": wall // 2, **usual} for wall in walls_ns]
    key = record.cell(experiment, Part(part, "a part", frozenset(), 10), contender)
    record.tell("round", cell=key, round=number, **{"samples": samples, "sentinel_ns": 1000, **more})


def run(
    seed: int,
    slow: float = 1.0,
    parts: int = 6,
    rounds: int = 5,
    version: int = 1,
    sentinels: Sequence[int] = (),
    instead: dict[int, int] | None = None,
    path: Path | None = None,
    **machine: Any,
) -> Results:
    """Return a run of synthetic rounds: drift shared by a round's contenders, noise of each, `slow` for ours."""
    source, experiment = random.Random(seed), Subject(version)
    record = new_record(Size(), rounds, seed, path, **machine)
    contenders = {"pymongo": 100.0, "pymongo#2": 100.0, "mangonel": 25.0 * slow}
    for number in range(rounds):
        drift = source.lognormvariate(0, 0.3)
        loop_ns = (sentinels or [1000] * rounds)[number]
        for turn in range(parts):
            for name, us in contenders.items():
                mine = us * drift * source.lognormvariate(0, 0.02)
                walls = [round(mine * source.lognormvariate(0, 0.01) * 10_000) for _ in range(3)]
                where = (experiment, f"part-{turn}", name)
                tell(record, where, number, walls, at=float(number), sentinel_ns=loop_ns)
        record.tell(
            "played",
            experiment="subject",
            round=number,
            contenders=list(contenders),
            seconds=1.0,
            sentinel={"loop_ns": loop_ns, "stolen": 0.0},
            instead_of=(instead or {}).get(number),
        )
    record.end("complete")
    record.close()
    return Results(record.content())


def brief(seed: int, slow: float = 1.0, parts: int = 12) -> Results:
    """Return a run of the brief form: processes differ by 3 %, the samples of one by 1 %."""
    source = random.Random(seed)
    record = new_record(Size(quick=True, brief=True), 1, seed)
    for turn in range(parts):
        for name, usual in {"pymongo": 100.0, "mangonel": 25.0 * slow}.items():
            for twin in ("", "#2"):
                process = source.gauss(1, 0.03)
                for number in range(4):
                    wall = round(usual * process * source.gauss(1, 0.01) * 1000)
                    tell(record, (Subject(), f"part-{turn}", name + twin), number, [wall])
    record.end("complete")
    return Results(record.content())
