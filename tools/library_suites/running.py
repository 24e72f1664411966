"""Makes a library's environment and plays its tests there, once for each driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from pymongo_source import fetch_source

from library_suites.suites import PYMONGO, RUNNER, Suite
from mangonel.server import find_mongod

ROOT = Path(__file__).resolve().parents[2]
ADDED = Path(__file__).resolve().parent / "added"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mangonel" / "library-suites"


@dataclass(frozen=True)
class Outcome:
    """How a suite ended: test -> "passed", "failed" or "skipped"."""

    tests: dict[str, str]

    def count(self, state: str) -> int:
        """Return how many tests ended with this outcome."""
        return sum(found == state for found in self.tests.values())


def environment(suite: Suite) -> tuple[Path, Path]:
    """Return the interpreter of a suite and the folder in which it runs; fetch what is missing."""
    folder = CACHE / suite.requirement
    python = folder / "venv/bin/python"
    done = folder / "ready"
    source, within = folder / "source", folder / "host"
    made_of = " ".join(filter(None, [suite.requirement, suite.host, *RUNNER, *suite.needs, PYMONGO]))
    if not done.exists() or done.read_text(encoding="utf-8") != made_of:
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", "--without-pip", folder / "venv"], check=True
        )
        # Not compiled in advance: most code of a library's dependencies is never imported by its tests.
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
        pip += ["install", "--no-compile"]
        subprocess.run(
            [*pip, *filter(None, [suite.requirement, suite.host, *RUNNER, *suite.needs])], check=True
        )
        # Libraries that do not yet allow this version of PyMongo run on it all the same.
        subprocess.run([*pip, "--no-deps", "--force-reinstall", PYMONGO], check=True)
        _unpack(suite.requirement, source)
        if suite.removed:
            shutil.rmtree(_only(source) / suite.removed)
        if suite.host:
            _unpack(suite.host, within)
            shutil.copytree(_only(source) / suite.tests, _only(within) / "tests", dirs_exist_ok=True)
            for settings in (_only(source) / ".github/workflows").glob("*_settings.py"):
                shutil.copy(settings, _only(within) / "tests")
        done.write_text(made_of, encoding="utf-8")
    place = _only(within) / "tests" if suite.host else _only(source)
    for path, name in suite.added.items():
        shutil.copy(ADDED / name, place / path)
    return python, place


def _unpack(requirement: str, folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as fetched,
        tarfile.open(fetch_source(Path(fetched), requirement)) as packed,
    ):
        shutil.rmtree(folder, ignore_errors=True)
        packed.extractall(folder, filter="data")


def _only(folder: Path) -> Path:
    (entry,) = folder.iterdir()
    return entry


def play(name: str, suite: Suite, through: list[str]) -> Outcome:
    """Run a suite once and return how each test ended.

    Args:
        through: arguments between the interpreter and its program.
    """
    python, place = environment(suite)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        if suite.program:
            folders = (_only(CACHE / suite.requirement / "source") / suite.tests).iterdir()
            labels = {path.name for path in folders if path.is_dir()} - set(suite.left_out)
            program = [suite.program, *suite.options, *sorted(labels)]
        else:
            program = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "120", "--tb=short"]
            for setting in ("addopts=", "filterwarnings=default", "junit_family=xunit1"):
                program += ["-o", setting]
            program += [f"--junitxml={report}", *suite.options, suite.tests]
        with (CACHE / f"{name}-{'ours' if through else 'pymongo'}.log").open("w") as log:
            subprocess.run(
                [python, *through, *program],
                cwd=place,
                env={
                    **os.environ,
                    **suite.variables,
                    "PYTHONPATH": str(ROOT / "python"),
                    # For tests that start a mongod.
                    "PATH": os.pathsep.join([os.environ["PATH"], str(Path(find_mongod()).parent)]),
                    "SUITE_REPORT": str(report),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return Outcome(ends_in(report)) if report.exists() else Outcome({})


def ends_in(report: Path) -> dict[str, str]:
    """Return how each test of a JUnit file ended; a test with a part that failed has failed."""
    ends: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        state = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        test = f"{case.get('classname')}::{case.get('name')}"
        if ends.get(test) != "failed":
            ends[test] = state
    return ends
