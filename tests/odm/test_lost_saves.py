"""A late save, which reaches the server after its repetition, is refused."""

from __future__ import annotations

import copy
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any, ClassVar

import pytest

from mangonel import _core, timeout
from mangonel.errors import AutoReconnect, PyMongoError
from mangonel.odm import Connection, Document, StaleDocument, connect, field, inc
from mangonel.odm.connections.connection import connection
from mangonel.odm.model.convert import SAVING
from mangonel.server import Server
from odm.broken_off import break_off
from tools.faces import eventually
from tools.message_proxy import MessageProxy

TOO_OLD = 225


class Note(Document):
    __collection__ = "lost"
    tags: list[str] = field(default_factory=list)
    n: int = 0


class Sharded(Document):
    """Saved by the driver's `update_one`, like every model whose query has more than the id."""

    __collection__ = "lost"
    __shard_key__: ClassVar[dict[str, int | str]] = {"town": 1}
    town: str = "x"
    tags: list[str] = field(default_factory=list)
    n: int = 0


MODELS = pytest.mark.parametrize("model", [Note, Sharded])


@pytest.fixture
def line(server: Server, database_name: str, face: Any, db: Connection) -> Iterator[MessageProxy]:
    """A proxy between the models' connection and the server, which can deliver a command late."""
    with MessageProxy(server.members[0].port) as proxy:
        made = connect(f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true", database=database_name)
        yield proxy
        made.close()
        face.wait(made.aclose())


@pytest.fixture
def raw(db: Connection) -> Any:
    """The collection, without the proxy."""
    return db.client[db.name]["lost"]


def save(document: Any, is_async: bool, way: str) -> Any:
    """Save; on asyncio return the coroutine."""
    kind = type(document)
    if way == "save_all":
        return (kind.asave_all if is_async else kind.save_all)([document])
    if way == "replace":
        return document.areplace() if is_async else document.replace()
    return document.asave() if is_async else document.save()


def time_out(face: Any, line: MessageProxy, work: Callable[[], Any]) -> None:
    """Save by `work` until its command is held and its time limit has passed."""

    async def on_loop() -> None:
        with timeout(0.2):
            await work()

    def block() -> None:
        with timeout(0.2):
            work()

    # On a busy machine the time may pass before a command is sent.
    while not line.held:
        with pytest.raises(PyMongoError):
            face.run(on_loop if face.is_async else block)


def lose(
    face: Any,
    line: MessageProxy,
    documents: list[Any],
    how: str = "timeout",
    way: str = "save",
    name: str = "update",
) -> list[bytes]:
    """Save documents, and lose the save before it reaches the server; return the messages still on their way."""
    kind = type(documents[0])
    # Cut twice, since the driver retries the write itself with the same number.
    line.hold(name, 2)

    def work() -> Any:
        if len(documents) > 1:
            return (kind.asave_all if face.is_async else kind.save_all)(documents)
        return save(documents[0], face.is_async, way)

    if how == "timeout":
        time_out(face, line, work)
    elif how == "ctrl-c":

        def interrupt() -> None:
            eventually(lambda: line.held, "a save on its way")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            work()
    else:
        running = face.start(work)
        eventually(lambda: len(line.held) == 1, "a save on its way")
        if how == "cancel":
            running.cancel()
        else:
            line.cut()
            eventually(lambda: len(line.held) == 2, "the driver's own repetition")
            line.cut()
        with pytest.raises(CancelledError if how == "cancel" else AutoReconnect):
            running.result(60)
    eventually(lambda: not any(_core.odm_flags(one) & SAVING for one in documents), "the end of the save")
    held = list(line.held)
    line.hold(name, 0)
    return held


@pytest.fixture(params=["cancel", "cut", "timeout", "ctrl-c"])
def how(request: pytest.FixtureRequest, face: Any) -> str:
    """How to interrupt a save."""
    chosen: str = request.param
    if chosen == "cancel" and not face.is_async:
        pytest.skip("nothing cancels a blocking call")
    if chosen == "ctrl-c" and face.is_async:
        pytest.skip("asyncio cancels the task")
    return chosen


def refused(line: MessageProxy, message: bytes) -> None:
    """Deliver the late save, and check that the server refuses it."""
    answer = line.deliver(message)
    assert answer.get("code") == TOO_OLD, answer


@MODELS
@pytest.mark.parametrize("way", ["save", "save_all"])
def test_a_save_that_arrives_after_its_repetition_is_refused(
    model: Any, way: str, how: str, line: MessageProxy, raw: Any, face: Any
) -> None:
    document = model(tags=["a"])
    face.save(document)
    document.tags.append("b")
    document.n = 1
    late = lose(face, line, [document], how, way)
    assert set(document.changes()) == {"tags", "n"}
    document.n = 2
    face.run(lambda: save(document, face.is_async, way))
    for message in late:
        refused(line, message)
    found = raw.find_one()
    assert (found["tags"], found["n"]) == (["a", "b"], 2)
    assert document.changes() == {}


def test_a_save_that_arrived_before_its_repetition_is_stored_once(
    how: str, line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    late = lose(face, line, [document], how)
    assert line.deliver(late[0])["nModified"] == 1
    with pytest.raises(StaleDocument):
        face.save(document)
    face.call(document, "reload", keep_changes=True)
    face.save(document)
    assert raw.find_one()["tags"] == ["a", "b"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_reload_shows_what_a_save_that_was_broken_off_stored_for_good(
    keeps: bool, line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    late = lose(face, line, [document])
    face.call(document, "reload", keep_changes=keeps)
    refused(line, late[0])
    face.save(document)
    assert raw.find_one()["tags"] == (["a", "b"] if keeps else ["a"])


def test_an_update_or_a_replacement_comes_after_a_save_that_was_broken_off(
    line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    late = lose(face, line, [document])
    face.call(document, "update", inc(Note.n))
    refused(line, late[0])
    late = lose(face, line, [document], way="replace")
    document.tags.append("c")
    face.call(document, "replace")
    refused(line, late[0])
    assert (raw.find_one()["tags"], raw.find_one()["n"]) == (["a", "b", "c"], 1)


@pytest.mark.parametrize("is_repeated", [True, False])
@pytest.mark.parametrize("way", ["save", "save_all"])
def test_an_insert_that_was_broken_off_does_not_come_after_the_deletion(
    way: str, is_repeated: bool, how: str, line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(Note())
    late = lose(face, line, [document], how, way, "insert")
    assert document.is_new
    if is_repeated:
        face.run(lambda: save(document, face.is_async, way))
    face.call(document, "delete")
    refused(line, late[0])
    assert raw.count_documents({}) == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_a_document_overtakes_its_lost_save_too(
    copied: Callable[[Any], Any], line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    late = lose(face, line, [document])
    other = copied(document)
    face.save(other)
    refused(line, late[0])
    with pytest.raises(StaleDocument):
        face.save(document)
    assert raw.find_one()["tags"] == ["a", "b"]


def test_the_documents_of_a_bulk_write_overtake_it_once(line: MessageProxy, raw: Any, face: Any) -> None:
    documents = [Note(tags=[str(at)]) for at in range(5)]
    face.save(*documents)
    for document in documents:
        document.tags.append("b")
    late = lose(face, line, documents)
    line.break_at("", 0)
    face.call(Note, "save_all", documents)
    # The second command is the bulk write.
    assert line.commands == ["update", "update"]
    refused(line, late[0])
    assert [row["tags"] for row in raw.find().sort("_id")] == [[str(at), "b"] for at in range(5)]


def test_a_save_that_cannot_overtake_the_lost_one_fails_and_stays_pending(
    line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    first = lose(face, line, [document])
    second = lose(face, line, [document])
    assert document.changes() == {"tags": (["a"], ["a", "b"])}
    face.save(document)
    refused(line, first[0])
    # The second save changes nothing, however late it arrives.
    assert line.deliver(second[0]).get("n", 0) == 0
    assert raw.find_one()["tags"] == ["a", "b"]


def test_a_save_in_a_session_is_overtaken_by_its_repetition_there(
    line: MessageProxy, raw: Any, face: Any
) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    client = connection("default").aclient if face.is_async else connection("default").client
    session = client.start_session()
    line.hold("update")

    time_out(face, line, lambda: (document.asave if face.is_async else document.save)(session=session))
    face.call(document, "save", session=session)
    refused(line, line.held[0])
    assert raw.find_one()["tags"] == ["a", "b"]
    face.run(session.end_session)


def test_a_plain_save_sends_one_command(line: MessageProxy, face: Any) -> None:
    document = Note(tags=["a"])
    face.save(document)
    document.tags.append("b")
    line.break_at("", 0)
    face.save(document)
    assert line.commands == ["update"]


@pytest.mark.parametrize("way", ["save", "save_all"])
def test_saves_that_are_broken_off_and_repeated_at_once_store_each_element_once(
    way: str, db: Connection, raw: Any, face: Any
) -> None:
    document = Note()
    face.save(document)
    for at in range(20):
        document.tags.append(str(at))
        if not break_off(face, db.client.admin, document, (way, way), 0.001 + at * 0.0001):
            face.call(document, "reload", keep_changes=True)
            face.save(document)
    assert raw.find_one()["tags"] == [str(at) for at in range(20)]
