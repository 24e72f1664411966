"""Members by number: kill, stop, restart, pause, resume, and the reaction of the set."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pymongo
import pytest

from mangonel import server
from tools.faces import eventually


@pytest.fixture(scope="module")
def trio() -> Iterator[server.Server]:
    with server.start(replica_set=3) as deployment:
        yield deployment


@pytest.mark.no_sample
def test_killed_member_is_down_and_comes_back_on_its_port() -> None:
    with server.start(replica_set=1) as deployment:
        member = deployment.members[0]
        with pymongo.MongoClient(deployment.uri, w=1, journal=True) as client:
            client.test.things.insert_one({"_id": 1})
        port = member.port
        member.kill()
        assert (member.is_running, member.pid, member.state) == (False, None, "down")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1).close()
        member.restart()
        assert deployment.wait_for_primary() is member
        assert member.port == port
        with pymongo.MongoClient(deployment.uri) as client:
            assert client.test.things.find_one() == {"_id": 1}


def test_killed_primary_is_succeeded_by_another_member(trio: server.Server) -> None:
    old = trio.wait_until_settled()
    old.kill()
    new = trio.wait_for_primary()
    assert new is not old
    old.restart()
    trio.wait_until_settled()
    eventually(lambda: old.state in ("primary", "secondary"))


@pytest.mark.no_sample
def test_stop_ends_a_member_cleanly(trio: server.Server) -> None:
    primary = trio.wait_until_settled()
    member = next(member for member in trio.members if member is not primary)
    member.stop()
    assert not member.is_running
    with open(member.log, encoding="utf-8") as log:
        assert '"exitCode":0' in log.read().splitlines()[-1]
    member.restart()
    trio.wait_until_settled()


def test_paused_member_keeps_its_connections_and_answers_nothing_until_resumed(trio: server.Server) -> None:
    primary = trio.wait_until_settled()
    member = next(member for member in trio.members if member is not primary)
    member.pause()
    try:
        assert member.is_running
        with pytest.raises(TimeoutError):
            member.run_command({"ping": 1}, timeout=0.3)
    finally:
        member.resume()
    assert member.run_command({"ping": 1}, timeout=60)["ok"] == 1
    trio.wait_until_settled()


@pytest.mark.no_sample
def test_paused_member_can_be_stopped() -> None:
    with server.start() as deployment:
        deployment.members[0].pause()
        deployment.members[0].stop()
        assert not deployment.members[0].is_running


@pytest.mark.no_sample
def test_restart_of_a_running_member_gives_a_new_process() -> None:
    with server.start() as deployment:
        before = deployment.members[0].pid
        deployment.members[0].restart()
        assert deployment.members[0].pid not in (None, before)
        eventually(lambda: deployment.members[0].state == "primary")


def test_signals_to_an_ended_member_do_nothing_and_a_stopped_server_says_so() -> None:
    deployment = server.start()
    member = deployment.members[0]
    member.kill()
    member.kill()
    member.stop()
    member.pause()
    member.resume()
    assert not member.is_running
    deployment.stop()
    assert deployment.primary is None
    with pytest.raises(server.ServerError, match="the server is stopped"):
        member.restart()
