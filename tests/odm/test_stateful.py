"""Random operations on documents, on both faces, against a model of plain rows: aborts, failed writes, another client.

`MANGONEL_ODM_STEPS` asks for more steps than the few hundred of a usual run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mangonel.errors import DuplicateKeyError
from mangonel.odm import Connection, Document, Indexed, StaleDocument, Version, field, inc, push
from mangonel.odm.errors import DocumentNotFound

# Hundreds of steps on a busy machine.
pytestmark = pytest.mark.timeout(1200)

USUAL = 600
STEPS = int(os.environ.get("MANGONEL_ODM_STEPS", USUAL))
PER_RUN = 30


class Entry(Document):
    __collection__ = "entries"
    name: Annotated[str | None, Indexed(unique=True, sparse=True)] = None
    cents: int = 0
    tags: list[str] = field(default_factory=list)
    rev: Annotated[int, Version] = 0


class Held:
    """A document of the program, and its expected state."""

    def __init__(self, document: Entry) -> None:
        self.document = document
        self.is_new = True
        self.values: dict[str, Any] = {"name": None, "cents": 0, "tags": []}
        # As it was at the last load or save.
        self.loaded: dict[str, Any] = {}
        # Set to None, which removes the key, even if None was read: another program may have stored a null.
        self.emptied: set[str] = set()
        # Fields without a value at loading, changed, then restored by an abort: they stay marked as changed.
        self.forced: set[str] = set()
        self.rev = 0

    @property
    def changed(self) -> set[str]:
        """The fields that a save would send."""
        if self.is_new:
            return set()
        differ = {name for name in self.values if self.values[name] != self.loaded[name]}
        return differ | self.forced | self.emptied

    def took(self, row: dict[str, Any]) -> None:
        """Take the stored `row` as the state of this document."""
        self.is_new = False
        self.values = {name: copied(row[name]) for name in ("name", "cents", "tags")}
        self.loaded = {name: copied(row[name]) for name in ("name", "cents", "tags")}
        self.emptied, self.forced = set(), set()
        self.rev = row["rev"]

    def state(self) -> tuple[Any, ...]:
        """Return a copy of the whole state, to restore later."""
        return (
            self.is_new,
            {name: copied(value) for name, value in self.values.items()},
            {name: copied(value) for name, value in self.loaded.items()},
            set(self.emptied),
            set(self.forced),
            self.rev,
        )

    def put_back(self, state: tuple[Any, ...]) -> None:
        """Restore the result of `state`."""
        self.is_new, self.values, self.loaded, self.emptied, self.forced, self.rev = state
        self.forced = {name for name in self.changed if self.loaded[name] is None}


def copied(value: Any) -> Any:
    """A list of its own."""
    return list(value) if isinstance(value, list) else value


class Abort(Exception):
    """Ends a transaction."""


class Machine(RuleBasedStateMachine):
    """One run: the documents of a program, the stored ones, and random changes to both."""

    face: Any
    db: Connection
    # Over all runs.
    taken = 0

    def __init__(self) -> None:
        super().__init__()
        # Invariants are checked once before the first step.
        type(self).taken -= 1
        self.raw = self.db.client[self.db.name]["entries"]
        self.raw.delete_many({})
        self.held: list[Held] = []
        self.rows: dict[Any, dict[str, Any]] = {}
        self.saved: tuple[Any, ...] | None = None
        self.block: Any = None

    def pick(self, index: int) -> Held:
        """One of the documents."""
        return self.held[index % len(self.held)]

    def run(self, owner: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the face."""
        return self.face.call(owner, method, *args, **kwargs)

    # Actions of the program.

    @rule()
    def make(self) -> None:
        self.held.append(Held(Entry()))

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9), cents=st.integers(0, 9))
    def set_cents(self, index: int, cents: int) -> None:
        held = self.pick(index)
        held.document.cents = held.values["cents"] = cents

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9), name=st.sampled_from(["a", "b", None]))
    def set_name(self, index: int, name: str | None) -> None:
        held = self.pick(index)
        held.document.name = held.values["name"] = name
        (held.emptied.add if name is None else held.emptied.discard)("name")

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9), tag=st.sampled_from("xyz"))
    def append_tag(self, index: int, tag: str) -> None:
        held = self.pick(index)
        held.document.tags.append(tag)
        held.values["tags"].append(tag)

    def store(self, held: Held) -> type[Exception] | None:
        """Apply a save to the model; return the error that it must raise."""
        id = held.document.id
        row = {**{name: copied(value) for name, value in held.values.items()}, "rev": held.rev}
        if not held.is_new:
            if not held.changed:
                return None
            stored = self.rows.get(id)
            if stored is None:
                return DocumentNotFound
            if stored["rev"] != held.rev:
                return StaleDocument
            row = {
                **stored,
                **{name: copied(held.values[name]) for name in held.changed},
                "rev": held.rev + 1,
            }
        elif id in self.rows:
            return DuplicateKeyError
        if row["name"] is not None and any(
            other["name"] == row["name"] for key, other in self.rows.items() if key != id
        ):
            return DuplicateKeyError
        self.rows[id] = row
        held.took(row)
        return None

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9))
    def save(self, index: int) -> None:
        held = self.pick(index)
        self.expect(self.store(held), lambda: self.run(held.document, "save"))

    def expect(self, error: type[Exception] | None, act: Callable[[], Any]) -> None:
        """Run the action, and expect the error that the model predicts."""
        if error is None:
            act()
            return
        with pytest.raises(error):
            act()

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9))
    def reload(self, index: int) -> None:
        held = self.pick(index)
        row = self.rows.get(held.document.id)
        self.expect(None if row else DocumentNotFound, lambda: self.run(held.document, "reload"))
        if row:
            held.took(row)

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9), tag=st.sampled_from("xyz"))
    def update(self, index: int, tag: str) -> None:
        held = self.pick(index)
        if held.is_new:
            return
        row = self.rows.get(held.document.id)
        both = held.changed & {"cents", "tags"}
        # Unsaved changes belong to the loaded version, and must not count as changes of the next.
        is_stale = row is not None and row["rev"] != held.rev and bool(held.changed)
        error = ValueError if both else StaleDocument if is_stale else None if row else DocumentNotFound
        self.expect(error, lambda: self.run(held.document, "update", inc(Entry.cents), push(Entry.tags, tag)))
        if error is None and row is not None:
            unsaved, names = {name: held.values[name] for name in held.changed}, set(held.emptied)
            row["cents"] += 1
            row["tags"].append(tag)
            row["rev"] += 1
            held.took(row)
            held.values.update(unsaved)
            held.emptied = names

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 9))
    def delete(self, index: int) -> None:
        held = self.pick(index)
        if held.is_new:
            return
        row = self.rows.get(held.document.id)
        error = StaleDocument if row is not None and row["rev"] != held.rev else None
        self.expect(error, lambda: self.run(held.document, "delete"))
        if error is None:
            self.rows.pop(held.document.id, None)
            self.held.remove(held)

    @precondition(lambda self: self.rows)
    @rule(index=st.integers(0, 9))
    def load(self, index: int) -> None:
        id = list(self.rows)[index % len(self.rows)]
        held = Held(self.run(Entry, "get", id))
        held.took(self.rows[id])
        self.held.append(held)

    # Actions of another program.

    @precondition(lambda self: self.rows)
    @rule(index=st.integers(0, 9))
    def change_behind_its_back(self, index: int) -> None:
        id = list(self.rows)[index % len(self.rows)]
        self.raw.update_one({"_id": id}, {"$inc": {"cents": 10, "rev": 1}})
        self.rows[id]["cents"] += 10
        self.rows[id]["rev"] += 1

    # Transactions.

    @precondition(lambda self: self.held)
    @rule(
        steps=st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=4
        ),
        aborts=st.booleans(),
    )
    def transact(self, steps: list[tuple[int, int, bool]], aborts: bool) -> None:
        # The documents that the transaction touches; an abort leaves all others unchanged.
        before: dict[Held, tuple[Any, ...]] = {}
        rows = {id: {**row, "tags": list(row["tags"])} for id, row in self.rows.items()}
        works: list[tuple[Held, int, bool]] = []
        for index, cents, tags in steps:
            held = self.pick(index)
            works.append((held, cents, tags))

        def change(held: Held, cents: int, tags: bool) -> type[Exception] | None:
            before.setdefault(held, held.state())
            held.document.cents = held.values["cents"] = cents
            if tags:
                held.document.tags.append("t")
                held.values["tags"].append("t")
            return self.store(held)

        def blocking() -> None:
            with self.db.transaction():
                for work in works:
                    if change(*work) is not None:
                        # A server error would end the transaction; here the model's own error ends it.
                        raise Abort
                    work[0].document.save()
                if aborts:
                    raise Abort

        async def asynchronous() -> None:
            async with self.db.transaction():
                for work in works:
                    if change(*work) is not None:
                        raise Abort
                    await work[0].document.asave()
                if aborts:
                    raise Abort

        try:
            if self.face.is_async:
                self.face.wait(asynchronous())
            else:
                blocking()
        except Abort:
            self.rows = rows
            for held, state in before.items():
                held.put_back(state)

    # Invariants.

    @invariant()
    def every_step_is_counted(self) -> None:
        type(self).taken += 1

    @invariant()
    def what_is_stored_is_what_the_model_says(self) -> None:
        found = {
            row["_id"]: {
                "name": row.get("name"),
                "cents": row["cents"],
                "tags": row["tags"],
                "rev": row["rev"],
            }
            for row in self.raw.find()
        }
        assert found == self.rows

    @invariant()
    def documents_are_what_the_model_says(self) -> None:
        for held in self.held:
            document = held.document
            assert document.is_new == held.is_new
            assert {name: getattr(document, name) for name in held.values} == held.values
            assert set(document.changes()) == held.changed
            if not held.is_new:
                assert document.rev == held.rev


@pytest.fixture
def indexed(db: Connection, face: Any) -> Connection:
    """A connection whose collection has its unique index."""
    Entry.sync_indexes()
    return db


def test_random_operations_leave_what_a_model_of_rows_says(indexed: Connection, face: Any) -> None:
    bound: Any = type("Bound", (Machine,), {"face": face, "db": indexed})
    is_long = STEPS > USUAL
    while bound.taken < (STEPS if is_long else 1):
        run_state_machine_as_test(
            bound,
            settings=settings(
                max_examples=max(1, min(STEPS - bound.taken, 6000) // PER_RUN),
                stateful_step_count=PER_RUN,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    if is_long:
        print(f"{bound.taken} steps on {face.name}")
