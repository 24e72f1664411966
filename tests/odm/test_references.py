"""References: fetching for all siblings at once, include, delete rules, targets with subclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import encode
from mangonel.monitoring import CommandListener
from mangonel.odm import (
    Connection,
    DeleteDenied,
    Document,
    DocumentNotFound,
    Embedded,
    Many,
    Ref,
    Refs,
    ValidationError,
    field,
    identity_map,
    many,
)
from mangonel.server import Server


class Company(Document):
    name: str


class Author(Document):
    name: str
    company: Ref[Company] | None = None
    books: Many[Book] = many(by="author", order="title")


class Note(Embedded):
    by: Ref[Author]
    text: str = ""


class Book(Document):
    title: str
    author: Ref[Author]
    others: Refs[Author]
    notes: list[Note] = field(default_factory=list)


class Owner(Document):
    name: str


class Pet(Document):
    name: str
    owner: Ref[Owner] = field(on_delete="cascade")


class Toy(Document):
    pet: Ref[Pet] = field(on_delete="cascade")


class House(Document):
    owner: Ref[Owner] | None = field(default=None, on_delete="nullify")


class Club(Document):
    members: Refs[Owner] = field(default_factory=list, on_delete="pull")


class Debt(Document):
    owner: Ref[Owner] = field(on_delete="deny")


@contextmanager
def counted(db: Connection, face: Any) -> Iterator[list[str]]:
    """Return the commands sent meanwhile, as the server's profiler recorded them."""
    database = db.database()
    database.command("profile", 2)
    seen: list[str] = []
    yield seen
    database.command("profile", 0)
    for row in database["system.profile"].find({"ns": {"$not": {"$regex": "system"}}}):
        name = next(iter(row.get("command", {})), row["op"])
        if name not in ("profile", "create", "createIndexes"):
            seen.append(name)
    database["system.profile"].drop()


def library(face: Any) -> list[Book]:
    companies = [Company(name=f"c{n}") for n in range(2)]
    authors = [Author(name=f"a{n}", company=companies[n % 2]) for n in range(10)]
    books = [
        Book(title=f"b{n:02}", author=authors[n % 10], others=authors[:2], notes=[Note(by=authors[n % 3])])
        for n in range(30)
    ]
    for model, documents in ((Company, companies), (Author, authors), (Book, books)):
        face.call(model, "insert_many", documents)
    return books


def test_asking_for_one_fetches_for_all_siblings(db: Connection, face: Any) -> None:
    library(face)
    with counted(db, face) as commands:
        found = face.call(Book.find().sort("title"), "all")
        names = [face.call(book.author, "get").name for book in found]
    assert names == [f"a{n % 10}" for n in range(30)]
    assert commands == ["find", "find"]


def test_include_fetches_each_level_once(db: Connection, face: Any) -> None:
    library(face)
    with counted(db, face) as commands:
        query = Book.find().include((Book.author, Author.company), Book.others, "notes.by")
        found = face.call(query, "all")
        assert [book.author.value.company.value.name for book in found][:3] == ["c0", "c1", "c0"]
        assert [author.name for author in found[4].others.values] == ["a0", "a1"]
        assert found[4].notes[0].by.value.name == "a1"
    assert commands == ["find"] * 5


def test_reference_that_leads_nowhere_says_so(db: Connection, face: Any) -> None:
    author = Author(name="gone")
    face.save(Book(title="t", author=author, others=[]))
    found = face.call(Book.find(), "one")
    assert not found.author.is_loaded
    with pytest.raises(DocumentNotFound, match="include"):
        _ = found.author.value
    with pytest.raises(DocumentNotFound):
        face.call(found.author, "get")


def test_references_are_sets_of_ids(db: Connection, face: Any) -> None:
    books = library(face)
    book = face.call(Book, "get", books[0].id)
    authors = face.call(book.others, "all")
    assert [author.name for author in authors] == ["a0", "a1"]
    book.others.remove(authors[0])
    assert authors[0] not in book.others
    face.save(book)
    assert book.collection().find_one(book.id)["others"] == [authors[1].id]
    assert [found.title for found in face.call(authors[0].books, "all")] == ["b00", "b10", "b20"]
    assert face.call(Book.find(Book.author == authors[0]), "count") == 3
    assert face.call(Book.find(Book.author == authors[0].id), "count") == 3


class Crew(Document):
    captain: Ref[Owner] | None = field(default_factory=lambda: Ref(7))
    rowers: Refs[Owner] = field(default_factory=Refs)
    guests: Refs[Owner] = Refs([7])
    helpers: Refs[Owner] = field(default_factory=lambda: Refs([7]))


@pytest.mark.parametrize(
    "made", [lambda: Crew(), lambda: Crew.from_dict({}), lambda: Crew.from_bson(encode({}))]
)
def test_references_of_a_default_belong_to_the_field_and_to_one_document(made: Any) -> None:
    crew, other = made(), made()
    crew.guests.add(8)
    assert (crew.to_dict(exclude=["id"]), other.guests.ids) == (
        {"captain": 7, "rowers": [], "guests": [7, 8], "helpers": [7]},
        [7],
    )
    assert repr(crew.captain) == "Ref[Owner](7)"
    for references in (crew.rowers, crew.guests, crew.helpers):
        with pytest.raises(ValidationError, match="expected a Owner, got Company"):
            references.add(Company(name="x"))


def test_cascading_save_stores_what_references_hold(db: Connection, face: Any) -> None:
    author = Author(name="new", company=Company(name="c"))
    book = Book(title="t", author=author, others=[])
    face.call(book, "save", cascade=True)
    assert face.call(Author.find(), "count") == face.call(Company.find(), "count") == 1


def test_delete_rules(db: Connection, face: Any) -> None:
    owner, other = Owner(name="o"), Owner(name="p")
    pet = Pet(name="p", owner=owner)
    debt = Debt(owner=owner)
    face.save(owner, other, pet, Toy(pet=pet), House(owner=owner), Club(members=[owner, other]), debt)
    with pytest.raises(DeleteDenied, match="Debt"):
        face.call(owner, "delete")
    assert face.call(Pet.find(), "count") == 1
    face.call(debt, "delete")
    face.call(Owner.find(Owner.name == "o"), "delete")
    assert [face.call(model.find(), "count") for model in (Owner, Pet, Toy, House, Club)] == [1, 0, 0, 1, 1]
    assert face.call(House.find(), "one").owner is None
    assert face.call(Club.find(), "one").members.ids == [other.id]


def test_identity_map_gives_one_object_for_one_document(db: Connection, face: Any) -> None:
    owner = Owner(name="o")
    face.save(owner)
    with identity_map():
        one = face.call(Owner, "get", owner.id)
        one.collection().update_one({"_id": owner.id}, {"$set": {"name": "x"}})
        assert face.call(Owner, "get", owner.id) is one
        assert one.name == "x"
        one.name = "mine"
        assert face.call(Owner.find(), "all")[0] is one
        assert one.name == "mine"
    assert face.call(Owner, "get", owner.id) is not one


class Late(CommandListener):
    """Another program that stores a document when the first deletion is sent."""

    def __init__(self, store: Callable[[], Any]) -> None:
        self.store: Callable[[], Any] | None = store

    def started(self, event: Any) -> None:
        store = self.store
        if event.command_name in ("delete", "findAndModify") and store is not None:
            self.store = None
            store()

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


@pytest.mark.parametrize("way", ["document", "query", "transaction"])
def test_a_cascade_deletes_what_was_stored_meanwhile(
    way: str, db: Connection, server: Server, face: Any
) -> None:
    owner = Owner(name="o")
    face.save(owner)
    first = Pet(name="first", owner=owner)
    face.save(first)
    with MongoClient(server.uri) as other:
        pets, toys = other[db.name][Pet.__collection_name__()], other[db.name][Toy.__collection_name__()]

        def store() -> None:
            late = pets.insert_one({"name": "late", "owner": owner.id}).inserted_id
            toys.insert_many([{"pet": late}, {"pet": first.id}])

        Toy.collection().insert_one({"pet": first.id})
        listener = Late(store)
        db.clients.listen(listener)
        if way == "document":
            face.call(owner, "delete")
        elif way == "query":
            assert face.call(Owner.find(), "delete") == 1
        elif face.is_async:

            async def delete() -> None:
                async with db.transaction():
                    await owner.adelete()

            face.wait(delete())
        else:
            with db.transaction():
                owner.delete()
        db.clients.unlisten(listener)
        assert listener.store is None
        assert [list(found.find()) for found in (pets, toys)] == [[], []]


class Boss(Document):
    name: str


class Dog(Document):
    boss: Ref[Boss] = field(on_delete="cascade")


class Leash(Document):
    dog: Ref[Dog] = field(on_delete="deny")


def test_a_late_document_that_may_not_be_deleted_is_told(db: Connection, server: Server, face: Any) -> None:
    boss = Boss(name="b")
    face.save(boss)
    with MongoClient(server.uri) as other:
        database = other[db.name]

        def store() -> None:
            late = database[Dog.__collection_name__()].insert_one({"boss": boss.id})
            database[Leash.__collection_name__()].insert_one({"dog": late.inserted_id})

        listener = Late(store)
        db.clients.listen(listener)
        with pytest.raises(DeleteDenied, match="the Boss to which it refers by 'boss' is deleted"):
            face.call(boss, "delete")
        db.clients.unlisten(listener)
        assert database[Dog.__collection_name__()].count_documents({}) == 1
