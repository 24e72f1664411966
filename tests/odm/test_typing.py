"""Type checkers report nothing about the samples, and every wrong use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.type_checkers import SAMPLES, basedpyright, mypy_reports, pyright, pyright_reports

ACCEPTED = sorted((SAMPLES / "samples").glob("*.py"))
WRONG = SAMPLES / "typing" / "wrong_uses.py"


def wrong_lines() -> set[int]:
    """Return the lines that must be reported."""
    lines = WRONG.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def test_mypy_accepts_the_samples_and_reports_each_wrong_use() -> None:
    found = mypy_reports(*ACCEPTED, WRONG)
    assert {name for name, _ in found} == {WRONG.name}
    assert {line for _, line in found} == wrong_lines()


@pytest.mark.no_sample
@pytest.mark.parametrize("checker", [basedpyright, pytest.param(pyright, marks=pytest.mark.timeout(900))])
def test_pyright_accepts_the_samples_and_reports_each_wrong_use(
    checker: Callable[[], list[str]], tmp_path: Path
) -> None:
    found = pyright_reports(tmp_path, *ACCEPTED, WRONG, checker=checker)
    assert {name for name, _ in found} == {WRONG.name}
    assert {line for _, line in found} == wrong_lines()
