"""The original comparisons: published figures beside parts that repeat them, and the same program for every driver."""

from __future__ import annotations

import dataclasses
import time

import pytest

from mangonel import MongoClient
from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.contenders.drivers import INSERTS
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments.process import OriginalTask, ProgramError, ProgramTask
from mangonel.lab.originals import ORIGINALS, UNITS, beside, of_experiment
from mangonel.lab.results import Results
from tools.lab_results import cell, content

FIGURES = [
    pytest.param(original, figure, id=f"{original.experiment}-{figure.stack}-{figure.what}")
    for original in ORIGINALS
    for figure in original.figures
]


@pytest.mark.parametrize(("original", "figure"), FIGURES)
def test_a_printed_figure_names_a_part_that_repeats_it(original, figure):
    if not figure.part:
        return
    experiment = registry.experiments()[original.experiment]
    parts = {part.id: part for part in experiment.parts(Size())}
    assert parts[figure.part].excludes(registry.contender(figure.contender)) == ""


def test_all_five_comparisons_say_what_was_wrong():
    names = {"insert", "web", "read-documents", "websessions", "gridfs"}
    assert {original.experiment for original in ORIGINALS} == names
    assert all(original.flaws and original.figures and original.corrected for original in ORIGINALS)
    assert of_experiment("bson") is None


def test_the_totals_of_the_web_comparison_agree_with_its_rates():
    original = of_experiment("web")
    assert original is not None
    for figure in original.figures:
        requests = 10_000 if figure.part == "original-100" else 100
        assert figure.more["total s"] == pytest.approx(requests / figure.value, rel=0.002)


def test_the_factor_of_the_insert_comparison_is_that_of_system_times_only():
    original = of_experiment("insert")
    assert original is not None
    one, other = (
        next(f for f in original.figures if f.part == "original-b" and f.stack == stack)
        for stack in ("Motor", "PyMongo")
    )
    assert one.more["sys s"] / other.more["sys s"] == pytest.approx(4.3, abs=0.01)
    assert one.value / other.value == pytest.approx(2.4, abs=0.01)


def test_figures_of_today_come_in_the_printed_unit():
    assert UNITS["s"](415_000.0, 0) == pytest.approx(0.415)
    assert UNITS["req/s"](1000.0, 0) == pytest.approx(1000.0)
    assert UNITS["MB/s"](50_000.0, 50_000_000) == pytest.approx(1000.0)
    assert {figure.unit for original in ORIGINALS for figure in original.figures} == set(UNITS)


def test_figures_of_today_stand_beside_the_printed_ones():
    motor = cell("web", "original-100", "page-motor", 2000, extras={"p50": 90_000.0})
    lines = beside(Results(content([motor])), "web")

    told = {line.figure.stack: line.today for line in lines if line.figure.part == "original-100"}
    assert told["PyMongo 3.0"] is None
    assert told["Motor (PyMongo 2.8)"].value == pytest.approx(500.0)
    assert len(lines) == 7
    assert next(line.more for line in lines if line.today) == {"p50 ms": pytest.approx(90.0)}


NAMES = [n for n, c in registry.contenders().items() if "program" in c.offers and not c.is_floor]
PARTS = {
    part.id: part for name in ("insert", "process") for part in registry.experiments()[name].parts(Size())
}
SLEEPS = "import atexit, time\natexit.register(lambda: time.sleep(0.5))\n"


@pytest.fixture
def bench(server, database_name):
    """Return a function that makes a contender's bench, whose programs may be changed before they run."""

    def make(name: str = "mangonel", change=str) -> Bench:
        contender = registry.contender(name)
        if reason := contender.missing():
            pytest.skip(reason)
        program = contender.program
        changed = dataclasses.replace(contender, program=lambda kind, target: change(program(kind, target)))
        return Bench(changed, Target(server.uri, database_name, "users"), Size(), 1)

    return make


@pytest.mark.enough(2)
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
