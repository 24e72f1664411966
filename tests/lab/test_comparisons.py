"""Screens made from a result file alone: one for the old comparisons and one for find_one, with judged marks."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mangonel.lab import comparisons, marks, registry
from mangonel.lab.commands.first import NAME, screen
from mangonel.lab.comparisons import COMPARISONS
from mangonel.lab.experiment import Size
from mangonel.lab.report import page
from mangonel.lab.results import Results
from tools.lab_results import FINGERPRINT, cell, content
from tools.programs import load_program


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


@pytest.mark.parametrize("is_in_path", [True, False])
def test_the_next_commands_are_named_as_they_are_started_here(tmp_path, monkeypatch, is_in_path):
    program = tmp_path / ".venv" / "bin" / "mangonel"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program), "lab", "first"])
    monkeypatch.setenv("PATH", str(program.parent) if is_in_path else "/nowhere")

    told = lines(run())

    name = "mangonel" if is_in_path else ".venv/bin/mangonel"
    assert told[-2].startswith(f"Next:   {name} lab list, lab run web ")
    assert told[-1].startswith(f"        {name} lab doctor, make bench ")
    assert told[-1].endswith("for hours")


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


def test_the_pictures_hold_every_comparison_in_light_and_dark_wide_and_narrow():
    pictures = page.pictures(run().content)

    assert list(pictures) == ["light", "dark", "narrow-light", "narrow-dark"]
    for comparison in COMPARISONS:
        assert all(comparison.title in svg for svg in pictures.values())
    told = {name: ET.fromstring(svg)[1].text for name, svg in pictures.items()}
    assert len(set(told.values())) == 1


def verdicts(*cells: dict, **more) -> dict[str, marks.Verdict]:
    return {verdict.mark.text: verdict for verdict in marks.verdicts(Results(content(cells, **more)))}


def test_a_mark_is_met_on_its_limit_and_not_beyond():
    found = verdicts(
        cell("find-one", "blocking", "mangonel", 100, cpu_us=10),
        cell("find-one", "blocking", "pymongo", 240, cpu_us=51),
        cell("find-one", "blocking", "raw-socket", 79),
    )
    assert found["blocking, speed against PyMongo"].met
    assert found["blocking, client CPU against PyMongo"].met
    floor = found["blocking, against the raw socket"]
    assert not floor.met
    assert floor.reached.value == pytest.approx(100 / 79)


def test_the_better_of_prefetch_and_exhaust_counts():
    found = verdicts(
        cell("find-many", "default", "pymongo", 46),
        cell("find-many", "default", "mangonel", 20),
        cell("find-many", "prefetch", "mangonel", 12),
        cell("find-many", "exhaust", "mangonel", 10),
    )
    verdict = found["iterate 100 000, best of prefetch and exhaust"]
    assert verdict.met
    assert verdict.reached.value == pytest.approx(4.6)


def test_the_fastest_of_several_peers_counts():
    found = verdicts(
        cell("odm-spec", "small-find", "odm-spec-odm", 10, cpu_us=10),
        cell("odm-spec", "small-find", "odm-spec-beanie", 10, cpu_us=90),
        cell("odm-spec", "small-find", "odm-spec-umongo", 10, cpu_us=20),
    )
    verdict = found["small find, against the fastest peer"]
    assert verdict.state == marks.MISSED
    assert verdict.reached.value == pytest.approx(2.0)


def test_a_failed_cell_gives_no_figure_and_names_the_failure():
    broken = cell("import-time", "import", "mangonel", 10, failures=["round 1: it broke"])
    verdict = verdicts(broken, cell("import-time", "import", "pymongo", 100))[
        "import, against import pymongo"
    ]
    assert not verdict.met
    assert verdict.reached is None
    assert verdict.state == marks.NOT_PLAYED
    assert "it broke" in verdict.reason


def test_an_absent_contender_is_the_reason_of_an_open_mark():
    reason = {"experiment": "import-time", "contender": "mangonel", "reason": "not built"}
    verdict = verdicts(cell("import-time", "import", "pymongo", 9), missing=[reason])
    assert verdict["import, against import pymongo"].reason == "mangonel: not built"


def test_unclean_exits_are_counted_over_all_rounds():
    good = cell("process", "exits", "mangonel", 1, extras={"unclean": 0.0})
    assert verdicts(good)["unclean exits, client closed and left open"].met
    bad = cell("process", "exits", "mangonel", 1, extras={"unclean": 0.0})
    bad["rounds"][1]["samples"][0] = {**bad["rounds"][1]["samples"][0], "extras": {"unclean": 1.0}}
    assert not verdicts(bad)["unclean exits, client closed and left open"].met


def test_a_difference_that_must_be_measurable_needs_its_whole_interval():
    name = "beanie on this driver, requests per second against its own"
    part, own, ours = "new-connections", "page-beanie", "page-beanie-mangonel"
    limit, above = cell("web", part, own, 110), cell("web", part, ours, (100, 105, 120))
    verdict = verdicts(limit, above)[name]
    assert verdict.reached.value > 1 > verdict.reached.low
    assert not verdict.met

    assert verdicts(limit, cell("web", part, ours, (100, 105, 105)))[name].met


def test_every_mark_names_parts_and_contenders_that_exist_and_meet():
    experiments, contenders = registry.experiments(), registry.contenders()
    size = Size(True, {"counted": 1})
    for mark in marks.MARKS:
        parts = {part.id: part for part in experiments[mark.experiment].parts(size)}
        for _, part, name in mark.cells:
            assert parts[part].excludes(contenders[name]) == "", (mark.text, part, name)


def test_a_mark_whose_part_was_switched_off_says_so_and_blames_no_contender():
    cells = [cell("websessions", "new-visitor", f"web-{name}", 100) for name in ("none", "memory")]
    chosen = ["web-none", "web-memory"]
    found = verdicts(*cells, plan={"parameters": {"counted": 0, "requests": 20}, "contenders": chosen})
    counted = found["anonymous readers, Tornado's instructions against no sessions"]
    assert counted.reason == "anonymous-counted is no part of this form, counted=0"
    against_redis = found["new visitor writes, requests per second against Redis"]
    assert against_redis.reason == "web-redis: was not chosen"


def test_a_mark_of_a_part_that_was_not_chosen_says_so():
    plan = {"contenders": ["mangonel", "pymongo"], "only": {"find-one": ["blocking"]}}
    found = verdicts(cell("find-one", "blocking", "mangonel", 10), plan=plan)
    assert found["asyncio, 100 tasks, against PyMongo Async"].reason == "tasks-100 was not chosen"
    assert found["blocking, against the raw socket"].reason == "raw-socket: was not chosen"


def test_a_mark_of_an_experiment_that_time_left_out_says_so():
    note = "find-one was not played: the 9 s were used up before its turn"
    plan = {"experiments": ["find-one"], "contenders": ["pymongo", "mangonel"]}
    judged = marks.verdicts(Results(content([], plan, notes=[note])))
    assert {verdict.state for verdict in judged} == {marks.NOT_PLAYED}
    assert {verdict.reason for verdict in judged} == {note}
    assert marks.counts(judged) == f"{len(judged)} not played"


def test_a_mark_whose_interval_crosses_the_limit_is_not_called_met_outright():
    ours = cell("find-one", "blocking", "mangonel", (100, 101, 110))
    floor = cell("find-one", "blocking", "raw-socket", 82)
    found = verdicts(ours, floor)["blocking, against the raw socket"]
    assert found.state == marks.WITHIN
    assert found.met


def test_what_was_not_played_counts_for_nothing_and_is_told_last():
    judged = [
        *verdicts(
            cell("find-one", "blocking", "mangonel", 100, cpu_us=90),
            cell("find-one", "blocking", "pymongo", 300, cpu_us=100),
        ).values()
    ]
    assert marks.counts(judged) == f"1 met, 1 missed, {len(judged) - 2} not played"
    assert marks.counts(judged[:0]) == "none"


def test_the_benchmark_page_counts_only_targets_that_were_played():
    tool = load_program(Path(__file__).parents[2] / "tools/docs_benchmarks.py")
    cells = [cell("find-one", "blocking", "mangonel", 100, cpu_us=90)]
    cells.append(cell("find-one", "blocking", "pymongo", 300, cpu_us=100))
    page = "\n".join(tool.targets(content(cells)))
    assert "Of 2 targets, 1 are met, 1 are missed." in page
    assert "not played" not in page
    assert "raw socket" not in page


def test_a_comparison_whose_interval_touches_one_has_no_bar():
    cells = [
        cell("find-one", "blocking", "mangonel", (100, 100, 101)),
        cell("find-one", "blocking", "pymongo", (200, 201, 200)),
        cell("gridfs", "download-delayed", "mangonel", (100, 300, 100)),
        cell("gridfs", "download-delayed", "pymongo", (150, 100, 140)),
    ]
    drawn = page.pictures(content(cells))["light"]

    assert "find_one by _id" in drawn
    assert "GridFS" not in drawn


def test_the_names_of_the_first_screen_are_whole():
    names = {
        registry.contender(key[2]).title.removesuffix(", blocking")
        for comparison in COMPARISONS
        for key in comparison.bars
    }

    assert max(map(len, names)) <= NAME
