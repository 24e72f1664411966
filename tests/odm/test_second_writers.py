"""One task or program uses a document or an index while another one works with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel import _core
from mangonel.monitoring import CommandListener
from mangonel.odm import (
    Audited,
    Connection,
    DeleteDenied,
    Document,
    Index,
    Indexed,
    KeepsChanges,
    ParallelSaveError,
    Ref,
    SoftDelete,
    Version,
    connect,
    field,
    identity_map,
)
from mangonel.odm.model.convert import SAVING
from mangonel.server import Server
from tools.faces import eventually

BLOCK_MS = 500


class Flat(Document):
    __collection__ = "second_flat"
    n: int = 0
    text: str = ""


class Counted(Document):
    __collection__ = "second_counted"
    n: int = 0
    text: str = ""
    rev: Annotated[int, Version] = 0


class Price(KeepsChanges):
    __collection__ = "second_price"
    cents: int = 0


class Listed(Document):
    __collection__ = "second_listed"
    __indexes__ = [Index("n", unique=True)]  # noqa: RUF012
    n: int = 0


class Before(CommandListener):
    """Acts once before a command of this name is sent."""

    def __init__(self) -> None:
        self.plan: dict[str, Callable[[], Any]] = {}
        self.connection: Any = None

    def started(self, event: Any) -> None:
        act = self.plan.pop(event.command_name, None)
        if act is not None:
            act()

    def succeeded(self, event: Any) -> None:
        return

    def failed(self, event: Any) -> None:
        return


@pytest.fixture
def before(server: Server, db: Connection, face: Any) -> Iterator[Before]:
    """A listener at the models' connection."""
    listener = Before()
    made = connect(server.uri, database=db.name, event_listeners=[listener])
    listener.connection = made
    yield listener
    made.close()
    face.wait(made.aclose())


def begun(db: Connection, face: Any, document: Any, command: str) -> Any:
    """Start to save a document with a command that the server holds back for a while; return the running save."""
    data = {"failCommands": [command], "blockConnection": True, "blockTimeMS": BLOCK_MS}
    db.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    running = face.start(document.asave if face.is_async else document.save)
    eventually(lambda: _core.odm_flags(document) & SAVING, "a save under way")
    return running


@pytest.mark.parametrize("model", [Flat, Counted])
def test_a_find_in_an_identity_map_leaves_what_is_being_saved(model: Any, db: Connection, face: Any) -> None:
    face.save(model(n=1))
    query = model.find()
    seen: list[Any] = []

    # On either face all reads run in one context, which contains the map.
    with identity_map() as known:
        document = face.call(query, "one")
        document = known.take(document)
        document.n = 2
        running = begun(db, face, document, "update")
        # The server still has the old value.
        seen.append(known.take(face.call(query, "one")))
        assert document.n == 2
        running.result(60)
    assert seen == [document]
    assert seen[0] is document
    assert (document.n, document.changes()) == (2, {})
    assert face.call(query, "one").n == 2


def test_a_batch_that_was_read_before_a_save_does_not_take_the_saved_version_back(
    db: Connection, face: Any
) -> None:
    face.call(Counted, "insert_many", [Counted(n=n) for n in range(600)])
    query = Counted.find().sort("n").options(batch_size=1000)

    def blocking() -> Any:
        with identity_map():
            last = Counted.find(Counted.n == 599).one()
            for document in query:
                if document.n == 0:
                    last.text = "new"
                    last.save()
            return last

    async def tasks() -> Any:
        with identity_map():
            last = await Counted.find(Counted.n == 599).aone()
            async for document in query:
                if document.n == 0:
                    last.text = "new"
                    await last.asave()
            return last

    last = face.run(tasks if face.is_async else blocking)
    assert (last.text, last.rev, last.changes()) == ("new", 1, {})


def test_what_a_save_stored_is_told_though_another_was_refused_meanwhile(db: Connection, face: Any) -> None:
    document = Price(cents=1)
    face.save(document)
    document.cents = 2
    running = begun(db, face, document, "update")
    document.cents = 3
    with pytest.raises(ParallelSaveError):
        face.save(document)
    running.result(60)
    assert document.previous_changes() == {"cents": (1, 2)}
    face.save(document)
    assert document.previous_changes()["cents"][1] == 3


def test_a_document_is_not_deleted_while_it_is_inserted(db: Connection, face: Any) -> None:
    document = Flat(n=1)
    running = begun(db, face, document, "insert")
    with pytest.raises(ParallelSaveError, match="one that is being inserted; wait for it, then delete it"):
        face.call(document, "delete")
    running.result(60)
    assert not document.is_deleted
    face.call(document, "delete")
    assert not face.call(Flat.find(), "exists")


@pytest.mark.parametrize("is_dropped", [False, True])
def test_programs_that_synchronise_indexes_at_once_all_succeed(
    is_dropped: bool, before: Before, db: Connection, face: Any
) -> None:
    rows = db.client[db.name]["second_listed"]
    rows.create_index("n")
    if is_dropped:
        rows.create_index("old")
    before.plan["dropIndexes"] = lambda: rows.drop_index("old_1" if is_dropped else "n_1")
    face.call(Listed, "sync_indexes", drop=is_dropped)
    assert {name: bool(index.get("unique")) for name, index in rows.index_information().items()} == {
        "_id_": False,
        "n_1": True,
    }


class Boss(Document):
    __collection__ = "second_boss"
    mail: Annotated[str, Indexed(unique=True)] = ""
    note: str = ""


class AuditedBoss(Audited):
    __collection__ = "second_boss"
    mail: str = ""
    note: str = ""


class MarkedBoss(SoftDelete):
    __collection__ = "second_boss"
    mail: str = ""
    note: str = ""
    rev: Annotated[int, Version] = 0


class OfBoss(Document):
    __collection__ = "second_of"
    boss: Ref[Boss] = field(on_delete="deny")


class OfAudited(Document):
    __collection__ = "second_of"
    boss: Ref[AuditedBoss] = field(on_delete="deny")


class OfMarked(Document):
    __collection__ = "second_of"
    boss: Ref[MarkedBoss] = field(on_delete="deny")


@pytest.mark.parametrize("model", [Boss, AuditedBoss, MarkedBoss])
def test_a_deletion_that_is_denied_after_its_commit_leaves_the_instance_and_the_history_as_they_are_stored(
    model: Any, before: Before, db: Connection, face: Any
) -> None:
    document = model(mail="a")
    face.save(document)
    document.note = "unsaved"
    rows = db.client[db.name]
    before.plan["commitTransaction"] = lambda: rows["second_of"].insert_one({"boss": document.id})
    start = document.adelete if face.is_async else document.delete
    with pytest.raises(DeleteDenied, match="the deletions were undone"):
        face.call(before.connection, "run", start)
    assert (document.is_deleted, document.is_new, set(document.changes())) == (False, False, {"note"})
    face.save(document)
    assert rows["second_boss"].find_one({}, {"_id": 0, "note": 1, "mail": 1}) == {
        "mail": "a",
        "note": "unsaved",
    }
    if model is AuditedBoss:
        history = face.call(document, "history")
        assert [one.operation for one in history] == ["insert", "delete", "insert", "update"]


def test_what_cannot_be_stored_again_is_told(before: Before, db: Connection, face: Any) -> None:
    face.call(Boss, "sync_indexes")
    boss = Boss(mail="a")
    face.save(boss)
    rows = db.client[db.name]

    def come_between() -> None:
        rows["second_boss"].insert_one({"mail": "a"})
        rows["second_of"].insert_one({"boss": boss.id})

    # The deletion locks references before it looks for them.
    before.plan["update"] = come_between
    with pytest.raises(DeleteDenied, match="were undone, but for 1 documents that collide") as raised:
        face.call(boss, "delete")
    assert repr(boss.id) in str(raised.value)


def test_a_mark_from_before_is_put_back_as_it_was(before: Before, db: Connection, face: Any) -> None:
    boss = MarkedBoss()
    face.save(boss)
    face.call(boss, "delete")
    rows = db.client[db.name]
    marked = rows["second_boss"].find_one()["deleted_at"]
    before.plan["update"] = lambda: rows["second_of"].insert_one({"boss": boss.id})
    with pytest.raises(DeleteDenied):
        face.call(MarkedBoss.unscoped(MarkedBoss.id == boss.id), "delete")
    assert rows["second_boss"].find_one()["deleted_at"] == marked
