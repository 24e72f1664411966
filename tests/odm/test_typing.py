"""What type checkers say: nothing about the samples, and something about each wrong use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SAMPLES = sorted((HERE / "samples").glob("*.py"))
WRONG = HERE / "typing" / "wrong_uses.py"


def wrong_lines() -> set[int]:
    """The lines that must be reported."""
    lines = WRONG.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def mypy_reports(*files: Path) -> list[tuple[str, int]]:
    """The files and lines in which mypy finds errors."""
    pytest.importorskip("mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--strict",
        "--follow-imports=silent",
        "--explicit-package-bases",
        "-O",
        "json",
    ]
    done = subprocess.run(
        [*command, *map(str, files)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"MYPYPATH": f"python:{HERE}", "PATH": ""},
        check=False,
    )
    assert done.returncode < 2, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [(Path(row["file"]).name, row["line"]) for row in found if row["severity"] == "error"]


def pyright_reports(tmp_path: Path, *files: Path) -> list[tuple[str, int]]:
    """The files and lines in which pyright finds errors, in its strict mode."""
    pytest.importorskip("basedpyright")
    config = {
        "include": [str(file) for file in files],
        "typeCheckingMode": "strict",
        "reportUnusedExpression": False,
        "extraPaths": [str(ROOT / "python"), str(HERE)],
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--outputjson",
            "-p",
            str(tmp_path),
            "--pythonpath",
            sys.executable,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode < 2, done.stdout
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [
        (Path(row["file"]).name, row["range"]["start"]["line"] + 1)
        for row in found
        if row["severity"] == "error"
    ]


def test_mypy_accepts_the_samples_and_reports_each_wrong_use() -> None:
    found = mypy_reports(*SAMPLES, WRONG)
    assert {name for name, _ in found} == {WRONG.name}
    assert {line for _, line in found} == wrong_lines()


def test_pyright_accepts_the_samples_and_reports_each_wrong_use(tmp_path: Path) -> None:
    found = pyright_reports(tmp_path, *SAMPLES, WRONG)
    assert {name for name, _ in found} == {WRONG.name}
    assert {line for _, line in found} == wrong_lines()
