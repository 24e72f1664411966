"""Runs programs in interpreters of their own, for tests that may end a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mangonel

ROOT = Path(__file__).parent.parent.parent


def run(
    program: str, *arguments: str, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `program` to its end, with this package importable."""
    return _run(["-c", program, *arguments], timeout, environment)


def run_file(
    program: Path, *arguments: str, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """As `run`, for a program in a file."""
    return _run([str(program), *arguments], timeout, environment)


def _run(
    arguments: list[str], timeout: float, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(mangonel.__file__).parent.parent),
            "PYTHONFAULTHANDLER": "1",
            **environment,
        },
        check=False,
    )


def must_end_well(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail with the program's output unless it ended with 0 and an empty error output."""
    said = ended.stderr[-3000:]
    assert (ended.returncode, said) == (0, ""), f"exit code {ended.returncode}: {said}"
