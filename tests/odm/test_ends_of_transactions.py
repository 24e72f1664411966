"""Documents in memory after a transaction that was aborted, or whose commit has an unknown outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel.errors import OperationFailure, WriteConcernError
from mangonel.odm import (
    Audited,
    Connection,
    Document,
    ParallelSaveError,
    StaleDocument,
    Timestamps,
    Version,
    before,
    connect,
    field,
    inc,
)
from mangonel.odm.connections import transactions
from mangonel.server import Server
from odm.conftest import Face


class Plain(Document):
    __collection__ = "ends"
    tags: list[str] = field(default_factory=list)
    n: int = 0


class Recorded(Audited):
    __collection__ = "ends"
    tags: list[str] = field(default_factory=list)
    n: int = 0


class Stamped(Timestamps):
    __collection__ = "ends"
    tags: list[str] = field(default_factory=list)
    n: int = 0

    @before("save")
    def count(self) -> None:
        self.tags = list(self.tags)


class Counted(Document):
    __collection__ = "ends"
    tags: list[str] = field(default_factory=list)
    n: int = 0
    rev: Annotated[int, Version] = 0


def in_block(face: Face, block: Any, *acts: Callable[[], Any]) -> None:
    """Run functions inside a transaction's block."""

    async def steps() -> None:
        async with block:
            for act in acts:
                waited = act()
                if waited is not None:
                    await waited

    if face.is_async:
        face.wait(steps())
        return
    with block:
        for act in acts:
            act()


def saving(face: Face, document: Any, **options: Any) -> Callable[[], Any]:
    """Return a function that saves a document, and returns a coroutine on asyncio."""
    return lambda: document.asave(**options) if face.is_async else document.save(**options) and None


def abort() -> None:
    raise LookupError("aborted")


def tags(db: Connection, document: Any) -> list[str]:
    found: list[str] = db.client[db.name]["ends"].find_one({"_id": document.id})["tags"]
    return found


@pytest.fixture
def elsewhere(server: Server, db: Connection, face: Face) -> Iterator[Connection]:
    """Another client of the same database, whose saves belong to no transaction of `db`."""
    made = connect(server.uri, database=db.name, alias="elsewhere")
    yield made
    made.close()
    face.wait(made.aclose())


@pytest.mark.parametrize("way", ["another client", "a session of its own"])
def test_an_abort_does_not_bring_back_what_its_block_saved_outside_of_it(
    way: str, db: Connection, elsewhere: Connection, face: Face
) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    options: dict[str, Any] = {}
    if way == "another client":
        document = face.call(Plain.find().using(elsewhere), "one")
    else:
        options["session"] = (db.aclient if face.is_async else db.client).start_session()
    document.tags.append("b")

    def change() -> None:
        document.n = 1

    with pytest.raises(LookupError):
        in_block(face, db.transaction(), change, saving(face, document, **options), abort)
    assert (tags(db, document), document.tags, document.n, document.changes()) == (
        ["a", "b"],
        ["a", "b"],
        1,
        {},
    )
    document.tags.append("c")
    face.save(document)
    assert tags(db, document) == document.tags == ["a", "b", "c"]


@pytest.mark.parametrize("way", ["save", "save_all", "update"])
def test_what_a_save_outside_of_a_block_sets_by_itself_is_not_brought_back(
    way: str, db: Connection, elsewhere: Connection, face: Face
) -> None:
    made = Stamped(tags=["a"])
    face.save(made)
    document = face.call(Stamped.find().using(elsewhere), "one")
    document.tags.append("b")
    acts: dict[str, Callable[[], Any]] = {
        "save": saving(face, document),
        "save_all": lambda: (Stamped.asave_all if face.is_async else Stamped.save_all)([document]) and None,
        "update": lambda: (
            document.aupdate(inc(Stamped.n)) if face.is_async else document.update(inc(Stamped.n)) and None
        ),
    }
    if way == "save_all" and face.is_async:
        acts[way] = lambda: Stamped.asave_all([document])
    with pytest.raises(LookupError):
        in_block(face, db.transaction(), acts[way], abort)
    found = Stamped.collection().find_one()
    assert (document.n, found["n"]) == ((1, 1) if way == "update" else (0, 0))
    assert set(document.changes()) == ({"tags"} if way == "update" else set())
    face.save(document)
    assert tags(db, document) == document.tags == ["a", "b"]


def test_a_save_outside_of_a_transaction_that_has_saved_the_document_is_refused(
    db: Connection, face: Face
) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    session = (db.aclient if face.is_async else db.client).start_session()

    def change() -> None:
        document.n += 1

    # A save outside would wait for the transaction whose block it is in.
    with pytest.raises(ParallelSaveError):
        in_block(
            face,
            db.transaction(),
            change,
            saving(face, document),
            change,
            saving(face, document, session=session),
        )
    assert (document.n, document.changes()) == (0, {})


def test_an_abort_around_a_committed_transaction_elsewhere_leaves_its_documents(
    db: Connection, elsewhere: Connection, face: Face
) -> None:
    document, other = Plain(tags=["a"]), Plain(tags=["x"])
    face.save(document, other)
    far = face.call(Plain.find(Plain.id == document.id).using(elsewhere), "one")

    def change() -> None:
        far.tags.append("b")
        other.tags.append("y")

    def inner() -> Any:
        # It also saves a document of the outer transaction.
        acts = (change, saving(face, far), saving(face, other))
        if not face.is_async:
            in_block(face, elsewhere.transaction(), *acts)
            return None

        async def steps() -> None:
            async with elsewhere.transaction():
                change()
                await far.asave()
                await other.asave()

        return steps()

    with pytest.raises(LookupError):
        in_block(face, db.transaction(), inner, abort)
    assert (tags(db, far), far.tags, far.changes()) == (["a", "b"], ["a", "b"], {})
    assert (tags(db, other), other.tags, other.changes()) == (["x"], ["x"], {})


@pytest.fixture
def unknown(db: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server carries out each commit, then reports a failure that leaves the outcome unknown."""
    monkeypatch.setattr(transactions, "RETRY_S", 0.0)
    failure = {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "timed out"}
    data = {"failCommands": ["commitTransaction"], "writeConcernError": failure}
    db.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
    yield
    db.client.admin.command("configureFailPoint", "failCommand", mode="off")


def unit_of(face: Face, db: Connection, document: Any) -> None:
    unit = db.unit()
    in_block(face, unit, lambda: unit.save(document))


@pytest.mark.parametrize("model", [Plain, Counted])
@pytest.mark.parametrize("way", ["block", "run", "unit"])
def test_an_append_of_a_transaction_that_may_be_committed_is_not_stored_twice(
    way: str, model: Any, db: Connection, face: Face, unknown: None
) -> None:
    document = model(tags=["a"])
    face.save(document)
    document.tags.append("b")
    acts = {
        "block": lambda: in_block(face, db.transaction(), saving(face, document)),
        "run": lambda: face.call(db, "run", saving(face, document)),
        "unit": lambda: unit_of(face, db, document),
    }
    with pytest.raises(WriteConcernError):
        acts[way]()
    assert (tags(db, document), document.tags, set(document.changes())) == (["a", "b"], ["a", "b"], {"tags"})
    # The commit looks like another writer's, so the program must decide.
    with pytest.raises(StaleDocument):
        face.save(document)
    face.call(document, "reload", keep_changes=True)
    face.save(document)
    assert tags(db, document) == document.tags == ["a", "b"]
    assert document.changes() == {}


@pytest.mark.parametrize("way", ["save", "save_all", "update"])
def test_a_recorded_save_that_may_be_committed_is_not_stored_twice(
    way: str, db: Connection, face: Face, unknown: None
) -> None:
    document = Recorded(tags=["a"])
    with pytest.raises(WriteConcernError):
        face.save(document)
    document = face.call(Recorded.find(), "one")
    document.tags.append("b")
    acts: dict[str, Callable[[], Any]] = {
        "save": lambda: face.save(document),
        "save_all": lambda: face.call(Recorded, "save_all", [document]),
        "update": lambda: face.call(document, "update", inc(Recorded.n)),
    }
    with pytest.raises(WriteConcernError):
        acts[way]()
    if way == "update":
        assert (tags(db, document), set(document.changes())) == (["a"], {"tags"})
    else:
        with pytest.raises(StaleDocument):
            acts[way]()
    document = face.call(document, "reload", keep_changes=True)
    db.client.admin.command("configureFailPoint", "failCommand", mode="off")
    face.save(document)
    assert tags(db, document) == document.tags == ["a", "b"]
    assert [revision.number for revision in face.call(document, "history")] == [1, 2] + [3] * (
        way == "update"
    )


def test_a_commit_that_the_server_refuses_is_no_doubt(db: Connection, face: Face) -> None:
    document = Plain(tags=["a"])
    face.save(document)
    document.tags.append("b")
    # Another writer appends, which conflicts with a save that depends on the stored list.
    data = {"failCommands": ["commitTransaction"], "errorCode": 20}
    db.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    with pytest.raises(OperationFailure):
        in_block(face, db.transaction(), saving(face, document))
    db.client.admin.command("killAllSessions", [])
    Plain.collection().update_one({"_id": document.id}, {"$push": {"tags": "x"}})
    face.save(document)
    assert tags(db, document) == ["a", "x", "b"]
