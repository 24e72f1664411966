"""`reload(keep_changes=True)` of a document whose last save may have been stored: no element is stored twice, and no
element of another writer is lost."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel.errors import AutoReconnect, OperationFailure, WriteConcernError
from mangonel.odm import Connection, Document, Embedded, Refs, StaleDocument, Version, field, inc
from odm.conftest import Face


class Part(Embedded):
    name: str
    n: int = 0


class Plain(Document):
    __collection__ = "doubts"
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    spare: list[str] | None = None
    n: int = 0


class Counted(Document):
    __collection__ = "doubts"
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    spare: list[str] | None = None
    n: int = 0
    rev: Annotated[int, Version] = 0


MODELS = pytest.mark.parametrize("model", [Plain, Counted])


@pytest.fixture
def raw(db: Connection) -> Any:
    return db.client[db.name]["doubts"]


@pytest.fixture
def doubt(db: Connection, face: Face) -> Iterator[Callable[..., None]]:
    """Return a function that saves a document with an unknown outcome; `is_stored` is the actual one."""
    point = {"configureFailPoint": "failCommand"}

    def lose(document: Any, is_stored: bool = True) -> None:
        if is_stored:
            data = {
                "writeConcernError": {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "timed out"}
            }
        else:
            data = {"errorCode": 262, "errorLabels": ["RetryableWriteError"]}
        # Twice, since the driver retries a write that was not stored.
        mode = {"times": 1 if is_stored else 2}
        db.client.admin.command({**point, "mode": mode, "data": {"failCommands": ["update"], **data}})
        with pytest.raises((WriteConcernError, OperationFailure, AutoReconnect)):
            face.save(document)
        db.client.admin.command({**point, "mode": "off"})

    yield lose
    db.client.admin.command({**point, "mode": "off"})


@pytest.fixture(params=["transaction", "snapshot"])
def older(request: pytest.FixtureRequest, db: Connection, face: Face) -> Iterator[Callable[[], Any]]:
    """Return a function that returns a session whose reads see the data of the present moment from now on."""
    client = db.aclient if face.is_async else db.client
    made: list[Any] = []

    def start() -> Any:
        is_snapshot = request.param == "snapshot"
        session = client.start_session(snapshot=is_snapshot)
        made.append(session)
        if not is_snapshot:
            face.run(session.start_transaction)
        face.run(lambda: client[db.name]["doubts"].find_one({}, session=session))
        return session

    yield start
    for session in made:
        face.run(session.end_session)


def save_by(face: Face, db: Connection, document: Any, way: str) -> None:
    """Save in one of the ways."""
    if way == "save":
        face.save(document)
    elif way == "save_all":
        face.call(type(document), "save_all", [document])
    else:
        unit = db.unit()

        def block() -> None:
            with unit:
                unit.save(document)

        async def steps() -> None:
            async with unit:
                unit.save(document)

        face.run(steps if face.is_async else block)


def reload(face: Face, document: Any, **options: Any) -> None:
    face.call(document, "reload", keep_changes=True, **options)


@pytest.mark.parametrize("way", ["save", "save_all", "unit"])
def test_a_reload_from_an_older_snapshot_leaves_the_doubt(
    way: str, older: Callable[[], Any], doubt: Callable[..., None], db: Connection, raw: Any, face: Face
) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    session = older()
    document.tags.append("b")
    document.spare = ["c"]
    doubt(document)
    reload(face, document, session=session)
    assert (document.tags, document.spare) == (["a", "b"], ["c"])
    with pytest.raises(StaleDocument):
        save_by(face, db, document, way)
    reload(face, document)
    save_by(face, db, document, way)
    assert (raw.find_one()["tags"], raw.find_one()["spare"]) == (["a", "b"], ["c"])
    assert document.changes() == {}


def test_a_copy_of_a_document_in_doubt_stays_in_doubt_after_a_reload_from_an_older_snapshot(
    older: Callable[[], Any], doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    session = older()
    document.tags.append("b")
    doubt(document)
    reload(face, document, session=session)
    with pytest.raises(StaleDocument):
        face.save(copy.copy(document))
    assert raw.find_one()["tags"] == ["a", "b"]


@MODELS
@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("begun", [None, [], ["a"], ["a", "z"]], ids=["missing", "empty", "one", "two"])
def test_an_append_in_doubt_is_stored_once_beside_what_others_stored(
    model: Any, begun: list[str] | None, is_stored: bool, doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = model(spare=begun)
    face.save(document)
    if begun is None:
        raw.update_one({}, {"$unset": {"spare": ""}})
        face.call(document, "reload")
    document.spare = [*(begun or []), "b", "c"]
    before = {"$push": {"spare": {"$each": ["first"], "$position": 0}}}
    doubt(document, is_stored)
    raw.update_one({}, {**before, "$inc": {"rev": 1}} if model is Counted else before)
    after: dict[str, Any] = {"$push": {"spare": "last"}}
    raw.update_one({}, {**after, "$inc": {"rev": 1}} if model is Counted else after)
    # The program appends after the save in doubt.
    document.spare.append("d")
    with pytest.raises(StaleDocument):
        face.save(document)
    reload(face, document)
    face.save(document)
    stored = raw.find_one()["spare"]
    assert sorted(stored) == sorted([*(begun or []), "b", "c", "d", "first", "last"])
    assert stored == document.spare
    assert document.changes() == {}


@MODELS
def test_a_pending_append_after_a_reload_in_doubt_is_refused_if_another_writer_was_faster(
    model: Any, doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = model(tags=["a"])
    face.save(document)
    document.tags.append("b")
    doubt(document, False)
    reload(face, document)
    # The element may come from the uncertain commit.
    raw.update_one({}, {"$push": {"tags": "b"}})
    with pytest.raises(StaleDocument):
        face.save(document)
    reload(face, document)
    assert document.changes() == {}
    face.save(document)
    assert raw.find_one()["tags"] == ["a", "b"]


def test_an_update_in_doubt_keeps_what_others_stored_and_the_doubt(
    doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    document.tags.append("b")
    doubt(document, False)
    raw.update_one({}, {"$push": {"tags": "theirs"}})
    face.call(document, "update", inc(Plain.n))
    assert (document.n, document.tags) == (1, ["a", "theirs", "b"])
    raw.update_one({}, {"$push": {"tags": "b"}})
    with pytest.raises(StaleDocument):
        face.save(document)
    assert raw.find_one()["tags"] == ["a", "theirs", "b"]


def test_elements_removed_by_others_and_equal_ones_are_counted(
    doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = Plain(tags=["x", "a", "x"])
    face.save(document)
    document.tags += ["x", "x"]
    doubt(document, False)
    raw.update_one({}, {"$set": {"tags": ["x", "x", "x", "new"]}})
    reload(face, document)
    assert document.tags == ["x", "x", "x", "new", "x"]


@pytest.mark.parametrize("is_stored", [True, False])
def test_appended_documents_in_doubt_are_stored_once(
    is_stored: bool, doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = Plain(parts=[Part(name="a")])
    face.save(document)
    document.parts.append(Part(name="b"))
    doubt(document, is_stored)
    if is_stored:
        raw.update_one({}, {"$push": {"parts": {"n": 0, "name": "theirs"}}})
    reload(face, document)
    face.save(document)
    assert [part["name"] for part in raw.find_one()["parts"]] == ["a", "b"] + ["theirs"] * is_stored


def test_an_appended_document_in_doubt_that_another_element_may_be_is_not_merged(
    doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = Plain(parts=[Part(name="a")])
    face.save(document)
    document.parts.append(Part(name="b"))
    doubt(document)
    # The stored element has changed, or it is another writer's.
    document.parts[1].n = 1
    for act in (lambda: reload(face, document), lambda: face.save(document)):
        with pytest.raises(StaleDocument):
            act()
        assert [part.n for part in document.parts] == [0, 1]
    face.call(document, "update", inc(Plain.n))
    assert (document.n, [part.n for part in document.parts], set(document.changes())) == (
        1,
        [0, 1],
        {"parts"},
    )
    for act in (lambda: face.save(document), lambda: reload(face, document)):
        with pytest.raises(StaleDocument):
            act()
    assert raw.find_one()["parts"] == [{"name": "a", "n": 0}, {"name": "b", "n": 0}]
    face.call(document, "reload")
    assert (document.changes(), [part.n for part in document.parts]) == ({}, [0, 0])


class Boxed(Document):
    __collection__ = "doubts"
    line: deque[str] = field(default_factory=deque)
    row: tuple[str, ...] = ()
    rooms: dict[str, list[str]] = field(default_factory=dict)
    n: int = 0


@pytest.mark.parametrize("doubts", [None, True, False], ids=["saved", "stored", "not stored"])
def test_deques_tuples_and_dicts_keep_what_others_stored(
    doubts: bool | None, doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = Boxed(line=deque(["a"]), row=("a",), rooms={"a": ["x"], "b": [], "c": []})
    face.save(document)
    document.line.append("mine")
    document.row += ("mine",)
    document.rooms["mine"] = ["y"]
    document.rooms["a"].append("mine")
    del document.rooms["b"]
    if doubts is not None:
        doubt(document, doubts)
    pushed = {"line": "theirs", "row": "theirs", "rooms.a": "theirs"}
    raw.update_one({}, {"$push": pushed, "$set": {"rooms.theirs": []}, "$unset": {"rooms.c": ""}})
    reload(face, document)
    face.save(document)
    stored = raw.find_one()
    assert sorted(stored["line"]) == sorted(stored["row"]) == ["a", "mine", "theirs"]
    assert {key: sorted(names) for key, names in stored["rooms"].items()} == {
        "a": ["mine", "theirs", "x"],
        "mine": ["y"],
        "theirs": [],
    }
    assert (list(document.line), list(document.row), document.rooms) == (
        stored["line"],
        stored["row"],
        stored["rooms"],
    )
    assert document.changes() == {}


@MODELS
@pytest.mark.parametrize("is_in_doubt", [True, False])
def test_a_set_keeps_its_changes_and_takes_those_of_others(
    model: Any, is_in_doubt: bool, doubt: Callable[..., None], raw: Any, face: Face
) -> None:
    document = model(keys={"a", "b", "c"})
    face.save(document)
    document.keys -= {"a"}
    document.keys |= {"d"}
    if is_in_doubt:
        doubt(document)
    raw.update_one({}, {"$push": {"keys": "theirs"}})
    raw.update_one({}, {"$pull": {"keys": "b"}})
    reload(face, document)
    assert document.keys == {"c", "d", "theirs"}
    face.save(document)
    assert sorted(raw.find_one()["keys"]) == ["c", "d", "theirs"]
    assert document.changes() == {}


class Target(Document):
    __collection__ = "doubts_targets"


class Referring(Document):
    __collection__ = "doubts"
    targets: Refs[Target] = field(default_factory=Refs)


@pytest.mark.parametrize("way", ["save", "save_all", "unit"])
def test_a_keeping_reload_merges_references(way: str, db: Connection, raw: Any, face: Face) -> None:
    old, gone, theirs, ours, new = targets = [Target() for _ in range(5)]
    face.call(Target, "insert_many", targets)
    document = Referring(targets=[old.id, gone.id])
    face.save(document)
    other = face.call(Referring, "get", document.id)
    other.targets.add(theirs, ours)
    face.save(other)
    document.targets.add(ours, new)
    document.targets.remove(gone)
    reload(face, document)
    assert document.targets.ids == [old.id, theirs.id, ours.id, new.id]
    # The document stays with its reference, for a save with `cascade`.
    assert document.targets[3].value is new
    save_by(face, db, document, way)
    assert raw.find_one()["targets"] == document.targets.ids
    assert document.changes() == {}
