"""`lab first`: one screen for the five old comparisons and find_one, from a result file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangonel.lab import comparisons, registry
from mangonel.lab.commands.first import screen
from mangonel.lab.comparisons import COMPARISONS
from mangonel.lab.experiment import Size
from mangonel.lab.report import page
from mangonel.lab.results import Results
from tools.lab_results import FINGERPRINT, cell, content


def run(*without: str, missing: tuple = ()) -> Results:
    """Return a run of all comparisons: each contender half as fast as the one before it."""
    cells = [
        cell(*key, [100 * 2**place, 101 * 2**place, 100 * 2**place])
        for comparison in COMPARISONS
        for place, key in enumerate(comparison.bars)
        if key[2] not in without
    ]
    plan = {"experiments": [each.experiment for each in COMPARISONS]}
    name = "a processor with a name that is as long as the longest of them may ever become, they say"
    return Results(content(cells, plan, missing=list(missing), fingerprint={**FINGERPRINT, "cpu": name}))


def lines(results: Results) -> list[str]:
    return list(screen(results, list(comparisons.findings(results)), 61.0, Path("target/lab/first.html")))


def test_all_comparisons_fit_on_one_screen():
    told = lines(run())

    assert len(told) <= 45
    assert max(map(len, told)) <= 100
    assert sum("Now: " in line for line in told) == 6
    assert "PyMongo" in told[4]
    assert "2.00x [" in told[4]


def test_what_was_left_out_is_named_and_no_sentence_is_made_of_it():
    reason = {"experiment": "insert", "contender": "pymongo", "reason": "left out: time was short"}
    told = lines(run("pymongo", missing=(reason,)))

    assert any("PyMongo " in line and "left out: time was short" in line for line in told)
    assert any("not all of it was played" in line for line in told)


def test_a_comparison_without_a_figure_of_ours_says_why():
    reason = {"experiment": "read-documents", "contender": "odm", "reason": "not built"}

    assert "Documents to objects: no figure of ours; not built" in lines(run("odm", missing=(reason,)))


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: each.experiment)
def test_bars_and_ratios_name_parts_and_contenders_that_exist_and_meet(comparison):
    parts = {part.id: part for part in registry.experiments()[comparison.experiment].parts(Size(brief=True))}
    cells = [key[1:] for key in comparison.bars]
    cells += [tuple(cell.split()) for ratio in comparison.ratios for cell in ratio[:2]]
    for part, contender in cells:
        assert parts[part].excludes(registry.contender(contender)) == "", (part, contender)


def test_the_best_peer_is_no_limit_and_not_ours():
    found = {each.comparison.experiment: each for each in comparisons.findings(run())}

    assert found["find-one"].best.name == "PyMongo"
    assert found["web"].best.name == "PyMongo Async"
    assert found["find-one"].best.times.value == pytest.approx(2.0)


def test_the_pictures_hold_every_comparison_in_light_and_dark():
    pictures = page.pictures(run().content)

    assert list(pictures) == ["light", "dark"]
    for comparison in COMPARISONS:
        assert all(comparison.title in svg for svg in pictures.values())
