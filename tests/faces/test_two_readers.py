"""Two tasks or threads at one cursor: the second is refused, and the first reads as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from mangonel.errors import InvalidOperation
from tools.faces import EMPTY, TIMEOUT, Face, found
from tools.scripted_server import Request, ScriptedServer

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
    """A collection whose commands are answered by scripts."""
    return face.client(scripted_server.uri).shop.orders


def is_refused(face: Face, call: Callable[[], Any]) -> bool:
    with pytest.raises(
        InvalidOperation, match=r"another task or thread is waiting for the next .* by a queue$"
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
