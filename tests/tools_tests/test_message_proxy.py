"""The message proxy is quiet once the server has run every command sent to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tools.faces import eventually
from tools.message_proxy import MessageProxy
from tools.messages import op_msg
from tools.scripted_server import Request, ScriptedServer

HELLO = op_msg({"hello": 1, "$db": "admin"}, response_to=0)
INSERT = op_msg({"insert": "things", "$db": "shop"}, response_to=0)


class Gate:
    """A server whose inserts wait until the gate is open."""

    def __init__(self, server: ScriptedServer) -> None:
        self.is_open, self.done = threading.Event(), 0
        server.on("insert", self._insert)

    def _insert(self, _: Request) -> dict[str, float]:
        self.is_open.wait()
        self.done += 1
        return {"ok": 1.0}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


def test_a_command_that_the_client_gave_up_is_waited_for(server: ScriptedServer) -> None:
    gate = Gate(server)
    with MessageProxy(server.port) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(INSERT)
        server.wait_for("insert")
        assert not proxy.is_quiet()
        gate.is_open.set()
        eventually(proxy.is_quiet)
        assert gate.done == 1


def test_a_command_that_the_proxy_has_not_read_yet_is_waited_for(server: ScriptedServer) -> None:
    with MessageProxy(server.port) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall(HELLO)
        client.recv(65_536)
        (line,) = proxy._lines
        # As on a busy machine, where the thread does not get its turn.
        with line._lock:
            client.sendall(INSERT)
            looks: list[bool] = []
            looking = threading.Thread(target=lambda: looks.append(proxy.is_quiet()))
            looking.start()
            looking.join(0.05)
            assert not looks
        looking.join()
        eventually(proxy.is_quiet)
        assert len(server.received("insert")) == 1


def test_a_heartbeat_is_not_waited_for(server: ScriptedServer) -> None:
    with MessageProxy(server.port) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall(op_msg({"hello": 1, "maxAwaitTimeMS": 60_000, "$db": "admin"}, response_to=0))
        server.wait_for("hello")
        assert proxy.is_quiet()
