"""What changed between two runs beyond the noise.

Two runs are never of one minute: where both have the reference contender, what is compared is the ratio to it, which
the machine's drift leaves alone. A change stands when its interval excludes 1, when it is larger than 3 % and than what
the reference shows against itself in either run, and when it survives Benjamini-Hochberg over all cells.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mangonel.lab import registry, statistics
from mangonel.lab.fingerprint import differences
from mangonel.lab.noise import is_noise
from mangonel.lab.record import Key
from mangonel.lab.results import Results, Row, form
from mangonel.lab.statistics import Estimate, median

SMALLEST = 0.03


@dataclass(frozen=True)
class Change:
    """One cell in both runs.

    Attributes:
        ratio: of the time after over the time before; more than 1 is slower.
        noise: how far from 1 a ratio may be without meaning anything.
        relative: compared is the ratio to the reference of the same run, not the time itself.
        stands: the change is beyond the noise.
    """

    key: Key
    title: str
    name: str
    ratio: Estimate
    noise: float
    relative: bool
    stands: bool = False

    @property
    def word(self) -> str:
        return "same" if not self.stands else "slower" if self.ratio.value > 1 else "faster"


def obstacles(before: Results, after: Results) -> list[str]:
    """Return why two runs do not compare: other machines, other servers, other work."""
    found = differences(before.content["fingerprint"], after.content["fingerprint"])
    forms = [form(each.content["plan"]) for each in (before, after)]
    if forms[0] != forms[1]:
        found.append(f"one run has the {forms[0]} form, the other the {forms[1]} one")
    if before.content["plan"].get("parameters", {}) != after.content["plan"].get("parameters", {}):
        found.append("the runs have other parameters")
    tells: dict[str, Callable[[Row], object]] = {
        "version": lambda row: row.version,
        "equipment": lambda row: row.equipment or "not kept anywhere",
    }
    for what, tell in tells.items():
        one, other = ({row.key[0]: tell(row) for row in each.rows.values()} for each in (before, after))
        for name in sorted(one.keys() & other.keys()):
            if one[name] != other[name]:
                found.append(f"{what} of {name}: {one[name]} and {other[name]}")
    return found


def changes(before: Results, after: Results, absolute: bool = False) -> list[Change]:
    """Return a change for every cell that both runs have with a figure, those that stand marked."""
    found = list(_changes(before, after, absolute))
    significant = statistics.discoveries([statistics.p_value(change.ratio) for change in found])
    return [
        dataclasses.replace(change, stands=is_significant and not is_noise(change.ratio, change.noise))
        for change, is_significant in zip(found, significant, strict=True)
    ]


def _changes(before: Results, after: Results, absolute: bool) -> Iterator[Change]:
    others = {(experiment, part): rows for experiment, part, rows in after.parts()}
    for experiment, part, rows in before.parts():
        same = others.get((experiment, part))
        if same is None:
            continue
        reference = None if absolute else _shared_reference(before, after, rows, same)
        bands = [
            band.spread() for each, group in ((before, rows), (after, same)) if (band := each.null(group))
        ]
        noise = max([SMALLEST, *bands])
        for row in rows:
            other = after.rows.get(row.key)
            is_control = row.key[2].endswith(registry.AGAIN) or (reference and row.key[2] == reference)
            if other is None or is_control or not (_has_figure(row) and _has_figure(other)):
                continue
            old, new = _figures(before, row, reference), _figures(after, other, reference)
            if old and new:
                apart = [each.between_processes(row.key[0], row.judge) for each in (before, after)]
                ratio = statistics.change(old, new).wider(math.hypot(*apart))
                yield Change(row.key, row.title, row.name, ratio, noise, reference is not None)


def _shared_reference(before: Results, after: Results, rows: list[Row], same: list[Row]) -> str | None:
    names = [found.key[2] for found in (before.reference(rows), after.reference(same)) if found is not None]
    return names[0] if len(names) == 2 and names[0] == names[1] else None


def _has_figure(row: Row) -> bool:
    return not row.failures and bool(row.per_round(row.judge))


def _figures(results: Results, row: Row, reference: str | None) -> list[list[float]]:
    """Return per round the samples of a cell, over the median of the reference in the same round."""
    own = row.per_round(row.judge)
    if reference is None:
        return list(own.values())
    base = results.rows[row.key[0], row.key[1], reference].per_round(row.judge)
    return [
        [sample / middle for sample in samples]
        for number, samples in own.items()
        if number in base and (middle := median(base[number])) > 0
    ]
