"""An insert of an upload that the server has not answered may still arrive: it stores no part of a file then."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import timeout
from mangonel._faces.blocking import BlockingPort
from mangonel._faces.sockets import is_patched_by_gevent
from mangonel.errors import AutoReconnect, PyMongoError
from mangonel.gridfs import NoFile
from mangonel.server import Server
from tools.faces import TIMEOUT, eventually
from tools.interrupts import press_ctrl_c
from tools.message_proxy import MessageProxy

MIB = 1024 * 1024
TOO_OLD = 225
# Three inserts of chunks, of which the first two are full; then that of the file's document.
DATA = os.urandom(9 * MIB)
FIRST, MIDDLE, LAST, FILE = range(4)


class Place:
    """A bucket behind a proxy, and its two collections without the proxy."""

    def __init__(self, face: Any, server: Server, line: MessageProxy, name: str) -> None:
        self.face = face
        self.line = line
        self.client = face.client(f"mongodb://127.0.0.1:{line.port}/?directConnection=true")
        self.bucket = face.bucket_class(self.client[name], chunk_size_bytes=MIB)
        direct = face.client(server.uri)
        self.files, self.chunks = direct[name]["fs.files"], direct[name]["fs.chunks"]
        self.direct = face.bucket_class(direct[name])
        # Makes the indexes, and the collections.
        face.wait(self.direct.delete(face.wait(self.direct.upload_from_stream("first", b"x"))))

    def count(self) -> tuple[int, int]:
        """Return the numbers of file documents and chunks."""
        wait = self.face.wait
        return wait(self.files.count_documents({})), wait(self.chunks.count_documents({}))

    def upload(self, **options: Any) -> Any:
        return self.bucket.upload_from_stream("file", DATA, **options)

    def fail(self, call: Callable[[], Any], skip: int, count: int = 100) -> tuple[BaseException, list[bytes]]:
        """Lose inserts during a call; return its error, and the inserts still on their way."""
        self.line.hold("insert", count, skip=skip)
        running = self.face.start(call)
        self.cut_until(running.done)
        error = running.exception(TIMEOUT)
        return error, self.end()

    def cut_until(self, is_over: Callable[[], bool]) -> None:
        """Break the connections at each held insert, until something is over."""
        cut, deadline = 0, time.monotonic() + TIMEOUT
        while not is_over():
            assert time.monotonic() < deadline
            # The driver sends nothing else until each insert in flight has ended. One that the server still runs would
            # be lost too, and no standalone refuses it when it is done behind the clean-up.
            if len(self.line.held) > cut and self.line.is_quiet():
                cut = len(self.line.held)
                self.line.cut()
            time.sleep(0.002)

    def end(self) -> list[bytes]:
        """Deliver what comes from now on; return what was held."""
        held = list(self.line.held)
        assert held
        self.line.hold("", 0)
        return held

    def refused(self, held: list[bytes]) -> None:
        """Deliver late inserts, and check that the server refuses them and has nothing of the file."""
        for message in held:
            answer = self.line.deliver(message)
            assert answer.get("code") == TOO_OLD, answer
        assert self.count() == (0, 0)


def place_at(face: Any, server: Server, name: str) -> Iterator[Place]:
    with MessageProxy(server.members[0].port) as line:
        made = Place(face, server, line, name)
        yield made
        face.wait(made.client.drop_database(name))


@pytest.fixture
def place(face: Any, server: Server, database_name: str) -> Iterator[Place]:
    yield from place_at(face, server, database_name)


@pytest.fixture
def alone(face: Any, standalone: Server, database_name: str) -> Iterator[Place]:
    yield from place_at(face, standalone, database_name)


def notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


@pytest.mark.parametrize("lost", [FIRST, MIDDLE, LAST, FILE])
def test_a_lost_insert_is_refused_once_the_upload_has_cleaned_up(place: Place, lost: int) -> None:
    error, held = place.fail(place.upload, lost)
    assert isinstance(error, AutoReconnect)
    assert notes(error) == []
    place.refused(held)


def test_a_lost_insert_of_an_empty_files_document_is_refused(place: Place) -> None:
    _, held = place.fail(lambda: place.bucket.upload_from_stream("empty", b""), 0)
    place.refused(held)


def test_a_lost_insert_that_had_arrived_leaves_nothing(place: Place) -> None:
    place.line.hold("insert", 100, skip=FILE)
    running = place.face.start(place.upload)
    eventually(lambda: place.line.held, "an insert on its way")
    assert place.line.deliver(place.line.held[0])["n"] == 1
    place.cut_until(running.done)
    assert notes(running.exception(TIMEOUT)) == []
    assert place.count() == (0, 0)


@pytest.mark.parametrize("way", ["close", "with", "abort", "with an error"])
def test_each_end_of_an_upload_overtakes_a_lost_insert(place: Place, way: str) -> None:
    target = place.bucket.open_upload_stream("file")
    is_open = way in ("close", "with")

    def write() -> Any:
        return target.write(DATA)

    def fail_inside(opened: Any) -> Any:
        if not place.face.is_async:
            opened.write(DATA)
            raise ZeroDivisionError

        async def steps() -> None:
            await opened.write(DATA)
            raise ZeroDivisionError

        return steps()

    ends: dict[str, Callable[[], Any]] = {
        "close": target.close,
        "abort": target.abort,
        "with": lambda: place.face.inside(target, lambda _: target.write(DATA)),
        "with an error": lambda: place.face.inside(target, fail_inside),
    }
    if not way.startswith("with"):
        # Two inserts are in flight behind this, one of them held.
        place.line.hold("insert", 100, skip=FILE if is_open else MIDDLE)
        place.face.wait(write())
        error, held = end_with_cuts(place, ends[way])
    else:
        error, held = fail_from_outside(place, ends[way], FILE if is_open else MIDDLE)
    if way == "abort":
        assert error is None
    elif way == "with an error":
        assert isinstance(error, ZeroDivisionError)
    else:
        assert isinstance(error, AutoReconnect)
    assert error is None or notes(error) == []
    place.refused(held)


def end_with_cuts(place: Place, call: Callable[[], Any]) -> tuple[BaseException | None, list[bytes]]:
    running = place.face.start(call)
    place.cut_until(running.done)
    return running.exception(TIMEOUT), place.end()


def fail_from_outside(
    place: Place, call: Callable[[], Any], skip: int
) -> tuple[BaseException | None, list[bytes]]:
    """As `Place.fail`, for a call that waits for the loop by itself."""
    place.line.hold("insert", 100, skip=skip)
    found: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    place.cut_until(lambda: not thread.is_alive())
    return (found[0] if found else None), place.end()


@pytest.mark.parametrize("lost", [MIDDLE, FILE])
def test_a_cancelled_upload_overtakes_its_lost_insert(place: Place, lost: int) -> None:
    if not place.face.is_async:
        pytest.skip("nothing cancels a blocking call")

    async def is_over() -> bool:
        return asyncio.all_tasks() == {asyncio.current_task()}

    place.line.hold("insert", 100, skip=lost)
    running = place.face.start(place.upload)
    eventually(lambda: place.line.held, "an insert on its way")
    running.cancel()
    # The future ends at once, but the upload waits for its inserts.
    place.cut_until(lambda: place.face.run(is_over))
    place.refused(place.end())


@pytest.mark.parametrize("lost", [MIDDLE, FILE])
def test_an_interrupted_upload_overtakes_its_lost_insert(
    place: Place, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.face.is_async:
        pytest.skip("asyncio cancels the task")
    if is_patched_by_gevent():
        pytest.skip("a signal interrupts the greenlet that runs: here the one that sends it")
    is_interrupted, waits, is_over = threading.Event(), threading.Event(), threading.Event()
    outlast = BlockingPort.outlast

    def noted(port: BlockingPort, started: Any) -> Any:
        if is_interrupted.is_set():
            waits.set()
        return outlast(port, started)

    def interrupt() -> None:
        eventually(lambda: place.line.held, "an insert on its way")
        is_interrupted.set()
        press_ctrl_c()
        # If the signal came while the insert was being sent, the upload does not wait for it.
        eventually(lambda: waits.is_set() or is_over.is_set(), "the upload to wait for its insert")
        place.cut_until(is_over.is_set)

    monkeypatch.setattr(BlockingPort, "outlast", noted)
    place.line.hold("insert", 100, skip=lost)
    cutter = threading.Thread(target=interrupt, daemon=True)
    cutter.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            place.upload()
    finally:
        is_over.set()
        cutter.join()
    assert notes(caught.value) == []
    place.refused(place.end())


@pytest.mark.parametrize("lost", [MIDDLE, FILE])
def test_a_loop_that_is_closed_lets_an_upload_overtake_its_lost_insert(place: Place, lost: int) -> None:
    if not place.face.is_async:
        pytest.skip("there is no loop")
    place.line.hold("insert", 100, skip=lost)

    async def steps() -> None:
        task = asyncio.ensure_future(place.upload())
        while not place.line.held:
            await asyncio.sleep(0.002)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        # As `asyncio.run` does with all tasks at its end.
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert task.cancelled()

    place.face.run(steps)
    place.refused(place.end())


def test_an_upload_whose_time_is_over_cleans_up_in_a_time_of_its_own(place: Place) -> None:
    async def on_loop() -> None:
        with timeout(2):
            await place.upload()

    def block() -> None:
        with timeout(2):
            place.upload()

    place.line.hold("insert", 100, skip=FILE)
    with pytest.raises(PyMongoError) as caught:
        place.face.run(on_loop if place.face.is_async else block)
    if not place.line.held or notes(caught.value):
        pytest.skip("the machine was too busy for the upload, or for its end")
    place.refused(place.end())


@pytest.mark.parametrize("lost", [FIRST, FILE])
def test_a_lost_insert_in_a_session_is_overtaken_there(place: Place, lost: int) -> None:
    session = place.face.wait(place.client.start_session())
    error, held = place.fail(lambda: place.upload(session=session), lost)
    assert notes(error) == []
    place.refused(held)
    place.face.run(session.end_session)


def test_a_clean_up_that_fails_tells_so_in_a_note(place: Place) -> None:
    place.line.hold("insert", 100, skip=FILE)
    real = place.line.meet
    place.line.meet = lambda request: "unsent" if request.name in ("update", "delete") else real(request)  # type: ignore[method-assign]
    error, _ = end_with_cuts(place, place.upload)
    assert isinstance(error, AutoReconnect)
    assert "may keep or still store" in "".join(notes(error))
    # Chunks without a file, never a file without chunks.
    assert place.count() == (0, 9)


def test_an_abort_that_cannot_clean_up_raises(place: Place) -> None:
    target = place.bucket.open_upload_stream("file")
    place.face.wait(target.write(DATA))
    real = place.line.meet
    place.line.meet = lambda request: "unsent" if request.name == "delete" else real(request)  # type: ignore[method-assign]
    with pytest.raises(AutoReconnect) as caught:
        place.face.wait(target.abort())
    assert "may keep or still store" in "".join(notes(caught.value))


def test_without_retryable_writes_a_lost_files_document_that_arrives_late_finds_its_chunks(
    alone: Place,
) -> None:
    error, held = alone.fail(alone.upload, FILE)
    assert "may keep or still store" in "".join(notes(error))
    assert alone.count() == (0, 9)
    assert alone.line.deliver(held[0])["n"] == 1
    found = alone.face.wait(alone.files.find_one())
    stream = alone.face.wait(alone.direct.open_download_stream(found["_id"]))
    assert alone.face.wait(stream.read()) == DATA


@pytest.mark.parametrize("lost", [FIRST, MIDDLE, LAST])
def test_without_retryable_writes_a_lost_insert_of_chunks_is_told_in_a_note(alone: Place, lost: int) -> None:
    error, held = alone.fail(alone.upload, lost)
    assert "may keep or still store" in "".join(notes(error))
    assert alone.count() == (0, 0)
    alone.line.deliver(held[0])
    assert alone.count()[0] == 0
    assert alone.count()[1] > 0
    with pytest.raises(NoFile):
        alone.face.wait(alone.direct.delete(alone.face.wait(alone.chunks.find_one())["files_id"]))
    assert alone.count() == (0, 0)


def test_a_write_without_an_answer_is_remembered_by_its_operation(place: Place, alone: Place) -> None:
    for where, is_numbered in ((place, True), (alone, False)):
        rows = where.client[where.files.database.name].rows
        operation = rows._insert_checked({"_id": 1}, None)
        operation.watch()
        where.line.hold("insert", 2)
        started = where.face.start(lambda rows=rows, operation=operation: rows._port.run(operation))
        where.cut_until(started.done)
        assert isinstance(started.exception(TIMEOUT), AutoReconnect)
        assert (operation.lost[1] > 0) is is_numbered
        assert len(operation.lost[0]) == 16
        where.end()
        answered = rows._insert_checked({"_id": 2}, None)
        answered.watch()
        where.face.run(lambda rows=rows, answered=answered: rows._port.run(answered))
        assert answered.lost is None
