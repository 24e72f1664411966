"""The page for security reviewers: every requirement has an answer, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs/websessions/review.md").read_text()

# OWASP ASVS 5.0.0, chapter V7.
NUMBERS = {"7.1": 3, "7.2": 4, "7.3": 2, "7.4": 5, "7.5": 3, "7.6": 2}
ANSWERS = ("met", "yours", "not applicable", "not met")

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not re.match(r"\|(-|[^|]*asks for \|| # )", line)
]
DEFINED = {
    name for file in HERE.glob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
}


def test_every_requirement_of_the_chapter_has_a_row() -> None:
    found = [row[0] for row in ROWS if re.fullmatch(r"7\.\d\.\d", row[0])]
    assert found == [f"{part}.{number + 1}" for part, most in NUMBERS.items() for number in range(most)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_has_an_answer_and_names_tests_that_exist(row: list[str]) -> None:
    answer, how = row[-2:]
    named = set(re.findall(r"`(test_\w+)`", how))
    assert answer in ANSWERS
    assert named or answer != "met", "what is met has a test"
    assert named <= DEFINED, named - DEFINED
