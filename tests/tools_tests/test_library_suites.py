"""The table of libraries' suites keeps the rows that were not run again, and counts each test of a suite once."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/compatibility.md"
sys.path.append(str(ROOT / "tools"))

from library_suites import page, running, suites  # noqa: E402

OLD = page.row("beanie", "2.0.0", (9, 8, 8), "2026-01-01") + page.row(
    "ming", "0.17.3", (7, 6, 6), "2026-01-02"
)


def written(text: str) -> str:
    return f"before\n{page.START}\n{page.HEAD}{text}\n{page.END}\nafter\n"


def test_a_row_replaces_that_of_its_library_and_leaves_the_others() -> None:
    new = page.row("beanie", "2.1.0", (10, 10, 10), "2026-02-01")
    ming = "| ming 0.17.3 | 7 | 6 | 6 | 2026-01-02 |\n"
    assert page.merged(written(OLD), [new], {"beanie", "ming"}) == written(new + ming)


def test_rows_are_sorted_and_those_of_unknown_libraries_go() -> None:
    new = page.row("apscheduler", "3.11.3", (1, 1, 1), "2026-02-01")
    assert page.merged(written(OLD), [new], {"apscheduler", "beanie"}) == written(
        new + "| beanie 2.0.0 | 9 | 8 | 8 | 2026-01-01 |\n"
    )


def test_a_page_without_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="expected '<!-- written by"):
        page.merged("nothing", [], set())


def test_each_row_of_the_page_is_of_the_version_that_is_run() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(page.START)[2].partition(page.END)[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    rows = [
        re.fullmatch(r"\| (\S+) (\S+) \| \d+ \| \d+ \| \d+ \| \d{4}-\d\d-\d\d \|", line) for line in lines
    ]
    named = [(row[1], row[2]) for row in rows if row]
    assert len(named) == len(lines)
    assert named == sorted((name, suites.SUITES[name].version) for name, _ in named)


def test_a_test_whose_part_failed_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "run.xml"
    report.write_text(
        """<testsuites><testsuite>
<testcase classname="A" name="a"><failure/></testcase><testcase classname="A" name="a"/>
<testcase classname="A" name="b"><skipped/></testcase><testcase classname="B" name="b"/>
</testsuite></testsuites>"""
    )
    ends: Any = running.ends_in(report)
    assert ends == {"A::a": "failed", "A::b": "skipped", "B::b": "passed"}
    assert running.Outcome(ends).count("passed") == 1
