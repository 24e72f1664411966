"""Medians and bootstrap intervals. A round is the unit: samples of one process depend on each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Rounds: TypeAlias = Sequence[Sequence[float]]  # per round, its samples

RESAMPLES = 400
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % interval."""

    value: float
    low: float
    high: float

    def excludes(self, figure: float) -> bool:
        """Return whether the interval lies on one side of a figure."""
        return figure < self.low or figure > self.high


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two in the middle.

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("expected at least one value, got none")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def estimate(rounds: Rounds, seed: int = 0) -> Estimate:
    """Return the median of the rounds' medians; the interval resamples rounds, then their samples."""
    source = random.Random(seed)

    def once() -> float:
        chosen = source.choices(rounds, k=len(rounds))
        return median([median(source.choices(samples, k=len(samples))) for samples in chosen])

    return _interval(median([median(samples) for samples in rounds]), once)


def ratio(
    above: Mapping[int, Sequence[float]], below: Mapping[int, Sequence[float]], seed: int = 0
) -> Estimate:
    """Return the median ratio of two contenders, paired by the number of the round both have played.

    Raises:
        ValueError: they have no round in common.
    """
    shared = sorted(above.keys() & below.keys())
    if not shared:
        raise ValueError("expected at least one round in common, got none")
    source = random.Random(seed)

    def once() -> float:
        return median(
            [draw(above[number]) / draw(below[number]) for number in source.choices(shared, k=len(shared))]
        )

    def draw(samples: Sequence[float]) -> float:
        return max(median(source.choices(samples, k=len(samples))), 1e-12)

    value = median([median(above[number]) / max(median(below[number]), 1e-12) for number in shared])
    return _interval(value, once)


def _interval(value: float, once: Callable[[], float]) -> Estimate:
    drawn = sorted(once() for _ in range(RESAMPLES))
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Estimate(value, min(value, drawn[cut]), max(value, drawn[-1 - cut]))
