"""Results of calls on every face: against a real mongod, and against servers that reply badly."""

from __future__ import annotations

import threading
from typing import Any

import bson
import pytest

from mangonel.bson import ObjectId
from mangonel.bson.errors import InvalidBSON, InvalidDocument
from mangonel.errors import (
    AutoReconnect,
    DocumentTooLarge,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
    ProtocolError,
    PyMongoError,
)
from mangonel.server import Server
from tools.faces import EMPTY, TIMEOUT, Face, found, pool_sizes, wait_closed
from tools.messages import op_msg
from tools.scripted_server import Close, Raw, Reply, Request, Script, ScriptedServer

GARBAGE = b"\x20\x00\x00\x00\x01ok\x00" + b"\xff" * 24


def test_documents_come_back_as_they_were_inserted(face: Face, server: Server, database_name: str) -> None:
    orders = face.client(server.uri.replace("replicaSet", "directConnection=true&replicaSet"))[
        database_name
    ].orders
    assert face.run(orders.find_one) is None
    result = face.run(lambda: orders.insert_one({"_id": 1, "total": 9.5}))
    assert (result.inserted_id, result.acknowledged) == (1, True)
    document: dict[str, Any] = {"total": 3}
    assert face.run(lambda: orders.insert_one(document)).inserted_id == document["_id"]
    assert isinstance(document["_id"], ObjectId)
    assert face.run(lambda: orders.find_one({"_id": 1})) == {"_id": 1, "total": 9.5}
    assert face.run(lambda: orders.find_one(document["_id"])) == document
    assert face.collect(orders.find({}, sort=[("total", 1)], batch_size=1)) == [
        document,
        {"_id": 1, "total": 9.5},
    ]
    assert face.run(lambda: orders.find().to_list()) == [{"_id": 1, "total": 9.5}, document]
    with pytest.raises(DuplicateKeyError):
        face.run(lambda: orders.insert_one({"_id": 1}))
    with pytest.raises(OperationFailure, match="unknown"):
        face.run(lambda: orders.find_one({"$unknown": 1}))


def test_a_cursor_over_many_batches_gives_every_document_once(face: Face, standalone: Server) -> None:
    numbers = face.client(standalone.uri).faces_batches.numbers
    face.run(numbers.drop)
    face.run(lambda: numbers.insert_many([{"_id": number} for number in range(1000)]))
    for options in ({"batch_size": 7}, {"batch_size": 7, "prefetch": True}, {"limit": 500, "batch_size": 99}):
        expected = range(options.get("limit", 1000))
        assert [document["_id"] for document in face.collect(numbers.find({}, **options))] == list(expected)


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        pytest.param(Reply(EMPTY, cut=0), AutoReconnect, "closed", id="nothing"),
        pytest.param(Reply(EMPTY, cut=3), AutoReconnect, "closed", id="cut-in-length"),
        pytest.param(Reply(EMPTY, cut=40), AutoReconnect, "closed", id="cut-in-body"),
        pytest.param(Close(reset=True), AutoReconnect, "reset", id="reset"),
        pytest.param(Reply(EMPTY, length=7), ProtocolError, "length of 7", id="length-too-small"),
        pytest.param(Reply(EMPTY, length=2_000_000_000), ProtocolError, "2000000000", id="length-too-large"),
        pytest.param(Reply(EMPTY, length=-1), ProtocolError, "length of -1", id="length-negative"),
        pytest.param(Reply(EMPTY, length=50), ProtocolError, "expected", id="length-short-of-the-body"),
        pytest.param(Reply(EMPTY, response_to=4242), ProtocolError, "4242", id="response-to"),
        pytest.param(Reply(EMPTY, opcode=1), ProtocolError, "opcode", id="opcode"),
        pytest.param(Reply(EMPTY, flags=1), ProtocolError, "checksum", id="checksum"),
        pytest.param(Reply(EMPTY, flags=1 << 7), ProtocolError, "unknown flag", id="unknown-flag"),
        pytest.param(Reply(GARBAGE), ProtocolError, "BSON", id="garbage"),
        pytest.param(Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError, "length", id="http"),
    ],
)
def test_a_bad_reply_is_an_error_and_its_connection_is_closed(
    face: Face, scripted_server: ScriptedServer, reply: Any, error: type[Exception], words: str
) -> None:
    scripted_server.on("find", EMPTY)
    scripted_server.once("find", reply)
    client = face.client(scripted_server.uri, retryReads=False)
    with pytest.raises(error, match=words) as raised:
        face.run(client.shop.orders.find_one)
    assert isinstance(raised.value, PyMongoError)
    assert scripted_server.address in str(raised.value)
    wait_closed(scripted_server, scripted_server.received("find")[0].connection)
    assert pool_sizes(client) == (0, 0, 0, 0)
    assert face.run(client.shop.orders.find_one) is None
    assert pool_sizes(client) == (1, 0, 0, 0)


def test_a_document_that_is_no_bson_harms_neither_the_connection_nor_the_others(
    face: Face, scripted_server: ScriptedServer
) -> None:
    good = bson.encode({"_id": 1})
    bad = bytearray(bson.encode({"_id": 2, "text": "abc"}))
    bad[bad.index(b"abc")] = 0xFF
    body = bson.encode({"ok": 1, "cursor": {"id": 0, "ns": "a.b", "firstBatch": [{}, {}, {}]}})
    # Elements "0" and "2" are valid, "1" is not; written by hand, since no encoder would produce them.
    batch = b"\x030\0" + good + b"\x031\0" + bytes(bad) + b"\x032\0" + good
    batch = (len(batch) + 5).to_bytes(4, "little") + batch + b"\0"
    cursor = b"\x12id\0" + bytes(8) + b"\x02ns\0\x04\0\0\0a.b\0" + b"\x04firstBatch\0" + batch
    cursor = (len(cursor) + 5).to_bytes(4, "little") + cursor + b"\0"
    body = b"\x10ok\0\x01\0\0\0\x03cursor\0" + cursor
    body = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
    scripted_server.on("find", Reply(body))
    client = face.client(scripted_server.uri)
    cursor_object = client.shop.orders.find()
    assert face.next(cursor_object) == {"_id": 1}
    with pytest.raises(InvalidBSON):
        face.next(cursor_object)
    assert face.next(cursor_object) == {"_id": 1}
    assert pool_sizes(client) == (1, 0, 0, 0)


def test_a_reply_in_small_pieces_is_put_together(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", Reply(found({"_id": 1, "text": "x" * 50}), pieces=7))
    assert face.run(face.client(scripted_server.uri).shop.orders.find_one)["text"] == "x" * 50


def test_a_second_reply_nobody_asked_for_is_not_taken_for_the_next_answer(
    face: Face, scripted_server: ScriptedServer
) -> None:
    def twice(request: Request) -> Any:
        replies = [op_msg(found({"_id": n}), response_to=request.request_id) for n in (1, 2)]
        return Raw(b"".join(replies))

    scripted_server.once("find", twice)
    scripted_server.on("find", found({"_id": 3}))
    orders = face.client(scripted_server.uri).shop.orders
    assert face.run(orders.find_one) == {"_id": 1}
    with pytest.raises(ProtocolError, match="expected the reply to request"):
        face.run(orders.find_one)
    assert face.run(orders.find_one) == {"_id": 3}


def test_a_refused_command_keeps_its_connection(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", {"ok": 0, "code": 13, "errmsg": "not for you", "codeName": "Unauthorized"})
    client = face.client(scripted_server.uri)
    for _ in range(3):
        with pytest.raises(OperationFailure, match="not for you") as raised:
            face.run(client.shop.orders.find_one)
        assert raised.value.code == 13
    assert pool_sizes(client) == (1, 0, 0, 0)


def test_an_exhaust_cursor_reads_what_the_server_writes_unasked(face: Face, standalone: Server) -> None:
    from mangonel.cursor_shared import CursorType

    client = face.client(standalone.uri)
    numbers = client.faces_exhaust.numbers
    face.run(numbers.drop)
    face.run(lambda: numbers.insert_many([{"_id": number} for number in range(300)]))
    cursor = numbers.find({}, cursor_type=CursorType.EXHAUST, batch_size=10)
    assert len(face.collect(cursor)) == 300
    assert pool_sizes(client) == (1, 0, 0, 0)
    cursor = numbers.find({}, cursor_type=CursorType.EXHAUST, batch_size=10)
    for _ in range(15):
        face.next(cursor)
    face.run(cursor.close)
    assert pool_sizes(client)[:3] == (0, 0, 0)
    assert face.run(lambda: numbers.find_one({"_id": 7})) == {"_id": 7}


def test_an_exhaust_cursor_whose_connection_was_lost_ends_in_an_error(
    face: Face, scripted_server: ScriptedServer
) -> None:
    from mangonel.cursor_shared import CursorType

    scripted_server.on("find", found({"_id": 1}, id=5))
    more = [Reply(found({"_id": n}, id=5, batch="nextBatch"), flags=2) for n in (2, 3)]
    scripted_server.on("getMore", Script(more[0], Close()))
    client = face.client(scripted_server.uri)
    cursor = client.shop.orders.find({}, cursor_type=CursorType.EXHAUST)
    assert [face.next(cursor)["_id"] for _ in range(2)] == [1, 2]
    with pytest.raises(AutoReconnect):
        face.next(cursor)
    assert pool_sizes(client) == (0, 0, 0, 0)


def test_a_write_that_is_not_acknowledged_waits_for_nothing(
    face: Face, scripted_server: ScriptedServer
) -> None:
    client = face.client(scripted_server.uri, w=0)
    result = face.run(lambda: client.shop.orders.insert_one({"_id": 1}))
    assert (result.acknowledged, result.inserted_id) == (False, 1)
    (request,) = scripted_server.wait_for("insert")
    assert request.is_unacknowledged
    assert "lsid" not in request.command
    assert pool_sizes(client) == (1, 0, 0, 0)


def test_a_closed_client_says_so(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri)
    face.run(client.shop.orders.find_one)
    face.run(client.close)
    face.run(client.close)
    scripted_server.wait_for_open(0)
    for call in (client.shop.orders.find_one, lambda: client.shop.orders.insert_one({})):
        with pytest.raises(InvalidOperation, match="after close"):
            face.run(call)


def test_closing_the_client_ends_what_waits_for_a_reply(face: Face, scripted_server: ScriptedServer) -> None:
    from tools.scripted_server import Hang

    scripted_server.on("find", Hang())
    client = face.client(scripted_server.uri, maxPoolSize=1)
    in_flight = face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find")
    waiting = face.start(client.shop.orders.find_one)
    face.run(client.close)
    for call in (in_flight, waiting):
        with pytest.raises(PyMongoError):
            call.result(TIMEOUT)
    scripted_server.wait_for_open(0)


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"a": object()}, InvalidDocument),
        ({1: 2}, InvalidDocument),
        ({"a\0b": 1}, InvalidDocument),
        ({"a": 1 << 64}, OverflowError),
        # 16 MiB, and the allowance for the other fields of a command.
        ({"a": "x" * (16 * 1024 * 1024 + 16 * 1024)}, DocumentTooLarge),
        ([1], TypeError),
        (None, TypeError),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_sent(
    face: Face, scripted_server: ScriptedServer, document: Any, error: type[Exception]
) -> None:
    client = face.client(scripted_server.uri)
    with pytest.raises(error):
        face.run(lambda: client.shop.orders.insert_one(document))
    assert scripted_server.received() == []
    assert scripted_server.torn == []


def test_a_document_changed_while_it_is_encoded_is_an_error_or_stored_whole(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("insert", {"ok": 1, "n": 1})
    orders = face.client(scripted_server.uri).shop.orders
    document: dict[str, Any] = {f"k{n}": n for n in range(2000)}
    document["_id"] = 1
    is_over = threading.Event()

    def change() -> None:
        n = 0
        while not is_over.is_set():
            document[f"x{n % 50}"] = [n] * (n % 7)
            document.pop(f"x{(n + 25) % 50}", None)
            n += 1

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(60):
            try:
                face.run(lambda: orders.insert_one(document))
            except (RuntimeError, InvalidDocument):
                continue
    finally:
        is_over.set()
        changer.join()
    assert scripted_server.errors == []
    assert scripted_server.torn == []
