"""The experiments of tables: every contender gives the same result, and the check notices a different one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pymongoarrow", reason="the peer that the tables are compared with")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("duckdb")

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Size, Task
from mangonel.lab.experiments import engines
from mangonel.lab.experiments.tables import EXPERIMENTS

SIZE = Size(quick=True, parameters={"rows": 120, "lines": 60})
DATABASE = "test_lab_tables"
ALL = (*EXPERIMENTS, engines.EXPERIMENT)
EACH = [(experiment, part.id) for experiment in ALL for part in experiment.parts(SIZE)]


@pytest.fixture
def task(server: Any, bench_of: Any) -> Callable[[Any, str, str], Task]:
    def make(experiment: Any, part: str, contender: str) -> Task:
        chosen = next(each for each in experiment.parts(SIZE) if each.id == part)
        target = Target(server.uri, DATABASE, f"written_{contender}")
        return experiment.task(chosen, bench_of(contender, target, SIZE))

    return make


def players(experiment: Any, part: str) -> list[str]:
    chosen = next(each for each in experiment.parts(SIZE) if each.id == part)
    return [name for name, each in registry.contenders().items() if not chosen.excludes(each)]


@pytest.mark.enough(4)
@pytest.mark.parametrize(("experiment", "part"), EACH, ids=[f"{each.id} {part}" for each, part in EACH])
def test_all_contenders_give_the_same_answers(task: Any, experiment: Any, part: str) -> None:
    if part.startswith("memory") and not sys.platform.startswith("linux"):
        pytest.skip("peaks are read from /proc")
    names = players(experiment, part)
    # All contenders share the code for a separate process, and starting one takes a second.
    names = [name for name in names if not part.startswith("memory") or name == "tables-mangonel"]
    played = [task(experiment, part, name) for name in names]

    assert len({each.verify() for each in played}) == 1
    for each in played:
        if each.written() is not None:
            assert each.adapter.collection.count_documents({}) == each.written() > 0
            each.arrange()  # the brief form ends here
            assert each.adapter.collection.count_documents({}) == each.written() == 0
        if part.startswith("memory"):
            assert each.extras()["of_table"] >= 0


def test_rows_that_are_missing_fail_the_check(task: Any) -> None:
    made = task(EXPERIMENTS[0], "rows", "tables-mangonel")
    made.verify()
    made.result = made.result.slice(1)

    with pytest.raises(AssertionError, match="expected rows 120, got 119"):
        made.check()
