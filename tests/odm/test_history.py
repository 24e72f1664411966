"""Histories of audited models: the mapper records every write together with it, or neither happens."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
from typing import Annotated, Any, ClassVar

import pytest

from mangonel.errors import BulkWriteError, DuplicateKeyError
from mangonel.odm import (
    Audited,
    Connection,
    Document,
    Encrypted,
    Indexed,
    NoTenant,
    Ref,
    Refs,
    SoftDelete,
    StaleDocument,
    Timestamps,
    UnsupportedOption,
    Version,
    Versioned,
    acting_as,
    all_tenants,
    before,
    count_commands,
    field,
    inc,
    push,
    set_,
    tenant,
)
from mangonel.odm.store.recording import check_recordable
from odm.conftest import Face


class Note(Versioned):
    n: int
    text: str = field(default="", key="t")
    tags: list[str] = field(default_factory=list)


class Account(Audited):
    name: Annotated[str, Indexed(unique=True)]
    cents: int = 0
    rev: Annotated[int, Version] = 0


def told(face: Face, document: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(one.operation, one.changes) for one in face.call(document, "history")]


def test_an_entry_has_who_when_and_what(db: Connection, face: Face) -> None:
    start = dt.datetime.now(dt.UTC).replace(microsecond=0)
    note = Note(n=1)
    with acting_as("ada"):
        face.save(note)
    note.n, note.text = 2, "x"
    with acting_as({"id": 7}):
        face.save(note)
    face.save(note)
    face.call(note, "delete")
    found = face.call(note, "history")
    assert [(one.number, one.by, one.operation) for one in found] == [
        (1, "ada", "insert"),
        (2, {"id": 7}, "update"),
        (3, None, "delete"),
    ]
    assert found[1].changes == {"n": (1, 2), "text": ("", "x")}
    assert found[2].changes == {
        "id": (note.id, None),
        "n": (2, None),
        "text": ("x", None),
        "tags": ([], None),
    }
    assert start <= found[0].at <= found[1].at <= found[2].at <= dt.datetime.now(dt.UTC)
    assert [(one.document.n, one.document.text) for one in found[:2]] == [(1, ""), (2, "x")]
    assert found[2].document is None
    assert face.call(Note, "history_of", str(note.id)) == found
    assert not found[1].document.is_new
    assert not found[1].document.is_changed


def test_a_model_may_name_the_author_and_the_collection_itself(db: Connection, face: Face) -> None:
    class Paper(Audited):
        __history__: ClassVar[str | None] = "changes"
        __actor__ = staticmethod(lambda: "the office")
        n: int

    paper = Paper(n=1)
    with acting_as("ada"):
        face.save(paper)
    (found,) = face.call(paper, "history")
    assert (found.by, found.document, db.database()["changes"].count_documents({})) == ("the office", None, 1)


def test_every_way_to_write_is_recorded(db: Connection, face: Face) -> None:
    one, two, three = Note(n=1), Note(n=2), Note(n=3)
    face.call(Note, "insert_many", [one, two])
    one.n = 10
    face.call(Note, "save_all", [one, three])
    assert face.call(Note.find(Note.n < 5), "update", inc(Note.n), push(Note.tags, "a")) == 2
    face.call(two, "update", set_(Note.text, "two"))
    three.reload()
    three.text = "whole"
    face.call(three, "replace")
    found = face.call(Note.find().sort("-n"), "find_and_update", inc(Note.n, 5))
    assert found.id == one.id
    face.call(Note.find(Note.n == 15), "find_and_replace", Note(n=16))
    new = face.call(Note.find(Note.n == 99), "upsert", set_(Note.text, "new"), on_insert=Note(n=99))
    face.call(Note.find(Note.n == 99), "upsert", set_(Note.text, "newer"))
    found, is_new = face.call(Note.find(Note.n == 98), "get_or_create", Note(n=98))
    assert is_new
    face.call(Note.find(Note.n == 98), "get_or_create", Note(n=98))
    face.call(Note.find(Note.n == 98), "find_and_delete")
    assert face.call(Note.find().sort("n")[:1], "delete") == 1
    assert [name for name, _ in told(face, one)] == ["insert", "update", "update", "update"]
    assert told(face, one)[1:] == [
        ("update", {"n": (1, 10)}),
        ("update", {"n": (10, 15)}),
        ("update", {"n": (15, 16)}),
    ]
    assert told(face, two)[1:3] == [
        ("update", {"n": (2, 3), "tags": ([], ["a"])}),
        ("update", {"text": ("", "two")}),
    ]
    assert told(face, two)[3][0] == "delete"
    assert [changes for _, changes in told(face, three)[1:]] == [
        {"n": (3, 4), "tags": ([], ["a"])},
        {"text": ("", "whole")},
    ]
    assert [(name, changes.get("text")) for name, changes in told(face, new)] == [
        ("insert", (None, "new")),
        ("update", ("new", "newer")),
    ]
    assert [name for name, _ in told(face, found)] == ["insert", "delete"]
    assert db.database()["note_history"].count_documents({}) == 4 + 4 + 3 + 2 + 2


def test_at_returns_the_document_as_it_was(db: Connection, face: Face) -> None:
    note = Note(n=1)
    face.save(note)
    note.tags.append("a")
    face.save(note)
    face.call(note, "delete")
    moments = [one.at for one in face.call(note, "history")]
    early = moments[0] - dt.timedelta(milliseconds=1)
    assert face.call(note, "at", early) is None
    assert face.call(note, "at", early.replace(tzinfo=None)) is None
    assert face.call(Note, "get_at", note.id, dt.datetime.now(dt.UTC)) is None
    # Entries of the same millisecond: the last one counts.
    last = max(number for number, moment in enumerate(moments) if moment == moments[0])
    found = face.call(note, "at", moments[0])
    assert (found and found.tags) == ([], ["a"], None)[last]


def test_a_former_state_can_be_stored_again(db: Connection, face: Face) -> None:
    note = Note(n=1, tags=["a"])
    face.save(note)
    note.n, note.tags = 2, []
    face.save(note)
    face.call(face.call(note, "history")[0].document, "replace")
    face.call(note, "reload")
    assert (note.n, note.tags) == (1, ["a"])
    assert told(face, note)[2] == ("update", {"n": (2, 1), "tags": ([], ["a"])})


def test_a_document_older_than_its_history_has_its_first_state(db: Connection, face: Face) -> None:
    id = Note.collection().insert_one({"n": 1, "t": "old", "tags": []}).inserted_id
    note = face.call(Note, "get", id)
    note.n = 2
    face.save(note)
    (entry,) = face.call(note, "history")
    assert (entry.operation, entry.changes) == ("update", {"n": (1, 2)})
    assert face.call(note, "at", entry.at - dt.timedelta(days=1)).n == 1
    assert face.call(note, "at", entry.at).n == 2


def test_what_fails_is_not_recorded(db: Connection, face: Face) -> None:
    Account.sync_indexes()
    ada = Account(name="Ada")
    face.save(ada)
    with pytest.raises(DuplicateKeyError):
        face.save(Account(name="Ada"))
    eve, twin = Account(name="Eve"), Account(name="Ada")
    with pytest.raises(BulkWriteError) as caught:
        face.call(Account, "insert_many", [eve, twin])
    assert caught.value.not_stored == [eve, twin]  # type: ignore[attr-defined]
    assert eve.is_new
    assert Account.find().count() == 1
    Account.collection().update_one({}, {"$inc": {"rev": 1}})
    ada.cents = 5
    with pytest.raises(StaleDocument):
        face.save(ada)
    assert ada.changes() == {"cents": (0, 5)}
    assert [name for name, _ in told(face, ada)] == ["insert"]
    face.call(ada, "reload", keep_changes=True)
    face.save(ada)
    assert told(face, ada)[1] == ("update", {"cents": (0, 5), "rev": (1, 2)})


def test_a_transaction_of_the_program_holds_the_entries_too(db: Connection, face: Face) -> None:
    note = Note(n=1)
    face.save(note)

    def change() -> Any:
        note.n = 2
        return note.asave() if face.is_async else note.save()

    async def fail_on_asyncio() -> None:
        async with db.transaction():
            await change()
            raise LookupError

    def fail() -> None:
        with db.transaction():
            change()
            raise LookupError

    with pytest.raises(LookupError):
        face.wait(fail_on_asyncio()) if face.is_async else fail()
    assert (note.n, len(face.call(note, "history"))) == (1, 1)
    with db.unit() as unit:
        note.text = "unit"
        unit.save(note, Note(n=9))
    assert [one.document.text for one in face.call(note, "history")] == ["", "unit"]
    with db.session() as block:
        note.n = 3
        note.save(session=block.session)
    assert [one.document.n for one in face.call(note, "history")] == [1, 1, 3]


class Team(Audited):
    name: str


class Player(Versioned):
    team: Ref[Team] = field(on_delete="cascade")


class Fan(Audited):
    teams: Refs[Team] = field(on_delete="pull", default_factory=list)  # type: ignore[assignment]
    last: Ref[Team] | None = field(on_delete="nullify", default=None)


class Coach(Document):
    team: Ref[Team] = field(on_delete="cascade")


class Club(Document):
    name: str


class Guest(Audited):
    club: Ref[Club] = field(on_delete="cascade")


def test_delete_rules_are_recorded_where_they_change_something(db: Connection, face: Face) -> None:
    team = Team(name="a")
    face.save(team)
    player, fan, coach = Player(team=team), Fan(teams=[team], last=team), Coach(team=team)
    face.save(player, fan, coach)
    face.call(team, "delete")
    assert [name for name, _ in told(face, player)] == ["insert", "delete"]
    assert told(face, fan)[1:] == [
        ("update", {"last": (team.id, None)}),
        ("update", {"teams": ([team.id], [])}),
    ] or told(face, fan)[1:] == [
        ("update", {"teams": ([team.id], [])}),
        ("update", {"last": (team.id, None)}),
    ]
    assert Coach.find().count() == 0
    # The deleted model need not be audited.
    club = Club(name="c")
    face.save(club)
    guest = Guest(club=club)
    face.save(guest)
    face.call(club, "delete")
    assert [name for name, _ in told(face, guest)] == ["insert", "delete"]


class Letter(Versioned, Timestamps, SoftDelete):
    text: str


class Leased(Versioned):
    __tenant__ = "owner"
    owner: str
    n: int = 0


def test_tenants_read_only_their_own_history(db: Connection, face: Face) -> None:
    with tenant("a"):
        leased = Leased(owner="a")
        face.save(leased)
        assert len(face.call(leased, "history")) == 1
    with tenant("b"):
        assert face.call(Leased, "history_of", leased.id) == []
        assert face.call(Leased, "get_at", leased.id, dt.datetime.now(dt.UTC)) is None
        assert face.call(Leased.find(), "update", inc(Leased.n)) == 0
    with pytest.raises(NoTenant):
        face.call(Leased, "history_of", leased.id)
    with tenant("a"):
        face.call(leased, "delete")
    with all_tenants():
        assert [one.operation for one in face.call(Leased, "history_of", leased.id)] == ["insert", "delete"]


class Hooked(Versioned):
    n: int
    runs: ClassVar[list[int]] = []

    @before("save")
    def _count(self) -> None:
        self.runs.append(self.n)


class Stamp(Document):
    letter: Ref[Letter] = field(touch=True)


def test_other_mixins_and_hooks_keep_their_meaning(db: Connection, face: Face) -> None:
    letter = Letter(text="a")
    face.save(letter)
    face.save(Stamp(letter=letter))
    face.call(letter, "reload")
    assert list(told(face, letter)[1][1]) == ["updated_at"]
    face.call(letter, "delete")
    assert told(face, letter)[2][0] == "update"
    assert "deleted_at" in told(face, letter)[2][1]
    assert Letter.find().count() == 0
    Hooked.runs.clear()
    face.save(Hooked(n=1))
    assert Hooked.runs == [1]


class Root(Versioned):
    __root__ = True
    n: int


class Leaf(Root):
    leaf: str = "green"


def test_a_family_has_one_history_and_states_of_their_own_class(db: Connection, face: Face) -> None:
    leaf = Leaf(n=1)
    face.save(leaf)
    face.call(Root.find(), "update", inc(Root.n))
    assert [type(one.document) for one in face.call(Root, "history_of", leaf.id)] == [Leaf, Leaf]
    assert db.database()["root_history"].count_documents({}) == 2


def test_ids_of_other_types_are_told_apart(db: Connection, face: Face) -> None:
    class Numbered(Versioned):
        id: int
        n: int = 0

    small, large = Numbered(id=1), Numbered(id=2**40)
    face.save(small, large)
    Numbered.collection().update_one({"_id": 1}, {"$set": {"n": 1}})
    face.call(Numbered.find(), "update", inc(Numbered.n))
    assert [[one.document.n for one in face.call(each, "history")] for each in (small, large)] == [
        [0, 2],
        [0, 1],
    ]


def test_what_cannot_be_recorded_is_refused(db: Connection, face: Face) -> None:
    with pytest.raises(UnsupportedOption, match=r"use upsert\(\)"):
        face.call(Note.find(), "update", inc(Note.n), upsert=True)

    class Unrecordable(Audited):
        name: Annotated[str, Encrypted(key="names")]

    with pytest.raises(TypeError, match="leave Audited or Encrypted out"):
        check_recordable(Unrecordable)
    assert Note.find().count() == 0


def test_writers_beside_each_other_leave_a_history_without_gaps(db: Connection, face: Face) -> None:
    """Each increment of each writer is one entry, and each entry starts where the one before it ended."""
    note = Note(n=0)
    face.save(note)
    writers, times = 4, 6

    if face.is_async:

        async def write(number: int) -> None:
            for _ in range(times):
                with acting_as(number):
                    await Note.find(Note.id == note.id).aupdate(inc(Note.n))

        async def every() -> None:
            await asyncio.gather(*map(write, range(writers)))

        face.wait(every())
    else:

        def write_blocking(number: int) -> None:
            for _ in range(times):
                with acting_as(number):
                    Note.find(Note.id == note.id).update(inc(Note.n))

        threads = [threading.Thread(target=write_blocking, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = face.call(note, "history")
    assert [one.number for one in found] == list(range(1, writers * times + 2))
    assert [one.changes["n"] for one in found[1:]] == [(n, n + 1) for n in range(writers * times)]
    assert sorted(one.by for one in found[1:]) == sorted(list(range(writers)) * times)


def test_a_record_takes_three_or_four_more_commands(db: Connection, face: Face) -> None:
    """On a replica set. For many documents and deleted ones, a separate command reads the last numbers."""
    Note.collection().create_index("n")
    note = Note(n=1)
    with count_commands(db) as commands:
        face.save(note)
        face.call(note, "update", inc(Note.n))
        note.text = "x"
        face.save(note)
        face.call(note, "delete")
        # Its number follows those of the deleted document.
        face.save(Note(id=note.id, n=1))
    changed = ["aggregate", "insert", "commitTransaction"]
    assert [name for name, _ in commands.sent] == [
        *("insert", *changed),
        *("find", "findAndModify", *changed),
        *("find", "update", *changed),
        *("find", "delete", "aggregate", *changed),
        *("insert", *changed),
    ]
    assert [one.number for one in face.call(note, "history")] == [1, 2, 3, 4, 5]


class Model:
    """The expected histories: for each document, its states."""

    def __init__(self) -> None:
        self.states: dict[Any, list[dict[str, Any] | None]] = {}

    def now(self) -> dict[Any, dict[str, Any]]:
        return {id: states[-1] for id, states in self.states.items() if states[-1] is not None}

    def note(self, id: Any, state: dict[str, Any] | None) -> None:
        states = self.states.setdefault(id, [])
        if (states[-1] if states else None) != state:
            states.append(state)


def _play(db: Connection, face: Face, chance: random.Random, steps: int) -> None:
    """Run random writes in random ways, and compare every history with the model."""
    model = Model()
    held: dict[Any, Note] = {}
    for step in range(steps):
        alive = model.now()
        way = chance.choice(
            [
                "insert",
                "save",
                "save_all",
                "update",
                "query",
                "delete",
                "query_delete",
                "one",
                "upsert",
                "again",
            ]
        )
        ids = sorted(alive, key=str)
        some = chance.sample(ids, min(len(ids), chance.randint(1, 3)))
        if way == "insert":
            fresh = [Note(n=step) for _ in range(chance.randint(1, 2))]
            face.call(Note, "insert_many", fresh) if chance.random() < 0.5 else face.save(*fresh)
            for note in fresh:
                held[note.id] = note
                model.note(note.id, {"n": step, "tags": []})
        elif way == "save" and some:
            note = face.call(held[some[0]], "reload")
            note.tags.append(str(step))
            face.save(note)
            model.note(note.id, {"n": note.n, "tags": [*alive[note.id]["tags"], str(step)]})
        elif way == "save_all" and some:
            notes = [face.call(held[id], "reload") for id in some]
            for note in notes:
                note.n = chance.choice([note.n, step])
            face.call(Note, "save_all", notes)
            for note in notes:
                model.note(note.id, {**alive[note.id], "n": note.n})
        elif way == "update" and some:
            note = face.call(held[some[0]], "update", inc(Note.n))
            model.note(note.id, {**alive[note.id], "n": alive[note.id]["n"] + 1})
        elif way == "query":
            least = chance.randint(0, steps)
            face.call(Note.find(Note.n >= least), "update", inc(Note.n))
            for id, state in alive.items():
                if state["n"] >= least:
                    model.note(id, {**state, "n": state["n"] + 1})
        elif way == "delete" and some:
            face.call(held[some[0]], "delete")
            model.note(some[0], None)
        elif way == "query_delete" and some and chance.random() < 0.5:
            face.call(Note.find({"_id": {"$in": some}}), "delete")
            for id in some:
                model.note(id, None)
        elif way == "one" and some:
            face.call(Note.find(Note.id == some[0]), "find_and_update", set_(Note.tags, []))
            model.note(some[0], {**alive[some[0]], "tags": []})
        elif way == "upsert":
            fresh_one = Note(n=10_000 + step)
            made = face.call(Note.find(Note.id == fresh_one.id), "upsert", on_insert=fresh_one)
            held[made.id] = made
            model.note(made.id, {"n": 10_000 + step, "tags": []})
        elif way == "again":
            gone = [id for id, states in model.states.items() if states[-1] is None]
            if gone:
                note = held[gone[0]] = Note(id=gone[0], n=step)
                face.save(note)
                model.note(note.id, {"n": step, "tags": []})
    for id, states in model.states.items():
        found = face.call(Note, "history_of", id)
        kept = [one.document and {"n": one.document.n, "tags": one.document.tags} for one in found]
        assert kept == states
        assert [one.number for one in found] == list(range(1, len(states) + 1))
        for one in found:
            last = [state for other, state in zip(found, states, strict=True) if other.at <= one.at][-1]
            then = face.call(Note, "get_at", id, one.at)
            assert (then and {"n": then.n, "tags": then.tags}) == last


@pytest.mark.enough(3)
@pytest.mark.parametrize("seed", range(3))
def test_random_writes_leave_the_histories_of_a_model(db: Connection, face: Face, seed: int) -> None:
    _play(db, face, random.Random(seed), 40)
