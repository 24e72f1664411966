"""Plays contenders against each other: rounds in shuffled order, one worker process per contender and round.

Never imports a peer. What it keeps is raw: every sample of every round; tables are made from that.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mangonel.lab import registry
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.protocol import Child, ChildError, Message

WORKER = "mangonel.lab.worker"
CLERK = "mangonel.lab.clerk"
PATIENCE = 120.0
SENTINEL_STEPS = 100_000
REFERENCES = ("pymongo", "pymongo-async")


@dataclass(frozen=True)
class Plan:
    """What is to be played, where, how often and within which time."""

    uri: str
    experiments: tuple[str, ...]
    contenders: tuple[str, ...]
    size: Size
    rounds: int
    seed: int
    budget: float = 0.0
    database: str = "mangonel_lab"
    patience: float = PATIENCE


@dataclass
class Cell:
    """One contender in one part of one experiment, with all its rounds."""

    experiment: str
    version: int
    part: Part
    contender: str
    rounds: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass
class Record:
    """Everything a run leaves behind, before it becomes a file or a table."""

    plan: Plan
    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)
    missing: list[dict[str, str]] = field(default_factory=list)
    exits: list[dict[str, Any]] = field(default_factory=list)
    order: list[dict[str, Any]] = field(default_factory=list)
    server: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def line_up(
    experiment: Experiment, names: tuple[str, ...], size: Size
) -> tuple[list[Contender], list[tuple[str, str]]]:
    """Return who plays an experiment, each reference twice, and who does not with the reason."""
    playing, absent = [], []
    parts = experiment.parts(size)
    for name in names:
        contender = registry.contender(name)
        reasons = [part.excludes(contender) for part in parts]
        if all(reasons):
            continue
        if reason := contender.missing():
            absent.append((name, reason))
            continue
        playing.append(contender)
        if name in REFERENCES:
            playing.append(registry.again(contender))
    return playing, absent


class Conductor:
    """Runs a plan. `say` gets one line of progress at a time."""

    def __init__(self, plan: Plan, say: Callable[[str], None] = lambda line: None) -> None:
        self.record = Record(plan)
        self._plan = plan
        self._say = say
        self._shuffle = random.Random(plan.seed)
        self._out: set[tuple[str, str]] = set()
        self._leaving: list[tuple[Child, dict[str, Any]]] = []
        self._clerk = Child(CLERK)

    def run(self) -> Record:
        """Play all rounds, or as many as the budget allows, and return the record.

        Raises:
            ChildError: the deployment cannot be reached or prepared.
        """
        plan, record = self._plan, self.record
        started = time.monotonic()
        try:
            self._clerk.ask({"uri": plan.uri, "database": plan.database}, self._plan.patience)
            record.server = self._clerk.ask({"do": "describe"}, self._plan.patience)
            known = registry.experiments()
            chosen = [known[name] for name in plan.experiments]
            for dataset in {experiment.dataset for experiment in chosen if experiment.dataset}:
                told = self._clerk.ask({"do": "prepare", "dataset": dataset}, 300)
                if told["count"] != told["expected"]:
                    raise ChildError(
                        f"data set {dataset}: expected {told['expected']}, found {told['count']}"
                    )
            costs: dict[str, float] = {}
            for number in range(plan.rounds):
                for experiment in chosen:
                    spent = time.monotonic() - started
                    if plan.budget and number and spent + costs[experiment.id] > plan.budget:
                        continue
                    self._round(experiment, number)
                    costs[experiment.id] = record.order[-1]["seconds"]
            self._clerk.ask({"do": "drop"}, self._plan.patience)
        finally:
            self._reap()
            self._clerk.finish()
        return record

    def _round(self, experiment: Experiment, number: int) -> None:
        playing, absent = line_up(experiment, self._plan.contenders, self._plan.size)
        for name, reason in absent:
            self._miss(experiment, name, reason)
        playing = [c for c in playing if (experiment.id, c.id) not in self._out]
        self._shuffle.shuffle(playing)
        names = [contender.id for contender in playing]
        begun = time.monotonic()
        digests: dict[str, dict[str, str]] = {}
        for position, contender in enumerate(playing):
            self._say(
                f"{experiment.id}, round {number + 1}: {contender.title} ({position + 1} of {len(playing)})"
            )
            self._play(experiment, contender, number, position, digests)
        for part in experiment.parts(self._plan.size):
            for kind in (part.id, f"{part.id} written"):
                self._compare(experiment, part, number, digests.get(kind, {}))
        self._reap()
        took = round(time.monotonic() - begun, 3)
        self.record.order.append(
            {"experiment": experiment.id, "round": number, "contenders": names, "seconds": took}
        )

    def _miss(self, experiment: Experiment, name: str, reason: str) -> None:
        entry = {"experiment": experiment.id, "contender": name, "reason": reason}
        if entry not in self.record.missing:
            self.record.missing.append(entry)
        self._out.add((experiment.id, name))

    def _play(
        self,
        experiment: Experiment,
        contender: Contender,
        number: int,
        position: int,
        digests: dict[str, dict[str, str]],
    ) -> None:
        plan = self._plan
        scratch = f"scratch_{experiment.id}_{contender.id}_{number}".replace("#", "_")
        child = Child(WORKER, contender.environment)
        current: Part | None = None
        try:
            hello = child.ask(
                {
                    "experiment": experiment.id,
                    "contender": contender.id,
                    "uri": plan.uri,
                    "database": plan.database,
                    "collection": experiment.dataset or scratch,
                    "quick": plan.size.quick,
                    "parameters": plan.size.parameters,
                    # The same for all contenders of a round: they do the same work in the same order.
                    "seed": plan.seed + number,
                },
                self._plan.patience,
            )
            if hello["event"] == "missing":
                self._miss(experiment, contender.id, hello["reason"])
                return
            self.record.versions.update(hello["versions"])
            for current in experiment.parts(plan.size):
                if not current.excludes(contender):
                    self._part(child, experiment, current, contender, number, position, scratch, digests)
        except ChildError as error:
            if current is not None:
                self._cell(experiment, current, contender).failures.append(f"round {number + 1}: {error}")
            else:
                self._miss(experiment, contender.id, str(error))
            child.kill()
        finally:
            # Some drivers sleep half a second at exit; the next worker need not wait for that.
            child.dismiss()
            self._leaving.append(
                (child, {"experiment": experiment.id, "contender": contender.id, "round": number})
            )

    def _reap(self) -> None:
        for child, name in self._leaving:
            end = child.finish()
            if not end["clean"]:
                self.record.exits.append({**name, **end})
        self._leaving.clear()

    def _part(
        self,
        child: Child,
        experiment: Experiment,
        part: Part,
        contender: Contender,
        number: int,
        position: int,
        scratch: str,
        digests: dict[str, dict[str, str]],
    ) -> None:
        cell = self._cell(experiment, part, contender)
        samples: list[Message] = []
        load, sentinel_ns = os.getloadavg()[0], sentinel()
        message = child.ask({"part": part.id}, self._plan.patience)
        digest = ""
        before = {"cpu_ns": 0, "cost": 0}
        while message["event"] != "done":
            if message["event"] == "failed":
                cell.failures.append(f"round {number + 1}: {message['reason']} at {message['where']}")
                return
            if message["event"] == "verified":
                digest = message["digest"]
            elif message["event"] == "sample":
                if part.server:
                    after = self._clerk.ask({"do": "cpu"}, self._plan.patience)
                    message["server_cpu_ns"] = max(0, after["cpu_ns"] - before["cpu_ns"] - after["cost"])
                samples.append(message)
            elif message["event"] == "ready":
                if part.server:
                    before = self._clerk.ask({"do": "cpu"}, self._plan.patience)
                child.tell({"go": True})
            message = child.hear(self._plan.patience)
        if (written := message["written"]) is not None:
            seen = self._clerk.ask({"do": "inspect", "collection": scratch}, self._plan.patience)
            if seen["count"] != written:
                cell.failures.append(
                    f"round {number + 1}: wrote {written}, the collection holds {seen['count']}"
                )
                return
            digests.setdefault(f"{part.id} written", {})[contender.id] = seen["digest"]
        digests.setdefault(part.id, {})[contender.id] = digest
        cell.rounds.append(
            {
                "round": number,
                "position": position,
                "load": load,
                "sentinel_ns": sentinel_ns,
                "digest": digest,
                "samples": samples,
            }
        )

    def _compare(self, experiment: Experiment, part: Part, number: int, found: dict[str, str]) -> None:
        """Fail every contender whose digest differs from that of the reference, or of most."""
        for name in disagreeing(found):
            cell = self.record.cells[experiment.id, part.id, name]
            cell.failures.append(f"round {number + 1}: another answer than the others, digest {found[name]}")

    def _cell(self, experiment: Experiment, part: Part, contender: Contender) -> Cell:
        key = (experiment.id, part.id, contender.id)
        if key not in self.record.cells:
            self.record.cells[key] = Cell(experiment.id, experiment.version, part, contender.id)
        return self.record.cells[key]


def sentinel() -> int:
    """Return the ns a fixed piece of Python takes just now: slower than at its best means somebody else runs."""
    start = time.perf_counter_ns()
    total = 0
    while total < SENTINEL_STEPS:
        total += 1
    return time.perf_counter_ns() - start


def disagreeing(found: dict[str, str]) -> list[str]:
    """Return whose digest is not the reference's, or not the majority's when no reference took part."""
    if len(set(found.values())) < 2:
        return []
    values = list(found.values())
    named = next((found[name] for name in REFERENCES if name in found), None)
    right = named if named is not None else max(values, key=values.count)
    return [name for name, digest in found.items() if digest != right]
