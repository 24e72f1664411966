"""The rule "deny" with concurrent writers: no interleaving of a deletion and a write leaves a dangling reference."""

from __future__ import annotations

import functools
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel.errors import OperationFailure
from mangonel.monitoring import CommandListener
from mangonel.odm import (
    Connection,
    DanglingReference,
    DeleteDenied,
    Document,
    OdmError,
    Ref,
    Refs,
    SoftDelete,
    UnsupportedOption,
    Version,
    add_to_set,
    connect,
    count_commands,
    field,
    inc,
    set_,
)
from mangonel.server import Server
from mangonel.write_concern import WriteConcern
from odm.conftest import Face

pytestmark = pytest.mark.timeout(600)

RUNS = int(os.environ.get("MANGONEL_MODEL_RUNS", "5"))
# How many thread races and interleavings of a deletion and a write are played; a long run plays many.
RACES = max(12, RUNS)
ORDERS = max(2, RUNS // 4)


class Parent(Document):
    __collection__ = "deny_parents"
    n: int = 0


class Marked(SoftDelete):
    __collection__ = "deny_marked"
    n: int = 0


class Child(Document):
    __collection__ = "deny_children"
    parent: Ref[Parent] | None = field(default=None, on_delete="deny")
    n: int = 0


class Strict(Document):
    __collection__ = "deny_strict"
    parent: Ref[Parent] = field(on_delete="deny")
    n: int = 0
    rev: Annotated[int, Version] = 0


class Soft(SoftDelete):
    __collection__ = "deny_soft"
    parent: Ref[Parent] | None = field(default=None, on_delete="deny")


class OfMarked(Document):
    __collection__ = "deny_of_marked"
    parent: Ref[Marked] | None = field(default=None, on_delete="deny")


class Several(Document):
    __collection__ = "deny_several"
    parents: Refs[Parent] = field(default_factory=Refs, on_delete="deny")


CHILDREN = (Child, Strict, Soft, OfMarked, Several)


def orphans(db: Connection) -> list[Any]:
    """Return the documents with dangling references, as the driver sees them."""
    database = db.client[db.name]
    there = {row["_id"] for row in database["deny_parents"].find()}
    there |= {row["_id"] for row in database["deny_marked"].find({"deleted_at": None})}
    found: list[Any] = []
    for model in CHILDREN:
        for row in database[model.__collection_name__()].find({"deleted_at": None}):
            ids = row["parents"] if "parents" in row else [row.get("parent")]
            found += [row for id in ids if id is not None and id not in there]
    return found


class Actor:
    """A thread that stops before each of its commands until it may continue."""

    def __init__(self, name: str, act: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self.is_done = False
        self._act = act
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, name=name)
        self.thread.start()
        self._waits.acquire()

    def _run(self) -> None:
        try:
            self._act()
        except (OdmError, OperationFailure) as error:
            self.error = error
        finally:
            self.is_done = True
            self._waits.release()

    def stop(self) -> None:
        """Wait for permission to continue; the thread itself calls this."""
        self._waits.release()
        self._go.acquire()

    def step(self) -> None:
        """Let the thread send one command; return when it wants to send the next one or has ended."""
        if not self.is_done:
            self._go.release()
            self._waits.acquire()

    def end(self) -> None:
        while not self.is_done:
            self.step()
        self.thread.join()


class Gate(CommandListener):
    """Stops actors before their commands."""

    def __init__(self) -> None:
        self.actors: dict[str, Actor] = {}

    def started(self, event: Any) -> None:
        actor = self.actors.get(threading.current_thread().name)
        if actor is not None and actor.thread is threading.current_thread():
            actor.stop()

    def succeeded(self, event: Any) -> None:
        return

    def failed(self, event: Any) -> None:
        return


@pytest.fixture(params=["replica set", "standalone"])
def gated(request: Any, server: Server, database_name: str) -> Iterator[tuple[Connection, Gate]]:
    chosen = server if request.param == "replica set" else request.getfixturevalue("standalone")
    gate = Gate()
    made = connect(chosen.uri, database=database_name, event_listeners=[gate])
    yield made, gate
    made.close()


def play(gate: Gate, acts: dict[str, Callable[[], Any]], schedule: Iterator[str] | Any) -> dict[str, Any]:
    """Let actors send their commands in an order; return their errors."""
    actors: dict[str, Actor] = {}
    gate.actors = actors
    for name, act in acts.items():
        # The actor is known before its first command.
        actor = Actor.__new__(Actor)
        actors[name] = actor
        actor.__init__(name, act)  # type: ignore[misc]
    for name in schedule:
        actors[name].step()
    for actor in actors.values():
        actor.end()
    gate.actors = {}
    return {name: actor.error for name, actor in actors.items()}


def write_insert(parent: Any) -> tuple[Callable[[], Any], Any]:
    return Child(parent=parent.id, n=1).insert, None


def write_save_new(parent: Any) -> tuple[Callable[[], Any], Any]:
    return Strict(parent=parent.id).save, None


def write_update(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    child.parent, child.n = parent.id, 2
    return child.save, child


def write_save_all(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    child.parent = parent.id
    return lambda: Child.save_all([child, Child(parent=parent.id)]), child


def write_insert_many(parent: Any) -> tuple[Callable[[], Any], Any]:
    return lambda: Child.insert_many([Child(), Child(parent=parent.id)]), None


def write_replace(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    child.parent = parent.id
    return child.replace, child


def write_by_query(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    return lambda: Child.find(Child.id == child.id).update(set_(Child.parent, parent.id), inc(Child.n)), child


def write_upsert(parent: Any) -> tuple[Callable[[], Any], Any]:
    return lambda: Child.find(Child.n == 99).update(set_(Child.parent, parent.id), upsert=True), None


def write_find_and_update(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    return lambda: Child.find(Child.id == child.id).find_and_update(set_(Child.parent, parent.id)), child


def write_own_update(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    return lambda: child.update(set_(Child.parent, parent.id)), child


def write_find_and_replace(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Child(n=1).insert()
    return lambda: Child.find(Child.id == child.id).find_and_replace(Child(parent=parent.id, n=1)), child


def write_get_or_create(parent: Any) -> tuple[Callable[[], Any], Any]:
    return lambda: Child.find(Child.n == 98).get_or_create(Child(parent=parent.id, n=98)), None


def write_restore(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Soft(parent=parent.id).insert()
    child.delete()
    return child.restore().save, child


def write_restore_by_query(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Soft(parent=parent.id).insert()
    child.delete()
    return lambda: Soft.unscoped(Soft.id == child.id).update(set_(Soft.deleted_at, None)), child


def write_add(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Several().insert()
    child.parents.add(parent.id)
    return child.save, child


def write_push(parent: Any) -> tuple[Callable[[], Any], Any]:
    child = Several().insert()
    return lambda: Several.find(Several.id == child.id).update(add_to_set(Several.parents, parent.id)), child


WRITES = {name[6:]: made for name, made in list(globals().items()) if name.startswith("write_")}

DELETIONS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "document": lambda parent: parent.delete,
    "query": lambda parent: lambda: Parent.find(Parent.n == 7).delete(),
}


@functools.cache
def schedules(first: int, second: int) -> list[list[str]]:
    """Return interleavings of the commands of a deletion and a write: one after the other, and a selection."""
    every = [
        ["delete" if at in places else "write" for at in range(first + second)]
        for places in itertools.combinations(range(first + second), first)
    ]
    return [every[0], every[-1], *random.Random(0).sample(every[1:-1], min(ORDERS, len(every) - 2))]


@pytest.mark.enough(4)
@pytest.mark.parametrize("deletion", DELETIONS)
@pytest.mark.parametrize("write", WRITES)
def test_no_interleaving_of_a_deletion_and_a_write_leaves_an_orphan(
    deletion: str, write: str, gated: tuple[Connection, Gate]
) -> None:
    db, gate = gated
    outcomes: set[tuple[bool, bool]] = set()
    for order in schedules(13, 5):
        parent = Parent(n=7).insert()
        act, child = WRITES[write](parent)
        raw = db.client[db.name]
        before = child and raw[child.__collection_name__()].find_one({"_id": child.id})
        errors = play(gate, {"delete": DELETIONS[deletion](parent), "write": act}, order)
        assert orphans(db) == [], (order, errors)
        for error, kind in ((errors["delete"], DeleteDenied), (errors["write"], DanglingReference)):
            assert error is None or isinstance(error, kind), (order, errors)
        stored = raw["deny_parents"].find_one({"_id": parent.id})
        assert (stored == {"_id": parent.id, "n": 7}) is (errors["delete"] is not None), (order, errors)
        # One of them had to give way.
        assert any(errors.values()), order
        # Of several documents, those whose target was present are stored.
        if errors["write"] is not None and before is not None and write != "save_all":
            now = raw[child.__collection_name__()].find_one({"_id": child.id})
            keys = ("parent", "parents", "deleted_at")
            assert [now.get(key) for key in keys] == [before.get(key) for key in keys], (order, errors)
        outcomes.add((errors["delete"] is None, errors["write"] is None))
        for model in (Parent, *CHILDREN):
            raw[model.__collection_name__()].delete_many({})
    # The interleavings differ: each side won at least once.
    assert {(True, False), (False, True)} <= outcomes


def test_a_mark_is_removed_when_a_reference_came_in_between(gated: tuple[Connection, Gate]) -> None:
    db, gate = gated
    for order in schedules(5, 3):
        parent = Marked(n=1).insert()
        child = OfMarked(parent=parent.id)
        errors = play(gate, {"delete": parent.delete, "write": child.insert}, order)
        assert orphans(db) == []
        assert any(errors.values())
        stored = Marked.unscoped(Marked.id == parent.id).one()
        assert stored.is_deleted is (errors["delete"] is None)
        assert parent.is_deleted is stored.is_deleted
        db.client[db.name]["deny_of_marked"].delete_many({})


@pytest.mark.parametrize("model", [Child, Strict])
def test_a_reference_moves_while_both_targets_are_deleted(model: Any, gated: tuple[Connection, Gate]) -> None:
    db, gate = gated
    chance = random.Random(7)
    for _ in range(ORDERS):
        old, new = Parent(n=1).insert(), Parent(n=2).insert()
        child = model(parent=old.id).insert()
        child.parent = new.id
        acts = {"old": old.delete, "new": new.delete, "write": child.save}
        errors = play(gate, acts, [chance.choice(list(acts)) for _ in range(16)])
        told = "former target is gone too" in str(errors["write"])
        assert orphans(db) == [] or (model is Strict and told), errors
        for each in (Parent, *CHILDREN):
            db.client[db.name][each.__collection_name__()].delete_many({})


def race(db: Connection, parent: Parent, writer: str, deleter: str) -> dict[str, Any]:
    """Delete a parent in one thread while another stores a child of it; return the errors."""
    errors: dict[str, Any] = {}
    begin = threading.Barrier(2)

    def run(name: str, kind: str, act: Callable[[], Any]) -> None:
        begin.wait()
        try:
            db.run(act) if kind == "transaction" else act()
        except OdmError as error:
            errors[name] = error

    threads = [
        threading.Thread(target=run, args=("write", writer, lambda: Child(parent=parent.id).insert())),
        threading.Thread(target=run, args=("delete", deleter, lambda: Parent.get(parent.id).delete())),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("writer", ["plain", "transaction"])
@pytest.mark.parametrize("deleter", ["plain", "transaction"])
def test_races_with_transactions_leave_no_orphan(
    writer: str, deleter: str, server: Server, database_name: str
) -> None:
    db = connect(server.uri, database=database_name)
    for model in (Parent, Child):
        model.create_collection()
    wins: list[bool] = []
    for number in range(RACES):
        errors = race(db, Parent(n=number).insert(), writer, deleter)
        assert orphans(db) == [], (number, errors)
        assert errors, number
        wins.append("write" in errors)
    print(f"{RACES} races of a {writer} write and a {deleter} deletion: {sum(wins)} writes were taken back")
    db.close()


# One writer.


def test_a_reference_to_nothing_is_not_stored(db: Connection, face: Face) -> None:
    gone = Parent()
    child = Child(parent=gone.id, n=1)
    with pytest.raises(
        DanglingReference, match=r"no Parent has the _id .* to which 'parent' refers; it was deleted"
    ):
        face.save(child)
    assert child.is_new
    assert face.call(Child.find(), "count") == 0
    face.save(gone)
    face.save(child)
    child.parent, child.n = Parent().id, 2
    with pytest.raises(DanglingReference, match="the reference was set back, the other changes are stored"):
        face.save(child)
    assert set(child.changes()) == {"parent"}
    stored = face.call(Child, "get", child.id)
    assert (stored.parent.id, stored.n) == (gone.id, 2)
    child.parent = None
    face.save(child)
    face.call(gone, "delete")


class Both(Document):
    __collection__ = "deny_both"
    one: Ref[Parent] | None = field(default=None, on_delete="deny")
    other: Ref[Parent] | None = field(default=None, on_delete="deny")


def test_a_bulk_write_looks_for_all_targets_of_a_model_at_once(db: Connection, face: Face) -> None:
    parents = [Parent(n=n) for n in range(4)]
    face.call(Parent, "insert_many", parents)
    gone = parents.pop()
    face.call(gone, "delete")
    documents = [Both(one=parents[0], other=parents[1]) for _ in range(3)]
    with count_commands(db) as commands:
        face.call(Both, "save_all", documents)
    assert [name for name, _ in commands.sent] == ["insert", "find"]
    for document, parent in zip(documents, [*parents[::2], gone], strict=True):
        document.other = document.one = parent
    new = Both(one=gone, other=parents[0])
    with count_commands(db) as commands, pytest.raises(DanglingReference):
        face.call(Both, "save_all", [*documents, new])
    assert [name for name, _ in commands.sent][:4] == ["update", "insert", "find", "delete"]
    stored = {row["_id"]: (row["one"], row["other"]) for row in db.client[db.name]["deny_both"].find()}
    assert stored == {
        documents[0].id: (parents[0].id,) * 2,
        documents[1].id: (parents[2].id,) * 2,
        # The fields that referred to nothing were reset.
        documents[2].id: (parents[0].id, parents[1].id),
    }
    assert new.is_new
    assert documents[2].changes().keys() == {"one", "other"}


def test_a_write_that_is_not_acknowledged_cannot_be_looked_after(db: Connection, face: Face) -> None:
    parent = Parent()
    face.save(parent)
    w0 = WriteConcern(w=0)
    with pytest.raises(UnsupportedOption, match="cannot honour w=0"):
        face.call(Child(parent=parent), "insert", write_concern=w0)
    face.call(Child(), "insert", write_concern=w0)


def test_a_transaction_sees_its_own_parents_and_deletions(db: Connection, face: Face) -> None:
    for model in (Parent, Child):
        face.call(model, "create_collection")

    def act() -> None:
        parent = Parent().insert()
        child = Child(parent=parent).insert()
        with pytest.raises(DeleteDenied):
            parent.delete()
        child.delete()
        parent.delete()
        with pytest.raises(DanglingReference):
            Child(parent=parent.id).insert()

    async def aact() -> None:
        parent = await Parent().ainsert()
        child = await Child(parent=parent).ainsert()
        with pytest.raises(DeleteDenied):
            await parent.adelete()
        await child.adelete()
        await parent.adelete()
        with pytest.raises(DanglingReference):
            await Child(parent=parent.id).ainsert()

    face.call(db, "run", aact if face.is_async else act)
    assert face.call(Parent.find(), "count") == face.call(Child.find(), "count") == 0


def test_what_a_transaction_cannot_see_is_found_when_it_is_committed(db: Connection) -> None:
    for model in (Parent, Child):
        model.create_collection()
    parent = Parent(n=1).insert()
    found: list[Any] = []

    def store() -> None:
        found.append(Child(parent=parent.id).insert())

    def delete() -> None:
        with db.transaction():
            Parent.get(parent.id).delete()
            other = threading.Thread(target=store)
            other.start()
            other.join()

    with pytest.raises(DeleteDenied, match="the transaction is committed without them"):
        delete()
    assert orphans(db) == []
    assert Parent.get(parent.id).n == 1
