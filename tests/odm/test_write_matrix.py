"""Every way to write a document in every context: aborts, stale versions, the identity map, tenants.

The ways are listed once; a method of documents or of queries that writes and that this file does not know fails the
first test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Annotated, Any

import pytest

import mangonel
from mangonel import bson
from mangonel.odm import (
    Connection,
    Document,
    Ref,
    SoftDelete,
    StaleDocument,
    Version,
    connect,
    field,
    identity_map,
    inc,
    set_,
)
from mangonel.odm.errors import DocumentNotFound
from mangonel.odm.query.query import Query
from mangonel.odm.query.request import TERMINALS
from mangonel.server import Server


class Person(Document):
    __collection__ = "people"
    name: str


class Paper(Document):
    __collection__ = "papers"
    title: str = ""
    n: int = 0
    tags: list[str] = field(default_factory=list)
    person: Ref[Person] | None = None
    rev: Annotated[int, Version] = 0


class Draft(SoftDelete):
    __collection__ = "drafts"
    title: str = ""
    n: int = 0
    tags: list[str] = field(default_factory=list)
    person: Ref[Person] | None = None
    rev: Annotated[int, Version] = 0


class Way:
    """A way to write: its call on a loaded document, and the document stored then."""

    def __init__(
        self,
        run: Callable[[Any, Any], tuple[Any, str, tuple[Any, ...]]],
        *,
        changes_object: bool = True,
        is_checked: bool = True,
    ) -> None:
        # Returns owner, method and arguments; on asyncio the method's name begins with an "a".
        self.run = run
        # Whether the object in memory takes part, or only the stored document.
        self.changes_object = changes_object
        # Whether a stale version is an error.
        self.is_checked = is_checked


def changed(document: Any) -> Any:
    """Return the document with unsaved changes."""
    document.title = "new"
    document.tags.append("more")
    return document


WAYS: dict[str, Way] = {
    "save": Way(lambda kind, one: (changed(one), "save", ())),
    "replace": Way(lambda kind, one: (changed(one), "replace", ())),
    "delete": Way(lambda kind, one: (one, "delete", ())),
    "update": Way(
        lambda kind, one: (one, "update", (inc(kind.n), set_(kind.title, "new"))), is_checked=False
    ),
    "save_all": Way(lambda kind, one: (kind, "save_all", ([changed(one)],))),
    "insert": Way(
        lambda kind, one: (kind(title="added"), "insert", ()), changes_object=False, is_checked=False
    ),
    "insert_many": Way(
        lambda kind, one: (kind, "insert_many", ([kind(title="added"), kind()],)),
        changes_object=False,
        is_checked=False,
    ),
    "query update": Way(
        lambda kind, one: (kind.find(kind.id == one.id), "update", (set_(kind.title, "new"),)),
        changes_object=False,
        is_checked=False,
    ),
    "query delete": Way(
        lambda kind, one: (kind.find(kind.id == one.id), "delete", ()), changes_object=False, is_checked=False
    ),
    "find_and_update": Way(
        lambda kind, one: (kind.find(kind.id == one.id), "find_and_update", (set_(kind.title, "new"),)),
        changes_object=False,
        is_checked=False,
    ),
    # Refused for models with a version, and so for these as well.
    "find_and_replace": Way(
        lambda kind, one: (
            Person.find(Person.id == one.person.id),
            "find_and_replace",
            (Person(name="new"),),
        ),
        changes_object=False,
        is_checked=False,
    ),
    "find_and_delete": Way(
        lambda kind, one: (kind.find(kind.id == one.id), "find_and_delete", ()),
        changes_object=False,
        is_checked=False,
    ),
    "upsert": Way(
        lambda kind, one: (kind.find(kind.id == one.id), "upsert", (set_(kind.title, "new"),)),
        changes_object=False,
        is_checked=False,
    ),
    "get_or_create": Way(
        lambda kind, one: (kind.find(kind.title == "none"), "get_or_create", (kind(title="none"),)),
        changes_object=False,
        is_checked=False,
    ),
}
# Methods that read, or concern collections.
OTHERS = {
    *("get", "get_or_none", "get_many", "estimated_count", "reload", "aggregate", "watch", "sync_indexes"),
    *("sync_search_indexes", "shard_collection", "create_collection", "collection"),
}


@pytest.fixture
def tenant(db: Connection, database_name: str) -> Iterator[Connection]:
    """Another database of the same deployment, with a document of the same id."""
    made = db.sibling(database_name + "_tenant")
    yield made
    db.client.drop_database(made.name)


def stored(connection: Connection) -> dict[str, list[Any]]:
    """Return everything in a database."""
    database = connection.client[connection.name]
    return {name: database[name].find().sort("_id").to_list() for name in ("people", "papers", "drafts")}


def loaded(face: Any, kind: Any) -> Any:
    """Return a stored document, loaded."""
    person = Person(name="Ada")
    one = kind(title="old", tags=["a", "b"], n=1, person=person.id)
    face.save(person, one)
    return face.call(kind, "get", one.id)


def look(document: Any) -> tuple[Any, ...]:
    """Return everything known of a document."""
    return (
        document.is_new,
        document.is_deleted,
        bson.decode(document.to_bson().raw),
        set(document.changes()),
        document.rev,
    )


def perform(face: Any, way: Way, kind: Any, document: Any) -> Any:
    """Run the write."""
    owner, method, arguments = way.run(kind, document)
    return face.call(owner, method, *arguments)


def test_every_way_to_write_has_its_row() -> None:
    on_queries = {name for name, terminal in TERMINALS.items() if terminal.is_write}
    on_documents = {
        name
        for name in dir(Document)
        if not name.startswith("_") and hasattr(Document, "a" + name) and name not in OTHERS
    }
    known = {name.removeprefix("query ") for name in WAYS}
    assert on_queries | on_documents == known
    assert all(hasattr(Query, name) or hasattr(Document, name) for name in known)


both = pytest.mark.parametrize("kind", [Paper, Draft], ids=["plain", "soft"])
each = pytest.mark.parametrize("way", list(WAYS))


@both
@each
@pytest.mark.parametrize("mapped", [False, True], ids=["apart", "mapped"])
def test_an_abort_leaves_document_and_database_as_before(
    way: str, kind: Any, mapped: bool, db: Connection, face: Any
) -> None:
    with identity_map() if mapped else nullcontext():
        document = loaded(face, kind)
        rows, before = stored(db), look(document)

        def blocking() -> None:
            with db.transaction():
                owner, method, arguments = WAYS[way].run(kind, document)
                getattr(owner, method)(*arguments)
                # The transaction's reads do not change what it leaves.
                kind.unscoped().all()
                raise RuntimeError("on purpose")

        async def asynchronous() -> None:
            async with db.transaction():
                owner, method, arguments = WAYS[way].run(kind, document)
                await getattr(owner, "a" + method)(*arguments)
                await kind.unscoped().aall()
                raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError, match="on purpose"):
            face.wait(asynchronous()) if face.is_async else blocking()
        assert stored(db) == rows
        assert look(document) == before
        # The document remains usable.
        document.n = 7
        face.save(document)
        assert [row["n"] for row in stored(db)[kind.__collection_name__()]] == [7]


@both
@each
def test_a_version_that_moved_on_changes_neither_document_nor_database(
    way: str, kind: Any, db: Connection, face: Any
) -> None:
    if not WAYS[way].is_checked:
        return
    document = loaded(face, kind)
    kind.collection().update_one({"_id": document.id}, {"$inc": {"rev": 1, "n": 10}})
    rows = stored(db)
    owner, method, arguments = WAYS[way].run(kind, document)
    before = look(document)
    with pytest.raises(StaleDocument):
        face.call(owner, method, *arguments)
    assert stored(db) == rows
    assert look(document) == before
    face.call(document, "reload")
    assert perform(face, WAYS[way], kind, document) is not NotImplemented


@both
@each
def test_a_document_that_is_gone_is_as_before(way: str, kind: Any, db: Connection, face: Any) -> None:
    if not WAYS[way].changes_object:
        return
    document = loaded(face, kind)
    kind.collection().delete_one({"_id": document.id})
    owner, method, arguments = WAYS[way].run(kind, document)
    before = look(document)
    if way == "delete" and kind is Paper:
        # Deleting a document that is gone succeeds.
        face.call(owner, method, *arguments)
        return
    with pytest.raises((DocumentNotFound, StaleDocument)):
        face.call(owner, method, *arguments)
    assert look(document) == before
    assert stored(db)[kind.__collection_name__()] == []


@both
@each
def test_writing_reaches_the_database_that_was_loaded_from_and_no_other(
    way: str, kind: Any, db: Connection, tenant: Connection, face: Any
) -> None:
    document = loaded(face, kind)
    with db.use(tenant), identity_map():
        face.save(
            Person(id=document.person.id, name="Grace"),
            kind(id=document.id, title="theirs", person=document.person.id),
        )
        ours, theirs = stored(db), stored(tenant)
        here, there = document, face.call(kind, "get", document.id)
        assert there.title == "theirs"
        if WAYS[way].changes_object:
            perform(face, WAYS[way], kind, here)
            assert (stored(db) != ours, stored(tenant)) == (True, theirs)
            ours = stored(db)
        perform(face, WAYS[way], kind, there)
        assert (stored(db), stored(tenant) != theirs) == (ours, True)
        person = face.call(here.person, "get") if here.person is not None else None
        assert person is None or person.name == "Ada"


@both
@each
def test_the_identity_map_s_object_is_what_is_stored(way: str, kind: Any, db: Connection, face: Any) -> None:
    with identity_map():
        document = loaded(face, kind)
        perform(face, WAYS[way], kind, document)
        rows = stored(db)[kind.__collection_name__()]
        row = next((row for row in rows if row["_id"] == document.id), None)
        found = face.call(kind.unscoped({"_id": document.id}), "first")
        if row is None:
            assert found is None
            return
        assert found is document
        assert bson.decode(document.to_bson().raw) == row
        assert not document.is_changed


@both
def test_an_update_beside_unsaved_changes_is_taken_over_under_the_identity_map(
    kind: Any, db: Connection, face: Any
) -> None:
    with identity_map():
        document = loaded(face, kind)
        document.title = "unsaved"
        face.call(document, "update", inc(kind.n))
        assert (document.title, document.n, document.rev) == ("unsaved", 2, 1)
        assert set(document.changes()) == {"title"}
        face.save(document)
        document.title = "again"
        face.call(document, "reload")
        assert document.title == "unsaved"
        kind.collection().update_one({}, {"$inc": {"n": 5, "rev": 1}})
        document.title = "kept"
        face.call(document, "reload", keep_changes=True)
        assert (document.title, document.n, document.rev) == ("kept", 7, 3)


# First use.


def test_threads_that_come_at_once_share_one_client_and_one_connection(
    server: Server, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = mangonel.MongoClient
    threads_at_once = 4
    gate = threading.Barrier(threads_at_once)

    def make(*args: Any, **kwargs: Any) -> Any:
        # Each thread found no client.
        gate.wait(60)
        return plain(*args, **kwargs)

    monkeypatch.setattr(mangonel, "MongoClient", make)
    db = connect(server.uri, "first use", database=database_name)
    seen: list[Any] = []

    def use() -> None:
        client = db.client
        tenant = db.sibling("tenant")
        with db.transaction():
            Person.find().using(db).count()
        seen.append((id(client), id(tenant)))

    threads = [threading.Thread(target=use) for _ in range(threads_at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db.close()
    assert len(seen) == threads_at_once
    assert len(set(seen)) == 1
