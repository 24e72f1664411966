"""A wheel counts only when `auditwheel` confirms what it promises. No wheel is built for that."""

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
    """A file with what every wheel has, and nothing in it."""
    path = tmp_path / "mangonel-0.1.0-cp313-cp313-linux_aarch64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*(f"mangonel{part}" for part in wheels.NEEDED), "mangonel/_core.so"):
            archive.writestr(name, "")
    return path


@pytest.fixture
def look_at(
    wheels: ModuleType, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], list[str]]:
    """Look at the wheel as one of a target's, with an `auditwheel` that finds a platform tag."""

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
