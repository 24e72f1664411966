"""Running type checkers over files, in their strict modes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


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


def pyright_reports(tmp_path: Path, *files: Path, **settings: bool) -> list[tuple[str, int]]:
    """The files and lines in which pyright finds errors, in its strict mode."""
    pytest.importorskip("basedpyright")
    config = {
        "include": [str(file) for file in files],
        "typeCheckingMode": "strict",
        "reportUnusedExpression": False,
        "extraPaths": [str(ROOT / "python"), str(HERE)],
        "pythonVersion": "3.11",
        **settings,
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
