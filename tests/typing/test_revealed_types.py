"""What type checkers are told, line by line.

The files in `cases` are checked, never run. `# R: T` behind a line says that `reveal_type` finds T there, `# E: text`
that the line is an error which says `text`; every other line must be free of errors.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
ROOT = CASES.parent.parent.parent

REPORT = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)$")
EXPECTATION = re.compile(r"# (?P<kind>[RE]): (?P<text>.*?)\s*$")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, list[str]]]:
    """For each file, what mypy says of each line."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--hide-error-context"]
    command += [
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "typing_tests"),
        *map(str, sorted(CASES.glob("*.py"))),
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    said: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in found.stdout.splitlines():
        match = REPORT.match(line)
        if match:
            text = match["text"]
            revealed = re.match(r'Revealed type is "(.*)"$', text)
            if revealed:
                said[Path(match["file"]).name][int(match["line"])].append(f"R: {short(revealed[1])}")
            elif match["kind"] == "error":
                said[Path(match["file"]).name][int(match["line"])].append(f"E: {text}")
    assert found.returncode in (0, 1), found.stdout + found.stderr
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
