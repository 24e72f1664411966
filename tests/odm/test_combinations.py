"""Features together that are tested separately elsewhere: tenants, units, histories, references, soft deletion."""

from __future__ import annotations

from typing import Annotated

import pytest

from mangonel.errors import DuplicateKeyError
from mangonel.odm import (
    Connection,
    Document,
    DocumentNotFound,
    Embedded,
    Indexed,
    Many,
    Ref,
    Refs,
    SoftDelete,
    Version,
    Versioned,
    WrongTenant,
    current_tenant,
    field,
    many,
    related,
    tenant,
)
from odm.conftest import Face
from odm.test_units import in_unit


class Client(Versioned):
    __tenant__ = "company"
    __collection__ = "combined_clients"
    company: str = field(default_factory=current_tenant)
    name: Annotated[str, Indexed(unique=True)]


class Line(Embedded):
    sku: str
    by: Ref[Client] | None = None


class Order(Versioned):
    __tenant__ = "company"
    __collection__ = "combined_orders"
    company: str = field(default_factory=current_tenant)
    client: Ref[Client]
    lines: list[Line] = field(default_factory=list)
    others: Refs[Client] = field(default_factory=Refs)
    rev: Annotated[int, Version] = 0


def test_a_unit_of_a_tenant_keeps_histories_and_is_rolled_back_with_them(db: Connection, face: Face) -> None:
    Client.sync_indexes()
    with tenant("a"):
        one, two = Client(name="1"), Client(name="2")
        order = Order(client=one, lines=[Line(sku="x", by=Ref(two))], others=[two])
        in_unit(db, face, lambda unit: unit.save(order, one, two))
        (found,) = face.call(Order.find().include(Order.client, "lines.by", Order.others), "all")
        names = [
            found.client.value.name,
            found.lines[0].by.value.name,
            *(other.value.name for other in found.others),
        ]
        assert names == ["1", "2", "2"]
        found.lines.append(Line(sku="y", by=Ref(one)))
        found.others.add(one)
        with pytest.raises(DuplicateKeyError):
            in_unit(db, face, lambda unit: unit.save(found, Client(name="1")))
        assert [entry.operation for entry in face.call(order, "history")] == ["insert"]
        assert set(found.changes()) == {"lines", "others"}
        in_unit(db, face, lambda unit: unit.save(found))
        first, second = face.call(order, "history")
        assert set(second.changes) == {"lines", "others", "rev"}
        former = face.call(order, "at", first.at)
        assert (former.lines, former.others.ids) == (order.lines, [two.id])
    with tenant("b"):
        assert (face.call(Order.find(), "count"), face.call(order, "history")) == (0, [])
        found.lines.clear()
        with pytest.raises(WrongTenant):
            in_unit(db, face, lambda unit: unit.save(found))
        face.save(Order(client=one))
        (own,) = face.call(Order.find().include(Order.client), "all")
        assert own.client.is_missing


class Author(SoftDelete):
    __collection__ = "combined_authors"
    name: str
    books: Many[Book] = many(by="author", order="-price")


class Book(SoftDelete):
    __collection__ = "combined_books"
    title: str
    price: int
    author: Ref[Author]
    notes: Many[Note] = many(by="book")


class Note(Document):
    __collection__ = "combined_notes"
    text: str
    book: Ref[Book]


def test_an_included_inverse_has_its_order_and_limit_without_what_is_marked_as_deleted(
    db: Connection, face: Face
) -> None:
    authors = [Author(name=name) for name in "ab"]
    books = [Book(title=f"{one.name}{n}", price=n, author=one) for one in authors for n in range(4)]
    notes = [Note(text=f"on {book.title}", book=book) for book in books]
    for model, documents in ((Author, authors), (Book, books), (Note, notes)):
        face.call(model, "insert_many", documents)
    face.call(books[3], "delete")
    for query, titles in (
        (Book.find().limit(2), [["a2", "a1"], ["b3", "b2"]]),
        (Book.find(Book.price > 0).sort("price").limit(2), [["a1", "a2"], ["b1", "b2"]]),
        (Book.find().limit(0), [[], []]),
    ):
        found = face.call(
            Author.find().sort("name").include(related(Author.books, query), "books.notes"), "all"
        )
        assert [[book.title for book in one.books.values] for one in found] == titles
        for book in (book for one in found for book in one.books.values):
            assert [note.text for note in book.notes.values] == [f"on {book.title}"]
    every = face.call(Note.find().sort("text").include("book.author"), "all")
    (lost,) = (note for note in every if note.book.is_missing)
    with pytest.raises(DocumentNotFound, match="marked as deleted"):
        _ = lost.book.value
    assert [
        note.text for note in face.call(Note.find(Note.book.author.name == "a").sort(Note.book.price), "all")
    ] == [
        "on a0",
        "on a1",
        "on a2",
    ]
