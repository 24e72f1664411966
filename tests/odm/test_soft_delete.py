"""Soft deletion stores only the mark, with every way to delete."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import pytest

from mangonel.odm import (
    Connection,
    Document,
    Ref,
    Refs,
    SoftDelete,
    StaleDocument,
    Timestamps,
    Version,
    after,
    before,
    field,
)
from mangonel.odm.errors import DocumentNotFound

LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


class Inside(SoftDelete):
    __collection__ = "notes"
    text: str
    tags: list[str] = field(default_factory=list)
    rev: Annotated[int, Version] = 0


class Stamped(Timestamps, SoftDelete):
    __collection__ = "stamped"
    text: str = ""
    parent: Ref[Stamped] | None = field(default=None, on_delete="cascade")
    rev: Annotated[int, Version] = 0


class Renamed(SoftDelete):
    __collection__ = "renamed"
    text: str
    deleted_at: dt.datetime | None = field(default=None, key="gone")


class Plain(Document):
    text: str


class Denied(Document):
    text: str


class Denying(Document):
    to: Ref[Denied] = field(on_delete="deny")


class Target(Document):
    __collection__ = "targets"


class Referrer(Timestamps):
    __collection__ = "referrers"
    target: Ref[Target] | None = field(default=None, on_delete="nullify")
    rev: Annotated[int, Version] = 0


class Restored(SoftDelete):
    __collection__ = "restored"
    target: Ref[Target] | None = field(default=None, on_delete="nullify")
    targets: Refs[Target] = field(default_factory=Refs, on_delete="pull")
    deleted_at: dt.datetime | None = field(default=None, key="gone")


class Hooked(SoftDelete):
    __collection__ = "hooked"
    text: str = ""

    @before("save")
    def _shout(self) -> None:
        self.text = self.text.upper()

    @before("delete")
    def _note(self) -> None:
        seen.append("before")

    @after("delete")
    def _note_too(self) -> None:
        seen.append("after")

    @after("commit")
    def _committed(self) -> None:
        seen.append("commit")


seen: list[str] = []


def row(kind: Any, document: Any) -> dict[str, Any]:
    """Return the stored fields of a document."""
    found: dict[str, Any] = kind.collection().find_one({"_id": document.id})
    return found


def test_what_is_unsaved_stays_unsaved_and_is_saved_later(db: Connection, face: Any) -> None:
    note = Inside(text="old", tags=["a"])
    face.save(note)
    for known in (note, None):
        known = known or face.call(Inside, "get", note.id)
        known.text = "new"
        known.tags.append("b")
        known.deleted_at = LONG_AGO
        face.call(known, "delete")
        stored = row(Inside, known)
        assert (stored["text"], stored["tags"]) == ("old", ["a"])
        assert stored["deleted_at"] == known.deleted_at != LONG_AGO
        assert known.is_deleted
        assert known.changes() == {"text": ("old", "new"), "tags": (["a"], ["a", "b"])}
        face.save(known.restore())
        assert (row(Inside, known)["text"], row(Inside, known)["tags"]) == ("new", ["a", "b"])
        assert not known.is_changed
        Inside.collection().update_one({"_id": note.id}, {"$set": {"text": "old", "tags": ["a"]}})


def test_the_mark_of_a_partly_loaded_document_is_all_that_is_stored(db: Connection, face: Any) -> None:
    face.save(Inside(text="old", tags=["a"]))
    part = face.call(Inside.find().only(Inside.text, Inside.rev), "one")
    before = row(Inside, part)
    part.text = "new"
    face.call(part, "delete")
    assert row(Inside, part) == before | {"deleted_at": part.deleted_at, "rev": before["rev"] + 1}
    assert set(part.changes()) == {"text"}


@pytest.mark.parametrize("kind", [Inside, Plain, Denied])
def test_a_deletion_with_a_condition_leaves_a_document_that_does_not_meet_it(
    db: Connection, face: Any, kind: Any
) -> None:
    note = kind(text="new")
    face.save(note)
    before = row(kind, note)
    with pytest.raises(StaleDocument, match="does not fulfil the condition"):
        face.call(note, "delete", where=kind.text == "old")
    assert (note.is_deleted, row(kind, note)) == (False, before)
    face.call(note, "delete", where={"text": "new"})
    assert note.is_deleted
    if kind is not Inside:
        assert row(kind, note) is None
        # It is gone already, which is no error.
        face.call(note, "delete", where={"text": "old"})


def test_marking_counts_the_version_and_a_stale_document_is_not_marked(db: Connection, face: Any) -> None:
    note = Inside(text="x")
    face.save(note)
    other = face.call(Inside, "get", note.id)
    face.call(note, "delete")
    assert row(Inside, note)["rev"] == note.rev == 1
    other.text = "late"
    for method in ("delete", "save"):
        with pytest.raises(StaleDocument):
            face.call(other, method)
    assert not other.is_deleted
    assert row(Inside, note)["text"] == "x"
    face.save(note.restore())
    assert row(Inside, note)["rev"] == note.rev == 2


@pytest.mark.parametrize("way", ["document", "query", "find_and_delete", "cascade"])
def test_every_way_to_mark_counts_the_version_and_sets_the_time(way: str, db: Connection, face: Any) -> None:
    parent = Stamped()
    face.save(parent)
    child = Stamped(parent=parent)
    face.save(child)
    Stamped.collection().update_many({}, {"$set": {"updated_at": LONG_AGO}})
    stale = face.call(Stamped, "get", child.id)
    query = Stamped.find(Stamped.id == child.id)
    if way == "document":
        face.call(face.call(Stamped, "get", child.id), "delete")
    elif way == "cascade":
        face.call(parent, "delete")
    else:
        face.call(query, "delete" if way == "query" else way)
    stored = row(Stamped, child)
    assert (stored["deleted_at"] is not None, stored["rev"], stored["updated_at"] > LONG_AGO) == (
        True,
        1,
        True,
    )
    stale.text = "late"
    with pytest.raises(StaleDocument):
        face.save(stale)


def test_nullifying_a_reference_counts_the_version_of_who_refers(db: Connection, face: Any) -> None:
    target = Target()
    face.save(target)
    referrer = Referrer(target=target)
    face.save(referrer)
    face.call(target, "delete")
    assert "target" not in row(Referrer, referrer)
    assert row(Referrer, referrer)["rev"] == 1
    referrer.updated_at = LONG_AGO
    with pytest.raises(StaleDocument):
        face.save(referrer)


@pytest.mark.parametrize("way", ["document", "query"])
def test_a_deletion_takes_the_references_of_documents_that_may_be_restored(
    way: str, db: Connection, face: Any
) -> None:
    target, other = Target(), Target()
    face.save(target, other)
    marked, live = (Restored(target=target, targets=Refs([target, other])) for _ in range(2))
    face.save(marked, live)
    face.call(marked, "delete")
    mark = row(Restored, marked)["gone"]
    if way == "document":
        face.call(target, "delete")
    else:
        face.call(Target.find(Target.id == target.id), "delete")
    for referrer in (marked, live):
        assert "target" not in row(Restored, referrer)
        assert row(Restored, referrer)["targets"] == [other.id]
    assert row(Restored, marked)["gone"] == mark
    found = face.call(Restored.deleted(), "one").restore()
    face.save(found)
    assert (found.target, found.targets.ids) == (None, [other.id])


def test_a_mark_under_another_key_is_known_everywhere(db: Connection, face: Any) -> None:
    note, other = Renamed(text="a"), Renamed(text="b")
    face.save(note, other)
    face.call(note, "delete")
    assert row(Renamed, note)["gone"] == note.deleted_at
    assert [found.text for found in face.call(Renamed.find(), "all")] == ["b"]
    assert [found.text for found in face.call(Renamed.deleted(), "all")] == ["a"]
    assert face.call(Renamed.find(), "delete") == 1
    assert face.call(Renamed.find(), "count") == 0


def test_hooks_of_deletion_run_and_those_of_saving_do_not(db: Connection, face: Any) -> None:
    note = Hooked(text="x")
    face.save(note)
    seen.clear()
    note.text = "y"
    face.call(note, "delete")
    assert seen == ["before", "after", "commit"]
    assert (note.text, row(Hooked, note)["text"]) == ("y", "X")


def test_a_document_that_was_never_stored_cannot_be_marked(db: Connection, face: Any) -> None:
    note = Inside(text="x")
    with pytest.raises(DocumentNotFound):
        face.call(note, "delete")
    assert not note.is_deleted
    assert face.call(Inside.unscoped(), "count") == 0


def test_a_mark_in_an_aborted_transaction_is_taken_back_and_changes_stay(db: Connection, face: Any) -> None:
    note = Inside(text="old")
    face.save(note)
    note.text = "new"

    def blocking() -> None:
        with db.transaction():
            note.delete()
            raise RuntimeError("on purpose")

    async def asynchronous() -> None:
        async with db.transaction():
            await note.adelete()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        face.wait(asynchronous()) if face.is_async else blocking()
    assert (note.is_deleted, note.rev, set(note.changes())) == (False, 0, {"text"})
    face.save(note)
    assert row(Inside, note)["text"] == "new"
