"""Medians, intervals and paired ratios on samples whose answer is known."""

from __future__ import annotations

import math
import random

import pytest

from mangonel.lab import statistics


def rounds_of(
    level: float, spread: float, seed: int, rounds: int = 10, samples: int = 4
) -> dict[int, list[float]]:
    source = random.Random(seed)
    return {n: [level * (1 + source.gauss(0, spread)) for _ in range(samples)] for n in range(rounds)}


def test_one_wild_sample_does_not_move_the_median():
    assert statistics.estimate([[10, 10, 900], [10, 10, 10]]).value == 10


def test_equal_samples_have_an_interval_of_no_width():
    found = statistics.estimate([[5.0, 5.0], [5.0, 5.0]])
    assert (found.value, found.low, found.high) == (5.0, 5.0, 5.0)


def test_the_interval_contains_the_median_and_lies_within_the_samples():
    rounds = list(rounds_of(100, 0.1, seed=3).values())
    found = statistics.estimate(rounds)
    assert min(map(min, rounds)) <= found.low <= found.value <= found.high <= max(map(max, rounds))
    assert found.low < found.high


def test_more_spread_makes_a_wider_interval():
    calm = statistics.estimate(list(rounds_of(100, 0.01, seed=4).values()))
    wild = statistics.estimate(list(rounds_of(100, 0.2, seed=4).values()))
    assert wild.high - wild.low > 5 * (calm.high - calm.low)


def test_drift_from_round_to_round_cancels_in_a_paired_ratio():
    drift = {0: 1.0, 1: 7.0, 2: 100.0, 3: 3.0}
    slow = {number: [20 * factor] * 3 for number, factor in drift.items()}
    fast = {number: [10 * factor] * 3 for number, factor in drift.items()}
    found = statistics.ratio(slow, fast)
    assert found.value == found.low == found.high == 2.0


def test_a_ratio_uses_only_rounds_that_both_have_played():
    found = statistics.ratio({0: [2.0], 1: [8.0], 5: [1000.0]}, {0: [1.0], 1: [4.0], 9: [1.0]})
    assert found.value == 2.0


def test_a_ratio_without_a_common_round_is_refused():
    with pytest.raises(ValueError, match="in common"):
        statistics.ratio({0: [1.0]}, {1: [1.0]})


def test_the_same_samples_give_the_same_interval():
    rounds = list(rounds_of(100, 0.1, seed=5).values())
    assert statistics.estimate(rounds) == statistics.estimate(rounds)


def test_an_interval_of_few_values_is_wide_and_of_many_narrow():
    source = random.Random(1)
    values = [source.gauss(0, 0.05) for _ in range(50)]

    assert statistics.half_width(values[:1]) == math.inf
    assert statistics.half_width(values) < statistics.half_width(values[:5])
    assert 0.008 < statistics.half_width(values) < 0.03
