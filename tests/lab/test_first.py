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

FINGERPRINT = {
    "date": "2026-01-01T00:00:00Z",
    "cpu": "a processor with a name that is as long as the longest of them may ever become, they say",
    "cores": 2,
    "memory_mb": 2048,
    "virtual": True,
    "kernel": "6",
    "python": "3.11",
    "load": [0.5],
    "commit": "abc",
    "server": {"version": "6.0", "topology": "standalone", "ping_us": 90},
    "versions": {},
}


def run(*, without: tuple[str, ...] = (), spread: float = 1.0) -> Results:
    """Return a run of all comparisons: each contender half as fast as the one before it."""
    cells = []
    for comparison in COMPARISONS:
        for place, (experiment, part, contender) in enumerate(comparison.bars):
            if contender in without:
                continue
            walls = [round(100_000 * 2**place * step) for step in (1.0, 1.01, 1.0 * spread)]
            samples = [{"wall_ns": w, "ops": 1, "cpu_ns": w, "peak_rss": 1, "extras": {}} for w in walls]
            cells.append(
                {
                    "experiment": experiment,
                    "version": 1,
                    "part": part,
                    "title": part,
                    "unit": "operation",
                    "write_concern": "",
                    "judge": "wall",
                    "contender": contender,
                    "failures": [],
                    "rounds": [
                        {"round": number, "sentinel_ns": 1, "samples": [sample]}
                        for number, sample in enumerate(samples)
                    ],
                }
            )
    plan = {"experiments": [each.experiment for each in COMPARISONS], "quick": False, "seed": 1, "order": []}
    content = {
        "fingerprint": FINGERPRINT,
        "plan": plan,
        "cells": cells,
        "missing": [],
        "exits": [],
        "marked": [],
        "end": {"how": "complete"},
    }
    return Results(content)


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
    results = run(without=("pymongo",))
    reason = {"experiment": "insert", "contender": "pymongo", "reason": "left out: time was short"}
    results.content["missing"].append(reason)
    told = lines(results)

    assert any("PyMongo " in line and "left out: time was short" in line for line in told)
    assert any("not all of it was played" in line for line in told)


def test_a_comparison_without_a_figure_of_ours_says_why():
    results = run(without=("odm",))
    results.content["missing"].append(
        {"experiment": "read-documents", "contender": "odm", "reason": "not built"}
    )

    assert "Documents to objects: no figure of ours; not built" in lines(results)


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
    assert comparisons.lead(found["find-one"]).startswith("2.00x [")


def test_the_pictures_hold_every_comparison_in_light_and_dark():
    pictures = page.pictures(run().content)

    assert list(pictures) == ["light", "dark"]
    for comparison in COMPARISONS:
        assert all(comparison.title in svg for svg in pictures.values())
