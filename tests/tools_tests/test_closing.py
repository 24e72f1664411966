"""The closing lines of a whole run count each test once by its kind, and each skip by its reason."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.closing import ClosingLines, Progress, kind_of
from tools.workers import Workers


def report(nodeid: str, outcome: str, when: str = "call", **more: Any) -> Any:
    found = {"nodeid": nodeid, "when": when, "outcome": outcome, "longrepr": None, "duration": 1.5}
    states = {name: outcome == name for name in ("passed", "failed", "skipped")}
    return SimpleNamespace(**found, **states, **more)


def closing(root: Path, *reports: Any) -> list[str]:
    plugin, lines = ClosingLines(root), []
    for each in reports:
        plugin.pytest_runtest_logreport(each)
    plugin.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))  # type: ignore[arg-type]
    return lines


@pytest.mark.parametrize(
    ("file", "text", "kind"),
    [
        ("tests/spec/test_gridfs.py", "import pymongo\n", "official"),
        ("tests/unit/test_bson.py", "    from bson import encode\n", "peers"),
        ("tests/unit/test_uri.py", "import pymongo_tools\n", "unit"),
        ("tests/faces/test_pool.py", "# import pymongo\n", "others"),
    ],
)
def test_a_file_is_of_one_kind(tmp_path: Path, file: str, text: str, kind: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)

    assert kind_of(tmp_path, file) == kind


def test_a_test_counts_once_and_a_reason_as_often_as_it_is_given(tmp_path: Path) -> None:
    skipped = report("tests/spec/test_a.py::test_c", "skipped", "setup")
    skipped.longrepr = ("test_a.py", 1, "Skipped: needs mongos")
    lines = closing(
        tmp_path,
        report("tests/spec/test_a.py::test_a", "passed", "setup"),
        report("tests/spec/test_a.py::test_a", "passed"),
        report("tests/spec/test_a.py::test_a", "passed", "teardown"),
        report("tests/spec/test_a.py::test_b", "failed", "setup"),
        report("tests/spec/test_a.py::test_d", "skipped", wasxfail="a gap"),
        skipped,
    )

    assert [line.split()[-4:] for line in lines if line.startswith("official:")] == [["1", "1", "1", "1"]]
    assert "workers' time: spec 9 s" in lines
    assert [line.split() for line in lines if "needs mongos" in line] == [["1", "needs", "mongos"]]


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("release\n", "core: release build"),
        ("quick\n", "core: quick build; `make build` makes the release"),
        (None, "core: release build"),
    ],
)
def test_the_build_that_was_tested_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str | None, line: str
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    if written is not None:
        (tmp_path / "mangonel-build").write_text(written)

    assert line in closing(tmp_path, report("tests/unit/test_a.py::test_a", "passed"))


def test_what_fails_is_called_so_in_the_summary_and_nothing_has_a_letter(pytestconfig: pytest.Config) -> None:
    progress = Progress(pytestconfig, Workers(2))
    found = [
        progress.pytest_report_teststatus(report("a.py::a", outcome, when))
        for outcome, when in (
            ("passed", "call"),
            ("failed", "call"),
            ("failed", "setup"),
            ("skipped", "setup"),
        )
    ]

    assert found == [
        ("passed", "", ""),
        ("failed", "", "FAILED"),
        ("error", "", "ERROR"),
        ("skipped", "", ""),
    ]
