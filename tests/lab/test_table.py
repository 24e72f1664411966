"""Tables say how far they can be trusted, and show every kind of cell."""

from __future__ import annotations

import pytest

from mangonel.lab import table

FINGERPRINT = {
    "date": "2026-01-01T00:00:00Z",
    "cpu": "a processor",
    "cores": 2,
    "memory_mb": 2048,
    "virtual": True,
    "kernel": "6",
    "python": "3.11",
    "load": [0.5],
    "commit": "abc",
    "server": {"version": "6.0", "topology": "standalone", "ping_us": 90},
    "versions": {"pymongo": "4.20.0"},
}


def cell(contender: str, wall_us: float, sentinel_ns: int = 1000, **more) -> dict:
    sample = {"wall_ns": wall_us * 1000, "ops": 1, "cpu_ns": 500, "peak_rss": 9_000_000, "extras": {}}
    sample["extras"] = more.pop("extras", {})
    rounds = [{"round": number, "sentinel_ns": sentinel_ns, "samples": [sample]} for number in range(3)]
    return {
        "experiment": "find-one",
        "version": 1,
        "part": "blocking",
        "title": "one at a time",
        "unit": "operation",
        "write_concern": "",
        "judge": "wall",
        "contender": contender,
        "failures": [],
        "rounds": rounds,
        **more,
    }


def shown(*cells: dict, **more) -> str:
    plan = {"experiments": ["find-one"], "seed": 1, "quick": True, "order": []}
    content = {
        "fingerprint": FINGERPRINT,
        "plan": plan,
        "cells": list(cells),
        "missing": [],
        "exits": [],
        "marked": [],
        "end": {"how": "complete"},
        **more,
    }
    lines: list[str] = []
    table.show(content, lines.append, style="plain")
    return "\n".join(lines)


def test_a_null_control_that_differs_marks_its_table_as_noise():
    assert "TOO NOISY" in shown(cell("pymongo", 100), cell("pymongo#2", 130))
    assert "TOO NOISY" not in shown(cell("pymongo", 100), cell("pymongo#2", 104))


def test_rounds_that_began_on_a_busy_machine_are_counted():
    assert "disturbed: 50 %" in shown(cell("pymongo", 100), cell("mangonel", 50, sentinel_ns=1300))
    assert "disturbed: 0 %" in shown(cell("pymongo", 100), cell("mangonel", 50, sentinel_ns=1200))


def test_the_fastest_stands_first_and_is_compared_with_the_reference():
    rows = [line for line in shown(cell("pymongo", 100), cell("mangonel", 25)).splitlines() if " µs" in line]
    assert rows[1].split()[0] == "mangonel"
    assert "4.00x" in rows[1]
    assert rows[2].split()[0] == "PyMongo"


def test_a_failed_cell_has_no_figure_and_its_reason_below():
    text = shown(cell("pymongo", 100), cell("mangonel", 1, failures=["round 1: lost", "round 2: lost"]))
    row = next(line for line in text.splitlines() if line.strip().startswith("mangonel"))
    assert row.split() == ["mangonel", "FAILED"]
    assert "lost (round 1, round 2)" in text


def test_unclean_exits_stand_beside_the_name():
    assert "mongojet (3 of 3 exits unclean)" in shown(cell("mongojet", 5, extras={"exit_status": -6.0}))
    assert "unclean" not in shown(cell("mongojet", 5, extras={"exit_status": 0.0}))


@pytest.mark.parametrize(("wall_us", "words"), [(0.25, "250 ns"), (31.26, "31.3 µs"), (68_900, "68.9 ms")])
def test_times_are_written_in_the_unit_that_reads_best(wall_us, words):
    assert words in shown(cell("pymongo", wall_us))


def test_rich_and_plain_show_the_same_words():
    pytest.importorskip("rich", reason="rich is not installed")
    cells = [cell("pymongo", 100), cell("mangonel", 25)]
    content = {
        "fingerprint": FINGERPRINT,
        "plan": {"experiments": ["find-one"], "seed": 1, "quick": True, "order": []},
        "cells": cells,
        "missing": [],
        "exits": [],
        "marked": [],
        "end": {"how": "complete"},
    }
    lines: list[str] = []
    table.show(content, lines.append)
    frames = str.maketrans("│┃━─┏┓┗┛┡┩└┘├┤┳┻┼╇┴┬╋", " " * 21)
    rich = set("\n".join(lines).translate(frames).split())
    assert set(shown(*cells).split()) <= rich
