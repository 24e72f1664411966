"""No server survives its parent's clean end, kill -9, or the end of the thread that started it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pymongo
import pytest

from mangonel import server
from tools.faces import eventually

CHILD = """
import json, os, sys, time
from mangonel import server
deployment = server.start({members}, dbpath={dbpath!r})
extra = 0
{more}
print(json.dumps([[member.pid for member in deployment.members], deployment.dbpath, deployment.uri,
                  deployment._supervisor._popen.pid, extra]), flush=True)
{last}
"""


def start_child(
    members: int, dbpath: str | None = None, more: str = "", last: str = "time.sleep(600)"
) -> tuple[subprocess.Popen[str], list]:
    code = CHILD.format(members=members, dbpath=dbpath, more=more, last=last)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, json.loads(child.stdout.readline())


def is_alive(pid: int) -> bool:
    try:
        # A process that was not waited for yet is a zombie, and no longer runs.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_gone(pids: list[int], path: str | None, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while any(is_alive(pid) for pid in pids) or (path is not None and os.path.exists(path)):
        assert time.monotonic() < deadline, f"left: {[pid for pid in pids if is_alive(pid)]}, {path}"
        time.sleep(0.01)


@pytest.mark.parametrize("members", [0, pytest.param(3, marks=pytest.mark.no_sample)])
def test_nothing_survives_kill_9_of_the_parent(members: int) -> None:
    child, (pids, dbpath, _, supervisor, _) = start_child(members)
    assert all(is_alive(pid) for pid in pids)
    child.kill()
    child.wait()
    assert_gone([*pids, supervisor], dbpath)


@pytest.mark.no_sample
def test_nothing_survives_kill_9_of_a_parent_whose_forked_child_lives_on() -> None:
    # The fork holds the parent's end of the supervisor's pipe open.
    more = "extra = os.fork()\nif not extra: os.close(1); time.sleep(600)"
    child, (pids, dbpath, _, supervisor, fork) = start_child(0, more=more)
    try:
        child.kill()
        child.wait()
        assert_gone([*pids, supervisor], dbpath)
        assert is_alive(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.no_sample
def test_nothing_survives_kill_9_while_a_member_is_paused() -> None:
    child, (pids, dbpath, _, supervisor, _) = start_child(1, more="deployment.members[0].pause()")
    child.kill()
    child.wait()
    assert_gone([*pids, supervisor], dbpath)


def test_nothing_survives_a_parent_that_forgets_to_stop() -> None:
    child, (pids, dbpath, _, supervisor, _) = start_child(0, last="")
    assert child.wait(60) == 0
    assert_gone([*pids, supervisor], dbpath)


def test_nothing_survives_kill_9_of_the_supervisor() -> None:
    deployment = server.start(replica_set=1)
    pid = deployment.members[0].pid
    assert pid is not None
    os.kill(deployment._supervisor._popen.pid, signal.SIGKILL)
    assert_gone([pid], None)
    deployment.stop()
    assert not os.path.exists(deployment.dbpath)


@pytest.mark.no_sample
def test_kill_9_of_the_parent_loses_no_acknowledged_write_of_kept_data(tmp_path: Path) -> None:
    more = (
        "import pymongo; pymongo.MongoClient(deployment.uri, w=1, journal=False).a.b.insert_one({'_id': 1})"
    )
    child, (pids, _, _, supervisor, _) = start_child(0, str(tmp_path), more)
    child.kill()
    child.wait()
    assert_gone([*pids, supervisor], None)
    with server.start(dbpath=tmp_path) as deployment, pymongo.MongoClient(deployment.uri) as client:
        assert client.a.b.find_one() == {"_id": 1}


@pytest.mark.no_sample
def test_server_outlives_the_thread_that_started_it() -> None:
    started: list[server.Server] = []
    thread = threading.Thread(target=lambda: started.append(server.start()))
    thread.start()
    thread.join()
    time.sleep(0.2)  # a death signal tied to the thread would have arrived by now
    with started[0] as deployment:
        eventually(lambda: deployment.members[0].state == "primary")


def test_forked_child_cannot_stop_the_server() -> None:
    with server.start() as deployment:
        child = os.fork()
        if not child:
            deployment.stop()
            os._exit(0)
        os.waitpid(child, 0)
        eventually(lambda: deployment.members[0].state == "primary")


def test_a_mongod_may_open_as_many_files_as_its_user_may() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = f"""
import resource
from mangonel import server
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, {hard}))
with server.start() as deployment:
    for pid in (deployment.members[0].pid, 0):
        print(resource.prlimit(pid, resource.RLIMIT_NOFILE)[0])
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert [int(word) for word in told.split()] == [min(64_000, hard), 1024]
