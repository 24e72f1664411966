"""Two tasks or threads share one cursor or file: the second is refused, and the first continues unaffected."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import gridfs
from mangonel.bson import ObjectId
from mangonel.errors import InvalidOperation
from tools.faces import EMPTY, TIMEOUT, Face, found
from tools.scripted_server import Close, Request, ScriptedServer

ONE, TWO, THREE = ({"_id": number} for number in (1, 2, 3))
CHANGES: dict[str, Any] = {"_id": {"_data": "1"}, "operationType": "insert"}


class Held:
    """A reply that waits until the test lets it go."""

    def __init__(self, server: ScriptedServer, command: str, reply: dict[str, Any]) -> None:
        self.gate, self.reply = threading.Event(), reply
        server.once(command, self.answer)

    def answer(self, request: Request) -> Any:
        self.gate.wait(TIMEOUT)
        return self.reply


@pytest.fixture
def orders(face: Face, scripted_server: ScriptedServer) -> Any:
    """A collection on a scripted server."""
    return face.client(scripted_server.uri).shop.orders


def is_refused(face: Face, call: Callable[[], Any]) -> bool:
    with pytest.raises(
        InvalidOperation, match=r"another task or thread is (waiting for the next|writing to) .* by a queue$"
    ):
        face.run(call)
    return True


def test_the_first_batch_is_asked_for_once(face: Face, orders: Any, scripted_server: ScriptedServer) -> None:
    held = Held(scripted_server, "find", found(ONE, TWO))
    cursor = orders.find()
    first = face.start(cursor.next)
    scripted_server.wait_for("find")
    try:
        assert is_refused(face, cursor.next)
        assert is_refused(face, cursor.to_list)
        assert is_refused(face, cursor.rewind)
    finally:
        held.gate.set()
    assert first.result(TIMEOUT) == ONE
    assert face.run(cursor.to_list) == [TWO]
    assert len(scripted_server.wait_for("find")) == 1


def test_a_later_batch_replaces_no_other(face: Face, orders: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.once("find", found(ONE, id=5))
    held = Held(scripted_server, "getMore", found(TWO, THREE, batch="nextBatch"))
    cursor = orders.find()
    assert face.run(cursor.next) == ONE
    first = face.start(cursor.next)
    scripted_server.wait_for("getMore")
    try:
        assert is_refused(face, cursor.next)
    finally:
        held.gate.set()
    assert first.result(TIMEOUT) == TWO
    assert face.run(cursor.to_list) == [THREE]
    assert not scripted_server.received("killCursors")


def test_a_change_stream_goes_on(face: Face, orders: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.once("aggregate", {**EMPTY, "cursor": {**EMPTY["cursor"], "id": 5}, "operationTime": 1})
    held = Held(scripted_server, "getMore", found(CHANGES, id=5, batch="nextBatch"))
    stream = face.run(orders.watch)
    first = face.start(stream.next)
    scripted_server.wait_for("getMore")
    try:
        assert is_refused(face, stream.try_next)
        assert stream.alive
    finally:
        held.gate.set()
    assert first.result(TIMEOUT) == CHANGES
    assert stream.alive


def test_a_change_stream_closed_while_it_resumes_leaves_no_cursor(
    face: Face, orders: Any, scripted_server: ScriptedServer
) -> None:
    opened = {**EMPTY, "operationTime": 1}
    scripted_server.once("aggregate", {**opened, "cursor": {**EMPTY["cursor"], "id": 5}})
    scripted_server.once("getMore", Close())
    stream = face.run(orders.watch)
    held = Held(scripted_server, "aggregate", {**opened, "cursor": {**EMPTY["cursor"], "id": 6}})
    first = face.start(stream.try_next)
    scripted_server.wait_for("aggregate", 2)
    face.run(stream.close)
    held.gate.set()
    assert first.result(TIMEOUT) is None
    assert not stream.alive
    # The stream is still referred to, so no finalizer has killed it.
    killed = {
        id for request in scripted_server.wait_for("killCursors", 2) for id in request.command["cursors"]
    }
    assert killed == {5, 6}
    assert len(scripted_server.received("getMore")) == 1


def test_a_cursor_closed_before_its_first_batch_is_ended_on_the_server(
    face: Face, orders: Any, scripted_server: ScriptedServer
) -> None:
    held = Held(scripted_server, "find", found(ONE, id=5))
    scripted_server.on("killCursors", {"ok": 1})
    cursor = orders.find()
    first = face.start(cursor.next)
    scripted_server.wait_for("find")
    face.run(cursor.close)
    held.gate.set()
    assert first.result(TIMEOUT) == ONE
    assert not cursor.alive
    assert scripted_server.wait_for("killCursors")[0].command["cursors"] == [5]


FILE: dict[str, Any] = {"_id": 1, "length": 25, "chunkSize": 10}
IDS = [ObjectId(f"{n:024x}") for n in range(3)]
CHUNKS = [{"_id": IDS[n], "files_id": 1, "n": n, "data": b"line%d\n...." % n} for n in range(2)]
CHUNKS.append({"_id": IDS[2], "files_id": 1, "n": 2, "data": b"12345"})
LINES = [b"line0\n", b"....line1\n", b"....12345"]


@pytest.fixture
def bucket(face: Face, orders: Any) -> Any:
    """A bucket on a scripted server."""
    kind = gridfs.AsyncGridFSBucket if face.is_async else gridfs.GridFSBucket
    return kind(orders.database)


def test_a_stored_file_is_read_by_one(face: Face, bucket: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.once("find", found(FILE))
    source = face.run(lambda: bucket.open_download_stream(1))
    held = Held(scripted_server, "find", found(*CHUNKS))
    first = face.start(source.readline)
    scripted_server.wait_for("find", 2)
    try:
        for call in (
            source.read,
            source.readchunk,
            source.readline,
            source.readlines,
            source.download,
            source.__anext__ if face.is_async else source.__next__,
            lambda: source.readinto(bytearray(5)),
            lambda: source.seek(3),
        ):
            assert is_refused(face, call)
        assert source.tell() == 0
    finally:
        held.gate.set()
    assert first.result(TIMEOUT) == LINES[0]
    assert face.run(source.readlines) == LINES[1:]
    assert len(scripted_server.received("find")) == 2


@pytest.fixture
def target(bucket: Any, scripted_server: ScriptedServer) -> Any:
    """A new file."""
    scripted_server.on("find", found({"_id": 1}))
    scripted_server.on("insert", {"ok": 1, "n": 1})
    scripted_server.on("delete", {"ok": 1, "n": 1})
    return bucket.open_upload_stream("file", chunk_size_bytes=4)


def stored(scripted_server: ScriptedServer) -> bytes:
    return b"".join(
        each["data"]
        for request in scripted_server.received("insert")
        for each in request.documents
        if "n" in each
    )


def test_a_new_file_is_written_by_one(face: Face, target: Any, scripted_server: ScriptedServer) -> None:
    held = Held(scripted_server, "find", found({"_id": 1}))
    first = face.start(lambda: target.write(b"12345678"))
    scripted_server.wait_for("find")
    try:
        for call in (lambda: target.write(b"xx"), lambda: target.writelines([b"xx"]), target.close):
            assert is_refused(face, call)
        assert not target.closed
    finally:
        held.gate.set()
    first.result(TIMEOUT)
    face.run(lambda: target.write(b"9"))
    face.run(target.close)
    assert stored(scripted_server) == b"123456789"


@pytest.mark.parametrize("how", ["write", "close", "with"])
def test_who_aborts_beside_a_writer_leaves_nothing(
    face: Face, target: Any, scripted_server: ScriptedServer, how: str
) -> None:
    face.run(lambda: target.write(b"123"))
    held = Held(scripted_server, "find", found({"_id": 1}))
    first = face.start(target.close if how == "close" else lambda: target.write(b"45678"))
    scripted_server.wait_for("find")
    try:
        if how == "with":
            with pytest.raises(ZeroDivisionError):
                face.inside(target, lambda _: 1 / 0)
        else:
            face.run(target.abort)
        assert target.closed
    finally:
        held.gate.set()
    with pytest.raises(ValueError, match=r"aborted by another task or thread .* nothing of it is stored"):
        first.result(TIMEOUT)
    sent = [request.command["insert"] for request in scripted_server.received("insert")]
    removed = [request.command["delete"] for request in scripted_server.received("delete")]
    assert sorted(set(removed)) == sorted(set(sent))
    with pytest.raises(ValueError, match="closed file"):
        face.run(lambda: target.write(b"9"))
