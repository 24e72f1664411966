"""The originals' figures stand beside parts and contenders that exist, and come out as their articles divided them."""

from __future__ import annotations

import pytest

from mangonel.lab import registry
from mangonel.lab.experiment import Size
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
