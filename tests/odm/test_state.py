"""Documents know their origin and their stored values, despite concurrent events."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from mangonel.bson import Decimal128
from mangonel.errors import BulkWriteError, OperationFailure
from mangonel.odm import (
    Connection,
    Document,
    Indexed,
    KeepsChanges,
    Ref,
    Sequence,
    SoftDelete,
    StaleDocument,
    Timestamps,
    ValidationError,
    Version,
    after,
    before,
    field,
    identity_map,
    inc,
    set_,
)
from mangonel.odm.errors import DocumentNotFound, OdmError


class Account(Document):
    cents: int = 0
    tags: list[str] = field(default_factory=list)
    name: str = ""
    rev: Annotated[int, Version] = 0


class Author(Document):
    name: str


class Book(Document):
    title: Annotated[str, Indexed(unique=True)]
    author: Ref[Author] = field(on_delete="cascade")
    rev: Annotated[int, Version] = 0


class Counted(Timestamps):
    name: str
    number: Annotated[int | None, Sequence()] = None
    age: int = 0
    rev: Annotated[int, Version] = 0

    @before("insert")
    def _shout(self) -> None:
        self.name = self.name.upper()


class Parent(Document):
    rev: Annotated[int, Version] = 0


class Child(Document):
    parent: Ref[Parent] = field(on_delete="cascade")


class Note(SoftDelete):
    text: str


class Reply(SoftDelete):
    note: Ref[Note] = field(on_delete="cascade")


class Plain(Document):
    note: Ref[Note] = field(on_delete="cascade")


@pytest.fixture
def other(db: Connection, database_name: str) -> Iterator[Connection]:
    """Another database of the same deployment."""
    made = db.sibling(database_name + "_tenant")
    yield made
    db.client.drop_database(made.name)


def in_transaction(face: Any, db: Connection, *steps: Callable[[], Any]) -> None:
    """Run steps in a transaction of a face."""
    if not face.is_async:
        with db.transaction():
            for step in steps:
                step()
        return

    async def inside() -> None:
        async with db.transaction():
            for step in steps:
                found = step()
                if hasattr(found, "__await__"):
                    await found

    face.wait(inside())


def step(face: Any, owner: Any, method: str, *args: Any) -> Callable[[], Any]:
    """A step that calls a method on a face."""
    return lambda: getattr(owner, "a" + method if face.is_async else method)(*args)


def fail() -> None:
    """A step that fails."""
    raise RuntimeError("on purpose")


# Origin of a document.


def test_a_document_is_saved_where_it_was_loaded(db: Connection, other: Connection, face: Any) -> None:
    with db.use(other):
        face.save(Account(cents=1))
    found = face.call(Account.find().using(other), "one")
    found.cents = 2
    face.save(found)
    assert face.call(Account.find(), "count") == 0
    assert other.client[other.name]["account"].find_one()["cents"] == 2
    face.call(found, "reload")
    face.call(found, "delete")
    assert face.call(Account.find().using(other), "count") == 0


def test_a_document_of_the_default_database_is_not_saved_in_a_tenants(
    db: Connection, other: Connection, face: Any
) -> None:
    found = Account(cents=1)
    face.save(found)
    with db.use(other):
        found.cents = 2
        face.save(found)
    assert db.client[db.name]["account"].find_one()["cents"] == 2


def test_references_lead_into_the_database_that_they_were_loaded_from(
    db: Connection, other: Connection, face: Any
) -> None:
    with db.use(other):
        ada = Author(name="Ada")
        face.save(ada, Book(title="Notes", author=ada.id))
    book = face.call(Book.find().using(other), "one")
    assert face.call(book.author, "get").name == "Ada"
    included = face.call(Book.find().using(other).include(Book.author), "one")
    assert included.author.value.name == "Ada"


def test_the_identity_map_knows_tenants_apart(db: Connection, other: Connection, face: Any) -> None:
    ours = Account(name="ours")
    face.save(ours)
    with db.use(other):
        face.save(Account(id=ours.id, name="theirs"))
    with identity_map():
        here = face.call(Account, "get", ours.id)
        there = face.call(Account.find().using(other), "one")
    assert (here.name, there.name) == ("ours", "theirs")


# Transactions.


def test_an_abort_makes_a_new_document_new_again(db: Connection, face: Any) -> None:
    made = Account(cents=1)
    with pytest.raises(RuntimeError):
        in_transaction(face, db, step(face, made, "save"), fail)
    assert made.is_new
    face.save(made)
    assert face.call(Account, "get", made.id).cents == 1


def test_an_abort_takes_back_values_versions_and_lists(db: Connection, face: Any) -> None:
    made = Account(cents=1, tags=["a"])
    face.save(made)

    def change() -> None:
        made.cents = 2
        made.tags.append("b")

    with pytest.raises(RuntimeError):
        in_transaction(face, db, change, step(face, made, "save"), step(face, made, "reload"), fail)
    assert (made.cents, made.tags, made.rev, made.is_changed) == (1, ["a"], 0, False)
    made.cents = 5
    face.save(made)
    assert face.call(Account, "get", made.id).cents == 5


def test_an_abort_keeps_what_was_unsaved_before(db: Connection, face: Any) -> None:
    made = Account(cents=1)
    face.save(made)
    made.name = "unsaved"
    with pytest.raises(RuntimeError):
        in_transaction(face, db, step(face, made, "save"), fail)
    assert made.name == "unsaved"
    assert set(made.changes()) == {"name"}


def test_a_nested_block_joins_the_outer_one_and_dooms_it_when_it_fails(db: Connection, face: Any) -> None:
    one, two = Account(name="one"), Account(name="two")

    def inner() -> Any:
        if face.is_async:

            async def run() -> None:
                async with db.transaction():
                    await two.asave()
                    raise RuntimeError("inner")

            async def caught() -> None:
                with pytest.raises(RuntimeError):
                    await run()

            return caught()

        def failing() -> None:
            with db.transaction():
                two.save()
                raise RuntimeError("inner")

        with pytest.raises(RuntimeError):
            failing()
        return None

    with pytest.raises(OdmError, match="inside this one failed"):
        in_transaction(face, db, step(face, one, "save"), inner)
    assert one.is_new
    assert two.is_new
    assert face.call(Account.find(), "count") == 0


def test_run_tries_a_transient_failure_again_with_documents_put_back(db: Connection, face: Any) -> None:
    made = Account(cents=100)
    face.save(made)
    tries: list[int] = []

    def transient() -> None:
        tries.append(made.cents)
        if len(tries) < 3:
            error = OperationFailure("try again", 112)
            error._add_error_label("TransientTransactionError")
            raise error

    def move() -> Any:
        made.cents -= 5
        if face.is_async:

            async def steps() -> None:
                await made.asave()
                transient()

            return steps()
        made.save()
        transient()
        return None

    if face.is_async:
        face.wait(db.arun(move))
    else:
        db.run(move)
    assert tries == [95, 95, 95]
    assert face.call(Account, "get", made.id).cents == 95
    assert made.cents == 95
    assert not made.is_changed


def test_hooks_run_after_the_commit_or_after_the_rollback(db: Connection, face: Any) -> None:
    told: list[str] = []

    class Told(Document):
        name: str

        @after("commit")
        def _committed(self) -> None:
            told.append("commit " + self.name)

        @after("rollback")
        def _rolled_back(self) -> None:
            told.append("rollback " + self.name)

    with pytest.raises(RuntimeError):
        in_transaction(face, db, step(face, Told(name="a"), "save"), fail)
    in_transaction(face, db, step(face, Told(name="b"), "save"))
    assert told == ["rollback a", "commit b"]


def test_a_session_given_to_a_method_is_the_one_used(db: Connection) -> None:
    with db.client.start_session() as session:
        session.start_transaction()
        made = Account(cents=1).insert(session=session)
        assert Account.find().count() == 0
        assert Account.find().session(session).count() == 1
        made.cents = 2
        made.save(session=session)
        session.abort_transaction()
    assert Account.find().count() == 0


def test_reads_in_a_snapshot_session_see_one_moment(db: Connection) -> None:
    kept = Account(cents=1).save()
    with db.session(snapshot=True):
        assert Account.find().count() == 1
        raw = db.client[db.name]["account"]
        raw.insert_one({"cents": 2})
        assert Account.find().count() == 1
    assert Account.find().count() == 2
    assert not kept.is_new


# Optimistic locking.


def test_a_stale_document_is_not_replaced(db: Connection, face: Any) -> None:
    made = Account(cents=1)
    face.save(made)
    stale = face.call(Account, "get", made.id)
    made.cents = 2
    face.call(made, "replace")
    assert made.rev == 1
    stale.cents = 3
    for upsert in (False, True):
        with pytest.raises(StaleDocument):
            face.call(stale, "replace", upsert=upsert)
        assert stale.rev == 0
    assert face.call(Account, "get", made.id).cents == 2
    made.cents = 4
    face.save(made)
    assert face.call(Account, "get", made.id).rev == 2


def test_an_upsert_counts_the_version_of_what_it_finds(db: Connection, face: Any) -> None:
    made = Account(name="Ada")
    face.save(made)
    query = Account.find(Account.name == "Ada")
    found = face.call(query, "upsert", inc(Account.cents), on_insert=Account(name="Ada"))
    assert (found.id, found.cents, found.rev) == (made.id, 1, 1)
    assert face.call(query, "update", [{"$set": {"cents": 7}}]) == 1
    assert face.call(Account, "get", made.id).rev == 2


def test_a_stale_delete_touches_no_child(db: Connection, face: Any) -> None:
    parent = Parent()
    face.save(parent)
    face.save(Child(parent=parent.id))
    stale = face.call(Parent, "get", parent.id)
    face.call(Parent.find(), "update", inc(Parent.rev))
    with pytest.raises(StaleDocument):
        face.call(stale, "delete")
    assert face.call(Child.find(), "count") == 1


# Partial failures.


@pytest.mark.parametrize("ordered", [True, False])
def test_what_insert_many_stored_is_known_as_stored(db: Connection, face: Any, ordered: bool) -> None:
    face.call(Book, "sync_indexes") if not face.is_async else face.wait(Book.async_indexes())
    ada = Author(name="Ada")
    face.save(ada, Book(title="b", author=ada.id))
    books = [Book(title=title, author=ada.id) for title in "abc"]
    with pytest.raises(BulkWriteError) as caught:
        face.call(Book, "insert_many", books, ordered=ordered)
    assert [book.is_new for book in books] == [False, True, ordered]
    assert caught.value.not_stored == [book for book in books if book.is_new]
    books[0].title = "a2"
    face.save(books[0])
    assert face.call(Book, "get", books[0].id).title == "a2"


def test_what_save_all_stored_is_known_as_stored(db: Connection, face: Any) -> None:
    face.wait(Book.async_indexes()) if face.is_async else Book.sync_indexes()
    ada = Author(name="Ada")
    one, two = Book(title="a", author=ada.id), Book(title="b", author=ada.id)
    face.save(ada, one, two)
    one.title = "c"
    taken, fourth = Book(title="b", author=ada.id), Book(title="d", author=ada.id)
    with pytest.raises(BulkWriteError):
        face.call(Book, "save_all", [one, taken, fourth], ordered=False)
    assert (one.is_changed, taken.is_new, fourth.is_new, one.rev) == (False, True, False, 1)
    assert {book.title for book in face.call(Book.find(), "all")} == {"b", "c", "d"}


# Updates of one document.


def test_an_update_keeps_unsaved_changes_of_other_fields(db: Connection, face: Any) -> None:
    made = Account(cents=1, tags=["a"])
    face.save(made)
    made.name = "unsaved"
    made.tags.append("b")
    face.call(made, "update", inc(Account.cents))
    assert (made.cents, made.name, made.tags) == (2, "unsaved", ["a", "b"])
    face.save(made)
    stored = face.call(Account, "get", made.id)
    assert (stored.cents, stored.name, stored.tags) == (2, "unsaved", ["a", "b"])


def test_an_update_of_a_field_with_unsaved_changes_is_refused(db: Connection, face: Any) -> None:
    made = Account(cents=1)
    face.save(made)
    made.cents = 9
    with pytest.raises(ValueError, match="unsaved changes"):
        face.call(made, "update", inc(Account.cents))
    assert face.call(Account, "get", made.id).cents == 1


def test_get_or_create_runs_hooks_times_and_sequences(db: Connection, face: Any) -> None:
    query = Counted.find(Counted.age == 3)
    made, is_new = face.call(query, "get_or_create", Counted(name="ada", age=3))
    assert is_new
    assert (made.name, made.number) == ("ADA", 1)
    assert made.created_at is not None
    assert made.updated_at is not None
    again, is_new = face.call(query, "get_or_create", Counted(name="eve", age=3))
    assert not is_new
    assert again.id == made.id
    found = face.call(
        Counted.find(Counted.name == "MAX"), "upsert", set_(Counted.age, 9), on_insert=Counted(name="max")
    )
    assert (found.name, found.age, found.number) == ("MAX", 9, 2)


# Soft deletion.


def test_soft_deletion_is_one_scope_for_every_way_to_ask(db: Connection, face: Any) -> None:
    gone, here = Note(text="gone"), Note(text="here")
    face.save(gone, here)
    reply = Reply(note=gone.id)
    face.save(reply)
    Note.find(Note.text == "gone").update({"$set": {"deleted_at": None}})
    face.call(gone, "delete")
    assert [note.text for note in face.call(Note, "get_many", [gone.id, here.id])] == ["here"]
    assert face.call(Reply.find(), "count") == 0, "what cascades from a marked document is marked"
    assert face.call(Reply.unscoped(), "count") == 1
    lazy = face.call(Reply.unscoped(), "one")
    with pytest.raises(DocumentNotFound):
        face.call(lazy.note, "get")
    assert not face.call(Reply.unscoped().include(Reply.note), "one").note.is_loaded
    taken = face.call(Note.find(), "find_and_delete")
    assert taken.text == "here"
    assert taken.is_deleted
    assert face.call(Note.unscoped(), "count") == 2
    taken.restore()
    face.save(taken)
    assert face.call(Note.find(), "count") == 1


def test_a_marked_document_leaves_others_alone_that_cannot_be_marked(db: Connection, face: Any) -> None:
    note = Note(text="x")
    face.save(note)
    face.save(Plain(note=note.id))
    face.call(note, "delete")
    assert face.call(Plain.find(), "count") == 1
    note.restore()
    face.save(note)
    assert face.call(Note.find(), "count") == 1


# Pages.


class Mixed(Document):
    __on_bad__ = "raw"
    value: Any = None
    name: str = ""


VALUES: list[Any] = [None, 1, 2.5, float("nan"), "a", "b", True, False, b"x", {"a": 1}, 1, None, "a"]
VALUES += [Decimal128("NaN"), Decimal128("2")]


def pages(face: Any, query: Any, size: int = 2) -> list[Any]:
    """All documents of all pages."""
    found: list[Any] = []
    token = None
    for _ in range(100):
        page = face.call(query, "page", size, token)
        found += page.items
        token = page.next
        if token is None:
            return found
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("order", ["value", "-value"])
def test_pages_by_keys_of_any_type_are_complete_and_end(db: Connection, face: Any, order: str) -> None:
    raw = db.client[db.name]["mixed"]
    raw.insert_many([{"value": value, "name": str(n)} for n, value in enumerate(VALUES)] + [{"name": "none"}])
    query = Mixed.find().sort(order)
    expected = [item.name for item in face.call(query.sort(order, order.replace("value", "_id")), "all")]
    assert [item.name for item in pages(face, query)] == expected
    narrow = pages(face, query.only(Mixed.name))
    assert [item.name for item in narrow] == expected


@pytest.mark.parametrize("order", ["value", "-value"])
@pytest.mark.parametrize("size", [1, 2, 3, 14])
def test_the_way_back_leads_through_the_same_pages(db: Connection, face: Any, order: str, size: int) -> None:
    raw = db.client[db.name]["mixed"]
    raw.insert_many([{"value": value, "name": str(n)} for n, value in enumerate(VALUES)] + [{"name": "none"}])
    query = Mixed.find().sort(order)
    forth = [face.call(query, "page", size)]
    assert forth[0].previous is None
    while forth[-1].next is not None:
        forth.append(face.call(query, "page", size, forth[-1].next))
        assert len(forth) < 100
    back = [forth[-1]]
    while back[-1].previous is not None:
        back.append(face.call(query, "page", size, before=back[-1].previous))
        # And forward again from there.
        again = face.call(query, "page", size, back[-1].next)
        assert [item.name for item in again] == [item.name for item in back[-2]]
    assert [[item.name for item in page] for page in back[::-1]] == [
        [item.name for item in page] for page in forth
    ]
    assert sum(map(len, forth)) == len(VALUES) + 1


def test_the_way_back_leaves_out_what_does_not_fit_and_counts_what_fits(db: Connection, face: Any) -> None:
    raw = db.client[db.name]["account"]
    raw.insert_many([{"cents": "many" if n % 3 else n, "name": str(n)} for n in range(30)])
    query = Account.find(on_invalid="skip").sort("name")
    fit = [one.name for one in face.call(query, "all")]
    last = face.call(query, "page", 4)
    while last.next is not None:
        last = face.call(query, "page", 4, last.next)
    seen = [one.name for one in last]
    while last.previous is not None:
        last = face.call(query, "page", 4, before=last.previous)
        assert len(last) == 4 or last.previous is None
        seen = [*(one.name for one in last), *seen]
    assert seen == fit


def test_a_page_is_after_one_or_before_one(db: Connection, face: Any) -> None:
    with pytest.raises(ValueError, match="expected after= or before=, got both"):
        face.call(Account.find(), "page", 2, "a", before="b")


def test_a_token_does_not_tell_the_document_that_a_page_ends_with(db: Connection, face: Any) -> None:
    documents = [Account(name=f"unseen-{number}") for number in range(3)]
    face.save(*documents)
    token = face.call(Account.find().sort("name"), "page", 2).next
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert b"unseen" not in data
    assert not any(document.id.binary in data for document in documents)


def test_a_token_that_was_changed_is_refused(db: Connection, face: Any) -> None:
    face.call(Account, "insert_many", [Account(cents=n) for n in range(5)])
    query = Account.find().sort("cents")
    token = face.call(query, "page", 2).next
    flipped = token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]
    for wrong in (flipped, "", "x" * 60):
        with pytest.raises(ValueError, match="token of a page"):
            face.call(query, "page", 2, wrong)
    with pytest.raises(ValueError, match="token of a page"):
        face.call(Account.find().sort("-cents"), "page", 2, token)


# Documents that do not fit.


def test_a_document_that_cannot_be_read_is_named_with_all_its_faults(db: Connection, face: Any) -> None:
    face.save(Account(name="good"))
    db.client[db.name]["account"].insert_one({"_id": 7, "cents": "many", "name": 3})
    with pytest.raises(ValidationError) as caught:
        face.call(Account.find(), "all")
    assert caught.value.collection == "account"
    assert caught.value.id == 7
    assert {fault["path"] for fault in caught.value.errors()} == {"$._id", "$.cents", "$.name"}


def test_documents_that_do_not_fit_can_be_skipped_or_collected(db: Connection, face: Any) -> None:
    face.save(Account(name="one"), Account(name="two"))
    db.client[db.name]["account"].insert_one({"cents": "many"})
    assert len(face.call(Account.find(on_invalid="skip"), "all")) == 2
    assert len(face.collect(Account.find(on_invalid="skip"))) == 2
    faults: list[ValidationError] = []
    assert len(face.call(Account.find(on_invalid=faults.append), "all")) == 2
    assert [fault.errors()[0]["path"] for fault in faults] == ["$.cents"]


# Rules.


def test_two_models_of_one_name_have_rules_of_their_own(db: Connection, face: Any) -> None:
    def rival() -> type[Document]:
        class Child(Document):
            __collection__ = "rival"
            name: str = ""

        return Child

    rival()
    parent = Parent()
    face.save(parent)
    face.save(Child(parent=parent.id))
    face.call(parent, "delete")
    assert face.call(Child.find(), "count") == 0


def test_concurrent_tasks_have_transactions_of_their_own(db: Connection) -> None:
    one, two = Account(name="one"), Account(name="two")

    async def failing() -> None:
        async with db.transaction():
            await one.asave()
            await asyncio.sleep(0.01)
            raise RuntimeError("on purpose")

    async def working() -> None:
        async with db.transaction():
            await two.asave()
            await asyncio.sleep(0.02)

    async def both() -> None:
        # The first command creates the collection, which two concurrent transactions cannot do.
        await Account(name="first").asave()
        await asyncio.gather(failing(), working(), return_exceptions=True)
        assert one.is_new
        assert not two.is_new
        assert await Account.find().acount() == 2
        await db.aclose()

    asyncio.run(both())


class Kept(KeepsChanges):
    __collection__ = "kept"
    n: int = 0
    tags: list[str] = field(default_factory=list)
    author: Ref[Author] | None = None


def test_after_an_abort_changes_know_the_old_values_and_no_save_that_was_undone(
    db: Connection, face: Any
) -> None:
    author = Author(name="Ada")
    face.save(author)
    document = Kept(n=1, tags=["a"])
    face.save(document)
    document.n = 2
    face.save(document)
    document.n = 3
    document.tags.append("b")
    document.author = author
    before = document.changes()
    assert document.previous_changes() == {"n": (1, 2)}

    def blocking() -> None:
        with db.transaction():
            document.n = 4
            document.save()
            raise RuntimeError("on purpose")

    async def asynchronous() -> None:
        async with db.transaction():
            document.n = 4
            await document.asave()
            raise RuntimeError("on purpose")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="on purpose"):
            face.wait(asynchronous()) if face.is_async else blocking()
        assert document.previous_changes() == {"n": (1, 2)}
        assert (
            document.changes()
            == before
            == {
                "n": (2, 3),
                "tags": (["a"], ["a", "b"]),
                "author": (None, document.author),
            }
        )
    face.save(document)
    assert document.previous_changes() == before
    stored = face.call(Kept, "get", document.id)
    assert (stored.n, stored.tags, stored.author) == (3, ["a", "b"], author)
