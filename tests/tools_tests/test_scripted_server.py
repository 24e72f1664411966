"""The scripted server does what its script says. PyMongo and bare sockets are its clients here."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import bson
import pymongo
import pymongo.errors
import pytest

from tools.messages import EXHAUST_ALLOWED, MORE_TO_COME, op_msg, read_exactly
from tools.scripted_server import Close, Hang, Raw, Reply, Request, Script, ScriptedServer

EMPTY = {"ok": 1, "cursor": {"id": 0, "ns": "test.things", "firstBatch": []}}


@pytest.fixture
def client(scripted_server: ScriptedServer) -> Iterator[pymongo.MongoClient[dict[str, Any]]]:
    options = {"retryReads": False, "retryWrites": False, "heartbeatFrequencyMS": 60_000}
    with pymongo.MongoClient(scripted_server.uri, **options) as client:
        yield client


@pytest.fixture
def line(scripted_server: ScriptedServer) -> Iterator[socket.socket]:
    with socket.create_connection((scripted_server.host, scripted_server.port), 60.0) as line:
        yield line


def send(line: socket.socket, command: dict[str, Any], flags: int = 0) -> None:
    line.sendall(op_msg({**command, "$db": "test"}, response_to=0, request_id=7, flags=flags))


def receive(line: socket.socket) -> tuple[tuple[int, ...], dict[str, Any]]:
    header = struct.unpack("<iiii", read_exactly(line, 16))
    body = read_exactly(line, header[0] - 16)
    return header, bson.decode(body[5:])


def test_hello_and_ping_are_answered_by_default(client: Any) -> None:
    assert client.admin.command("ping") == {"ok": 1}
    assert client.admin.command("hello")["maxWireVersion"] == 17


def test_legacy_hello_is_answered_over_op_query(scripted_server: ScriptedServer, line: socket.socket) -> None:
    query = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode({"ismaster": 1})
    line.sendall(struct.pack("<iiii", 16 + len(query), 3, 0, 2004) + query)
    length, _, response_to, opcode = struct.unpack("<iiii", read_exactly(line, 16))
    body = read_exactly(line, length - 16)
    assert (response_to, opcode) == (3, 1)
    assert bson.decode(body[20:])["ismaster"] is True
    assert scripted_server.requests[0].namespace == "admin.$cmd"


def test_unknown_command_is_refused(client: Any) -> None:
    with pytest.raises(pymongo.errors.OperationFailure, match="no such command: 'nonsense'"):
        client.test.command("nonsense")


def test_commands_and_document_sequences_are_recorded(scripted_server: ScriptedServer, client: Any) -> None:
    scripted_server.on("insert", {"ok": 1, "n": 2})
    client.test.things.insert_many([{"_id": 1}, {"_id": 2}])
    (request,) = scripted_server.received("insert")
    assert request.command["insert"] == "things"
    assert request.command["$db"] == "test"
    assert request.sequences == {"documents": [{"_id": 1}, {"_id": 2}]}
    assert request.documents == [{"_id": 1}, {"_id": 2}]
    assert request.length == len(request.raw)
    assert request.connection < scripted_server.accepted
    assert [r.name for r in scripted_server.received()] == ["insert"]


def test_once_goes_before_on_and_is_used_up_in_order(scripted_server: ScriptedServer, client: Any) -> None:
    scripted_server.on("count", {"ok": 1, "n": 0})
    scripted_server.once("count", {"ok": 1, "n": 1}, {"ok": 1, "n": 2})
    assert [client.test.command("count", "a")["n"] for _ in range(4)] == [1, 2, 0, 0]


def test_callable_sees_the_request(scripted_server: ScriptedServer, client: Any) -> None:
    def answer(request: Request) -> dict[str, Any]:
        return {"ok": 1, "n": len(request.command["count"])}

    scripted_server.on("count", answer)
    assert client.test.command("count", "things")["n"] == 6


@pytest.mark.parametrize("action", [Close(), Close(reset=True), Reply(EMPTY, cut=0), Reply(EMPTY, cut=40)])
def test_line_that_is_closed_or_cut_is_a_network_error(
    scripted_server: ScriptedServer, client: Any, action: Any
) -> None:
    scripted_server.once("find", action)
    scripted_server.on("find", EMPTY)
    with pytest.raises(pymongo.errors.AutoReconnect):
        client.test.things.find_one()
    assert client.test.things.find_one() is None


def test_cut_reply_is_exactly_as_long_as_asked(scripted_server: ScriptedServer, line: socket.socket) -> None:
    scripted_server.once("ping", Reply({"ok": 1}, cut=21))
    send(line, {"ping": 1})
    assert len(read_exactly(line, 100)) == 21


def test_reset_is_a_reset(scripted_server: ScriptedServer, line: socket.socket) -> None:
    scripted_server.once("ping", Close(reset=True))
    send(line, {"ping": 1})
    with pytest.raises(ConnectionResetError):
        line.recv(1)


def test_header_fields_can_be_wrong(scripted_server: ScriptedServer, line: socket.socket) -> None:
    scripted_server.once("ping", Reply({"ok": 1}, response_to=99, request_id=5, opcode=1234))
    send(line, {"ping": 1})
    header, _ = receive(line)
    assert header[1:] == (5, 99, 1234)
    scripted_server.once("ping", Reply({"ok": 1}, length=7, then_close=True))
    send(line, {"ping": 1})
    assert struct.unpack_from("<i", read_exactly(line, 100))[0] == 7


def test_raw_bytes_and_raw_documents_are_sent_as_they_are(
    scripted_server: ScriptedServer, line: socket.socket
) -> None:
    scripted_server.once("ping", Raw(b"junk", then_close=True))
    scripted_server.once("count", Reply(b"\x05\0\0\0\x01"))
    send(line, {"count": 1})
    assert read_exactly(line, 26)[21:] == b"\x05\0\0\0\x01"
    send(line, {"ping": 1})
    assert read_exactly(line, 100) == b"junk"


def test_reply_in_pieces_is_whole(scripted_server: ScriptedServer, line: socket.socket) -> None:
    def first_of_reply() -> bytes:
        scripted_server.once("ping", Reply({"ok": 1, "text": "x" * 50}, pieces=9))
        send(line, {"ping": 1})
        first = line.recv(1_000)
        (length,) = struct.unpack_from("<i", first)
        whole = first + read_exactly(line, length - len(first))
        assert bson.decode(whole[21:]) == {"ok": 1, "text": "x" * 50}
        return first

    # A busy machine reads several pieces at once.
    assert any(len(first_of_reply()) % 9 == 0 for _ in range(50))


def test_reply_is_delayed(scripted_server: ScriptedServer, client: Any) -> None:
    client.admin.command("ping")
    scripted_server.once("ping", Reply({"ok": 1}, delay=0.1))
    start = time.monotonic()
    client.admin.command("ping")
    assert time.monotonic() - start >= 0.1


def test_hang_never_answers_and_keeps_the_line(scripted_server: ScriptedServer, line: socket.socket) -> None:
    scripted_server.once("ping", Hang())
    send(line, {"ping": 1})
    line.settimeout(0.1)
    with pytest.raises(TimeoutError):
        line.recv(1)
    line.settimeout(60)
    send(line, {"ping": 1})
    assert receive(line)[1] == {"ok": 1}


def test_connection_can_be_closed_before_anything_is_read(
    scripted_server: ScriptedServer, line: socket.socket
) -> None:
    scripted_server.wait_for_open(1)
    scripted_server.on_connect(Close())
    with socket.create_connection((scripted_server.host, scripted_server.port), 60.0) as second:
        assert second.recv(1) == b""
    send(line, {"ping": 1})
    assert receive(line)[1] == {"ok": 1}
    assert scripted_server.accepted == 2


def test_script_gives_several_replies_to_one_request(
    scripted_server: ScriptedServer, line: socket.socket
) -> None:
    first = Reply({"ok": 1, "n": 1}, flags=MORE_TO_COME)
    scripted_server.once("getMore", Script(first, {"ok": 1, "n": 2}))
    send(line, {"getMore": 5}, flags=EXHAUST_ALLOWED)
    assert [receive(line)[1]["n"] for _ in range(2)] == [1, 2]


def test_unacknowledged_command_gets_no_reply(scripted_server: ScriptedServer, line: socket.socket) -> None:
    scripted_server.on("insert", {"ok": 1})
    send(line, {"insert": "a"}, flags=MORE_TO_COME)
    send(line, {"ping": 1})
    assert receive(line)[1] == {"ok": 1}
    assert scripted_server.received("insert")[0].is_unacknowledged
    assert len(scripted_server.received()) == 2


def test_compressed_messages_are_read_and_sent(scripted_server: ScriptedServer) -> None:
    scripted_server.hello["compression"] = ["zlib"]
    scripted_server.on("count", Reply({"ok": 1, "n": 3}, compressor="zlib"))
    with pymongo.MongoClient(scripted_server.uri, compressors="zlib") as client:
        assert client.test.command("count", "a")["n"] == 3
    assert scripted_server.received("count")[0].compressor == "zlib"


def test_wait_for_returns_when_the_command_has_come(scripted_server: ScriptedServer, client: Any) -> None:
    threading.Timer(0.05, lambda: client.admin.command("ping")).start()
    assert scripted_server.wait_for("ping")[0].command["$db"] == "admin"
    with pytest.raises(AssertionError, match="expected 2 of ping within"):
        scripted_server.wait_for("ping", 2, timeout=0.01)


def test_open_connections_are_counted(scripted_server: ScriptedServer) -> None:
    with socket.create_connection((scripted_server.host, scripted_server.port), 60.0) as first:
        scripted_server.wait_for_open(1)
        scripted_server.close_connections(reset=True)
        with pytest.raises(ConnectionResetError):
            first.recv(1)
        scripted_server.wait_for_open(0)


def test_message_that_a_client_does_not_finish_is_kept() -> None:
    with ScriptedServer() as scripted:
        with socket.create_connection((scripted.host, scripted.port), 60.0) as line:
            line.sendall(op_msg({"ping": 1}, response_to=0)[:-3])
            scripted.wait_for_open(1)
        scripted.wait_for_open(0)
        assert scripted.torn == [op_msg({"ping": 1}, response_to=0)[:-3]]
        assert scripted.requests == []


@pytest.mark.parametrize(
    "message", [struct.pack("<iiii", 7, 1, 0, 2013), struct.pack("<iiii", 20, 1, 0, 999) + b"abcd"]
)
def test_client_that_breaks_the_protocol_fails_the_test(message: bytes) -> None:
    scripted = ScriptedServer()
    with socket.create_connection((scripted.host, scripted.port), 60.0) as line:
        line.sendall(message)
        assert line.recv(1) == b""
    with pytest.raises((AssertionError, ValueError), match=r"message length 7|opcode 999"):
        scripted.stop()


def test_stopped_server_refuses_connections() -> None:
    with ScriptedServer() as scripted:
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((scripted.host, scripted.port), 1.0).close()
