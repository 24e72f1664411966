"""Marks are judged from a result file alone."""

from __future__ import annotations

import pytest

from mangonel.lab import marks, registry
from mangonel.lab.experiment import Size
from mangonel.lab.results import Results


def cell(experiment: str, part: str, contender: str, wall_us: float, cpu_us: float = 1.0, **extra) -> dict:
    sample = {"wall_ns": wall_us * 1000, "ops": 1, "cpu_ns": cpu_us * 1000, "peak_rss": 1, "extras": extra}
    return {
        "experiment": experiment,
        "version": 1,
        "part": part,
        "title": part,
        "unit": "operation",
        "write_concern": "",
        "judge": "wall",
        "contender": contender,
        "failures": [],
        "rounds": [{"round": number, "samples": [sample]} for number in range(3)],
    }


def verdicts(*cells: dict, missing: tuple = ()) -> dict[str, marks.Verdict]:
    names = sorted({entry["experiment"] for entry in cells})
    content = {"plan": {"experiments": names, "quick": True}, "cells": list(cells), "missing": list(missing)}
    return {verdict.mark.text: verdict for verdict in marks.verdicts(Results(content))}


def test_a_mark_is_met_on_its_limit_and_not_beyond():
    found = verdicts(
        cell("find-one", "blocking", "mangonel", 100, 10),
        cell("find-one", "blocking", "pymongo", 240, 51),
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


def test_a_failed_cell_gives_no_figure_and_names_the_failure():
    broken = cell("import-time", "import", "mangonel", 10)
    broken["failures"] = ["round 1: it broke"]
    verdict = verdicts(broken, cell("import-time", "import", "pymongo", 100))[
        "import, against import pymongo"
    ]
    assert not verdict.met
    assert verdict.reached is None
    assert verdict.state == marks.NOT_PLAYED
    assert "it broke" in verdict.reason


def test_an_absent_contender_is_the_reason_of_an_open_mark():
    reason = {"experiment": "import-time", "contender": "mangonel", "reason": "not built"}
    verdict = verdicts(cell("import-time", "import", "pymongo", 9), missing=(reason,))
    assert verdict["import, against import pymongo"].reason == "mangonel: not built"


def test_unclean_exits_are_counted_over_all_rounds():
    good = cell("process", "exits", "mangonel", 1, unclean=0.0)
    assert verdicts(good)["unclean exits, client closed and left open"].met
    bad = cell("process", "exits", "mangonel", 1, unclean=0.0)
    bad["rounds"][1]["samples"][0] = {**bad["rounds"][1]["samples"][0], "extras": {"unclean": 1.0}}
    assert not verdicts(bad)["unclean exits, client closed and left open"].met


def test_a_difference_that_must_be_measurable_needs_its_whole_interval():
    name = "beanie on this driver, requests per second against its own"
    own, ours = (cell("web", "new-connections", f"page-beanie{end}", 110) for end in ("", "-mangonel"))
    for wall, entry in zip((100, 105, 120), ours["rounds"], strict=True):
        entry["samples"] = [{**entry["samples"][0], "wall_ns": wall * 1000}]
    verdict = verdicts(own, ours)[name]
    assert verdict.reached.value > 1 > verdict.reached.low
    assert not verdict.met

    ours["rounds"][2]["samples"][0]["wall_ns"] = 105_000
    assert verdicts(own, ours)[name].met


def test_every_mark_names_parts_and_contenders_that_exist_and_meet():
    experiments, contenders = registry.experiments(), registry.contenders()
    size = Size(True, {"counted": 1})
    for mark in marks.MARKS:
        parts = {part.id: part for part in experiments[mark.experiment].parts(size)}
        for _, part, name in mark.cells:
            assert parts[part].excludes(contenders[name]) == "", (mark.text, part, name)


def test_a_mark_whose_part_was_switched_off_says_so_and_blames_no_contender():
    cells = [cell("websessions", "new-visitor", f"web-{name}", 100) for name in ("none", "memory")]
    content = {
        "plan": {
            "experiments": ["websessions"],
            "quick": True,
            "parameters": {"counted": 0, "requests": 20},
            "contenders": ["web-none", "web-memory"],
        },
        "cells": cells,
        "missing": [],
    }
    found = {verdict.mark.text: verdict for verdict in marks.verdicts(Results(content))}
    counted = found["anonymous readers, Tornado's instructions against no sessions"]
    assert counted.reason == "anonymous-counted is no part of this form, counted=0"
    against_redis = found["new visitor writes, requests per second against Redis"]
    assert against_redis.reason == "web-redis was not chosen"


def test_a_mark_of_an_experiment_that_time_left_out_says_so():
    content = {
        "plan": {"experiments": ["find-one"], "quick": True, "contenders": ["pymongo", "mangonel"]},
        "cells": [],
        "missing": [],
        "notes": ["find-one was not played: the 9 s were used up before its turn"],
    }
    judged = marks.verdicts(Results(content))
    assert {verdict.state for verdict in judged} == {marks.NOT_PLAYED}
    assert {verdict.reason for verdict in judged} == set(content["notes"])
    assert marks.counts(judged) == f"{len(judged)} not played"


def test_a_mark_whose_interval_crosses_the_limit_is_not_called_met_outright():
    ours, floor = (
        cell("find-one", "blocking", "mangonel", 100),
        cell("find-one", "blocking", "raw-socket", 82),
    )
    for wall, entry in zip((100, 101, 110), ours["rounds"], strict=True):
        entry["samples"] = [{**entry["samples"][0], "wall_ns": wall * 1000}]
    assert verdicts(ours, floor)["blocking, against the raw socket"].state == marks.WITHIN
