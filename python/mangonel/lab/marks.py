"""The goals of this driver (`marks.toml`), each computed from cells of one run. For the project's own use.

A mark compares two cells of the same run, paired by round; it is reached if the median is within the limit. If the
interval crosses the limit, the output says so, since another run may fall on the other side.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mangonel.lab.experiments._parts import TABLES
from mangonel.lab.record import Key
from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

MET, WITHIN, MISSED, NOT_PLAYED = "met", "met within the interval", "missed", "not played"
TO_MS = 1000.0


@dataclass(frozen=True)
class Mark:
    """One goal: a limit for one cell, or for the ratio of two cells.

    Of the cells in `best`, the best ratio counts for this driver; of those in `fastest`, the smallest counts for the
    peers. A `total` adds all samples, so that one bad exit among many does not vanish in a median. `surely` requires
    that the whole interval is within the limit.
    """

    experiment: str
    text: str
    of: tuple[Key, ...]
    sign: str
    limit: float
    figure: str = "wall"
    unit: str = "x"
    best: tuple[Key, ...] = ()
    fastest: tuple[Key, ...] = ()
    total: bool = False
    surely: bool = False

    @property
    def cells(self) -> dict[Key, None]:
        return dict.fromkeys((*self.of, *self.best, *self.fastest))

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.sign == "≥" else value <= self.limit


@dataclass(frozen=True)
class Verdict:
    """The result of a mark in a run: its state, and the reason if it was not played."""

    mark: Mark
    state: str
    reached: Estimate | None = None
    reason: str = ""

    @property
    def met(self) -> bool:
        return self.state in (MET, WITHIN)

    @property
    def asked(self) -> str:
        return f"{self.mark.sign} {self.mark.limit:g} {self.mark.unit}".strip()

    @property
    def words(self) -> str:
        """Return the figure with its interval, or why there is none."""
        if self.reached is None:
            return self.reason
        return f"{self.reached.words()} {self.mark.unit}".strip()


def _read() -> tuple[Mark, ...]:
    def cells(experiment: str, names: list[str]) -> tuple[Key, ...]:
        return tuple((experiment, *name.split(" ")) for name in names)  # type: ignore[misc]  # part and contender

    def mark(experiment: str, row: dict[str, Any]) -> Mark:
        sign = "≥" if "at_least" in row else "≤"
        limit = float(row.pop("at_least" if sign == "≥" else "at_most"))
        of, best, fastest = (cells(experiment, row.pop(name, [])) for name in ("of", "best", "fastest"))
        return Mark(experiment, row.pop("text"), of, sign, limit, best=best, fastest=fastest, **row)

    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(
        mark(name, each) for name, rows in content.items() for row in rows for each in _per_part(name, row)
    )


def _per_part(experiment: str, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the row, or one for each part of the experiment if its text contains `{part}`."""
    if "{part}" not in row["text"]:
        yield row
        return
    for part, *_ in TABLES[experiment]["parts"]:
        yield {
            **row,
            "text": row["text"].format(part=part),
            "of": [cell.format(part=part) for cell in row["of"]],
        }


MARKS = _read()


def verdicts(results: Results) -> list[Verdict]:
    played = set(results.content["plan"]["experiments"])
    return [_judge(mark, results) for mark in MARKS if mark.experiment in played]


def counts(judged: list[Verdict]) -> str:
    """Return how many marks are in each state; those not played do not count and come last."""
    found, order = Counter(each.state for each in judged), (MET, WITHIN, MISSED, NOT_PLAYED)
    return ", ".join(f"{found[state]} {state}" for state in order if found[state]) or "none"


def _judge(mark: Mark, results: Results) -> Verdict:
    reached = _reached(mark, results)
    if reached is None:
        without = next((cell for cell in mark.cells if not _has_figure(results, cell)), mark.of[0])
        who, why = results.absence(without)
        return Verdict(mark, NOT_PLAYED, reason=f"{who}: {why}"[:140] if who else why[:140])
    ends = [mark.holds(end) for end in (reached.low, reached.high)]
    met = all(ends) if mark.surely else mark.holds(reached.value)
    return Verdict(mark, (MET if all(ends) else WITHIN) if met else MISSED, reached)


def _has_figure(results: Results, cell: Key) -> bool:
    row = results.rows.get(cell)
    return row is not None and not row.failures


def _reached(mark: Mark, results: Results) -> Estimate | None:
    if len(mark.of) > 1:
        choose = min if mark.fastest else max
        pairs = [
            results.ratio(above, below, mark.figure)
            for above in mark.fastest or mark.of[:1]
            for below in mark.best or mark.of[1:]
        ]
        return choose((pair for pair in pairs if pair is not None), key=lambda each: each.value, default=None)
    if not _has_figure(results, mark.of[0]):
        return None
    row = results.rows[mark.of[0]]
    if mark.total:
        samples = list(row.per_round(mark.figure).values())
        count = sum(map(sum, samples))
        return Estimate(count, count, count) if samples else None
    found = row.estimate(mark.figure)
    if found is None or mark.unit != "ms":
        return found
    return Estimate(found.value / TO_MS, found.low / TO_MS, found.high / TO_MS)
