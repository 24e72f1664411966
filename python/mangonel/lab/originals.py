"""The five published comparisons (`originals.toml`), with today's results of repeating them.

Figures of different years and machines are not comparable; only their ratios within a column are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

# µs of one operation of a number of bytes, in the units of the articles.
UNITS: dict[str, Callable[[float, int], float]] = {
    "s": lambda us, size: us / 1e6,
    "req/s": lambda us, size: 1e6 / us,
    "µs/doc": lambda us, size: us,
    "MB/s": lambda us, size: size / us,
}
# Further columns of the articles -> their names in results, and the size of the printed unit.
COLUMNS = {
    "user s": ("user_s", 1.0),
    "sys s": ("sys_s", 1.0),
    "inside s": ("inside_s", 1.0),
    "p50 ms": ("p50", 0.001),
    "p90 ms": ("p90", 0.001),
    "p95 ms": ("p95", 0.001),
    "p99 ms": ("p99", 0.001),
    "max ms": ("p100", 0.001),
}


@dataclass(frozen=True)
class Figure:
    """One printed figure."""

    stack: str  # as the article called it
    what: str  # the column or program
    value: float  # as printed, in `unit`
    unit: str
    part: str = ""  # cell that repeats it in its original form, "" if none can
    contender: str = ""  # contender that represents the stack today, "" if none does
    more: dict[str, float] = field(default_factory=dict)  # further printed columns by name


@dataclass(frozen=True)
class Original:
    """One published comparison: source, method, the readers' conclusion, and each flaw."""

    experiment: str
    title: str
    setting: str
    tool: str
    claim: str
    figures: tuple[Figure, ...]
    flaws: tuple[str, ...]
    corrected: str


@dataclass(frozen=True)
class Line:
    """A printed figure and its current counterpart in the same unit; None if that was not measured."""

    figure: Figure
    today: Estimate | None
    # Today's figures by the names of the printed columns, and `inside s`: the time without the exit's waiting.
    more: dict[str, float] = field(default_factory=dict)


def _original(experiment: str, row: dict[str, Any]) -> Original:
    figures = tuple(Figure(*each) for each in row.pop("figures"))
    return Original(experiment, figures=figures, flaws=tuple(row.pop("flaws")), **row)


ORIGINALS = tuple(
    _original(name, row)
    for name, row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
)


def of_experiment(name: str) -> Original | None:
    return next((original for original in ORIGINALS if original.experiment == name), None)


def beside(results: Results, experiment: str, size: int = 50 * 1024 * 1024) -> list[Line]:
    """Return a comparison's printed figures with today's; `size`: bytes of one operation, for MB/s."""
    original = of_experiment(experiment)
    lines = []
    for figure in original.figures if original else ():
        row = results.rows.get((experiment, figure.part, figure.contender)) if figure.part else None
        found = row.estimate("wall") if row else None
        if row is None or found is None:
            lines.append(Line(figure, None))
            continue
        value, *ends = (UNITS[figure.unit](each, size) for each in (found.value, found.low, found.high))
        told = {name: row.estimate(column) for name, (column, _) in COLUMNS.items() if figure.more}
        more = {name: each.value * COLUMNS[name][1] for name, each in told.items() if each is not None}
        lines.append(Line(figure, Estimate(value, min(ends), max(ends)), more))
    return lines
