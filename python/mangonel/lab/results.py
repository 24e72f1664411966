"""Reads result files; tables, reports and comparisons are made from these alone.

The file is JSON lines; `record` makes one dict of them, and this module makes the rows of tables.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangonel.lab import registry, statistics
from mangonel.lab.noise import replaced
from mangonel.lab.record import SCHEMA, Key, Line, assemble
from mangonel.lab.statistics import Estimate, Rounds

FEW_PAIRS = 4  # with fewer null controls than this in an experiment, those of the whole run are used


def load(path: Path) -> dict[str, Any]:
    """Return the contents of a result file, compressed or not, without a truncated last line; ValueError for others."""
    lines: list[Line] = []
    data = path.read_bytes()
    texts = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
    for number, text in enumerate(texts):
        try:
            line = json.loads(text)
        except ValueError:
            if number and number == len(texts) - 1:
                break
            raise ValueError(f"expected JSON in line {number + 1} of {path}, got {text[:80]!r}") from None
        if not lines and (not isinstance(line, dict) or line.get("schema") != SCHEMA):
            raise ValueError(f"expected a result file of schema {SCHEMA} in {path}")
        lines.append(line)
    if not lines:
        raise ValueError(f"expected a result file of schema {SCHEMA} in {path}, got an empty file")
    return assemble(lines)


def form(plan: dict[str, Any]) -> str:
    """Return the form of a run: "brief", "short" or "full"."""
    return str(plan.get("form") or ("short" if plan["quick"] else "full"))


@dataclass
class Row:
    """The rounds of one cell. Times are in µs per operation, memory in bytes."""

    key: Key
    name: str
    title: str
    unit: str
    write_concern: str
    judge: str
    failures: list[str]
    rounds: list[dict[str, Any]]  # the rounds that count; `content` has the others too
    bytes_each: int = 0
    floor: bool = False
    version: int = 1
    references: Sequence[str] = ()
    equipment: str = ""  # the cores of the measuring equipment, "" if it was not pinned
    # How long the contender's client took to close; no other figure includes it.
    closed_ns: list[int] = field(default_factory=list)
    figures: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    estimates: dict[str, Estimate | None] = field(default_factory=dict)

    def per_round(self, figure: str) -> dict[int, list[float]]:
        """Return the samples of one figure by round: wall, client, server, rss, or the name of an extra."""
        if figure not in self.figures:
            self.figures[figure] = {
                entry["round"]: values
                for entry in self.rounds
                if (values := [v for s in entry["samples"] if (v := _figure(s, figure)) is not None])
            }
        return self.figures[figure]

    def estimate(self, figure: str) -> Estimate | None:
        """Return a figure's median with its interval, or None if it was not measured or failed."""
        if figure not in self.estimates:
            rounds: Rounds = list(self.per_round(figure).values())
            self.estimates[figure] = statistics.estimate(rounds) if rounds and not self.failures else None
        return self.estimates[figure]


class Results:
    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._ratios: dict[tuple[Key, Key, str], Estimate | None] = {}
        self._apart: dict[tuple[str, str], list[float]] = {}
        self.rows: dict[Key, Row] = {}
        order = content["plan"].get("order", [])
        marked = [(name, number) for name, number in content.get("marked", [])]
        self.left_out = replaced(order, marked)
        for cell in content["cells"]:
            key = (cell["experiment"], cell["part"], cell["contender"])
            told = {name: value for name, value in cell.items() if name in Row.__dataclass_fields__}
            told["name"] = cell.get("contender_title") or registry.title(key[2])
            told["rounds"] = [e for e in cell["rounds"] if (key[0], e["round"]) not in self.left_out]
            # Older files do not mark contenders that are only a lower bound.
            told.setdefault("floor", key[2].startswith(("raw-", "bare")))
            self.rows[key] = Row(key=key, **told)

    def parts(self) -> Iterator[tuple[str, str, list[Row]]]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for (experiment, part, _), row in self.rows.items():
            groups.setdefault((experiment, part), []).append(row)
        names = self.content["plan"]["experiments"]
        for (experiment, part), rows in sorted(groups.items(), key=lambda item: names.index(item[0][0])):
            yield experiment, part, rows

    def reference(self, rows: list[Row]) -> Row | None:
        """Return the row that a table's other rows are compared with."""
        named = {row.key[2]: row for row in rows if not row.failures and row.rounds}
        wanted = rows[0].references or registry.REFERENCES
        return next((named[name] for name in wanted if name in named), None)

    def null(self, rows: list[Row], name: str = "") -> Estimate | None:
        """Return a contender's ratio to its null control, by default the reference's: the noise floor."""
        reference = self.reference(rows)
        wanted = name or (reference.key[2] if reference else "")
        twice = [row for row in rows if row.key[2].endswith(registry.AGAIN)]
        twice.sort(key=lambda row: row.key[2] != wanted + registry.AGAIN)
        for row in twice:
            original = (*row.key[:2], row.key[2].removesuffix(registry.AGAIN))
            if self._is_planted(original[2]) or (name and original[2] != name):
                continue
            if (found := self.ratio(original, row.key, row.judge)) is not None:
                return found
        return None

    def _is_planted(self, contender: str) -> bool:
        """Return whether a contender was slowed down on purpose; its twin, which was not, is then no null control."""
        return contender in self.content["plan"].get("plants", ())

    def ratio(self, above: Key, below: Key, figure: str = "wall") -> Estimate | None:
        """Return the ratio of the first cell's figure to the second's, or None if either is missing."""
        if (above, below, figure) not in self._ratios:
            self._ratios[above, below, figure] = self._ratio(above, below, figure)
        return self._ratios[above, below, figure]

    def _ratio(self, above: Key, below: Key, figure: str) -> Estimate | None:
        one, other = self.rows.get(above), self.rows.get(below)
        if one is None or other is None or one.failures or other.failures:
            return None
        numerator, denominator = one.per_round(figure), other.per_round(figure)
        if not numerator.keys() & denominator.keys():
            return None
        found = statistics.ratio(numerator, denominator)
        return found.wider(self.between_processes(above[0], one.judge))

    def absence(self, key: Key) -> tuple[str, str]:
        """Return why a cell has no figure, preceded by the contender if the reason concerns it."""
        experiment, part, contender = key
        plan, row = self.content["plan"], self.rows.get(key)
        if row is not None:
            return contender, f"failed: {row.failures[0]}" if row.failures else "no round in common"
        for entry in self.content["missing"]:
            if entry["experiment"] == experiment and entry["contender"] in (contender, ""):
                return entry["contender"], entry["reason"]
        for text in self.content.get("notes", ()):
            if text.startswith(f"{experiment} was not played"):
                return "", text
        if part not in plan.get("only", {}).get(experiment, [part]):
            return "", f"{part} was not chosen"
        if contender not in plan.get("contenders", [contender]):
            return contender, "was not chosen"
        zeros = [f"{name}=0" for name, value in plan.get("parameters", {}).items() if not value]
        return "", ", ".join((f"{part} is no part of this form", *zeros))

    def between_processes(self, experiment: str, judge: str) -> float:
        """Return how far apart two processes of one contender may lie, as a logarithm that 95 of 100 do not exceed.

        In the brief form each contender has one process, so its own samples cannot show this. The null controls can:
        those of the experiment if it has enough, otherwise those of the run. Rounds in new processes include this
        variance already, so the result is 0.
        """
        if form(self.content["plan"]) != "brief":
            return 0.0
        if not self._apart:
            for key, row in self.rows.items():
                twin = self.rows.get((*key[:2], key[2] + registry.AGAIN))
                if twin is None or row.failures or twin.failures or self._is_planted(key[2]):
                    continue
                mine, other = row.per_round(row.judge), twin.per_round(row.judge)
                if mine.keys() & other.keys():
                    found = abs(math.log(statistics.middle_ratio(mine, other)))
                    for name in ((key[0], row.judge), ("", row.judge)):
                        self._apart.setdefault(name, []).append(found)
        group = self._apart.get((experiment, judge), [])
        if len(group) < FEW_PAIRS:
            group = self._apart.get(("", judge), group)
        # 1.4826 median distances are a standard deviation if the values are normally distributed.
        return statistics.NORMAL * 1.4826 * statistics.median(group) if group else 0.0


def _figure(sample: dict[str, Any], figure: str) -> float | None:
    operations = sample["ops"]
    if figure == "wall":
        return float(sample["wall_ns"] / operations / 1000)
    if figure == "client":
        return float(sample["cpu_ns"] / operations / 1000)
    if figure == "user":
        return float(sample["user_ns"] / operations / 1000) if "user_ns" in sample else None
    if figure == "server":
        return float(sample["server_cpu_ns"] / operations / 1000) if "server_cpu_ns" in sample else None
    if figure == "rss":
        return float(sample["peak_rss"])
    if figure.startswith("counter "):
        counted = sample.get("counters", {})
        return float(counted.get(figure.partition(" ")[2], 0) / operations) if counted else None
    found = sample["extras"].get(figure)
    return None if found is None else float(found)
