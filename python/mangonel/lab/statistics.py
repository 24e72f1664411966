"""Medians and bootstrap intervals. The unit is a round, since samples of one process are not independent.

Intervals from few rounds would be too narrow, since the median of five resampled values never leaves their range. They
are widened by the ratio of Student's t to the normal, so that the 95 % hold from three rounds on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median as median  # re-exported for users of this module
from typing import TypeAlias

Rounds: TypeAlias = Sequence[Sequence[float]]  # the samples of each round
Samples: TypeAlias = Mapping[int, Sequence[float]]  # the same by the round's number

RESAMPLES = 400
CONFIDENCE = 0.95
NORMAL = 1.959964
# Student's t at 97.5 % for 1, 2, ... degrees of freedom: two rounds prove almost nothing.
# fmt: off
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
)
# fmt: on
TINY = 1e-12


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float

    def words(self, tell: Callable[[float], str] = "{:.3g}".format) -> str:
        return f"{tell(self.value)} [{tell(self.low)}, {tell(self.high)}]"

    def excludes(self, figure: float) -> bool:
        return figure < self.low or figure > self.high

    def wider(self, reach: float) -> Estimate:
        """Return a ratio with its interval widened by another source of variance, whose reach is a logarithm."""
        if reach <= 0 or self.value <= 0:
            return self
        below = math.log(self.value / max(self.low, TINY))
        above = math.log(self.high / self.value)
        return Estimate(
            self.value,
            self.value * math.exp(-math.hypot(below, reach)),
            self.value * math.exp(math.hypot(above, reach)),
        )

    def spread(self) -> float:
        """Return how far a ratio's interval reaches from 1, as a share: the noise floor of a null control."""
        return math.expm1(max(abs(math.log(max(self.low, TINY))), abs(math.log(max(self.high, TINY)))))


def widening(rounds: int) -> float:
    """Return the factor by which a bootstrap interval of this many rounds is too narrow; 1 for a single round."""
    if rounds < 2:
        return 1.0
    return _student(rounds) / NORMAL * math.sqrt(rounds / (rounds - 1))


def estimate(rounds: Rounds, seed: int = 0) -> Estimate:
    """Return the median of the rounds' medians; the interval resamples rounds, then their samples."""
    source = random.Random(seed)
    drawn = sorted(_resampled(source, rounds) for _ in range(RESAMPLES))
    value = median([median(samples) for samples in rounds])
    if drawn[0] <= 0 or value <= 0:
        return Estimate(value, *_interval(value, drawn, 1.0))
    low, high = _interval(_log(value), [_log(figure) for figure in drawn], widening(len(rounds)))
    return Estimate(value, min(value, _plain(max(low, -50.0))), max(value, _plain(min(high, 50.0))))


def middle_ratio(above: Samples, below: Samples) -> float:
    """Return the median ratio of two contenders, paired by round; ValueError if they share no round."""
    shared = above.keys() & below.keys()
    if not shared:
        raise ValueError("expected at least one round in common, got none")
    return math.exp(median([_log(median(above[number])) - _log(median(below[number])) for number in shared]))


def ratio(above: Samples, below: Samples, seed: int = 0) -> Estimate:
    """Return the median ratio of two contenders with its interval; raises as `middle_ratio` does.

    Logarithms are resampled, so that twice as fast and half as fast are equally far from 1.
    """
    value = _log(middle_ratio(above, below))
    shared = sorted(above.keys() & below.keys())
    source = random.Random(seed)

    def draw(number: int) -> float:
        return _log(_drawn(source, above[number])) - _log(_drawn(source, below[number]))

    drawn = sorted(
        median([draw(number) for number in source.choices(shared, k=len(shared))]) for _ in range(RESAMPLES)
    )
    return _exp(value, drawn, len(shared))


def change(before: Rounds, after: Rounds, seed: int = 0) -> Estimate:
    """Return the ratio of two runs' medians, after over before; their rounds are unrelated."""
    source = random.Random(seed)
    drawn = sorted(
        _log(_resampled(source, after)) - _log(_resampled(source, before)) for _ in range(RESAMPLES)
    )
    value, base = (_log(median([median(samples) for samples in rounds])) for rounds in (after, before))
    return _exp(value - base, drawn, min(len(before), len(after)))


def half_width(logs: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of these logarithms' middle, from their distances to the median."""
    if len(logs) < 2:
        return math.inf
    middle = median(logs)
    # 1.4826 median distances are a standard deviation if the values are normally distributed.
    spread = 1.4826 * median([abs(value - middle) for value in logs])
    return _student(len(logs)) * spread * math.sqrt(math.pi / 2 / len(logs))


def p_value(found: Estimate) -> float:
    """Return the p-value of a ratio: the chance of one as far from 1 without a real difference."""
    value, low, high = (_log(figure) for figure in (found.value, found.low, found.high))
    reach = value - low if value > 0 else high - value
    if reach <= 0:
        return 0.0 if value else 1.0
    return math.erfc(abs(value) / reach * NORMAL / math.sqrt(2))


def discoveries(chances: Sequence[float]) -> list[bool]:
    """Return which tests count, so that at most 5 % of those are false (Benjamini-Hochberg)."""
    ranked = sorted(range(len(chances)), key=lambda place: chances[place])
    last = 0
    for rank, place in enumerate(ranked, 1):
        if chances[place] <= 0.05 * rank / len(chances):
            last = rank
    stands = set(ranked[:last])
    return [place in stands for place in range(len(chances))]


def _student(count: int) -> float:
    return STUDENT[count - 2] if count - 2 < len(STUDENT) else NORMAL + 2.6 / (count - 1)


def _resampled(source: random.Random, rounds: Rounds) -> float:
    chosen = source.choices(rounds, k=len(rounds))
    return median([_drawn(source, samples) for samples in chosen])


def _drawn(source: random.Random, samples: Sequence[float]) -> float:
    """Return the median of as many samples drawn with replacement."""
    count, draw = len(samples), source.random
    if count == 1:
        draw()
        return samples[0]
    return median([samples[int(draw() * count)] for _ in samples])


def _log(value: float) -> float:
    return math.log(max(value, TINY))


def _exp(value: float, drawn: list[float], rounds: int) -> Estimate:
    low, high = _interval(value, drawn, widening(rounds))
    return Estimate(_plain(value), _plain(max(low, -50.0)), _plain(min(high, 50.0)))


def _plain(logarithm: float) -> float:
    """Return the ratio rounded to remove the error of going through logarithms: 2.4 must be 2.4."""
    return float(f"{math.exp(logarithm):.12g}")


def _interval(value: float, drawn: list[float], wider: float) -> tuple[float, float]:
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    low, high = min(value, drawn[cut]), max(value, drawn[-1 - cut])
    return value - (value - low) * wider, value + (high - value) * wider
