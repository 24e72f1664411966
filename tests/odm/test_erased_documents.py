"""A deletion returns the documents that it and its rules have erased, as they were stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from mangonel.odm import Connection, DeleteDenied, Document, Ref, SoftDelete, connect, field
from mangonel.odm.query.rules import erased_documents
from mangonel.server import Server


class Shelf(Document):
    __collection__ = "erased_shelves"
    name: str


class Book(Document):
    __collection__ = "erased_books"
    shelf: Ref[Shelf] = field(on_delete="cascade")


class Page(Document):
    __collection__ = "erased_pages"
    book: Ref[Book] = field(on_delete="cascade")


class Loan(Document):
    __collection__ = "erased_loans"
    page: Ref[Page] = field(on_delete="deny")


class Note(SoftDelete):
    __collection__ = "erased_notes"
    shelf: Ref[Shelf] = field(on_delete="cascade")


@pytest.fixture
def db(server: Server, database_name: str) -> Iterator[Connection]:
    """The default connection of these models."""
    made = connect(server.uri, database=database_name)
    yield made
    made.close()


@pytest.fixture(params=["blocking", "asyncio"])
def delete(request: pytest.FixtureRequest, db: Connection) -> Callable[..., list[tuple[Any, Any]]]:
    """Delete a document, or a query's matches; return the erased documents as names of models with ids."""

    def delete(what: Any, **options: Any) -> list[tuple[Any, Any]]:
        with erased_documents() as erased:
            if request.param == "blocking":
                what.delete(**options)
            else:

                async def steps(started: Callable[..., Awaitable[Any]] = what.adelete) -> None:
                    await started(**options)

                asyncio.run(steps())
        return sorted((model.__name__, document["_id"]) for model, document in erased)

    return delete


@pytest.fixture
def library(db: Connection) -> tuple[Shelf, Book, Page]:
    shelf = Shelf(name="A").save()
    book = Book(shelf=shelf).save()
    page = Page(book=book).save()
    other = Shelf(name="B").save()
    Book(shelf=other).save()
    return shelf, book, page


def test_a_document_and_what_its_rules_delete_are_told(
    delete: Callable[..., Any], library: tuple[Shelf, Book, Page]
) -> None:
    shelf, book, page = library
    assert delete(shelf) == [("Book", book.id), ("Page", page.id), ("Shelf", shelf.id)]
    assert (Book.find().count(), Page.find().count()) == (1, 0)


def test_a_deletion_by_query_tells_them_too(
    delete: Callable[..., Any], library: tuple[Shelf, Book, Page]
) -> None:
    shelf, book, page = library
    assert delete(Shelf.find(Shelf.name == "A")) == [
        ("Book", book.id),
        ("Page", page.id),
        ("Shelf", shelf.id),
    ]


def test_documents_to_which_nothing_refers_are_told(
    delete: Callable[..., Any], library: tuple[Shelf, Book, Page]
) -> None:
    loan = Loan(page=library[2]).save()
    assert delete(Loan.find()) == [("Loan", loan.id)]


def test_a_document_that_is_only_marked_is_not_told(
    delete: Callable[..., Any], library: tuple[Shelf, Book, Page]
) -> None:
    shelf, _, _ = library
    note = Note(shelf=shelf).save()
    assert [name for name, _ in delete(shelf)] == ["Book", "Page", "Shelf"]
    assert Note.find().count() == 0
    assert delete(note) == []


def test_a_deletion_that_is_denied_tells_nothing(
    delete: Callable[..., Any], library: tuple[Shelf, Book, Page]
) -> None:
    shelf, _, page = library
    Loan(page=page).save()
    told: list[Any] = []
    with pytest.raises(DeleteDenied):
        told += delete(shelf)
    assert (told, Page.find().count()) == ([], 1)


def test_inside_a_transaction_it_is_told_as_well(db: Connection, library: tuple[Shelf, Book, Page]) -> None:
    shelf, book, page = library
    with erased_documents() as erased, db.transaction():
        shelf.delete()
    assert {document["_id"] for _, document in erased} == {shelf.id, book.id, page.id}


def test_outside_of_the_block_nothing_is_kept(
    delete: Callable[..., Any], library: tuple[Shelf, Book, Page]
) -> None:
    shelf, _, _ = library
    with erased_documents() as erased:
        pass
    shelf.delete()
    assert erased == []
