"""What a run leaves behind, written down as it happens: JSON lines, schema 2, every sample of every round.

One line is one thing that happened, so a run that is cut off keeps all that went before. `results.assemble` reads it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from mangonel.lab.contender import Contender
from mangonel.lab.cores import Equipment
from mangonel.lab.experiment import Experiment, Part, Size

SCHEMA = 2
TIMEOUT = 120.0
Line: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is to be played, where, how often and within which time.

    Attributes:
        budget: seconds after which no further round begins; 0: none.
        again: how many disturbed rounds of each experiment are played again.
        delays_ms: round trips to the server that are put in the way, 0 being none.
        twice: everybody plays under two names, not only the references.
        plants: slowdowns planted into contenders to test the lab, 0.15 being 15 %.
        equipment: the servers of its own, and where they are kept while a site is loaded; None: nowhere.
        only: parts by experiment, where not all are played.
        cast: contenders by experiment, where not all of them play.
        all_of_them: no experiment is left out, however late it is: each has as little as it can do with.
        timeout: seconds that a worker may be silent.
    """

    uri: str
    experiments: tuple[str, ...]
    contenders: tuple[str, ...]
    size: Size
    rounds: int
    seed: int
    budget: float = 0.0
    database: str = "mangonel_lab"
    timeout: float = TIMEOUT
    again: int = 0
    delays_ms: tuple[float, ...] = (0.0,)
    twice: bool = False
    plants: dict[str, float] = field(default_factory=dict)
    equipment: Equipment | None = None
    only: Mapping[str, Collection[str]] = field(default_factory=dict)
    cast: Mapping[str, Collection[str]] = field(default_factory=dict)
    all_of_them: bool = False

    def parts(self, experiment: Experiment) -> list[Part]:
        """Return the parts of an experiment that are played."""
        parts = experiment.parts(self.size)
        wanted = self.only.get(experiment.id)
        return parts if wanted is None else [part for part in parts if part.id in wanted]


@dataclass
class Cell:
    """One contender in one part of one experiment, with all its rounds."""

    experiment: str
    version: int
    part: Part
    contender: str
    rounds: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Record:
    """Everything a run leaves behind. With a path each line is in the file as soon as it is told."""

    def __init__(
        self, plan: Plan, path: Path | None = None, fingerprint: dict[str, Any] | None = None
    ) -> None:
        self.plan = plan
        self.lines: list[Line] = []
        self.cells: dict[tuple[str, str, str], Cell] = {}
        self.missing: list[dict[str, str]] = []
        self.exits: list[dict[str, Any]] = []
        self.order: list[dict[str, Any]] = []
        self.versions: dict[str, str] = {}
        self._builds: dict[str, str] = {}
        self._path = path
        self._file: IO[str] | None = None
        self._begin(fingerprint or {})

    def describe(self, server: dict[str, Any]) -> None:
        """Note what the deployment is. From here on there is a file."""
        self._tell("server", **server)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w")
            for line in self.lines:
                self._write(line)

    def cell(self, experiment: Experiment, part: Part, contender: Contender) -> Cell:
        """Return the cell of a contender in a part, made when it is new."""
        key = (experiment.id, part.id, contender.id)
        if key not in self.cells:
            self.cells[key] = Cell(experiment.id, experiment.version, part, contender.id)
            self._tell(
                "cell",
                experiment=experiment.id,
                version=experiment.version,
                part=part.id,
                title=part.title,
                unit=part.unit,
                operations=part.operations,
                bytes_each=part.bytes_each,
                write_concern=part.write_concern,
                judge=part.judge,
                contender=contender.id,
                contender_title=contender.title,
                floor=contender.is_floor,
                references=list(experiment.references),
                equipment=self._placed(experiment),
            )
        return self.cells[key]

    def add(self, cell: Cell, entry: dict[str, Any]) -> None:
        """Keep a round of a cell."""
        cell.rounds.append(entry)
        self._tell("round", cell=[cell.experiment, cell.part.id, cell.contender], **entry)

    def close_time(self, cell: Cell, ns: int | None) -> None:
        """Note how long a client took to close: part of no operation, so it is told apart. None: there was none."""
        if ns is not None:
            self._tell("closed", cell=[cell.experiment, cell.part.id, cell.contender], ns=ns)

    def fail(self, cell: Cell, reason: str) -> None:
        """Void a cell: it has no figure, and the reason is shown instead."""
        cell.failures.append(reason)
        self._tell("failure", cell=[cell.experiment, cell.part.id, cell.contender], reason=reason)

    def miss(self, experiment: str, contender: str, reason: str) -> None:
        """Note who does not take part and why; without a contender, that a whole round of an experiment failed."""
        entry = {"experiment": experiment, "contender": contender, "reason": reason}
        if entry not in self.missing:
            self.missing.append(entry)
            self._tell("missing", **entry)

    def meet(self, versions: dict[str, str], builds: dict[str, str]) -> None:
        """Note the versions and the builds of a contender's packages."""
        if not (versions.items() <= self.versions.items() and builds.items() <= self._builds.items()):
            self.versions.update(versions)
            self._builds.update(builds)
            self._tell("versions", versions=versions, builds=builds)

    def leave(self, end: dict[str, Any]) -> None:
        """Note how a worker ended."""
        if not end["clean"]:
            self.exits.append(end)
        self._tell("exit", **end)

    def play(self, entry: dict[str, Any]) -> None:
        """Note that a round was played, in which order and on how quiet a machine."""
        self.order.append(entry)
        self._tell("played", **entry)

    def note(self, text: str) -> None:
        """Note what the reader of the tables must know."""
        self._tell("note", text=text)

    def end(self, how: str) -> None:
        """Note that the run is over and how: "complete" or "interrupted"."""
        self._tell("end", how=how, date=_now(), load=[round(figure, 2) for figure in os.getloadavg()])

    def close(self) -> None:
        """Close the file; a record without an end line was cut off."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def rounds(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every round that was kept, with its experiment."""
        for cell in self.cells.values():
            for entry in cell.rounds:
                yield cell.experiment, entry

    def _placed(self, experiment: Experiment) -> str:
        where = self.plan.equipment
        return where.places.words if where is not None and experiment.loads_site else ""

    def _begin(self, fingerprint: dict[str, Any]) -> None:
        plan = self.plan
        self._tell(
            "run",
            schema=SCHEMA,
            fingerprint=fingerprint,
            plan={
                "experiments": list(plan.experiments),
                "contenders": list(plan.contenders),
                "quick": plan.size.quick,
                "form": plan.size.form,
                "parameters": plan.size.parameters,
                "rounds": plan.rounds,
                "budget_s": plan.budget,
                "seed": plan.seed,
                "delays_ms": list(plan.delays_ms),
                "twice": plan.twice,
                "plants": plan.plants,
                "only": {name: sorted(parts) for name, parts in plan.only.items()},
            },
        )

    def _tell(self, kind: str, **entry: Any) -> None:
        line = {"kind": kind, **entry}
        if kind in ("failure", "missing", "exit"):
            line = {name: _impersonal(value) for name, value in line.items()}
        self.lines.append(line)
        if self._file is not None:
            self._write(line)

    def _write(self, line: Line) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _impersonal(value: Any) -> Any:
    """Return a text without the places where this package and this interpreter are installed."""
    if not isinstance(value, str):
        return value
    package = str(Path(__file__).parents[3])
    return value.replace(package + os.sep, "").replace(sys.prefix + os.sep, "")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
