"""The table of interpreters compares the same targets, and only runs of one machine."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from tests.tools.programs import load_program

from mangonel.lab import results

ROOT = Path(__file__).resolve().parents[2]
TOOL = load_program(ROOT / "tools/docs_interpreters.py")


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return results.load(ROOT / "docs/benchmarks/report.jsonl.gz")


def as_of(content: dict[str, Any], **told: Any) -> dict[str, Any]:
    return {**content, "fingerprint": {**copy.deepcopy(content["fingerprint"]), **told}}


def test_each_interpreter_has_a_column_and_each_target_a_row(content: dict[str, Any]) -> None:
    without = as_of(content, python="3.14.9")
    without = {**without, "plan": {**content["plan"], "experiments": ["bson"]}}
    lines = list(TOOL.table([content, without]))
    rows = {
        line.split(" | ")[0].lstrip("| "): line.strip("| ").split(" | ")
        for line in lines
        if line.startswith("|")
    }

    assert rows["what"][2:] == [f"CPython {content['fingerprint']['python']}", "CPython 3.14.9"]
    flat = rows["bson: decode flat, version-gated path"]
    assert flat[1] == "≥ 4.5x"
    assert flat[2] == flat[3]
    assert rows["find-one: blocking, speed against PyMongo"][3] == "not played"
    assert any("CPython 3.14.9" in line for line in lines if line.startswith("- "))


def test_what_misses_its_target_is_in_bold(content: dict[str, Any]) -> None:
    bold = {line.split(" | ")[0].lstrip("| ") for line in TOOL.table([content]) if "**" in line}
    judged = TOOL.marks.verdicts(results.Results(content))

    assert bold == {
        f"{each.mark.experiment}: {each.mark.text}" for each in judged if each.state == TOOL.marks.MISSED
    }


def test_runs_of_two_machines_are_refused(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one machine and server, got other cores"):
        list(TOOL.table([content, as_of(content, cores=64)]))
