"""Tests played by several workers are reported as if one process had played them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.inner_pytest import run_pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing can fork here")

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from tools import workers

def pytest_addoption(parser):
    workers.add_option(parser)

def pytest_configure(config):
    config.addinivalue_line("markers", "needs_calm: begun last")
    config.pluginmanager.register(workers.Workers(workers.asked_for(config)))
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that plays tests in two workers and returns the output."""

    def play(*arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        return run_pytest(tmp_path, "--workers", "2", *arguments)

    return play


def test_reports_output_and_warnings_are_those_of_one_process(run: Run) -> None:
    done = run(
        "-rA",
        several="""
import os, warnings, pytest

def test_passes(tmp_path):
    print("printed by", "one that passes")
    warnings.warn("a warning of a test", DeprecationWarning)

def test_fails():
    print("printed by", "one that fails")
    assert [1, 2] == [1, 3]

def test_is_skipped():
    pytest.skip("a reason")

@pytest.mark.xfail(reason="a gap")
def test_is_a_gap():
    raise ValueError

@pytest.fixture
def broken():
    yield
    raise OSError("broken at the end")

def test_fails_after_its_end(broken):
    pass

def test_dies():
    os.abort()

def test_after_death():
    pass
""",
        other="import os\ndef test_of_another_file(): assert os.getppid() != 1\n",
    )

    shown = done.stdout
    assert done.returncode == 1, shown + done.stderr
    assert re.search(r"2 failed, 4 passed, 1 skipped, 1 xfailed, \d warnings?, 1 error in", shown), shown
    assert "At index 1 diff: 2 != 3" in shown
    assert shown.count("printed by one that passes") == shown.count("printed by one that fails") == 1
    assert "DeprecationWarning: a warning of a test" in shown
    assert "FAILED test_several.py::test_dies - the worker died of SIGABRT" in shown
    assert "OSError: broken at the end" in shown


def test_fixtures_end_once_in_each_worker_and_after_an_interruption(run: Run, tmp_path: Path) -> None:
    fixture = """
import os, signal, time, pytest

@pytest.fixture(scope="session", autouse=True)
def lasting(tmp_path_factory):
    place = tmp_path_factory.mktemp("lasting")
    with open("log", "a") as log:
        log.write(f"begun {place}\\n")
    yield
    with open("log", "a") as log:
        log.write(f"ended {place}\\n")
"""
    (tmp_path / "folder").mkdir()
    done = run(
        one=fixture + "def test_one(): time.sleep(0.2)\n",
        two=fixture + "def test_two(): time.sleep(0.2)\n",
        three=fixture + "def test_three(): time.sleep(0.2)\n",
    )
    found = (tmp_path / "log").read_text().splitlines()

    assert done.returncode == 0, done.stdout + done.stderr
    begun = [line.removeprefix("begun ") for line in found if line.startswith("begun ")]
    assert len(set(begun)) == len(begun) == 3
    assert sorted(line.removeprefix("ended ") for line in found if line.startswith("ended ")) == sorted(begun)

    (tmp_path / "log").unlink()
    # A fixture that is interrupted during its set-up has no teardown: both workers must be in their tests by then.
    last = (
        fixture
        + """
def test_last():
    open(f"there-{os.getpid()}", "w").close()
    while len(there := [name for name in os.listdir() if name.startswith("there-")]) < 2:
        time.sleep(0.01)
    if min(there) == f"there-{os.getpid()}":
        os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
"""
    )
    # A worker takes the next test before it plays one, so that two leave one for the other.
    done = run(one=last, two=last, three=last)
    found = (tmp_path / "log").read_text().splitlines()

    assert done.returncode == 2, done.stdout + done.stderr
    assert "KeyboardInterrupt" in done.stdout
    assert [line.partition(" ")[0] for line in found] == ["begun", "begun", "ended", "ended"]


def test_a_failure_ends_the_run_where_that_is_asked_for(run: Run) -> None:
    done = run(
        "-x", one="def test_fails(): assert False\n" + "".join(f"def test_{n}(): pass\n" for n in range(300))
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "stopping after 1 failures" in done.stdout
    assert "== 1 failed" in done.stdout, done.stdout


def test_no_file_is_begun_after_the_time_that_is_given_and_what_is_left_out_is_told(run: Run) -> None:
    several = {f"at_{number}": "def test_a(): pass\ndef test_b(): pass" for number in range(3)}
    done = run("--until", "1", **several)
    assert re.search(r"NOT RUN: 6 tests, the time of --until was up", done.stdout), done.stdout
    done = run("--until", "9e9", **several)
    assert "6 passed" in done.stdout
    assert "NOT RUN" not in done.stdout
