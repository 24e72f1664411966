"""A wheel counts only when `auditwheel` confirms its tag; wheels for this machine are compiled by a profile.

These tests build no wheel.
"""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tools.programs import load_program

TOOL = Path(__file__).parents[2] / "tools/wheels.py"
GLIBC, MUSL = "manylinux-aarch64", "musllinux-aarch64"


@pytest.fixture(scope="module")
def wheels() -> ModuleType:
    return load_program(TOOL)


@pytest.fixture
def wheel(wheels: ModuleType, tmp_path: Path) -> Path:
    """A file with the entries of every wheel, all empty."""
    path = tmp_path / "mangonel-0.1.0-cp313-cp313-linux_aarch64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*(f"mangonel{part}" for part in wheels.NEEDED), "mangonel/_core.so"):
            archive.writestr(name, "")
    return path


@pytest.fixture
def look_at(
    wheels: ModuleType, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], list[str]]:
    """Check the wheel as one of a target's, with an `auditwheel` that finds a platform tag."""

    def look(target: str, found: str) -> list[str]:
        said = f'{wheel.name} is consistent\nwith the following platform tag: "{found}".\n'
        done = subprocess.CompletedProcess((), 0, said, "")
        monkeypatch.setattr(wheels.subprocess, "run", lambda *words, **options: done)
        return list(wheels.look_at(wheel, wheels.TARGETS[target]))

    return look


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (GLIBC, "manylinux_2_17_aarch64"),
        (GLIBC, "manylinux_2_5_aarch64"),
        (MUSL, "musllinux_1_2_aarch64"),
        (MUSL, "musllinux_1_1_aarch64"),
    ],
)
def test_the_promised_version_or_a_lower_one_is_good(
    look_at: Callable[[str, str], list[str]], target: str, found: str
) -> None:
    assert f"auditwheel: {found}" in look_at(target, found)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (GLIBC, "linux_aarch64"),
        (GLIBC, "manylinux_2_28_aarch64"),
        (GLIBC, "musllinux_1_2_aarch64"),
        (MUSL, "linux_aarch64"),
        (MUSL, "musllinux_1_3_aarch64"),
        (MUSL, "manylinux_1_1_aarch64"),
    ],
)
def test_what_is_not_confirmed_is_refused_with_what_was_promised_and_what_was_found(
    wheels: ModuleType, look_at: Callable[[str, str], list[str]], target: str, found: str
) -> None:
    promised = wheels.TARGETS[target].policy
    with pytest.raises(wheels.Problem, match=f"expected {promised}, auditwheel says {found}"):
        look_at(target, found)


def objdump(*names: str) -> str:
    return "".join(f"\tDLL Name: {name}\n" for name in names)


def look_at_windows(wheels: ModuleType, wheel: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> list[str]:
    done = subprocess.CompletedProcess((), 0, said, "")
    monkeypatch.setattr(wheels.subprocess, "run", lambda *words, **options: done)
    return list(wheels.look_at(wheel, wheels.TARGETS["windows"]))


def test_a_wheel_for_windows_asks_for_what_windows_or_python_has(
    wheels: ModuleType, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = objdump("api-ms-win-core-synch-l1-2-0.dll", "KERNEL32.dll", "python313.dll", "ws2_32.dll")
    assert "4 libraries, all of Windows or Python" in look_at_windows(wheels, wheel, monkeypatch, said)


@pytest.mark.parametrize(
    "name", ["libgcc_s_seh-1.dll", "VCRUNTIME140.dll", "kernel32.dll.dll", "python313t.dll"]
)
def test_a_wheel_for_windows_that_asks_for_more_is_refused(
    wheels: ModuleType, wheel: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(wheels.Problem, match=f"got {name}$"):
        look_at_windows(wheels, wheel, monkeypatch, objdump("KERNEL32.dll", name))


HOST, FOREIGN = "manylinux-x86_64", ("manylinux-aarch64", "musllinux-x86_64", "macos")


class Builds:
    """The programs that `make` runs: they leave the files that the next one reads."""

    def __init__(self, complaint: str = "") -> None:
        self.complaint = complaint
        self.calls: list[tuple[str, dict[str, str]]] = []

    def run(self, *command: str, **environment: str) -> str:
        self.calls.append((Path(command[0]).name, environment))
        if command[0] != "maturin":
            return ""
        tag = "linux_x86_64" if command[-1] == "linux" else command[-1] + "_x86_64"
        out = Path(command[command.index("--out") + 1])
        with zipfile.ZipFile(out / f"mangonel-0.1.0-cp313-cp313-{tag}.whl", "w") as archive:
            archive.writestr("mangonel/_core.so", "")
        return self.complaint if "-Cprofile-use" in environment.get("RUSTFLAGS", "") else ""


@pytest.fixture
def make(
    wheels: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str, Builds], Path]:
    """Make a target's wheel as on Linux on x86-64, with programs that only leave files."""
    tool = tmp_path / "lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata"
    tool.parent.mkdir(parents=True)
    tool.touch()
    monkeypatch.setattr(wheels, "host", lambda: "x86_64-unknown-linux-gnu")
    told = subprocess.CompletedProcess((), 0, f"{tmp_path}\n", "")
    monkeypatch.setattr(wheels.subprocess, "run", lambda *words, **options: told)

    def play(target: str, builds: Builds) -> Path:
        monkeypatch.setattr(wheels, "run", builds.run)
        interpreter = wheels.Interpreter("/usr/bin/python3.13", "/usr/include/python3.13")
        path: Path = wheels.make(wheels.TARGETS[target], "3.13", interpreter, tmp_path / "out")
        return path

    return play


def test_what_runs_here_is_built_to_count_played_and_built_by_the_counts(
    make: Callable[[str, Builds], Path],
) -> None:
    builds = Builds()
    assert make(HOST, builds).name == "mangonel-0.1.0-cp313-cp313-manylinux_2_17_x86_64.whl"
    (_, counting), (_, played), _, (_, used) = builds.calls
    assert [name for name, _ in builds.calls] == ["maturin", "python3.13", "llvm-profdata", "maturin"]
    assert "-Cprofile-generate" in counting["RUSTFLAGS"]
    assert counting["CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER"] == "cc"
    assert played.keys() == {"PYTHONPATH", "LLVM_PROFILE_FILE"}
    assert "usual.profdata" in used["RUSTFLAGS"]
    assert "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER" not in used


@pytest.mark.parametrize("target", FOREIGN)
def test_what_does_not_run_here_is_built_without_a_profile(
    wheels: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str
) -> None:
    built: list[tuple[object, ...]] = []
    monkeypatch.setattr(wheels, "host", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(wheels, "build", lambda *words: built.append(words))
    interpreter = wheels.Interpreter("/usr/bin/python3.13", "/usr/include/python3.13")
    wheels.make(wheels.TARGETS[target], "3.13", interpreter, tmp_path)
    assert built == [(wheels.TARGETS[target], "3.13", interpreter.headers, tmp_path)]


def test_a_profile_of_other_sources_is_refused(
    wheels: ModuleType, make: Callable[[str, Builds], Path]
) -> None:
    complaint = f"warning: {wheels.UNKNOWN} for function a\nwarning: {wheels.UNKNOWN} for function b\n"
    with pytest.raises(wheels.Problem, match="got one that lacks 2"):
        make(HOST, Builds(complaint))
