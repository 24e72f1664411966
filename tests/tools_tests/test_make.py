"""`make` builds: tests use an existing release build, or else a quick one; missing tools are reported first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Programs that the Makefile's own lines call, besides Python.
PROGRAMS = ("sh", "make", "find", "test", "echo", "df", "tail", "nice", "cat", "mkdir", "touch", "grep")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def checkout(tmp_path):
    """A folder with the files that the Makefile reads, without an environment; its name has a space and no ASCII
    letter.
    """
    folder = tmp_path / "ä ü"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name in ("Makefile", "requirements", "tools", "crates", ".cargo") or path.suffix in (
            ".toml",
            ".lock",
        ):
            (folder / path.name).symlink_to(path)
    return folder


def make(folder, *arguments, **environment):
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def planned(folder, target):
    """Return the builds that a target would make."""
    done = make(folder, "--dry-run", target, PYTHON=sys.executable)
    return {
        name
        for name in ("release", "dev")
        if f"maturin develop --{name}" in done.stdout.replace("profile ", "")
    }


@pytest.mark.parametrize("target", ["ready", "test-python", "lint", "demo", "docs", "run"])
def test_a_fresh_clone_makes_the_quick_build(checkout, target):
    assert planned(checkout, target) == {"dev"}


@pytest.mark.parametrize("target", ["build", "instructions", "bench", "wheel", "test-rest"])
def test_what_has_figures_or_is_given_to_users_takes_the_release_build(checkout, target):
    assert "release" in planned(checkout, target)


def test_the_build_by_a_profile_is_a_release_build(checkout):
    done = make(checkout, "--dry-run", "trained", PYTHON=sys.executable)
    commands = [line for line in done.stdout.splitlines() if "maturin develop" in line]
    assert [{"--release", "--pgo"} <= set(line.split()) for line in commands] == [True]
    assert "touch .venv/.built" in done.stdout


@pytest.mark.parametrize(
    ("target", "log"), [("lint", ""), ("beside", "beside.log"), ("rest-beside", "rest-beside.log")]
)
def test_clippy_and_stubtest_are_played_by_lint_and_by_the_rest(checkout, target, log):
    (checkout / "target").mkdir()
    planned = make(checkout, "--dry-run", target, PYTHON=sys.executable).stdout
    planned += (checkout / "target" / log).read_text() if log else ""
    assert "mypy" in planned or target == "rest-beside"
    assert {tool in planned for tool in ("cargo clippy", "/stubtest ")} == {target != "beside"}


@pytest.mark.parametrize("target", ["ready", "test-python", "run"])
def test_a_release_build_that_is_there_is_kept_up(checkout, target):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".built").touch()
    (checkout / ".venv" / ".quick").touch()
    # Older than the sources.
    os.utime(checkout / ".venv" / ".built", (0, 0))
    assert planned(checkout, target) == {"release"}


def test_another_build_tool_does_not_make_a_build_old(checkout):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    now = time.time()
    for name, mtime in ((".built", now), (".requirements", now), ("bin/maturin", now + 5)):
        (checkout / ".venv" / name).touch()
        os.utime(checkout / ".venv" / name, (mtime, mtime))
    assert planned(checkout, "ready") == set()


@pytest.mark.parametrize("target", ["ready", "build", "test-python"])
def test_a_make_below_another_one_takes_its_jobs_without_a_warning(checkout, target):
    done = make(checkout, "--dry-run", "--jobs", "2", target, PYTHON=sys.executable)
    assert "maturin develop" in done.stdout
    assert "jobserver" not in done.stderr


@pytest.mark.parametrize("target", ["run", "ready", "build"])
def test_what_is_missing_is_said_before_anything_is_installed(checkout, tmp_path, target):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    (programs / "python3").symlink_to(sys.executable)

    done = make(checkout, target, PATH=str(programs))

    assert done.returncode == 2
    assert "cannot build: expected Rust 1.95 or newer, got no cargo" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_that_is_not_there_is_named(checkout):
    done = make(checkout, "run", "PYTHON=python3.99")

    assert "got no python3.99: install one, or name another: make run PYTHON=python3.13" in done.stderr


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_where_pip_fails_the_way_to_go_without_an_index_is_told(checkout):
    # An environment whose pip cannot reach any index; making a real one takes seconds.
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 'ERROR: no matching distribution' >&2\nexit 1\n")
    python.chmod(0o755)
    places = {name: os.environ[name] for name in ("PATH", "HOME")}

    done = make(checkout, "ready", PYTHON=sys.executable, **places)

    assert done.returncode == 2
    assert (
        "cannot install the build tool: pip says why above. It needs a package index, or PIP_NO_IND"
        in done.stderr
    )
