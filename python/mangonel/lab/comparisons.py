"""The five published comparisons and find_one (`comparisons.toml`): contenders, old results, new results.

Reads only a result file, for the terminal, the report's first screen and the README's chart.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangonel.lab import registry
from mangonel.lab.record import Key
from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

# Contenders of this project; they are not peers.
OURS = ("mangonel", "odm", "objects-dicts", "web-mongodb", "web-memory", "page-mangonel")


def is_ours(contender: str) -> bool:
    """Return whether a contender belongs to this project."""
    return contender.startswith(OURS) or contender.endswith("-mangonel")


@dataclass(frozen=True)
class Comparison:
    """One comparison. `ratios` are pairs of cells, optionally with a figure and "%", for the placeholders in `now`."""

    experiment: str
    title: str
    bars: tuple[Key, ...]
    now: str
    ratios: tuple[tuple[str, ...], ...]
    then: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for _, part, _ in self.bars))

    @property
    def contenders(self) -> tuple[str, ...]:
        """Return the contenders, this project's first."""
        return tuple(dict.fromkeys(contender for _, _, contender in self.bars))


@dataclass(frozen=True)
class Bar:
    """A contender's figure in µs, and its multiple of ours; without a figure, the reason."""

    key: Key
    name: str
    kind: str  # "ours", "peer" or "floor"
    figure: Estimate | None = None
    times: Estimate | None = None
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """A comparison that was played."""

    comparison: Comparison
    bars: list[Bar] = field(default_factory=list)
    best: Bar | None = None  # the fastest peer, whose `times` is this project's lead
    now: str = ""  # the present state in words


def _key(experiment: str, cell: str) -> Key:
    part, _, contender = cell.partition(" ")
    return experiment, part, contender


def _read() -> tuple[Comparison, ...]:
    def make(name: str, row: dict[str, Any]) -> Comparison:
        bars = tuple(_key(name, bar) for bar in row.pop("bars"))
        ratios = tuple(tuple(ratio) for ratio in row.pop("ratios"))
        return Comparison(name, bars=bars, ratios=ratios, **row)

    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(make(name, row) for name, row in content.items())


COMPARISONS = _read()


def findings(results: Results) -> Iterator[Finding]:
    """Yield the findings of a run, for every comparison with a result for Mangonel."""
    for comparison in COMPARISONS:
        bars = [_bar(results, comparison, key) for key in comparison.bars]
        if bars[0].figure is None:
            continue
        peers = [bar for bar in bars if bar.kind == "peer" and bar.times]
        best = min(peers, key=lambda bar: bar.times.value if bar.times else 0.0, default=None)
        yield Finding(comparison, bars, best, _now(results, comparison))


def interval(times: Estimate) -> str:
    digits = 1 if times.value >= 10 else 2
    return times.words(f"{{:.{digits}f}}".format).replace(" [", "x [")


def _bar(results: Results, comparison: Comparison, key: Key) -> Bar:
    try:
        contender = registry.contender(key[2])
    except KeyError:
        return Bar(key, key[2], "peer", reason="not known here")
    name = contender.title.removesuffix(", blocking")
    ours = comparison.bars[0]
    # A page or a site that does less work than the others is not a choice either.
    is_floor = contender.is_floor or key[2] in ("page-nothing", "web-none")
    kind = "floor" if is_floor else "ours" if is_ours(contender.id) else "peer"
    row = results.rows.get(key)
    figure = row.estimate(row.judge) if row is not None else None
    if row is None or figure is None:
        return Bar(key, name, kind, reason=results.absence(key)[1])
    times = results.ratio(key, ours, row.judge) if key != ours else None
    return Bar(key, name, kind, figure, times)


def _now(results: Results, comparison: Comparison) -> str:
    words = []
    for above, below, *more in comparison.ratios:
        one, other = (_key(comparison.experiment, cell) for cell in (above, below))
        row = results.rows.get(other)
        found = results.ratio(one, other, more[0] if more else row.judge if row else "wall")
        if found is None:
            return "not all of it was played."
        words.append(f"{100 * found.value:.0f} %" if "%" in more else f"{found.value:.1f}")
    return comparison.now.format(*words)
