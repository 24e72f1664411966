"""Several tasks or threads save one instance at once: one save runs at a time, and no change is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

import pytest

from mangonel import _core
from mangonel.errors import OperationFailure
from mangonel.odm import (
    Connection,
    Document,
    ParallelSaveError,
    StaleDocument,
    Version,
    field,
    inc,
    push,
)
from mangonel.odm.model.convert import SAVING
from mangonel.server import Server
from tools.faces import eventually
from tools.proxy import LineProxy

WRITERS, ROUNDS = 8, 5


class Plain(Document):
    __collection__ = "parallel"
    tags: list[str] = field(default_factory=list)
    n: int = 0
    name: str = ""


class Counted(Document):
    __collection__ = "parallel"
    tags: list[str] = field(default_factory=list)
    n: int = 0
    name: str = ""
    rev: Annotated[int, Version] = 0


MODELS = pytest.mark.parametrize("model", [Plain, Counted])


def stored(db: Connection, document: Any) -> dict[str, Any]:
    """Return the document as the driver has it."""
    found: dict[str, Any] = db.client[db.name]["parallel"].find_one({"_id": document.id})
    return found


def in_turn(face: Any, document: Any, change: Any, way: str) -> Counter[str]:
    """Change and save one instance with many concurrent writers; return how their saves ended."""
    ended: Counter[str] = Counter()

    def begin(writer: int, turn: int) -> None:
        change(document, f"{writer}-{turn}")

    async def task(writer: int) -> None:
        for turn in range(ROUNDS):
            begin(writer, turn)
            try:
                await (document.asave() if way == "save" else type(document).asave_all([document]))
            except ParallelSaveError:
                ended["refused"] += 1
            else:
                ended["saved"] += 1

    async def tasks() -> None:
        await asyncio.gather(*map(task, range(WRITERS)))

    def thread(writer: int) -> None:
        for turn in range(ROUNDS):
            begin(writer, turn)
            try:
                if way == "save":
                    document.save()
                else:
                    type(document).save_all([document])
            except ParallelSaveError:
                ended["refused"] += 1
            else:
                ended["saved"] += 1

    if face.is_async:
        face.wait(tasks())
    else:
        threads = [threading.Thread(target=thread, args=(writer,)) for writer in range(WRITERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    return ended


def append(document: Any, name: str) -> None:
    document.tags.append(name)


def set_name(document: Any, name: str) -> None:
    document.name = name
    document.n = hash(name) % 1000


@MODELS
@pytest.mark.parametrize("way", ["save", "save_all"])
@pytest.mark.parametrize("begun", [[], ["first"]], ids=["empty", "filled"])
def test_elements_appended_by_parallel_writers_are_stored_once_each(
    model: Any, begun: list[str], way: str, db: Connection, face: Any
) -> None:
    document = model(tags=list(begun))
    face.save(document)
    ended = in_turn(face, document, append, way)
    assert sum(ended.values()) == WRITERS * ROUNDS
    # Changes that a refused save did not send are pending.
    face.save(document)
    names = sorted(f"{writer}-{turn}" for writer in range(WRITERS) for turn in range(ROUNDS))
    assert stored(db, document)["tags"] == document.tags
    assert sorted(document.tags) == sorted([*begun, *names])
    assert document.changes() == {}


@MODELS
@pytest.mark.parametrize("way", ["save", "save_all"])
def test_fields_set_by_parallel_writers_are_stored_as_they_are_in_memory(
    model: Any, way: str, db: Connection, face: Any
) -> None:
    document = model()
    face.save(document)
    in_turn(face, document, set_name, way)
    face.save(document)
    found = stored(db, document)
    assert (found["name"], found["n"]) == (document.name, document.n)
    assert document.changes() == {}


@pytest.fixture
def slow(server: Server, database_name: str, face: Any, db: Connection) -> Any:
    """A proxy to the server, and the connection of the models through it."""
    from mangonel.odm import connect

    with LineProxy(server.members[0].port) as proxy:
        made = connect(f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true", database=database_name)
        yield proxy
        made.close()
        face.wait(made.aclose())


@pytest.mark.parametrize("second", ["save", "save_all", "replace", "update", "reload"])
@MODELS
def test_a_second_operation_is_refused_while_a_save_is_under_way(
    model: Any, second: str, slow: LineProxy, face: Any
) -> None:
    document = model()
    face.save(document)
    document.tags.append("a")
    document.n = 1
    slow.pause()
    first = face.start(lambda: face_call(face, document, "save"))
    eventually(lambda: _core.odm_flags(document) & SAVING, "a save under way")
    # Changed meanwhile, so the running save does not send it.
    document.tags.append("b")
    arguments: dict[str, Any] = {"save_all": ([document],), "update": (inc(model.n),)}
    owner = model if second == "save_all" else document
    with pytest.raises((ParallelSaveError, ValueError)):
        face.call(owner, second, *arguments.get(second, ()))
    slow.resume()
    first.result(60)
    found = face.call(model, "get", document.id)
    assert (found.tags, found.n) == (["a"], 1)
    assert document.tags == ["a", "b"]
    assert set(document.changes()) == {"tags"}
    face.save(document)
    assert face.call(model, "get", document.id).tags == ["a", "b"]


def face_call(face: Any, owner: Any, method: str) -> Any:
    """Call the method; on asyncio return its coroutine."""
    return getattr(owner, "a" + method if face.is_async else method)()


@MODELS
def test_a_save_without_changes_is_refused_while_another_is_under_way(
    model: Any, slow: LineProxy, face: Any
) -> None:
    document = model()
    face.save(document)
    document.n = 1
    slow.pause()
    first = face.start(lambda: face_call(face, document, "save"))
    eventually(lambda: _core.odm_flags(document) & SAVING, "a save under way")
    # Nothing else is left to send, but the first save's outcome is unknown.
    with pytest.raises(ParallelSaveError):
        face.save(document)
    slow.resume()
    first.result(60)
    face.save(document)
    assert face.call(model, "get", document.id).n == 1


@MODELS
def test_a_new_document_is_inserted_once(model: Any, slow: LineProxy, face: Any) -> None:
    face.save(model())
    document = model(tags=["a"])
    slow.pause()
    first = face.start(lambda: face_call(face, document, "save"))
    eventually(lambda: _core.odm_flags(document) & SAVING, "an insert under way")
    document.tags.append("b")
    document.n = 2
    with pytest.raises(ParallelSaveError):
        face.save(document)
    slow.resume()
    first.result(60)
    face.save(document)
    found = face.call(model, "get", document.id)
    assert (found.tags, found.n) == (["a", "b"], 2)


@MODELS
def test_what_is_appended_while_an_update_is_under_way_is_kept_beside_the_answer(
    model: Any, slow: LineProxy, face: Any
) -> None:
    document = model(tags=["a"])
    face.save(document)
    slow.pause()
    change = push(model.tags, "pushed")
    first = face.start(lambda: (document.aupdate if face.is_async else document.update)(change))
    eventually(lambda: _core.odm_flags(document) & SAVING, "an update under way")
    document.tags.append("b")
    document.name = "x"
    slow.resume()
    first.result(60)
    face.save(document)
    found = face.call(model, "get", document.id)
    assert sorted(found.tags) == ["a", "b", "pushed"]
    assert (document.tags, document.name) == (found.tags, "x")


@pytest.mark.parametrize("way", ["transaction", "unit"])
@pytest.mark.parametrize("writers", [2, 5])
def test_a_rollback_beside_a_save_of_the_same_instance_takes_nothing_back_and_doubles_nothing(
    writers: int, way: str, db: Connection, face: Any
) -> None:
    document = Plain()
    face.save(document)
    began = threading.Barrier(writers)

    async def task(writer: int) -> None:
        document.tags.append(str(writer))
        if way == "unit":
            async with db.unit() as unit:
                unit.save(document)
            return
        async with db.transaction():
            document.n = writer
            await document.asave()

    async def tasks() -> list[Any]:
        return await asyncio.gather(*map(task, range(writers)), return_exceptions=True)

    def thread(writer: int) -> None:
        document.tags.append(str(writer))
        began.wait()
        with suppress(ParallelSaveError, OperationFailure, StaleDocument):
            if way == "unit":
                with db.unit() as unit:
                    unit.save(document)
                return
            with db.transaction():
                document.n = writer
                document.save()

    if face.is_async:
        for outcome in face.wait(tasks()):
            assert outcome is None or isinstance(outcome, ParallelSaveError), outcome
    else:
        threads = [threading.Thread(target=thread, args=(writer,)) for writer in range(writers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    found = stored(db, document)
    assert (found["tags"], found["n"]) == (document.tags[: len(found["tags"])], found["n"])
    face.save(document)
    found = stored(db, document)
    assert (found["tags"], found["n"]) == (document.tags, document.n)
    assert len(set(document.tags)) == len(document.tags)


def test_a_rollback_leaves_a_save_made_meanwhile_outside_of_the_transaction(
    db: Connection, face: Any
) -> None:
    document, other = Plain(), Plain()
    face.save(document, other)

    async def rolled_back(saved: asyncio.Event, touched: asyncio.Event) -> None:
        with suppress(LookupError):
            async with db.transaction():
                document.tags.append("a")
                other.tags.append("a")
                touched.set()
                await saved.wait()
                document.name = "later"
                raise LookupError

    async def tasks() -> None:
        saved, touched = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(rolled_back(saved, touched))
        await touched.wait()
        document.tags.append("b")
        await document.asave()
        saved.set()
        await task

    if not face.is_async:
        pytest.skip("the order needs tasks")
    face.wait(tasks())
    assert (document.tags, document.name, document.changes(), other.tags) == (["a", "b"], "", {}, [])
    assert stored(db, document)["tags"] == ["a", "b"]


def test_what_a_transaction_has_saved_is_not_saved_beside_it_before_it_ends(
    db: Connection, face: Any
) -> None:
    if not face.is_async:
        pytest.skip("the order needs tasks")
    document = Plain()
    face.save(document)

    async def kept(go: asyncio.Event, saved: asyncio.Event, fails: bool) -> None:
        with suppress(LookupError):
            async with db.transaction():
                document.n += 1
                await document.asave()
                saved.set()
                await go.wait()
                if fails:
                    raise LookupError

    async def tasks(fails: bool) -> None:
        go, saved = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(kept(go, saved, fails))
        await saved.wait()
        document.tags.append("b")
        with pytest.raises(ParallelSaveError, match="while a transaction that saved it is under way"):
            await document.asave()
        with pytest.raises(ParallelSaveError):
            await Plain.asave_all([document])
        go.set()
        await task
        await document.asave()

    face.wait(tasks(False))
    assert (document.tags, document.n) == (["b"], 1)
    face.wait(tasks(True))
    # The rollback undoes changes made after the transaction began.
    assert (document.tags, document.n) == (["b"], 1)
    found = stored(db, document)
    assert (found["tags"], found["n"]) == (["b"], 1)
