"""Servers that are down, start, close idle connections, or die during an operation."""

from __future__ import annotations

import _thread
import contextlib
import time
from types import SimpleNamespace
from typing import Any

import pytest

from mangonel._faces import monitors
from mangonel.errors import AutoReconnect, ServerSelectionTimeoutError
from mangonel.server import start
from tools.faces import EMPTY, TIMEOUT, Face, connections_of, eventually, found, in_the_end, pool_sizes
from tools.held_port import held_port, port_of
from tools.proxy import LineProxy
from tools.scripted_server import Hang, Reply, Request, ScriptedServer


def test_a_server_that_is_down_is_named_with_the_reason(face: Face, nowhere: str) -> None:
    client = face.client(f"{nowhere}/?directConnection=true", serverSelectionTimeoutMS=500)
    said = rf"within 0\.5 s: .*{nowhere.removeprefix('mongodb://')}: .*refused"
    in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(client.shop.orders.find_one))
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_a_server_that_comes_up_later_is_used(face: Face) -> None:
    with held_port() as held:
        port = port_of(held)
        client = face.client(
            f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=60_000
        )
        call = face.start(client.shop.orders.find_one)
        time.sleep(0.2)
        with ScriptedServer(port=port) as server:
            server.on("find", EMPTY)
            assert call.result(TIMEOUT) is None


def test_a_client_for_which_the_system_had_no_thread_recovers(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_server.on("find", found({"_id": 1}))
    threads = SimpleNamespace(**vars(_thread))

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    threads.start_new_thread = refuse
    monkeypatch.setattr(monitors, "_thread", threads)
    client = face.client(scripted_server.uri, serverSelectionTimeoutMS=50)
    with pytest.raises(ServerSelectionTimeoutError, match=r"127\.0\.0\.1:\d+: can't start new thread"):
        face.run(client.shop.orders.find_one)
    assert pool_sizes(client) == (0, 0, 0, 0)

    threads.start_new_thread = _thread.start_new_thread

    def is_found() -> bool:
        try:
            return bool(face.run(client.shop.orders.find_one) == {"_id": 1})
        except ServerSelectionTimeoutError:
            return False

    eventually(is_found)


def test_a_slow_handshake_has_the_time_of_a_connection_and_not_that_of_server_selection(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, serverSelectionTimeoutMS=300)

    def is_known() -> bool:
        with contextlib.suppress(ServerSelectionTimeoutError):
            return face.run(client.shop.orders.find_one) is None
        return False

    eventually(is_known, "the server to be known")
    scripted_server.on("hello", lambda request: Reply(scripted_server.hello, delay=1.0))
    scripted_server.once("find", Hang())
    holder = face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find", 2)

    assert face.run(client.shop.orders.find_one) is None
    scripted_server.close_connections()
    holder.exception(TIMEOUT)


def test_a_handshake_that_takes_longer_than_a_connection_may_says_so(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    monitors: set[int] = set()

    def answer(request: Request) -> Any:
        # An operation opens its connection once the server is known; the monitor connects before that, and on a busy
        # machine more than once.
        if not client.nodes:
            monitors.add(request.connection)
        return scripted_server._default(request) if request.connection in monitors else Hang()

    for name in ("isMaster", "hello"):
        scripted_server.on(name, answer)
    limits = {"connectTimeoutMS": 300, "serverSelectionTimeoutMS": 300}
    client = face.client(scripted_server.uri, connect=False, **limits)
    said = "last attempt: .*timed out"
    in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(client.shop.orders.find_one))
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_an_operation_succeeds_after_the_server_closed_the_idle_connection(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    scripted_server.on("insert", {"ok": 1, "n": 1})
    client = face.client(scripted_server.uri)
    for call in (client.shop.orders.find_one, lambda: client.shop.orders.insert_one({"_id": 1})):
        face.run(client.shop.orders.find_one)
        scripted_server.close_connections()
        scripted_server.wait_for_open(0)
        # The blocking face checks a connection that was idle; asyncio is told of its end at once.
        if face.is_async:
            eventually(lambda: pool_sizes(client) == (0, 0, 0, 0))
        else:
            time.sleep(1.1)
        face.run(call)
    assert len(scripted_server.received("insert")) == 1


def test_a_read_survives_a_connection_that_breaks_under_it(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}))
    with LineProxy(scripted_server.port) as proxy:
        client = face.client(f"mongodb://{proxy.address}/?directConnection=true")
        face.run(client.shop.orders.find_one)
        proxy.cut(down=10)
        assert face.run(client.shop.orders.find_one) == {"_id": 1}
        assert len(scripted_server.received("find")) == 3


@pytest.mark.parametrize("retries", [True, False])
def test_a_read_that_a_missed_heartbeat_interrupts_is_sent_again(
    face: Face, scripted_server: ScriptedServer, retries: bool
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(
        scripted_server.uri, retryReads=retries, connectTimeoutMS=1000, heartbeatFrequencyMS=500
    )
    face.run(client.shop.orders.find_one)
    scripted_server.once("find", Hang())
    call = face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find", 2)
    scripted_server.once("hello", Hang())

    if retries:
        assert call.result(TIMEOUT) is None
    else:
        with pytest.raises(AutoReconnect, match="did not answer a heartbeat in time"):
            call.result(TIMEOUT)
    assert len(scripted_server.received("find")) == 2 + retries


def test_a_send_that_breaks_in_the_middle_is_an_error(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    with LineProxy(scripted_server.port) as proxy:
        client = face.client(f"mongodb://{proxy.address}/?directConnection=true", retryWrites=False)
        face.run(client.shop.orders.find_one)
        proxy.cut(up=1_000_000, reset=True)
        with pytest.raises(AutoReconnect):
            face.run(lambda: client.shop.orders.insert_one({"_id": 1, "data": b"x" * 15_000_000}))
        assert pool_sizes(client) == (0, 0, 0, 0)
        assert face.run(client.shop.orders.find_one) is None
    assert scripted_server.received("insert") == []


def test_closing_a_client_does_not_wait_for_a_server_that_is_gone(face: Face) -> None:
    with ScriptedServer() as server:
        server.on("find", EMPTY)
        client = face.client(server.uri)
        face.run(client.shop.orders.find_one)
    begun = time.monotonic()
    face.run(client.close)
    assert time.monotonic() - begun < 20


def test_a_server_killed_in_mid_operation_is_an_error_and_its_successor_is_used(face: Face) -> None:
    with start() as server:
        member = server.members[0]
        # Writes that are not in the journal yet are lost with the server.
        client = face.client(member.uri, serverSelectionTimeoutMS=60_000, journal=True)
        orders = client.shop.orders
        face.run(lambda: orders.insert_one({"_id": 1}))

        def slow() -> Any:
            return orders.find_one({"$where": "sleep(10000) || true"})

        calls = [face.start(slow) for _ in range(3)]
        eventually(lambda: pool_sizes(client)[1] == 3)
        time.sleep(0.2)
        client_without_retries = face.client(member.uri, retryReads=False)
        doomed = face.start(
            lambda: client_without_retries.shop.orders.find_one({"$where": "sleep(10000) || true"})
        )
        eventually(lambda: pool_sizes(client_without_retries)[1] == 1)
        member.kill()
        with pytest.raises(AutoReconnect):
            doomed.result(TIMEOUT)
        for call in calls:
            call.cancel()
        member.restart()
        assert face.run(lambda: orders.count_documents({})) == 1
        face.run(lambda: orders.insert_one({"_id": 2}))
        # A write that the server stored before the client lost the connection is present after the restart.
        assert face.run(lambda: orders.find_one({"_id": 2})) == {"_id": 2}


def test_a_burst_of_errors_opens_no_more_connections_than_needed(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, maxPoolSize=10)
    for _ in range(3):
        calls = [face.start(client.shop.orders.find_one) for _ in range(40)]
        scripted_server.close_connections()
        results = [call.exception(TIMEOUT) for call in calls]
        assert {type(error) for error in results} <= {type(None), AutoReconnect}, set(map(repr, results))
    eventually(lambda: pool_sizes(client)[1:] == (0, 0, 0))
    assert face.run(client.shop.orders.find_one) is None
    assert len(connections_of(scripted_server, "find")) < 100
