"""A command that waits for a server names the server and the time limit; a command with a reply is quiet."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from mangonel import _opened, cli
from mangonel.server import Server
from tools.faces import eventually

TELL_WAITS: Any = _opened._tell_waits
CLOSED = "mongodb://ada:secret@127.0.0.1:1/shop?serverSelectionTimeoutMS=1500"


class FirstLook:
    """A stand-in for the event that a command has ended; it does not end the first check."""

    def __init__(self, is_over: threading.Event) -> None:
        self._is_over = is_over
        self._has_looked = False

    def wait(self, seconds: float) -> bool:
        if self._has_looked:
            return self._is_over.wait(seconds)
        self._has_looked = True
        return False


def told_once_refused(command: str, client: Any, is_over: threading.Event) -> None:
    """As `_tell_waits`, with the first check after the server has been searched for, however slow the machine is."""
    eventually(
        lambda: all(each.error for each in client.topology_description.server_descriptions().values()),
        "the server to be refused",
    )
    TELL_WAITS(command, client, FirstLook(is_over))


@pytest.mark.parametrize("command", ["export", "import", "schema", "gridfs", "advise"])
def test_a_command_that_waits_for_a_server_says_so(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_opened, "_PAUSE", 0.05)
    monkeypatch.setattr(_opened, "_tell_waits", told_once_refused)
    (tmp_path / "orders.jsonl").write_text('{"_id": 1}\n')
    words = {
        "export": [CLOSED, "orders", "-o", str(tmp_path / "out.jsonl")],
        "import": [CLOSED, str(tmp_path / "orders.jsonl")],
        "schema": [CLOSED, "orders"],
        "gridfs": ["ls", CLOSED],
        "advise": [CLOSED],
    }

    assert cli.main([command, *words[command]]) == 1
    told = capsys.readouterr().err
    waits = f"mangonel {command}: waiting for a server for read preference primary: the deployment has 127.0.0.1:1 ("
    assert told.count(waits) == 1
    assert "refused); fails after 1.5 s, which serverSelectionTimeoutMS in the URI changes" in told
    assert "secret" not in told


def test_a_command_that_is_answered_does_not(
    standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.jsonl").write_text('{"_id": 1}\n')

    uri = f"mongodb://127.0.0.1:{standalone.members[0].port}/waiting"
    assert cli.main(["import", uri, str(tmp_path / "orders.jsonl"), "--drop"]) == 0
    assert "waiting" not in capsys.readouterr().err.replace("waiting.orders", "")
