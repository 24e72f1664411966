"""Tables say how far they can be trusted, and show every kind of cell."""

from __future__ import annotations

import pytest

from mangonel.lab import table
from tools import lab_results
from tools.lab_results import content


def cell(contender: str, wall_us: float, **more) -> dict:
    return lab_results.cell("find-one", "blocking", contender, wall_us, **more)


def shown(*cells: dict) -> str:
    lines: list[str] = []
    table.show(content(cells), lines.append, style="plain")
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


def test_rich_and_plain_show_the_same_words():
    pytest.importorskip("rich", reason="rich is not installed")
    cells = [cell("pymongo", 100), cell("mangonel", 25)]
    lines: list[str] = []
    table.show(content(cells), lines.append)
    frames = str.maketrans("│┃━─┏┓┗┛┡┩└┘├┤┳┻┼╇┴┬╋", " " * 21)
    rich = set("\n".join(lines).translate(frames).split())
    assert set(shown(*cells).split()) <= rich
