"""The original comparison's programs: the same work for every driver, and an exit that is not taken for an insert."""

from __future__ import annotations

import dataclasses
import time

import pytest

from mangonel.lab import registry
from mangonel.lab.contender import PROGRAM, Target
from mangonel.lab.contenders._programs import INSERTS
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments._process import OriginalTask, ProgramError, ProgramTask

NAMES = [
    name
    for name, contender in registry.contenders().items()
    if PROGRAM in contender.offers and "floor" not in contender.offers
]


@pytest.fixture
def bench(server, database_name):
    def make(name: str) -> Bench:
        contender = registry.contender(name)
        if reason := contender.missing():
            pytest.skip(reason)
        return Bench(contender, Target(server.uri, database_name, "users"), Size(), 1)

    return make


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["original-a", "original-c-silent"])
def test_every_driver_runs_the_same_program(bench, server, database_name, name, kind):
    from mangonel import MongoClient

    task = OriginalTask(bench(name), kind)
    task.act()
    told = task.extras()

    assert told["lines"] == (3 if kind == "original-a" else 0)
    assert told["inside_s"] > 0
    assert told["user_s"] > 0
    assert task.written() == INSERTS[kind]
    with MongoClient(server.uri) as client:
        assert client[database_name].users.count_documents({}) == INSERTS[kind]


def changed(bench: Bench, change) -> Bench:
    """Return a bench whose contender's programs are changed before they run."""
    make = bench.contender.program
    contender = dataclasses.replace(bench.contender, program=lambda kind, target: change(make(kind, target)))
    return Bench(contender, bench.target, bench.size, 1)


def test_program_c_prints_a_line_for_each_step(bench):
    # One of its hundred inserts: one line, 100 of the first callback, 100 times 100 of the second.
    task = OriginalTask(
        changed(
            bench("mangonel"), lambda source: source.replace("number in range(100)", "number in range(1)")
        ),
        "original-c",
    )
    task.act()
    assert task.extras()["lines"] == 1 + 100 + 100 * 100


def test_trap_2_time_spent_at_exit_is_not_inside_the_program(bench):
    sleeps = "import atexit, time\natexit.register(lambda: time.sleep(0.5))\n"
    task = OriginalTask(changed(bench("mangonel"), lambda source: sleeps + source), "original-a")

    begun = time.perf_counter()
    task.act()
    assert time.perf_counter() - begun - task.extras()["inside_s"] >= 0.5


def test_trap_2_what_a_whole_process_waits_for_at_its_exit_is_told_apart(bench):
    sleeps = "import atexit, time\natexit.register(lambda: time.sleep(0.5))\n"
    slow = ProgramTask(changed(bench("mangonel"), lambda source: sleeps + source), "insert-1")
    usual = ProgramTask(bench("mangonel"), "insert-1")

    for task in (slow, usual):
        task.act()
    assert slow.extras()["exit_us"] >= 500_000
    assert 0 < usual.extras()["exit_us"] < slow.extras()["exit_us"]


def test_a_program_that_raises_voids_its_time(bench):
    task = OriginalTask(changed(bench("mangonel"), lambda source: "raise SystemExit(3)"), "original-a")
    with pytest.raises(ProgramError, match="exit status 3"):
        task.act()
