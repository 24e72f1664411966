"""Each missing prerequisite of a build is reported in one line, with the remedy, before anything is installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("prerequisites", ROOT / "tools" / "prerequisites.py")
prerequisites = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prerequisites)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that puts a program, which prints a text, into the only folder of PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))

    def put(name, text="", status=0, below=folder):
        below.mkdir(parents=True, exist_ok=True)
        (below / name).write_text(f"#!/bin/sh\nprintf '%s\\n' '{text}'\nexit {status}\n")
        (below / name).chmod(0o755)

    return put


def test_a_machine_with_all_of_it_lacks_nothing(programs):
    programs("cargo")
    programs("rustc", "rustc 1.95.0 (59807616e 2026-04-14)")
    programs("cc")
    assert prerequisites.problems() == []


def test_each_thing_that_is_missing_has_a_line(programs):
    rust, compiler = prerequisites.problems()
    assert rust == (
        "expected Rust 1.95 or newer, got no cargo and no rustc: https://rustup.rs installs it, without root"
    )
    assert compiler.startswith("expected a C compiler, got no cc: on Debian and Ubuntu, sudo apt install gcc")


def test_a_toolchain_outside_of_the_path_is_found(programs, tmp_path):
    programs("cc")
    for name in ("cargo", "rustc"):
        programs(name, below=tmp_path / "cargo" / "bin")
    (line,) = prerequisites.problems()
    assert line.endswith(f'which is not in PATH: export PATH="{tmp_path}/cargo/bin:$PATH"')


@pytest.mark.parametrize(
    ("told", "status", "expected"),
    [
        ("rustc 1.63.0 (4b91a6ea7 2022-08-08)", 0, "got 1.63 ("),
        (
            "error: rustup could not choose a version of rustc to run",
            1,
            "a version of rustc to run (rustup default stable chooses one)",
        ),
        ("", 3, "rustc --version says: nothing, and ends with status 3"),
    ],
)
def test_a_toolchain_that_does_not_do_is_told_with_its_version(programs, told, status, expected):
    programs("cc")
    programs("cargo")
    programs("rustc", told, status)
    (line,) = prerequisites.problems()
    assert line.startswith("expected Rust 1.95 or newer, ")
    assert expected in line


def test_an_old_python_is_told_which_one_to_name(programs):
    # pyenv's shims of versions that are not selected start nothing.
    programs("python3.14", "pyenv: python3.14: command not found", 127)
    programs("python3.13", "Python 3.13.0")
    (line,) = prerequisites.python_problems((3, 10))
    assert line.startswith("expected Python 3.11 or newer, got 3.10 (")
    assert line.endswith(": use python3.13, as in make run PYTHON=python3.13")


def test_an_old_python_without_another_one_is_told_to_install_one(programs):
    (line,) = prerequisites.python_problems((3, 10))
    assert line.endswith(": install one, then name it: make run PYTHON=python3.11")


def old_pythons():
    """Return interpreters older than the package supports, one of each minor version that is found."""
    for minor in range(6, 11):
        installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*/bin/python3"))
        yield from [str(installed[-1])] if installed else filter(None, [shutil.which(f"python3.{minor}")])


@pytest.mark.enough(2)
@pytest.mark.parametrize(
    "python", [*old_pythons()] or [pytest.param("", marks=pytest.mark.skip("no old Python"))]
)
def test_an_old_python_reads_the_tool(python):
    done = subprocess.run(
        [python, str(ROOT / "tools" / "prerequisites.py")], capture_output=True, text=True, timeout=60
    )
    if done.returncode == 127:
        pytest.skip(f"{python} starts no Python")
    assert done.returncode == 1
    assert "cannot build: expected Python 3.11 or newer, got 3." in done.stderr
