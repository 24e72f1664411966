"""Tables and the report state their reliability; the page is well formed, and every chart has a text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mangonel.lab import results, table
from mangonel.lab.report import charts, page
from mangonel.lab.statistics import Estimate
from tools import lab_results
from tools.lab_results import content


def one(contender: str, wall_us: float, **more) -> dict:
    return lab_results.cell("find-one", "blocking", contender, wall_us, **more)


def shown(*cells: dict) -> str:
    lines: list[str] = []
    table.show(content(cells), lines.append, style="plain")
    return "\n".join(lines)


def test_a_null_control_that_differs_marks_its_table_as_noise():
    assert "TOO NOISY" in shown(one("pymongo", 100), one("pymongo#2", 130))
    assert "TOO NOISY" not in shown(one("pymongo", 100), one("pymongo#2", 104))


def test_rounds_that_began_on_a_busy_machine_are_counted():
    assert "disturbed: 50 %" in shown(one("pymongo", 100), one("mangonel", 50, sentinel_ns=1300))
    assert "disturbed: 0 %" in shown(one("pymongo", 100), one("mangonel", 50, sentinel_ns=1200))


def test_the_fastest_stands_first_and_is_compared_with_the_reference():
    rows = [line for line in shown(one("pymongo", 100), one("mangonel", 25)).splitlines() if " µs" in line]
    assert rows[1].split()[0] == "mangonel"
    assert "4.00x" in rows[1]
    assert rows[2].split()[0] == "PyMongo"


def test_a_failed_cell_has_no_figure_and_its_reason_below():
    text = shown(one("pymongo", 100), one("mangonel", 1, failures=["round 1: lost", "round 2: lost"]))
    row = next(line for line in text.splitlines() if line.strip().startswith("mangonel"))
    assert row.split() == ["mangonel", "FAILED"]
    assert "lost (round 1, round 2)" in text


def test_unclean_exits_stand_beside_the_name():
    assert "mongojet (3 of 3 exits unclean)" in shown(one("mongojet", 5, extras={"exit_status": -6.0}))
    assert "unclean" not in shown(one("mongojet", 5, extras={"exit_status": 0.0}))


def test_rich_and_plain_show_the_same_words():
    pytest.importorskip("rich", reason="rich is not installed")
    cells = [one("pymongo", 100), one("mangonel", 25)]
    lines: list[str] = []
    table.show(content(cells), lines.append)
    frames = str.maketrans("│┃━─┏┓┗┛┡┩└┘├┤┳┻┼╇┴┬╋", " " * 21)
    rich = set("\n".join(lines).translate(frames).split())
    assert set(shown(*cells).split()) <= rich


KEPT = Path(__file__).parents[2] / "docs" / "benchmarks"
SVG = ".//svg"


def check(html: str) -> ET.Element:
    """Parse a page as strictly as XML, and assert the rules for every page."""
    found = ET.fromstring(html.removeprefix("<!doctype html>\n"))
    ids = [each.get("id") for each in found.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    assert not [each.tag for each in found.iter() if each.tag in ("script", "link", "img", "iframe")]
    for each in found.iter():
        assert each.get("src") is None
        assert (each.get("href") or "#").startswith("#")
    for outside in ("http://", "https://", "url(", "@import"):
        assert outside not in html
    assert "prefers-color-scheme:dark" in html
    assert 'name="viewport"' in html
    for svg in found.findall(SVG):
        assert svg.get("role") == "img"
        assert [each.tag for each in svg[:2]] == ["title", "desc"]
        assert svg.get("aria-label") == f"{svg[0].text}. {svg[1].text}"
    assert not any("nan" in (each.text or "").lower().split() for each in found.iter())
    return found


def test_a_page_is_well_formed_offline_and_has_a_table_for_its_charts():
    found = check(page.render(lab_results.run(1).content))
    assert len(found.findall(SVG)) == 6 * 3  # bars, processor time and rounds of each part
    assert len(found.findall(".//table")) >= 6


def test_a_kept_result_makes_a_page():
    content = results.load(KEPT / "websessions.jsonl.gz")
    content["cells"] = [cell for cell in content["cells"] if cell["part"] in ("new-visitor", "mixed-steady")]
    assert check(page.render(content)).findall(SVG)


def test_kept_charts_are_pictures():
    for path in [*KEPT.glob("*.svg"), *(KEPT.parent / "images").glob("*.svg")]:
        assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg", path


def test_what_is_kept_of_results_stays_small():
    assert sum(path.stat().st_size for path in KEPT.iterdir()) <= 750_000


def test_figures_below_the_noise_are_grey_and_a_failed_cell_has_none():
    run = lab_results.run(1, slow=4.0, parts=2)  # as slow as the reference
    run.content["cells"][2]["failures"].append("round 1: lost <b>")
    html = page.render(run.content)
    assert '<tr class="noise"><td>mangonel</td>' in html
    assert '<tr class="failed"><td>mangonel</td><td class="n">FAILED</td>' in html
    assert "<td>lost &lt;b&gt; (round 1)</td>" in html
    check(html)


def test_a_run_that_is_unfit_says_so_on_top_and_why_in_the_method():
    html = page.render(lab_results.run(1, parts=1, sentinels=[1000, 1400, 1400, 1000, 1000]).content)
    assert html.index("Not to be quoted") < html.index("<main>") < html.index("2 of 5 rounds")


def test_a_run_without_any_round_still_makes_a_page():
    check(page.render({**lab_results.run(1, parts=1).content, "cells": []}))


def test_percentile_lines_and_bars_are_drawn_from_figures():
    lines = [charts.Series("a & b", [(50.0, 100.0), (99.0, 900.0), (100.0, 5000.0)])]
    assert ET.fromstring(charts.percentiles("title", lines)).tag == "svg"
    rows = [charts.Bar("a", Estimate(5.0, 4.0, 900.0)), charts.Bar("b", None, "failed")]
    assert ET.fromstring(charts.bars("title", rows, [("floor", 2.0)])).tag == "svg"


@pytest.mark.parametrize(
    ("us", "words"), [(0.25, "250 ns"), (31.26, "31.3 µs"), (68_900, "68.9 ms"), (2e6, "2.00 s")]
)
def test_durations_are_written_in_the_unit_that_reads_best(us, words):
    assert charts.duration(us) == words


def test_the_front_is_who_nobody_beats_in_both_figures():
    figures = {
        "cheap": (100.0, 5.0),
        "fast": (300.0, 9.0),
        "slow and dear": (90.0, 8.0),
        "dear": (299.0, 9.0),
    }
    dots = [charts.Series(name, [point]) for name, point in figures.items()]
    dots.append(charts.Series("no database", [(900.0, 1.0)], "less"))
    assert [dot.name for dot in charts.front(dots)] == ["cheap", "fast"]


def test_throughput_stands_against_latency_and_processor_time():
    run = lab_results.run(1, parts=2)
    for cell in run.content["cells"]:
        cell["experiment"] = "find-one"
        for entry in cell["rounds"]:
            for sample in entry["samples"]:
                sample["extras"] = {"p99": sample["wall_ns"] / 5000}
    ours = [cell for cell in run.content["cells"] if cell["contender"] == "mangonel"]
    run.content["cells"] += [{**cell, "contender": "raw-socket", "floor": True} for cell in ours]
    run.content["cells"] += [{**cell, "contender": "mongojet"} for cell in ours]
    run.content["plan"]["experiments"] = ["find-one"]
    html = page.render(run.content)
    check(html)
    assert html.count("Latency at p99 against throughput</title>") == 2
    assert html.count("Client CPU per operation against throughput</title>") == 2
    assert html.count("on the front") == 2 * html.count(", limit") > 0


def test_latency_is_drawn_against_the_rate_that_was_offered():
    run = lab_results.run(1, parts=3)
    for cell in run.content["cells"]:
        number = int(cell["part"].rpartition("-")[2])
        cell.update(experiment="latency", part=f"asyncio-own-{25 * (number + 1)}", judge="p99")
        for entry in cell["rounds"]:
            for sample in entry["samples"]:
                sample["wall_ns"] = int(1e10 / (1000 * (number + 1)))
                sample["extras"] = {"p50": 100.0, "p99": 900.0 * (number + 1)}
    run.content["plan"]["experiments"] = ["latency"]
    html = page.render(run.content)
    check(html)
    assert html.count("latency at p99 against the offered rate</title>") == 1
    assert "1,000/s 900 µs, 2,000/s 1.80 ms, 3,000/s 2.70 ms" in html


def test_what_is_judged_without_the_system_s_share_says_both():
    run = lab_results.run(1, parts=1)
    for cell in run.content["cells"]:
        cell["judge"] = "user"
        for entry in cell["rounds"]:
            for sample in entry["samples"]:
                sample.update(user_ns=sample["ops"] * 5000, cpu_ns=sample["ops"] * 9000)
    html = page.render(run.content)
    check(html)
    assert "Client CPU without the system&#39;s share per operation, shorter is faster." in html
    assert "9.00 µs, user 5.00 µs" in html
    assert "against user CPU " in html
    assert "1.00x [1.00, 1.00]; all CPU 1.00x [1.00, 1.00]" in html
