"""Servers that outlive a command: started once, and ended alone, by process id and start time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mangonel import MongoClient
from mangonel.cli import main
from mangonel.engines import daemon


@pytest.fixture
def where(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield daemon.folder()
    daemon.down(daemon.folder())


def content(where) -> dict:
    return json.loads((where / daemon.FILE).read_text())


def lives(found: dict) -> list[bool]:
    return [daemon.started(pid) == start for pid, start in [found["keeper"], *found["processes"]]]


def test_what_stands_is_printed_reached_and_ended(where, tmp_path, capsys):
    assert main(["lab", "up", "--latency", "5ms"]) == 0
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert set(printed) == {"mongodb", "mongodb-delayed"}
    found = content(where)
    assert lives(found) == [True] * 3
    for uri in printed.values():
        with MongoClient(uri) as client:
            client.admin.command("ping")

    assert main(["lab", "up", "--latency", "5"]) == 0
    assert "were running already" in capsys.readouterr().err
    assert content(where) == found
    assert main(["lab", "up"]) == 1
    assert "lab down" in capsys.readouterr().err

    assert main(["lab", "down"]) == 0
    assert lives(found) == [False] * 3
    assert not os.path.exists(found["data"])
    assert main(["lab", "down"]) == 0
    assert "no servers are running" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mangonel"]


def test_what_a_keeper_left_behind_is_ended_by_the_next_command(where):
    _, is_new = daemon.up({"stores": [], "latency_ms": 5.0}, where)
    assert is_new
    found = content(where)
    os.kill(found["keeper"][0], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while daemon.started(found["keeper"][0]) == found["keeper"][1] and time.monotonic() < deadline:
        time.sleep(0.02)

    assert daemon.down(where)
    assert not any(lives(found))
    assert not os.path.exists(found["data"])
    assert not (where / daemon.FILE).exists()


def test_a_process_that_has_the_number_of_an_ended_one_is_left_alone(where, tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    where.mkdir(parents=True)
    told = {
        "uris": {},
        "order": {"stores": [], "latency_ms": 0.0},
        "keeper": [other.pid, "1"],
        "processes": [[other.pid, "2"]],
        "data": str(tmp_path / "none"),
    }
    (where / daemon.FILE).write_text(json.dumps(told))

    assert daemon.down(where)
    assert other.poll() is None
    other.communicate()


def test_servers_that_do_not_come_up_leave_nothing_and_say_why(where, monkeypatch, capsys):
    monkeypatch.setenv("MANGONEL_MONGOD", "/nowhere/mongod")
    assert main(["lab", "up"]) == 1
    assert "/nowhere/mongod" in capsys.readouterr().err
    assert not (where / daemon.FILE).exists()


def test_a_store_that_nobody_knows_is_refused(where, capsys):
    with pytest.raises(SystemExit):
        main(["lab", "up", "--store", "oracle"])
    assert "redis" in capsys.readouterr().err
