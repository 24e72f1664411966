"""The types that checkers infer, line by line.

The files in `cases` are checked, never run. `# R: T` behind a line says that `reveal_type` finds T there, `# E: text`
that the line is an error which says `text`; every other line must be free of errors.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tools.type_checkers import mypy_rows

CASES = Path(__file__).parent / "cases"
EXPECTATION = re.compile(r"# (?P<kind>[RE]): (?P<text>.*?)\s*$")


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[int, list[str]]]:
    """Return mypy's report on each line, by file."""
    said: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in mypy_rows(*sorted(CASES.glob("*.py"))):
        lines = said[Path(row["file"]).name][row["line"]]
        revealed = re.match(r'Revealed type is "(.*)"$', row["message"])
        if revealed:
            lines.append(f"R: {short(revealed[1])}")
        elif row["severity"] == "error":
            lines.append(f"E: {row['message']}")
    return said


def short(revealed: str) -> str:
    """Return a type without the modules of its names."""
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", revealed)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.py")), ids=lambda path: path.stem)
def test_checker_sees_what_the_comments_say(path: Path, reports: dict[str, dict[int, list[str]]]) -> None:
    said = reports[path.name]
    wrong = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = EXPECTATION.search(line)
        found = said.get(number, [])
        if match is None:
            wrong += [f"{number}: unexpected {text}" for text in found]
        elif match["kind"] == "R" and found != [f"R: {match['text']}"]:
            wrong.append(f"{number}: expected R: {match['text']}, got {found}")
        elif match["kind"] == "E" and not any(match["text"] in text for text in found):
            wrong.append(f"{number}: expected E: {match['text']}, got {found}")

    assert not wrong, "\n".join(wrong)
