"""Logarithmic axes: where a value lies and which values are named. Knows figures only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mangonel.lab.report.charts import number

STEPS = (1.0, 2.0, 5.0)
ROOM = 1.25  # how far an axis goes beyond its outermost values
MOST = 6  # names of values on an axis


def scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """Return where a value lies between two ends of a logarithmic axis that has room for all of these."""
    low, high = math.log(min(values) / ROOM), math.log(max(values) * ROOM)

    def place(value: float) -> float:
        return start + (math.log(value) - low) / (high - low) * (end - start)

    return place


def ticks(values: Sequence[float]) -> list[float]:
    """Return the values that the axis names."""
    low, high = min(values) / ROOM, max(values) * ROOM
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [step * 10.0**power for power in powers for step in STEPS if low <= step * 10.0**power <= high]
    if len(found) > MOST:
        found = [value for value in found if round(math.log10(value), 9).is_integer()] or found[::2]
    return found or [values[0]]


def short(value: float) -> str:
    """Return a rate in few letters."""
    return f"{value / 1000:.3g}k" if value >= 10_000 else f"{value:,.0f}" if value >= 100 else number(value)
