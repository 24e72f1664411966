"""`lookup()` fetches documents and their referenced documents in one command, wherever the references are."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from typing import Any

import pytest
from bson import ObjectId as OtherObjectId

from mangonel.bson import ObjectId
from mangonel.odm import (
    BelongsTo,
    Connection,
    Document,
    Embedded,
    Ref,
    Refs,
    SoftDelete,
    ValidationError,
    count_commands,
    field,
    identity_map,
)
from mangonel.odm.errors import DocumentNotFound, MultipleDocuments
from mangonel.odm.query.single import LONG_WAY


class Place(Embedded):
    city: str
    number: int


class Author(Document):
    __collection__ = "authors"
    name: str


class Shelf(Document):
    __collection__ = "shelves"
    id: Place = field(key="_id")
    label: str


class Note(Embedded):
    by: Ref[Author]


class Book(Document):
    __collection__ = "books"
    __root__ = True
    n: int = 0
    author: Ref[Author] | None = None
    editor: BelongsTo[Author] | None = None
    readers: Refs[Author]
    others: list[Ref[Author]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    shelf: Ref[Shelf] | None = None


class Plain(Document):
    """A book without a family, whose rows the core joins."""

    __collection__ = "plain_books"
    n: int = 0
    author: Ref[Author] | None = None
    editor: BelongsTo[Author] | None = None
    readers: Refs[Author]
    others: list[Ref[Author]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    shelf: Ref[Shelf] | None = None


class Novel(Book):
    first: str = ""
    # Its position in the plan differs from the base's.
    hero: Ref[Author] | None = None


def library(face: Any, count: int = 5) -> list[Author]:
    """Authors, and books that refer to them."""
    authors = [Author(name=name) for name in "abc"]
    face.save(*authors)
    shelf = Shelf(id=Place(city="Oslo", number=1), label="top")
    face.save(shelf)
    for n in range(count):
        author = authors[n % 3]
        values: dict[str, Any] = {
            "n": n,
            "author": author,
            "editor": author,
            "readers": authors,
            "shelf": shelf,
        }
        values |= {"others": [author], "notes": [Note(by=author)]}
        face.save(Plain(**values), Novel(**values, hero=author))
    return authors


kinds = pytest.mark.parametrize("kind", [Book, Plain], ids=["family", "plain"])


@kinds
@pytest.mark.parametrize("mapped", [False, True], ids=["apart", "mapped"])
@pytest.mark.parametrize("batch_size", [2, 100])
def test_all_kinds_of_references_come_with_their_documents(
    kind: Any,
    mapped: bool,
    batch_size: int,
    db: Connection,
    face: Any,
) -> None:
    library(face)
    paths = (kind.author, kind.editor, kind.readers, kind.shelf)
    query = kind.find().sort("n").batch_size(batch_size)
    with identity_map() if mapped else nullcontext():
        books = face.call(query.lookup(*paths), "all")
        with count_commands(db, at_most=0):
            for book in books:
                name = "abc"[book.n % 3]
                assert (book.author.value.name, book.editor.name) == (name, name)
                assert [reader.name for reader in book.readers.values] == ["a", "b", "c"]
                assert book.shelf.value.label == "top"
        # References in a list, or deeper, are resolved in another way.
        books = face.call(query.lookup(kind.author, kind.others, kind.notes.by), "all")
        with count_commands(db, at_most=0):
            for book in books:
                found = [book.author, *book.others, *(note.by for note in book.notes)]
                assert {ref.value.name for ref in found} == {"abc"[book.n % 3]}


@kinds
def test_a_single_document_comes_with_its_references_in_one_command(
    kind: Any, db: Connection, face: Any
) -> None:
    library(face)
    query = kind.find(kind.n == 4).lookup(kind.author, kind.shelf)
    for terminal in ("first", "one"):
        with count_commands(db, at_most=1):
            book = face.call(query, terminal)
            assert (book.author.value.name, book.shelf.value.label) == ("b", "top")
    absent = kind.find(kind.n == 9).lookup(kind.author)
    assert face.call(absent, "first") is None
    with pytest.raises(DocumentNotFound):
        face.call(absent, "one")
    with pytest.raises(MultipleDocuments):
        face.call(kind.find().lookup(kind.author), "one")
    with identity_map():
        assert face.call(query, "first") is face.call(query, "one")


class Short(Document):
    __collection__ = "short"
    n: int = 0
    other: Ref[Author] | None = None
    others: Refs[Author]
    removed: Ref[Gone] | None = None


class Gone(SoftDelete):
    __collection__ = "short_gone"


ASKED: dict[str, Any] = {
    "found": lambda: Short.find({"n": 1}).lookup(Short.other),
    "by a path": lambda: Short.find(Short.n == 1).lookup(Short.other),
    "several": lambda: Short.find({"n": 1}).lookup(Short.others),
    "twice": lambda: Short.find({"n": 1}).lookup(Short.other).lookup(Short.others),
    "of none": lambda: Short.find({"n": 2}).lookup(Short.other),
    "none of several": lambda: Short.find({"n": 2}).lookup(Short.others),
    "missing": lambda: Short.find({"n": 3}).lookup(Short.other),
    "some missing": lambda: Short.find({"n": 3}).lookup(Short.others),
    "removed": lambda: Short.find({"n": 1}).lookup(Short.removed),
    "nothing": lambda: Short.find({"n": 9}).lookup(Short.other),
    "too many": lambda: Short.find({}).lookup(Short.other),
    "does not fit": lambda: Short.find({"n": 4}).lookup(Short.other),
    "its author does not fit": lambda: Short.find({"n": 5}).lookup(Short.other),
    "refused": lambda: Short.find({"n": {"$what": 1}}).lookup(Short.other),
    "not BSON": lambda: Short.find({"n": object}).lookup(Short.other),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("terminal", ["first", "one"])
def test_the_short_way_to_a_document_with_another_has_the_results_of_the_long_one(
    asked: str, terminal: str, db: Connection, face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [ObjectId(bytes([number]) * 12) for number in range(9)]
    authors: list[dict[str, Any]] = [{"_id": ids[n], "name": "abc"[n]} for n in range(3)]
    Author.collection().insert_many([*authors, {"_id": ids[3], "name": 3}])
    Gone.collection().insert_one({"_id": ids[4], "deleted_at": dt.datetime(2024, 1, 1)})
    rows: list[dict[str, Any]] = [
        {"n": 1, "other": ids[0], "others": [ids[1], ids[0], ids[1]], "removed": ids[4]},
        {"n": 2, "other": None, "others": []},
        {"n": 3, "other": ids[8], "others": [ids[2], ids[8], ids[7]]},
        {"n": 4, "other": "x", "others": ["x"]},
        {"n": 5, "other": ids[3], "others": []},
    ]
    Short.collection().insert_many([{"_id": ids[row["n"]], **row} for row in rows])

    def outcome() -> Any:
        try:
            found = face.call(ASKED[asked](), terminal)
        except Exception as error:
            return type(error), str(error)
        if found is None:
            return None
        told: list[Any] = [found.to_dict()]
        with count_commands(db, at_most=0):
            for ref in (found.other, *found.others, found.removed, found.others):
                try:
                    told.append(repr(None if ref is None else getattr(ref, "value", None) or ref.values))
                except DocumentNotFound as error:
                    told.append(str(error))
        return told

    short = outcome()
    monkeypatch.setattr("mangonel.odm.query.reads.single_joined", lambda *_: LONG_WAY)
    assert outcome() == short


def test_the_short_way_with_another_document_follows_what_changes(db: Connection, face: Any) -> None:
    author = Author(name="a")
    face.save(author)
    face.save(Short(n=1, other=author))
    query = Short.find({"n": 1}).lookup(Short.other)
    assert face.call(query, "first").other.value.name == "a"
    with identity_map():
        assert face.call(query, "first") is face.call(query, "one")
    # A member of the family declares references of its own.
    kind = type("Later", (Short,), {"__module__": __name__, "__tag_value__": "later", "__annotations__": {}})
    assert kind.__tagged__() == [kind]
    Author.__default_scope__ = staticmethod(lambda query: query.find({"name": "b"}))
    try:
        assert face.call(query, "first").other.is_missing
    finally:
        Author.__default_scope__ = None
    assert face.call(query, "first").other.value.name == "a"
    assert face.call(query.using("elsewhere"), "first") is None
    with db.use("elsewhere"):
        assert face.call(query, "first") is None


def test_a_reference_is_compared_with_an_id_of_whatever_class(db: Connection, face: Any) -> None:
    author = library(face)[0]
    for id in (author.id, author, Ref(author), str(author.id), OtherObjectId(str(author.id))):
        assert face.call(Plain.find(Plain.author == id), "count") == 2
        assert face.call(Plain.find(Plain.readers == id), "count") == 5


@kinds
def test_documents_that_several_refer_to_are_the_same_object(kind: Any, db: Connection, face: Any) -> None:
    library(face)
    books = face.call(kind.find().sort("n").lookup(kind.author), "all")
    assert books[0].author.value is books[3].author.value
    assert books[0].author.value is not books[1].author.value


def test_a_path_is_right_for_a_base_and_for_what_comes_of_it(db: Connection, face: Any) -> None:
    library(face)
    for query in (Book.find(), Novel.find(), Book.find()):
        for path in (Book.author, Novel.author):
            book = face.call(query.lookup(path).sort("n"), "first")
            assert book.author.value.name == "a"
    assert face.call(Novel.find().lookup(Novel.hero).sort("-n"), "first").hero.value.name == "b"


@kinds
def test_what_a_reference_leads_to_may_be_gone(kind: Any, db: Connection, face: Any) -> None:
    library(face)
    Author.collection().delete_one({"name": "a"})
    books = face.call(kind.find().sort("n").lookup(kind.author, kind.readers), "all")
    assert [book.author.is_loaded for book in books] == [False, True, True, False, True]
    with pytest.raises(DocumentNotFound):
        face.call(books[0].author, "get")
    assert not books[1].readers.is_loaded


@kinds
def test_a_target_that_does_not_fit_is_not_blamed_on_who_refers(kind: Any, db: Connection, face: Any) -> None:
    library(face)
    Author.collection().update_one({"name": "b"}, {"$set": {"name": 7}})
    told = r"expected str, got int at \$.name of the Author .* in 'authors'$"
    with pytest.raises(ValidationError, match=told) as caught:
        face.call(kind.find().lookup(kind.author), "all")
    assert caught.value.collection == "authors"
    kind.collection().update_one({"n": 0}, {"$set": {"n": "x"}})
    with pytest.raises(ValidationError, match=repr(kind.__collection__)) as caught:
        face.call(kind.find().lookup(kind.author), "all")
    assert caught.value.collection == kind.__collection__
