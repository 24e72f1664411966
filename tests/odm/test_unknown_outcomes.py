"""Saves that fail before, while or after the server stores them: nothing is forgotten or stored twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel import _core, timeout
from mangonel.errors import (
    AutoReconnect,
    BulkWriteError,
    DuplicateKeyError,
    ExecutionTimeout,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WTimeoutError,
)
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Ref,
    StaleDocument,
    Version,
    connect,
    field,
    inc,
)
from mangonel.odm.model.convert import SAVING
from mangonel.odm.store.writes import outcome_of
from mangonel.server import Server
from tools.faces import eventually
from tools.proxy import LineProxy

# Longer than any test: delayed messages are never delivered.
NEVER_MS = 600_000.0


class Part(Embedded):
    n: int = 0


class Plain(Document):
    __collection__ = "outcomes"
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    n: int = 0


class Counted(Document):
    __collection__ = "outcomes"
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    n: int = 0
    rev: Annotated[int, Version] = 0


MODELS = pytest.mark.parametrize("model", [Plain, Counted])
SAVES = pytest.mark.parametrize("way", ["save", "save_all"])


@pytest.fixture
def line(server: Server, database_name: str, face: Any, db: Connection) -> Iterator[LineProxy]:
    """A proxy between the models' connection and the server; the connection retries nothing."""
    with LineProxy(server.members[0].port) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true&retryWrites=false"
        made = connect(uri, database=database_name)
        yield proxy
        proxy.delay_down_ms = 0
        made.close()
        face.wait(made.aclose())


@pytest.fixture
def raw(server: Server, database_name: str, db: Connection) -> Any:
    """The collection, without the proxy."""
    return db.client[database_name]["outcomes"]


def begin(face: Any, document: Any, way: str) -> Any:
    """Start a save; return a future with its outcome."""
    kind = type(document)
    if way == "save":
        return face.start(document.asave if face.is_async else document.save)
    return face.start(lambda: (kind.asave_all if face.is_async else kind.save_all)([document]))


def again(face: Any, document: Any, way: str) -> None:
    """Save once more."""
    if way == "save":
        face.save(document)
    elif way in ("insert", "replace"):
        face.call(document, way)
    else:
        face.call(type(document), way, [document])


def lose(
    face: Any, line: LineProxy, document: Any, way: str, is_stored: Callable[[], bool] | None, how: str
) -> None:
    """Save, and make the save fail with an unknown outcome. `is_stored`: it was stored; None: it fails before that."""
    if is_stored is None:
        line.pause()
    else:
        line.delay_down_ms = NEVER_MS
    running = begin(face, document, way)
    eventually(lambda: _core.odm_flags(document) & SAVING, "a save under way")
    if is_stored is not None:
        eventually(is_stored, "a stored change")
    if how == "cancel":
        running.cancel()
    else:
        line.cut()
    # The pause ends after the cut, so held messages are never delivered.
    with pytest.raises(BaseException):  # noqa: B017  # what it is differs; that it is one counts
        running.result(60)
    eventually(lambda: not _core.odm_flags(document) & SAVING, "the end of the save")
    line.cut()
    line.delay_down_ms = 0
    line.resume()


@pytest.fixture(params=["cut", "cancel"])
def how(request: pytest.FixtureRequest, face: Any) -> str:
    """The way in which the outcome of a save becomes unknown."""
    if request.param == "cancel" and not face.is_async:
        pytest.skip("nothing cancels a blocking call")
    chosen: str = request.param
    return chosen


@MODELS
@SAVES
def test_an_append_that_was_not_stored_is_stored_once_by_the_next_save(
    model: Any, way: str, how: str, line: LineProxy, raw: Any, face: Any
) -> None:
    document = model(tags=["a"])
    face.save(document)
    document.tags.append("b")
    lose(face, line, document, way, None, how)
    assert set(document.changes()) == {"tags"}
    again(face, document, way)
    assert raw.find_one()["tags"] == ["a", "b"]
    assert document.changes() == {}


@MODELS
@SAVES
@pytest.mark.parametrize("begun", [[], ["a"]], ids=["empty", "filled"])
def test_an_append_that_was_stored_after_all_is_not_stored_twice(
    model: Any, begun: list[str], way: str, how: str, line: LineProxy, raw: Any, face: Any
) -> None:
    document = model(tags=list(begun))
    face.save(document)
    document.tags.append("b")
    lose(face, line, document, way, lambda: "b" in raw.find_one()["tags"], how)
    assert set(document.changes()) == {"tags"}
    # The first save looks like another writer's, so the program must decide.
    with pytest.raises(StaleDocument):
        again(face, document, way)
    assert raw.find_one()["tags"] == [*begun, "b"]
    face.call(document, "reload", keep_changes=True)
    again(face, document, way)
    assert raw.find_one()["tags"] == [*begun, "b"]
    assert document.changes() == {}


def append(document: Any) -> None:
    document.tags.append("b")


def append_part(document: Any) -> None:
    document.parts.append(Part(n=2))


def change_part(document: Any) -> None:
    document.parts[0].n = 100


def remove_part(document: Any) -> None:
    del document.parts[0]


def remove_tag(document: Any) -> None:
    document.tags.remove("a")


def add_key(document: Any) -> None:
    document.keys.add(2)


def set_number(document: Any) -> None:
    document.n = 5


def sort_tags(document: Any) -> None:
    document.tags.sort(reverse=True)


@MODELS
@pytest.mark.parametrize(
    "change",
    [append, append_part, change_part, remove_part, remove_tag, add_key, set_number, sort_tags],
)
def test_a_repeated_save_makes_what_one_save_makes_or_is_refused(
    model: Any, change: Callable[[Any], None], how: str, line: LineProxy, raw: Any, face: Any
) -> None:
    document = model(tags=["a", "z"], parts=[Part(n=1), Part(n=3)], keys={1})
    face.save(document)
    before = raw.find_one()
    change(document)
    lose(face, line, document, "save", lambda: raw.find_one() != before, how)
    once = raw.find_one()
    try:
        face.save(document)
    except StaleDocument:
        assert document.changes()
    else:
        assert document.changes() == {}
        assert model is Plain
    assert raw.find_one() == once
    face.call(document, "reload")
    assert raw.find_one() == once


@SAVES
def test_an_insert_that_was_stored_after_all_is_not_stored_twice(
    way: str, how: str, line: LineProxy, raw: Any, face: Any
) -> None:
    # It opens the connection.
    face.save(Plain())
    document = Plain(tags=["a"])
    lose(face, line, document, way, lambda: raw.count_documents({}) == 2, how)
    with pytest.raises((DuplicateKeyError, BulkWriteError)):
        again(face, document, way)
    assert raw.count_documents({}) == 2


def test_a_change_that_timed_out_is_pending(line: LineProxy, raw: Any, face: Any) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    document.tags.append("b")
    document.n = 1
    line.pause()

    async def asave() -> None:
        with timeout(0.1):
            await document.asave()

    def save() -> None:
        with timeout(0.1):
            document.save()

    with pytest.raises(PyMongoError):
        face.run(asave if face.is_async else save)
    line.cut()
    line.resume()
    assert set(document.changes()) == {"tags", "n"}
    face.save(document)
    assert (raw.find_one()["tags"], raw.find_one()["n"]) == (["a", "b"], 1)


@pytest.fixture
def fail(server: Server, db: Connection) -> Iterator[Callable[..., None]]:
    """Make the server's next command of this name fail."""
    admin = db.client.admin

    def switch(*names: str, times: int = 1, **how: Any) -> None:
        fail_data = {"failCommands": names, **how}
        admin.command("configureFailPoint", "failCommand", mode={"times": times}, data=fail_data)

    yield switch
    admin.command("configureFailPoint", "failCommand", mode="off")


UNCONFIRMED = {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out"}


@MODELS
@SAVES
def test_a_write_concern_that_failed_leaves_the_outcome_unknown(
    model: Any, way: str, fail: Callable[..., None], raw: Any, face: Any
) -> None:
    document = model(tags=["a"])
    face.save(document)
    document.tags.append("b")
    fail("update", writeConcernError=UNCONFIRMED)
    with pytest.raises((WriteConcernError, BulkWriteError)) as caught:
        again(face, document, way)
    if way == "save_all":
        assert caught.value.not_stored == [document]  # type: ignore[union-attr]  # the mapper's addition
    assert set(document.changes()) == {"tags"}
    with pytest.raises(StaleDocument):
        again(face, document, way)
    assert raw.find_one()["tags"] == ["a", "b"]
    face.call(document, "reload", keep_changes=True)
    assert document.changes() == {}


@pytest.mark.parametrize("way", ["save", "save_all", "insert_many"])
def test_an_insert_whose_write_concern_failed_is_new_still(
    way: str, fail: Callable[..., None], raw: Any, face: Any
) -> None:
    document = Plain(tags=["a"])
    fail("insert", writeConcernError=UNCONFIRMED)
    for _ in range(2):
        with pytest.raises((WriteConcernError, BulkWriteError, DuplicateKeyError)):
            again(face, document, way)
        assert document.is_new
    assert raw.count_documents({}) == 1


class Target(Document):
    __collection__ = "unknown_targets"


class Referrer(Document):
    __collection__ = "unknown_referrers"
    target: Ref[Target] | None = field(default=None, on_delete="deny")


def gone_target(db: Connection, face: Any) -> Target:
    """Return a document that another program has deleted."""
    target = Target()
    face.save(target)
    db.client[db.name]["unknown_targets"].delete_one({"_id": target.id})
    return target


# 100: the write concern of what undoes the write fails too.
@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("way", ["save", "insert", "save_all", "insert_many"])
def test_an_insert_whose_write_concern_failed_looks_for_its_targets(
    way: str, times: int, fail: Callable[..., None], db: Connection, face: Any
) -> None:
    document = Referrer(target=gone_target(db, face))
    fail("insert", "update", "delete", times=times, writeConcernError=UNCONFIRMED)
    with pytest.raises((WriteConcernError, BulkWriteError)) as caught:
        again(face, document, way)
    assert document.is_new
    assert list(db.client[db.name]["unknown_referrers"].find()) == []
    if times == 1 and way in ("save", "insert"):
        assert "no Target has the _id" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("way", ["save", "save_all", "replace"])
@pytest.mark.parametrize("was_deleted", [False, True])
def test_a_save_whose_write_concern_failed_looks_for_its_targets(
    way: str, times: int, was_deleted: bool, fail: Callable[..., None], db: Connection, face: Any
) -> None:
    former = Target()
    face.save(former)
    document = Referrer(target=former)
    face.save(document)
    if was_deleted:
        db.client[db.name]["unknown_targets"].delete_one({"_id": former.id})
    document.target = gone_target(db, face)
    fail("insert", "update", "delete", times=times, writeConcernError=UNCONFIRMED)
    with pytest.raises((WriteConcernError, BulkWriteError)):
        again(face, document, way)
    (stored,) = db.client[db.name]["unknown_referrers"].find()
    assert stored["target"] == (None if was_deleted else former.id)


@MODELS
@SAVES
def test_a_save_that_the_server_refused_is_repeated(
    model: Any, way: str, fail: Callable[..., None], raw: Any, face: Any
) -> None:
    document = model(tags=[])
    face.save(document)
    document.tags.append("b")
    document.n = 1
    fail("update", errorCode=2)
    with pytest.raises(OperationFailure):
        again(face, document, way)
    assert set(document.changes()) == {"tags", "n"}
    # Others may append: the refused save was certainly not stored.
    raw.update_one({}, {"$push": {"tags": "theirs"}})
    again(face, document, way)
    assert (raw.find_one()["tags"], raw.find_one()["n"]) == (["theirs", "b"], 1)


@MODELS
def test_a_connection_that_closes_is_retried_as_the_same_write(
    model: Any, fail: Callable[..., None], raw: Any, face: Any
) -> None:
    document = model(tags=[])
    face.save(document)
    document.tags.append("b")
    fail("update", closeConnection=True)
    face.save(document)
    assert raw.find_one()["tags"] == ["b"]
    assert document.changes() == {}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OperationFailure("no", 2), False),
        (DuplicateKeyError("no", 11000), False),
        (TypeError("no"), False),
        (AutoReconnect("lost"), None),
        (NetworkTimeout("late"), None),
        (ExecutionTimeout("late", 50), None),
        (WriteConcernError("weak", 64), None),
        (WTimeoutError("weak", 64), None),
        (asyncio.CancelledError(), None),
        (KeyboardInterrupt(), None),
        (OperationFailure("stepped down", 10107, {"errorLabels": ["RetryableWriteError"]}), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_tells_whether_a_write_may_have_been_stored(
    error: BaseException, outcome: bool | None
) -> None:
    assert outcome_of(error) is outcome


def test_an_update_whose_outcome_is_unknown_leaves_other_changes_pending(
    line: LineProxy, raw: Any, face: Any, how: str
) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    document.tags.append("b")
    line.delay_down_ms = NEVER_MS
    change = inc(Plain.n)
    running = face.start(lambda: (document.aupdate if face.is_async else document.update)(change))
    eventually(lambda: raw.find_one()["n"] == 1, "a stored change")
    if how == "cancel":
        running.cancel()
    else:
        line.cut()
    with pytest.raises(BaseException):  # noqa: B017  # likewise
        running.result(60)
    eventually(lambda: not _core.odm_flags(document) & SAVING, "the end of the update")
    line.cut()
    line.delay_down_ms = 0
    assert set(document.changes()) == {"tags"}
    face.save(document)
    assert (raw.find_one()["tags"], raw.find_one()["n"]) == (["a", "b"], 1)
