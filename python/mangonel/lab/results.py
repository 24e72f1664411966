"""The result file: JSON, schema 1, every sample of every round. Tables are made from it and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mangonel.lab import statistics
from mangonel.lab.conductor import Record
from mangonel.lab.statistics import Estimate, Rounds

SCHEMA = 1
Key: TypeAlias = tuple[str, str, str]  # experiment, part, contender


def to_file(record: Record, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """Return the run as what the file holds."""
    plan = record.plan
    return {
        "schema": SCHEMA,
        "fingerprint": {**fingerprint, "server": record.server, "versions": record.versions},
        "plan": {
            "experiments": list(plan.experiments),
            "contenders": list(plan.contenders),
            "quick": plan.size.quick,
            "parameters": plan.size.parameters,
            "rounds": plan.rounds,
            "budget_s": plan.budget,
            "seed": plan.seed,
            "order": record.order,
        },
        "cells": [
            {
                "experiment": cell.experiment,
                "version": cell.version,
                "part": cell.part.id,
                "title": cell.part.title,
                "unit": cell.part.unit,
                "operations": cell.part.operations,
                "bytes_each": cell.part.bytes_each,
                "write_concern": cell.part.write_concern,
                "judge": cell.part.judge,
                "contender": cell.contender,
                "rounds": cell.rounds,
                "failures": cell.failures,
            }
            for cell in record.cells.values()
        ],
        "missing": record.missing,
        "exits": record.exits,
    }


def load(path: Path) -> dict[str, Any]:
    """Return a result file.

    Raises:
        ValueError: it is not a result file, or one of another schema.
    """
    content = json.loads(path.read_text())
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ValueError(f"expected a result file of schema {SCHEMA} in {path}")
    return content


@dataclass
class Row:
    """What the rounds of one cell say. Times are in µs per operation, memory in bytes."""

    key: Key
    title: str
    unit: str
    write_concern: str
    judge: str
    failures: list[str]
    rounds: list[dict[str, Any]]
    bytes_each: int = 0
    figures: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def per_round(self, figure: str) -> dict[int, list[float]]:
        """Return the samples of one figure by round: wall, client, server, rss, or an extra by its name."""
        if figure not in self.figures:
            self.figures[figure] = {
                entry["round"]: values
                for entry in self.rounds
                if (values := [v for s in entry["samples"] if (v := _figure(s, figure)) is not None])
            }
        return self.figures[figure]

    def estimate(self, figure: str) -> Estimate | None:
        """Return a figure's median with its interval, or None where it was not measured or has failed."""
        rounds: Rounds = list(self.per_round(figure).values())
        return statistics.estimate(rounds) if rounds and not self.failures else None


class Results:
    """A result file, read for tables and marks."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.rows: dict[Key, Row] = {}
        for cell in content["cells"]:
            key = (cell["experiment"], cell["part"], cell["contender"])
            self.rows[key] = Row(
                key,
                cell["title"],
                cell["unit"],
                cell["write_concern"],
                cell["judge"],
                cell["failures"],
                cell["rounds"],
                cell.get("bytes_each", 0),
            )

    def parts(self) -> Iterator[tuple[str, str, list[Row]]]:
        """Yield experiment, part and rows in the order they were played."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for (experiment, part, _), row in self.rows.items():
            groups.setdefault((experiment, part), []).append(row)
        names = self.content["plan"]["experiments"]
        for (experiment, part), rows in sorted(groups.items(), key=lambda item: names.index(item[0][0])):
            yield experiment, part, rows

    def ratio(self, above: Key, below: Key, figure: str = "wall") -> Estimate | None:
        """Return how many times the first cell's figure is the second's, or None if either has none."""
        one, other = self.rows.get(above), self.rows.get(below)
        if one is None or other is None or one.failures or other.failures:
            return None
        numerator, denominator = one.per_round(figure), other.per_round(figure)
        if not numerator.keys() & denominator.keys():
            return None
        return statistics.ratio(numerator, denominator)


def _figure(sample: dict[str, Any], figure: str) -> float | None:
    operations = sample["ops"]
    if figure == "wall":
        return float(sample["wall_ns"] / operations / 1000)
    if figure == "client":
        return float(sample["cpu_ns"] / operations / 1000)
    if figure == "server":
        return float(sample["server_cpu_ns"] / operations / 1000) if "server_cpu_ns" in sample else None
    if figure == "rss":
        return float(sample["peak_rss"])
    found = sample["extras"].get(figure)
    return None if found is None else float(found)
