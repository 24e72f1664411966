"""The original comparison's programs: the same work for every driver, and an exit that is not taken for an insert."""

from __future__ import annotations

import dataclasses
import time

import pytest

from mangonel import MongoClient
from mangonel.lab import registry
from mangonel.lab.contender import PROGRAM, Target
from mangonel.lab.contenders._programs import INSERTS
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments.process import OriginalTask, ProgramError, ProgramTask

NAMES = [n for n, c in registry.contenders().items() if PROGRAM in c.offers and not c.is_floor]
PARTS = {
    part.id: part for name in ("insert", "process") for part in registry.experiments()[name].parts(Size())
}
SLEEPS = "import atexit, time\natexit.register(lambda: time.sleep(0.5))\n"


@pytest.fixture
def bench(server, database_name):
    """Return a function that makes the bench of a contender, whose programs may be changed before they run."""

    def make(name: str = "mangonel", change=str) -> Bench:
        contender = registry.contender(name)
        if reason := contender.missing():
            pytest.skip(reason)
        program = contender.program
        changed = dataclasses.replace(contender, program=lambda kind, target: change(program(kind, target)))
        return Bench(changed, Target(server.uri, database_name, "users"), Size(), 1)

    return make


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "original-c-silent") for name in NAMES), ("mangonel-asyncio", "original-a")]
)
def test_every_driver_runs_the_same_program(bench, server, database_name, name, kind):
    task = OriginalTask(PARTS[kind], bench(name))
    task.act()
    told = task.extras()

    assert told["lines"] == (3 if kind == "original-a" else 0)
    assert min(told["inside_s"], told["user_s"]) > 0
    with MongoClient(server.uri) as client:
        stored = client[database_name].users.count_documents({})
    assert task.written() == stored == INSERTS[kind]


def test_program_c_prints_a_line_for_each_step(bench):
    # One of its hundred inserts: one line, 100 of the first callback, 100 times 100 of the second.
    def once(source: str) -> str:
        return source.replace("number in range(100)", "number in range(1)")

    task = OriginalTask(PARTS["original-c"], bench(change=once))
    task.act()
    assert task.extras()["lines"] == 1 + 100 + 100 * 100


def test_trap_2_time_spent_at_exit_is_not_inside_the_program(bench):
    task = OriginalTask(PARTS["original-a"], bench(change=lambda source: SLEEPS + source))
    begun = time.perf_counter()
    task.act()
    assert time.perf_counter() - begun - task.extras()["inside_s"] >= 0.5


def test_trap_2_what_a_whole_process_waits_for_at_its_exit_is_told_apart(bench):
    slow = ProgramTask(PARTS["insert-1"], bench(change=lambda source: SLEEPS + source))
    slow.act()
    assert slow.extras()["exit_us"] >= 500_000


def test_a_program_that_raises_voids_its_time(bench):
    task = OriginalTask(PARTS["original-a"], bench(change=lambda source: "raise SystemExit(3)"))
    with pytest.raises(ProgramError, match="exit status 3"):
        task.act()
