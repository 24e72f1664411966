"""Upserts race with another program that inserts the same document between the server's search and its insert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import pytest

from mangonel.bson import ObjectId
from mangonel.errors import DuplicateKeyError
from mangonel.odm import (
    Connection,
    Document,
    Indexed,
    Ref,
    SoftDelete,
    Timestamps,
    Version,
    after,
    field,
    inc,
    set_,
)

PLACE = "upsert_races"
# The server pauses here when an upsert has found nothing and is about to insert.
STOP = "hangBeforeUpsertPerformsInsert"
Mail = Annotated[str, Indexed(unique=True)]


class Target(Document):
    __collection__ = "upsert_race_targets"


class Plain(Document):
    __collection__ = PLACE
    mail: Mail
    n: int = 0


class Soft(SoftDelete):
    __collection__ = PLACE
    mail: Mail
    n: int = 0


class Family(Document):
    __root__ = True
    __collection__ = PLACE
    mail: Mail
    n: int = 0


class Child(Family):
    pass


class Counted(Timestamps):
    __collection__ = PLACE
    mail: Mail
    n: int = 0
    rev: Annotated[int, Version] = 0


class Denying(Document):
    __collection__ = PLACE
    mail: Mail
    n: int = 0
    of: Ref[Target] | None = field(default=None, on_delete="deny")


class Named(Document):
    __collection__ = PLACE
    inserted: ClassVar[list[str]] = []
    id: str = field(key="_id")  # type: ignore[assignment]
    owner: str = ""

    @after("insert")
    def _note(self) -> None:
        Named.inserted.append(self.owner)


class Bare(Document):
    __collection__ = PLACE
    id: str = field(key="_id")  # type: ignore[assignment]


MODELS = pytest.mark.parametrize("model", [Plain, Soft, Child, Counted, Denying])
WAYS = ("get_or_create", "upsert", "find_and_update", "find_and_replace", "update")


def upsert(face: Any, model: Any, way: str, of: Any) -> Any:
    """Add one to `n` of the document of "a", or insert it, in one of the ways; return its result."""
    query, made = model.find(model.mail == "a"), model(mail="a")
    changes = [inc(model.n)]
    if model is Denying:
        made.of = of
        changes.append(set_(model.of, of.id))
    if way == "get_or_create":
        return face.call(query, way, made)
    if way == "upsert":
        return face.call(query, way, *changes, on_insert=made)
    if way == "find_and_replace":
        made.n = 6
        return face.call(query, way, made, upsert=True)
    return face.call(query, way, *changes, upsert=True)


def beside(db: Connection, act: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Act, and let another program act when the server has found nothing to change and is about to insert."""
    from concurrent.futures import ThreadPoolExecutor

    admin = db.client.admin
    count = admin.command("configureFailPoint", STOP, mode="alwaysOn")["count"]
    with ThreadPoolExecutor(1) as threads:
        try:
            running = threads.submit(act)
            admin.command("waitForFailPoint", STOP, timesEntered=count + 1, maxTimeMS=60_000)
            other()
        finally:
            admin.command("configureFailPoint", STOP, mode="off")
        return running.result(60)


@MODELS
@pytest.mark.parametrize("way", WAYS)
def test_an_upsert_that_lost_the_race_changes_what_the_other_program_inserted(
    way: str, model: Any, db: Connection, face: Any
) -> None:
    if way == "find_and_replace" and model is Counted:
        pytest.skip("it is refused for models with versions")
    face.call(model, "sync_indexes")
    rows, target = db.client[db.name][PLACE], Target()
    face.save(target)
    id = ObjectId()
    theirs = {"_id": id, "mail": "a", "n": 5, "_cls": "Child", "rev": 3}
    if model is not Child:
        del theirs["_cls"]
    made = beside(db, lambda: upsert(face, model, way, target), lambda: rows.insert_one(dict(theirs)))
    (row,) = rows.find().to_list()
    assert row["_id"] == id
    if way == "get_or_create":
        found, is_new = made
        assert (found.id, found.n, is_new) == (id, 5, False)
        # get_or_create changes no version and no time.
        assert row == theirs
    else:
        assert row["n"] == 6
        assert (made if way == "update" else (made.id, made.n)) == (1 if way == "update" else (id, 6))


@pytest.mark.parametrize("way", WAYS)
def test_a_duplicate_that_does_not_match_is_an_error(way: str, db: Connection, face: Any) -> None:
    face.call(Soft, "sync_indexes")
    gone = Soft(mail="a", n=1)
    face.save(gone)
    face.call(gone, "delete")
    with pytest.raises(DuplicateKeyError):
        upsert(face, Soft, way, None)
    assert [row["n"] for row in db.client[db.name][PLACE].find()] == [1]


def test_of_two_programs_that_create_one_id_only_one_is_told_so(db: Connection, face: Any) -> None:
    rows = db.client[db.name][PLACE]
    Named.inserted.clear()
    found, is_new = beside(
        db,
        lambda: face.call(Named.find(Named.id == "x"), "get_or_create", Named(id="x", owner="mine")),
        lambda: rows.insert_one({"_id": "x", "owner": "theirs"}),
    )
    assert (found.owner, is_new, Named.inserted) == ("theirs", False, [])
    made = beside(
        db,
        lambda: face.call(Named.find(Named.id == "y"), "upsert", on_insert=Named(id="y", owner="mine")),
        lambda: rows.insert_one({"_id": "y", "owner": "theirs"}),
    )
    assert (made.owner, Named.inserted) == ("theirs", [])
    found, is_new = face.call(Named.find(Named.id == "z"), "get_or_create", Named(id="z", owner="mine"))
    assert (found.owner, is_new, Named.inserted) == ("mine", True, ["mine"])


def test_a_document_of_an_id_alone_is_created(db: Connection, face: Any) -> None:
    for is_new in (True, False):
        found = face.call(Bare.find(Bare.id == "x"), "get_or_create", Bare(id="x"))
        assert found == (Bare(id="x"), is_new)


@pytest.mark.parametrize("model", [Child, Denying])
@pytest.mark.parametrize("way", WAYS)
def test_a_duplicate_in_a_transaction_is_an_error_at_once(
    model: Any, way: str, db: Connection, face: Any
) -> None:
    face.call(model, "sync_indexes")
    target, times = Target(), 0
    face.save(target)
    # It does not match: its class or its number differs.
    db.client[db.name][PLACE].insert_one({"mail": "a", "n": 5, "_cls": "Family"})
    query, made = model.find(model.mail == "a", model.n == 7), model(mail="a", n=7)
    if model is Denying:
        made.of = target

    def attempt() -> Any:
        nonlocal times
        times += 1
        start = getattr(query, "a" + way if face.is_async else way)
        if way == "get_or_create":
            return start(made)
        if way == "upsert":
            return start(on_insert=made)
        if way == "find_and_replace":
            return start(made, upsert=True)
        changes = [set_(model.of, target.id)] if model is Denying else [inc(model.n, 0)]
        return start(*changes, upsert=True)

    with pytest.raises(DuplicateKeyError):
        face.call(db, "run", attempt)
    assert times == 1


CHANGES: dict[str, Callable[[Any], list[Any]]] = {
    "pipeline": lambda model: [set_(model.n, model.n + 1)],
    "indexed": lambda model: [set_(model.mail, "a"), inc(model.n)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("model", [Plain, Soft, Child])
def test_an_update_that_could_collide_itself_changes_what_the_other_program_inserted(
    model: Any, changes: Callable[[Any], list[Any]], db: Connection, face: Any
) -> None:
    face.call(model, "sync_indexes")
    rows = db.client[db.name][PLACE]
    theirs = {"_id": 1, "mail": "a", "n": 5, **({"_cls": "Child"} if model is Child else {})}

    def upsert() -> Any:
        return face.call(model.find(model.mail == "a"), "update", *changes(model), upsert=True)

    assert beside(db, upsert, lambda: rows.insert_one(dict(theirs))) == 1
    assert [(row["_id"], row["n"]) for row in rows.find()] == [(1, 6)]
    rows.delete_many({})
    assert upsert() == 1
    assert upsert() == 1
    assert [row["mail"] for row in rows.find()] == ["a"]


def test_an_update_that_collides_itself_is_not_sent_again(db: Connection, face: Any) -> None:
    face.call(Child, "sync_indexes")
    face.save(Child(mail="a"), Child(mail="b"), Child(mail="c", n=100))
    with pytest.raises(DuplicateKeyError):
        face.call(Child.find(Child.n < 50), "update", inc(Child.n), set_(Child.mail, "d"), upsert=True)
    assert sorted(row["n"] for row in db.client[db.name][PLACE].find()) == [0, 1, 100]
