"""Shared by the lab's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Size


@pytest.fixture
def bench_of() -> Iterator[Callable[[str, Target, Size], Bench]]:
    """Return a function that makes a contender's bench, which ends with the test; a missing contender skips it."""
    made: list[Bench] = []

    def make(name: str, target: Target, size: Size) -> Bench:
        contender = registry.contender(name)
        if reason := contender.missing():
            pytest.skip(reason)
        made.append(Bench(contender, target, size, 1))
        return made[-1]

    yield make
    for bench in made:
        bench.close()
