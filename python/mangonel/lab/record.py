"""The record of a run, written while it runs: JSON lines, schema 2, every sample of every round.

One line is one event, so an interrupted run keeps all earlier events. `assemble` combines the lines into one dict,
during a run or from a file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from mangonel.lab.contender import Contender
from mangonel.lab.cores import Equipment
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.noise import marked_rounds

SCHEMA = 2
TIMEOUT = 120.0
# Attributes of a part that its cells record.
TOLD = ("title", "unit", "operations", "bytes_each", "write_concern", "judge")
Line: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, str]  # experiment, part, contender


@dataclass(frozen=True)
class Plan:
    """The plan of a run: what to play, where, how often and in which time."""

    uri: str
    experiments: tuple[str, ...]
    contenders: tuple[str, ...]
    size: Size
    rounds: int
    seed: int
    budget: float = 0.0  # seconds after which no further round begins; 0: none
    database: str = "mangonel_lab"
    timeout: float = TIMEOUT  # seconds that a worker may be silent
    again: int = 0  # how many disturbed rounds of each experiment are played again
    delays_ms: tuple[float, ...] = (0.0,)  # added round trip times to the server; 0: none
    twice: bool = False  # all contenders play under two names, not only the references
    # Artificial slowdowns of contenders, to test the lab; 0.15 means 15 %.
    plants: dict[str, float] = field(default_factory=dict)
    # The lab's own servers, and their cores while a site is loaded; None: no pinning.
    equipment: Equipment | None = None
    # Parts by experiment, if not all are played.
    only: Mapping[str, Collection[str]] = field(default_factory=dict)
    # Contenders by experiment, if not all of them play.
    cast: Mapping[str, Collection[str]] = field(default_factory=dict)
    # No experiment is left out, however late it is: each runs with its minimum.
    all_of_them: bool = False

    def parts(self, experiment: Experiment) -> list[Part]:
        parts = experiment.parts(self.size)
        wanted = self.only.get(experiment.id)
        return parts if wanted is None else [part for part in parts if part.id in wanted]


class Record:
    """The record of a run. With a path, each line is written to the file at once."""

    def __init__(
        self, plan: Plan, path: Path | None = None, fingerprint: dict[str, Any] | None = None
    ) -> None:
        self.plan = plan
        self.lines: list[Line] = []
        self._told: set[str] = set()
        self._path = path
        self._file: IO[str] | None = None
        told = {
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
        }
        self.tell("run", schema=SCHEMA, fingerprint=fingerprint or {}, plan=told)

    def describe(self, server: dict[str, Any]) -> None:
        """Record the deployment. From here on there is a file."""
        self.tell("server", **server)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w")
            for line in self.lines:
                self._write(line)

    def cell(self, experiment: Experiment, part: Part, contender: Contender) -> Key:
        """Return the key of a contender's cell in a part; a new cell is recorded first."""
        where = self.plan.equipment if experiment.loads_site else None
        self.tell_once(
            "cell",
            experiment=experiment.id,
            version=experiment.version,
            part=part.id,
            **{name: getattr(part, name) for name in TOLD},
            contender=contender.id,
            contender_title=contender.title,
            floor=contender.is_floor,
            references=list(experiment.references),
            equipment=where.places.words if where is not None else "",
        )
        return experiment.id, part.id, contender.id

    def tell(self, kind: str, **entry: Any) -> None:
        """Record one event; `assemble` lists the kinds."""
        line = {"kind": kind, **entry}
        if kind in ("failure", "missing", "exit"):
            line = {name: _impersonal(value) for name, value in line.items()}
        self.lines.append(line)
        if self._file is not None:
            self._write(line)

    def tell_once(self, kind: str, **entry: Any) -> None:
        """Record an event only once, although it recurs in every round, such as an absence with its reason."""
        text = json.dumps([kind, entry])
        if text not in self._told:
            self._told.add(text)
            self.tell(kind, **entry)

    def end(self, how: str) -> None:
        """Record the end of the run, "complete" or "interrupted"; without it the run was cut off."""
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.tell("end", how=how, date=date, load=[round(figure, 2) for figure in os.getloadavg()])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def content(self) -> dict[str, Any]:
        return assemble(self.lines)

    def _write(self, line: Line) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def assemble(lines: Iterable[Line]) -> dict[str, Any]:
    """Return the lines of a run as one dict: contenders, each cell with its rounds, absences with reasons."""
    cells: dict[Key, dict[str, Any]] = {}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("missing", "exit", "played", "note")}
    content: dict[str, Any] = {"end": {"how": "cut off"}}
    met: dict[str, dict[str, Any]] = {"server": {}, "versions": {}, "builds": {}}
    for line in lines:
        kind = line["kind"]
        cell = cells[tuple(line["cell"])] if "cell" in line else {}
        entry = {name: value for name, value in line.items() if name not in ("kind", "cell")}
        if kind == "run":
            content.update(entry)
        elif kind == "server":
            met["server"] = entry
        elif kind == "versions":
            met["versions"].update(entry["versions"])
            met["builds"].update(entry["builds"])
        elif kind == "cell":
            key = (entry["experiment"], entry["part"], entry["contender"])
            cells.setdefault(key, {**entry, "rounds": [], "failures": [], "closed_ns": []})
        elif kind == "round":
            cell["rounds"].append(entry)
        elif kind == "closed":  # the time for closing a client, which belongs to no operation
            cell["closed_ns"].append(entry["ns"])
        elif kind == "failure":  # voids a cell
            cell["failures"].append(entry["reason"])
        elif kind == "end":
            content["end"] = entry
        elif kind in found:
            found[kind].append(entry)
    content["fingerprint"] = {**content["fingerprint"], **met}
    content["plan"] = {**content["plan"], "order": found["played"]}
    content["cells"] = list(cells.values())
    content["missing"] = found["missing"]
    content["exits"] = [entry for entry in found["exit"] if not entry["clean"]]
    content["workers"] = len(found["exit"])
    content["notes"] = [entry["text"] for entry in found["note"]]
    rounds = ((cell["experiment"], entry) for cell in content["cells"] for entry in cell["rounds"])
    content["marked"] = marked_rounds(found["played"], rounds)
    return content


def _impersonal(value: Any) -> Any:
    """Return a text without the installation paths of this package and this interpreter."""
    if not isinstance(value, str):
        return value
    package = str(Path(__file__).parents[3])
    return value.replace(package + os.sep, "").replace(sys.prefix + os.sep, "")
