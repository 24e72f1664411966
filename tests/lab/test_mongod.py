"""The lab finds the mongod of the checkout's environment even if another interpreter runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangonel.lab.commands import play
from mangonel.lab.mongod import lend_mongod
from mangonel.server import MongodNotFound, find, find_mongod


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a mongod in its environment, seen by an interpreter that has none."""
    program = tmp_path / ".venv/lib/python3.11/site-packages" / find.WHEEL_FILE
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    # Undone at the end, even if the lab sets it meanwhile.
    monkeypatch.setenv(find.VARIABLE, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(find, "_wheel_mongod", lambda: None)
    return tmp_path


def test_the_mongod_of_the_checkout_is_found_where_the_interpreter_has_none(checkout: Path) -> None:
    with pytest.raises(MongodNotFound):
        find_mongod()
    lend_mongod(checkout)
    assert Path(find_mongod()).is_relative_to(checkout / ".venv")


def test_a_mongod_of_the_interpreters_own_stays(checkout: Path) -> None:
    own = checkout / "mongod"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    lend_mongod(checkout)
    assert find_mongod() == str(own)


def test_a_variable_that_names_no_program_is_an_error(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(find.VARIABLE, "/nowhere/mongod")
    lend_mongod(checkout)
    with pytest.raises(MongodNotFound, match="/nowhere/mongod"):
        find_mongod()


def test_an_installed_package_has_no_checkout_and_says_so(checkout: Path, tmp_path: Path) -> None:
    lend_mongod(tmp_path / "elsewhere")
    with pytest.raises(MongodNotFound, match="no mongod found"):
        find_mongod()


def test_a_run_on_a_named_deployment_can_start_servers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[bool] = []
    monkeypatch.setattr(play, "lend_mongod", lambda: lent.append(True))
    with play.deployment("mongodb://db.example"):
        assert lent == [True]
