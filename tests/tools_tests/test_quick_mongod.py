"""The tests' mongod is the one that is installed, but for the number that it counts to when it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mangonel.server import MongodNotFound, find_mongod, start
from mangonel.server.find import VARIABLE
from tools.quick_mongod import LAST, LOOP, SHORT, install, quick_copy


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program with the loop in it."""
    path = tmp_path / "bin" / "mongod"
    path.parent.mkdir()
    path.write_bytes(b"before" + LOOP + b"behind")
    path.chmod(0o755)
    return path


def test_a_copy_differs_in_the_number_alone_and_can_be_run(program: Path, tmp_path: Path) -> None:
    copy = quick_copy(program, tmp_path / "kept")
    assert copy is not None
    assert copy.read_bytes() == b"before" + LOOP[: LAST.start] + SHORT + LOOP[LAST.stop :] + b"behind"
    assert os.access(copy, os.X_OK)
    # Those that look for a process find it by its usual name.
    assert copy.name == "mongod"


def test_a_copy_is_made_once_and_anew_for_another_program(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    first = quick_copy(program, folder)
    assert first is not None
    made = first.stat().st_ino
    assert quick_copy(program, folder) == first
    assert first.stat().st_ino == made
    program.write_bytes(LOOP + b"newer")
    second = quick_copy(program, folder)
    assert second is not None
    assert second.read_bytes().endswith(b"newer")


@pytest.mark.parametrize("content", [b"another compiler's", LOOP + LOOP], ids=["none", "two"])
def test_a_program_without_exactly_one_such_loop_is_taken_as_it_is(
    program: Path, tmp_path: Path, content: bytes
) -> None:
    program.write_bytes(content)
    assert quick_copy(program, tmp_path / "kept") is None
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_cannot_be_written_to_has_no_copy(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert quick_copy(program, file) is None


def test_a_mongod_that_is_named_stays(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(program))
    install(tmp_path / "kept")
    assert find_mongod() == str(program)
    assert not (tmp_path / "kept").exists()


def test_the_mongod_that_is_installed_is_copied_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    try:
        installed = Path(find_mongod())
    except MongodNotFound as error:
        pytest.skip(str(error))
    if LOOP not in installed.read_bytes():
        pytest.skip(f"{installed} has no such loop")
    # Undone at the end.
    monkeypatch.setenv(VARIABLE, "")
    install(tmp_path)
    copy = find_mongod()
    assert Path(copy).is_relative_to(tmp_path)
    with start() as server:
        assert server.members[0].run_command({"ping": 1})["ok"] == 1
        assert os.path.samefile(f"/proc/{server.members[0].pid}/exe", copy)
