"""The machine of `test_writers_model.py`: one document, its copies, and what writers do to it.

Every appended element has a name of its own, so that one that is lost or doubled is seen.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mangonel import _core
from mangonel.bson import Int64
from mangonel.errors import AutoReconnect, BulkWriteError, OperationFailure, WriteConcernError
from mangonel.odm import (
    Connection,
    ParallelSaveError,
    StaleDocument,
    inc,
    push,
)
from mangonel.odm.model.convert import SAVING
from odm.broken_off import break_off
from odm.other_writer import Counted, OtherProcess, Part, Plain, append
from odm.writers_copies import FIELDS, LISTS, Copy, is_append, kept_set, merged, rows_of, state_of
from tools.faces import eventually
from tools.proxy import LineProxy

# The copy for a step; `TransactionMachine` also derives the writer from it.
COPIES = st.integers(0, 11)
SAVES = st.sampled_from(["save", "save_all"])


def alone(step: Any) -> Any:
    """Mark a step that no transaction takes part in: it runs only when no open transaction has stored anything."""

    @functools.wraps(step)
    def alone_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.by_itself():
            return step(self, *args, **kwargs)

    return precondition(lambda self: self.is_alone)(alone_step)


class Machine(RuleBasedStateMachine):
    """One document, some copies of it, and their steps."""

    face: Any
    db: Connection
    far: Connection
    line: LineProxy
    model: Any
    other: OtherProcess
    # Over all runs.
    taken = 0

    def __init__(self) -> None:
        super().__init__()
        self.raw = self.db.client[self.db.name]["writers"]
        self.admin = self.db.client.admin
        self.raw.delete_many({})
        self.names = 0
        self.copies: list[Copy] = []
        first = self.model(tags=[self.name()], parts=[Part(name=self.name()), Part(name=self.name())])
        self.face.save(first)
        self.id = first.id

    def name(self) -> str:
        """Return a name that no other element has."""
        self.names += 1
        return f"e{self.names}"

    @property
    def row(self) -> dict[str, Any]:
        """Return the stored document."""
        found: dict[str, Any] = self.raw.find_one({"_id": self.id})
        return found

    def pick(self, index: int) -> Copy:
        """Return one of the copies."""
        return self.copies[index % len(self.copies)]

    @initialize()
    def two_copies(self) -> None:
        self.load(False)
        self.load(True)

    def load(self, is_far: bool) -> None:
        """Load a copy."""
        query = self.model.find(self.model.id == self.id)
        document = self.face.call(query.using(self.far) if is_far else query, "one")
        self.copies.append(Copy(document, self.row, is_far))

    # Overridden by `TransactionMachine`.

    @property
    def is_alone(self) -> bool:
        """Return whether no open transaction has stored anything."""
        return True

    def by_itself(self) -> AbstractContextManager[None]:
        """Take a step outside of transactions."""
        return nullcontext()

    def change(self, copy: Copy, work: Callable[[], Any]) -> None:
        """Change a copy in memory."""
        work()

    def stores(self, copy: Copy | None) -> None:
        """Called before a copy is stored outside of `settle`; None: by another program."""

    # Changes of the program to its copies.

    @rule(index=COPIES, is_far=st.booleans())
    def load_another(self, index: int, is_far: bool) -> None:
        copy = self.pick(index)
        if len(self.copies) == 4:
            self.copies.remove(copy)
        self.load(is_far)

    @rule(index=COPIES, n=st.integers(0, 5))
    def set_n(self, index: int, n: int) -> None:
        copy = self.pick(index)
        self.change(copy, lambda: setattr(copy.document, "n", n))

    @rule(index=COPIES, kind=st.sampled_from(LISTS), times=st.integers(1, 2))
    def append(self, index: int, kind: str, times: int) -> None:
        self.append_to(self.pick(index), kind, times)

    def append_to(self, copy: Copy, kind: str, times: int = 1) -> None:
        """Append elements whose names are new."""
        names = [self.name() for _ in range(times)]
        self.change(copy, lambda: [append(copy.document, kind, name) for name in names])

    @rule(index=COPIES, kind=st.sampled_from(LISTS), at=st.integers(0, 9), by_list=st.booleans())
    def remove(self, index: int, kind: str, at: int, by_list: bool) -> None:
        copy = self.pick(index)
        if not getattr(copy.document, kind):
            return

        def work() -> None:
            found = getattr(copy.document, kind)
            if kind == "keys":
                found.discard(sorted(found)[at % len(found)])
            elif by_list:
                gone = at % len(found)
                setattr(copy.document, kind, [item for place, item in enumerate(found) if place != gone])
            else:
                del found[at % len(found)]

        self.change(copy, work)
        if by_list and kind != "keys":
            copy.assigned.add(kind)

    @rule(index=COPIES, at=st.integers(0, 9), n=st.integers(1, 9), has_note=st.booleans())
    def change_part(self, index: int, at: int, n: int, has_note: bool) -> None:
        copy, name = self.pick(index), self.name()

        def work() -> None:
            part = copy.document.parts[at % len(copy.document.parts)]
            part.n = n
            if has_note:
                part.note = name

        if copy.document.parts:
            self.change(copy, work)

    @rule(index=COPIES, kind=st.sampled_from(["tags", "parts"]), at=st.integers(0, 9))
    def put_in_place(self, index: int, kind: str, at: int) -> None:
        copy, name = self.pick(index), self.name()

        def work() -> None:
            found = getattr(copy.document, kind)
            found[at % len(found)] = Part(name=name) if kind == "parts" else name

        if getattr(copy.document, kind):
            self.change(copy, work)

    @rule(
        index=COPIES,
        kind=st.sampled_from(["tags", "parts"]),
        how=st.sampled_from(["sort", "insert", "clear"]),
    )
    def rearrange(self, index: int, kind: str, how: str) -> None:
        copy, name = self.pick(index), self.name()

        def work() -> None:
            found = getattr(copy.document, kind)
            if how == "sort":
                found.reverse()
            elif how == "clear":
                found.clear()
            else:
                found.insert(0, Part(name=name) if kind == "parts" else name)

        self.change(copy, work)

    @rule(
        index=COPIES,
        kind=st.sampled_from(["tags", "spare"]),
        how=st.sampled_from(["new", "none", "reversed"]),
    )
    def assign(self, index: int, kind: str, how: str) -> None:
        copy = self.pick(index)
        found = list(getattr(copy.document, kind) or ())
        value: Any = [self.name()] if how == "new" else found[::-1]
        if how == "none":
            value = None if kind == "spare" else []
        self.change(copy, lambda: setattr(copy.document, kind, value))
        copy.assigned.add(kind)

    # Saving.

    def may_be_stored(
        self, copy: Copy, before: dict[str, Any], after: dict[str, Any], changed: set[str]
    ) -> str | None:
        """Return the fault of the stored document after a save of a copy, or None."""
        memory = state_of(copy.document)
        for name in FIELDS:
            stored, found = self.stored(before, name), self.stored(after, name)
            mine, base = memory[name], copy.loaded[name]
            if name not in changed:
                # An assigned field is sent, even with the loaded value.
                if found != stored and not (name in copy.assigned and (found or []) == (mine or [])):
                    return f"{name} was not changed, and is {found} instead of {stored}"
            elif name == "n" or mine is None:
                if found != mine and (found or mine):
                    return f"{name} is {found} instead of {mine}"
            elif found == mine and (
                (stored or []) == (base or []) or (name in copy.assigned and not set(mine) & set(base or []))
            ):
                continue
            else:
                wanted = merged(base or [], mine, stored or [])
                if wanted is None or sorted(wanted, key=repr) != sorted(found or [], key=repr):
                    return f"{name} is {found} instead of {wanted}: {base} became {mine} beside {stored}"
        return None

    def must_be_stored(self, copy: Copy, before: dict[str, Any], changed: set[str]) -> bool:
        """Return whether a save has no reason to be refused."""
        # A field set to None is sent, even if None was read.
        unsaved = changed | set(copy.document.changes())
        if copy.is_uncertain or not unsaved:
            return not unsaved
        if copy.rev is not None and before["rev"] != copy.rev:
            return False
        memory = state_of(copy.document)
        for name in changed - {"n"}:
            stored, mine, base = self.stored(before, name), memory[name], copy.loaded[name]
            if mine is not None and name in before and stored is None and name not in copy.was_null:
                # Nothing can be appended to null.
                return False
            if (
                (stored or []) == (base or [])
                and (stored is None) == (base is None)
                and name not in copy.was_null
            ):
                continue
            is_pushed = is_append(base, mine) and not (name in before and before[name] is None)
            if not (is_pushed and name not in copy.was_null) and mine is not None:
                return False
        return True

    @staticmethod
    def stored(row: dict[str, Any], name: str) -> Any:
        """A field of a stored document."""
        if name == "n":
            return row.get(name, 0)
        found = rows_of(row.get(name))
        # A set has no order.
        return sorted(found) if name == "keys" and found else found

    def settle(
        self,
        copy: Copy,
        changed: set[str],
        before: dict[str, Any],
        save: Callable[[], Any],
        is_apart: bool = False,
    ) -> None:
        """Save a copy, and compare its result with the stored document; `is_apart`: in a separate session."""
        memory, sent = state_of(copy.document), changed | set(copy.document.changes())
        refused: StaleDocument | OperationFailure | None = None
        try:
            save()
        except (StaleDocument, OperationFailure) as error:
            refused = error
        if refused is not None:
            # The server's own refusal to append to null counts too.
            assert isinstance(refused, StaleDocument) or self.is_of_null(refused), refused
            assert not self.must_be_stored(copy, before, changed), f"refused: {refused}"
            assert self.row == before
            assert set(copy.document.changes()) >= changed
        else:
            wrong = self.may_be_stored(copy, before, self.row, changed)
            assert wrong is None, wrong
            copy.believes(memory, sent & set(FIELDS))
            assert not copy.document.changes(), copy.document.changes()
        assert state_of(copy.document) == memory

    @staticmethod
    def is_of_null(error: OperationFailure) -> bool:
        """Return whether the server refused to append to null."""
        return "must be an array but is of type null" in str(error)

    @staticmethod
    def is_doubled(row: dict[str, Any], name: str) -> bool:
        """Return whether an element is stored twice."""
        names = [row[0] for row in rows_of(row.get(name)) or []]
        return len(names) != len(set(names))

    def save_by(self, copy: Copy, way: str) -> None:
        """Save a copy in one of the ways."""
        if way == "save":
            self.face.save(copy.document)
        elif way == "session":
            self.in_session(copy)
        else:
            self.face.call(self.model, "save_all", [copy.document])

    def in_session(self, copy: Copy) -> None:
        """Save in a session of the driver, which the fast path does not use."""
        at = self.far if copy.is_far else self.db
        client = at.aclient if self.face.is_async else at.client
        session = client.start_session()
        if self.face.is_async:

            async def steps() -> None:
                async with session as started:
                    await copy.document.asave(session=started)

            self.face.wait(steps())
        else:

            def block() -> None:
                with session as started:
                    copy.document.save(session=started)

            self.face.run(block)

    @rule(index=COPIES, way=st.sampled_from(["save", "save", "save_all", "session"]))
    def save(self, index: int, way: str) -> None:
        copy = self.pick(index)
        self.settle(copy, copy.changed, self.row, lambda: self.save_by(copy, way), way == "session")

    @rule(index=COPIES, keeps=st.booleans())
    def reload(self, index: int, keeps: bool) -> None:
        self.reload_copy(self.pick(index), keeps)

    def reload_copy(self, copy: Copy, keeps: bool) -> None:
        """Load a copy again, and compare its values with the stored ones and those that it keeps."""
        memory, changed, base, was_uncertain = (
            state_of(copy.document),
            # A field set to None is pending, even if None was read.
            copy.changed | (set(copy.document.changes()) & set(FIELDS)),
            copy.loaded,
            copy.is_uncertain,
        )
        try:
            self.face.call(copy.document, "reload", keep_changes=keeps)
        except StaleDocument:
            assert keeps
            assert was_uncertain
            assert state_of(copy.document) == memory
            return
        copy.took(self.row)
        after = state_of(copy.document)
        if not keeps:
            assert after == copy.loaded
            return
        copy.is_uncertain = was_uncertain and bool(copy.document.changes())
        for name in FIELDS:
            copy.assigned.add(name)
            mine, stored = memory[name], copy.loaded[name]
            wanted = mine if name in changed else stored
            if name in changed and name == "keys":
                wanted = kept_set(base[name], mine, stored)
            elif name in changed - {"n"}:
                is_added = (base[name] is None and mine == []) or is_append(base[name], mine)
                if was_uncertain:
                    # Appended elements may be stored. If an update could not tell, the former state remains the base.
                    assert not is_added or set(stored or []) <= set(after[name]), (name, after[name], stored)
                    continue
                if is_added and stored is not None:
                    wanted = stored + mine[len(base[name] or []) :]
            assert after[name] == wanted, (name, base[name], mine, stored)

    @rule(
        index=COPIES,
        writers=st.integers(2, 5),
        kind=st.sampled_from(LISTS),
        way=st.sampled_from(["save", "save_all"]),
    )
    @alone
    def save_in_parallel(self, index: int, writers: int, kind: str, way: str) -> None:
        copy = self.pick(index)
        before = self.row
        self.stores(copy)
        errors: list[BaseException] = []

        def refused(error: BaseException) -> None:
            if not isinstance(error, (ParallelSaveError, StaleDocument, OperationFailure)):
                errors.append(error)

        async def task() -> None:
            self.append_to(copy, kind)
            try:
                await (copy.document.asave() if way == "save" else self.model.asave_all([copy.document]))
            except Exception as error:
                refused(error)

        async def tasks() -> None:
            await asyncio.gather(*(task() for _ in range(writers)))

        def thread() -> None:
            self.append_to(copy, kind)
            try:
                if way == "save":
                    copy.document.save()
                else:
                    self.model.save_all([copy.document])
            except Exception as error:
                refused(error)

        if self.face.is_async:
            self.face.wait(tasks())
        else:
            threads = [threading.Thread(target=thread) for _ in range(writers)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        assert not errors, errors
        # A refused change is pending: one more save stores what a single save would have stored.
        changed, memory = copy.changed, state_of(copy.document)
        try:
            self.face.save(copy.document)
        except (StaleDocument, OperationFailure):
            assert not self.must_be_stored(copy, before, changed)
            # Nothing of it was stored, or only the saves before the conflict.
            assert all(not self.is_doubled(self.row, name) for name in LISTS)
            self.face.call(copy.document, "reload")
            copy.took(self.row)
            return
        wrong = self.may_be_stored(copy, before, self.row, changed)
        assert wrong is None, wrong
        copy.believes(memory, changed)
        copy.rev = copy.document.rev if copy.rev is not None else None
        assert not copy.document.changes()

    # Saves that fail.

    def fail(self, **how: Any) -> None:
        """Make the server's next updates fail."""
        times = how.pop("times", 1)
        point = {"configureFailPoint": "failCommand", "mode": {"times": times}}
        self.admin.command(point, data={"failCommands": ["update"], **how})

    @rule(index=COPIES, way=st.sampled_from(["save", "save_all"]))
    @alone
    def save_refused(self, index: int, way: str) -> None:
        copy = self.pick(index)
        before, changed = self.row, copy.changed
        if not changed:
            return
        self.stores(copy)
        self.fail(errorCode=59)
        try:
            with pytest.raises(OperationFailure):
                self.save_by(copy, way)
        finally:
            self.admin.command("configureFailPoint", "failCommand", mode="off")
        assert self.row == before
        assert copy.changed == changed

    @rule(index=COPIES, way=st.sampled_from(["save", "save_all"]))
    @alone
    def save_with_a_retry(self, index: int, way: str) -> None:
        copy = self.pick(index)
        if copy.changed and not copy.is_far:
            self.fail(errorCode=262, errorLabels=["RetryableWriteError"])
            try:
                self.settle(copy, copy.changed, self.row, lambda: self.save_by(copy, way))
            finally:
                self.admin.command("configureFailPoint", "failCommand", mode="off")

    @rule(index=COPIES, way=st.sampled_from(["save", "save_all"]))
    @alone
    def save_without_its_write_concern(self, index: int, way: str) -> None:
        copy = self.pick(index)
        before, changed = self.row, copy.changed
        if not changed or not self.must_be_stored(copy, before, changed):
            return
        self.stores(copy)
        self.fail(writeConcernError={"code": 64, "codeName": "WriteConcernFailed", "errmsg": "timed out"})
        try:
            with pytest.raises(WriteConcernError if way == "save" else BulkWriteError):
                self.save_by(copy, way)
        finally:
            self.admin.command("configureFailPoint", "failCommand", mode="off")
        after = self.row
        # The save may have met another order of keys first, and retries that only after a reply.
        wrong = None if after == before else self.may_be_stored(copy, before, after, changed)
        assert wrong is None, wrong
        assert copy.changed == changed
        assert set(copy.document.changes()) >= changed
        copy.is_uncertain = True

    @rule(
        index=COPIES,
        is_stored=st.booleans(),
        is_cancelled=st.booleans(),
        way=st.sampled_from(["save", "save_all"]),
        chance=st.integers(0, 7),
    )
    @alone
    def save_and_lose(self, index: int, is_stored: bool, is_cancelled: bool, way: str, chance: int) -> None:
        copy = self.pick(index)
        # Reconnecting takes half a second.
        if chance:
            return
        before, changed = self.row, copy.changed
        if not copy.is_far or not changed or not self.must_be_stored(copy, before, changed):
            return
        is_shown = any(self.stored(before, name) == copy.loaded[name] for name in changed)
        if is_stored and not is_shown:
            # If the values are stored already, the test could not see the save arrive.
            return
        self.stores(copy)
        # This opens the connection, so that the update is sent next.
        self.face.call(self.model.find().using(self.far), "count")
        try:
            self.lose(copy, before, is_stored, is_cancelled, way)
        finally:
            self.line.cut()
            self.line.delay_down_ms = 0.0
            self.line.resume()
        if is_stored:
            wrong = self.may_be_stored(copy, before, self.row, changed)
            assert wrong is None, wrong
        else:
            assert self.row == before
        assert copy.changed == changed
        assert set(copy.document.changes()) >= changed
        copy.is_uncertain = True

    @rule(index=COPIES, ways=st.tuples(SAVES, SAVES), after_ms=st.floats(0.5, 3.0))
    @alone
    def save_and_break_off(self, index: int, ways: tuple[str, str], after_ms: float) -> None:
        copy = self.pick(index)
        before, changed = self.row, copy.changed
        if copy.is_far or not changed or not self.must_be_stored(copy, before, changed):
            # The far connection has no retryable writes.
            return
        self.stores(copy)
        memory, sent = state_of(copy.document), changed | set(copy.document.changes())
        is_known = break_off(self.face, self.admin, copy.document, ways, after_ms / 1000)
        after = self.row
        # If another copy changed a list, the second save is refused, and neither may be stored.
        wrong = None if after == before and not is_known else self.may_be_stored(copy, before, after, changed)
        assert wrong is None, wrong
        if is_known:
            copy.believes(memory, sent & set(FIELDS))
            assert not copy.document.changes(), copy.document.changes()
        else:
            assert set(copy.document.changes()) >= changed
            copy.is_uncertain = True

    def lose(self, copy: Copy, before: dict[str, Any], is_stored: bool, is_cancelled: bool, way: str) -> None:
        """Save a copy, and break the connection before or after the server has the update."""
        document, kind = copy.document, self.model
        if is_stored:
            self.line.delay_down_ms = 600_000.0
        else:
            self.line.pause()
        if way == "save":
            running = self.face.start(document.asave if self.face.is_async else document.save)
        else:
            running = self.face.start(
                lambda: (kind.asave_all if self.face.is_async else kind.save_all)([document])
            )
        eventually(lambda: running.done() or _core.odm_flags(document) & SAVING, "a save under way")
        assert not running.done(), running.exception()
        if is_stored:
            eventually(lambda: self.row != before, "a stored change")
        if is_cancelled and self.face.is_async:
            running.cancel()
        else:
            self.line.cut()
        with pytest.raises((AutoReconnect, CancelledError)):
            running.result(60)
        eventually(lambda: not _core.odm_flags(document) & SAVING, "the end of the save")

    # Changes by other programs.

    @rule(kind=st.sampled_from(["tags", "keys", "spare"]))
    @alone
    def push_behind(self, kind: str) -> None:
        if kind not in self.row or self.row[kind] is not None:
            self.change_behind({"$push": {kind: self.name()}})

    @rule(at=st.integers(0, 9), how=st.sampled_from(["n", "note", "turn", "wide"]))
    @alone
    def change_part_behind(self, at: int, how: str) -> None:
        parts = self.row.get("parts") or []
        if not parts:
            return
        at %= len(parts)
        part = parts[at]
        if how == "n":
            part["n"] = 50 + at
        elif how == "note":
            part["note"] = self.name()
        elif how == "wide":
            part["n"] = Int64(part.get("n", 0))
        else:
            part = dict(reversed(part.items()))
        # The same value in another form changes neither the document nor its version.
        self.change_behind({"$set": {f"parts.{at}": part}}, how in ("n", "note"))

    @rule(kind=st.sampled_from(LISTS), at=st.integers(0, 9))
    @alone
    def pull_behind(self, kind: str, at: int) -> None:
        found = self.row.get(kind)
        if found:
            self.change_behind({"$pull": {kind: found[at % len(found)]}})

    @rule(kind=st.sampled_from(LISTS), how=st.sampled_from(["clear", "unset", "null"]))
    @alone
    def empty_behind(self, kind: str, how: str) -> None:
        if how == "null" and kind != "spare":
            how = "clear"
        change = {"$unset": {kind: ""}} if how == "unset" else {"$set": {kind: None if how == "null" else []}}
        self.change_behind(change)

    def change_behind(self, change: dict[str, Any], counts: bool = True) -> None:
        """Change the document through the driver, as a program that knows of versions does."""
        self.stores(None)
        if self.model is Counted and counts:
            change["$inc"] = {"rev": 1}
        self.raw.update_one({"_id": self.id}, change)

    @rule(index=COPIES)
    def update(self, index: int) -> None:
        copy = self.pick(index)
        # A field set to None is sent, even if None was read.
        unsaved = copy.changed | set(copy.document.changes())
        if not unsaved & {"n", "tags"}:
            self.update_copy(copy, unsaved)

    def update_copy(self, copy: Copy, unsaved: set[str]) -> None:
        """Send changes for a copy, unless it is stale and has other unsaved changes."""
        before, changed, memory = self.row, copy.changed, state_of(copy.document)
        if copy.rev is not None and unsaved and before["rev"] != copy.rev:
            return
        name = self.name()
        self.face.call(copy.document, "update", inc(self.model.n), push(self.model.tags, name))
        row = self.row
        assert rows_of(row["tags"]) == [*(rows_of(before.get("tags")) or []), (name, None)]
        assert row["n"] == before.get("n", 0) + 1
        base = copy.loaded
        was_uncertain, assigned = copy.is_uncertain, copy.assigned
        copy.took(row)
        copy.is_uncertain = was_uncertain and bool(copy.document.changes())
        after = state_of(copy.document)
        for field_name in changed:
            if (
                not was_uncertain
                and field_name != "keys"
                and is_append(base[field_name], memory[field_name])
                and copy.loaded[field_name] is not None
            ):
                assert (
                    after[field_name]
                    == copy.loaded[field_name] + memory[field_name][len(base[field_name] or []) :]
                )
        copy.assigned = assigned | changed

    @rule(mine=st.sampled_from(LISTS), its=st.sampled_from(LISTS))
    @alone
    def append_here_and_in_another_process(self, mine: str, its: str) -> None:
        before = self.row
        self.stores(None)
        own, theirs = self.name(), self.name()
        document = self.face.call(self.model.find(self.model.id == self.id), "one")
        append(document, mine, own)
        self.other.ask(self.model, self.id, its, theirs)
        error: str | None = None
        try:
            self.face.save(document)
        except StaleDocument as found:
            error = type(found).__name__
        answer = self.other.answer()
        # Only a version, or a list that is null or missing, is a reason to refuse one of them.
        assert {error, answer} <= {None, "StaleDocument"}
        is_free = self.model is Plain and (mine, its) != ("spare", "spare")
        assert not (is_free and (error or answer))
        assert error is None or answer is None
        row = self.row
        for name in LISTS:
            made = ((own, mine, error), (theirs, its, answer))
            added = [new for new, kind, fault in made if kind == name and not fault]
            was, is_now = rows_of(before.get(name)) or [], rows_of(row.get(name)) or []
            assert is_now[: len(was)] == was or name == "keys"
            assert sorted(found for found, _ in is_now) == sorted([*(found for found, _ in was), *added])

    # Invariants.

    @invariant()
    def nothing_is_stored_twice(self) -> None:
        type(self).taken += 1
        row = self.row
        for name in LISTS:
            assert not self.is_doubled(row, name), (name, row)

    @invariant()
    def what_is_stored_loads(self) -> None:
        self.face.call(self.model.find(self.model.id == self.id).eager(), "one")
