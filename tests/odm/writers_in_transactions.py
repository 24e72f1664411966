"""The machine of `writers_model.py` with transactions and units: three writers, two of which open transactions, at the
same copies.

Only the transaction itself sees its writes until it is committed. An abort for any reason restores each copy that the
transaction touched, and no other. The steps of the plain machine run meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from mangonel.errors import OperationFailure
from mangonel.odm import ParallelSaveError, StaleDocument
from mangonel.odm.connections import transactions
from odm.conftest import Face
from odm.other_writer import Part
from odm.writers_copies import FIELDS, LISTS, Copy, names_in, state_of
from odm.writers_model import COPIES, Machine, alone

TRANSIENT = "TransientTransactionError"


class Within(Face):
    """A face whose calls run in the context of the current writer."""

    def __init__(self, face: Face, machine: TransactionMachine) -> None:
        super().__init__(face.name)
        self._face, self._machine = face, machine

    def start(self, call: Callable[[], Any]) -> Any:
        return self._face.start(call)

    def run(self, call: Callable[[], Any]) -> Any:
        context = self._machine.at.context
        if not self.is_async:
            return context.run(call)

        async def steps() -> Any:
            value = call()
            return await value if inspect.isawaitable(value) else value

        async def inside() -> Any:
            return await asyncio.get_running_loop().create_task(steps(), context=context)

        return self._face.run(inside)


class Writer:
    """A context of its own, and its open transaction."""

    def __init__(self) -> None:
        self.context = contextvars.Context()
        self.close()

    def close(self) -> None:
        """Forget the transaction."""
        self.transaction: Any = None
        # Whether it has sent a write, for which others would wait.
        self.has_written = False
        # Its snapshot, and the number of writes committed before it.
        self.began: Any = None
        self.seen = 0
        # The copies that it touched, each with its former state; and those that it saved.
        self.former: dict[int, tuple[Copy, Any]] = {}
        self.saved: set[int] = set()


class Broken(Exception):
    """A write was refused in a way that ends its transaction."""


class TransactionMachine(Machine):
    """Three writers: the first one has no transaction."""

    def __init__(self) -> None:
        self.writers = [Writer(), Writer(), Writer()]
        self.at = self.writers[0]
        self.sees_committed = self.is_in_unit = self.is_by_itself = False
        self.commits = 0
        self.face = Within(type(self).face, self)
        super().__init__()

    def teardown(self) -> None:
        for writer in self.writers:
            if writer.transaction is not None:
                self.at = writer
                self.leave(writer.transaction, LookupError("the end"))

    # Hooks of the plain machine.

    @property
    def row(self) -> Any:
        """Return what the writer sees: the committed state and its transaction's own writes."""
        if self.at.transaction is None or self.sees_committed:
            return self.raw.find_one({"_id": self.id})
        client = self.db.aclient if self.face.is_async else self.db.client
        coll, session = client[self.db.name]["writers"], self.at.transaction.session
        return self.face.run(lambda: coll.find_one({"_id": self.id}, session=session))

    @contextmanager
    def outside(self) -> Iterator[None]:
        """See only committed data."""
        former, self.sees_committed = self.sees_committed, True
        try:
            yield
        finally:
            self.sees_committed = former

    @property
    def committed(self) -> Any:
        """Return the committed state."""
        with self.outside():
            return self.row

    @property
    def is_held(self) -> bool:
        """Return whether a write outside transactions would wait for one, or a save would be refused because of one."""
        return any(writer.has_written or writer.saved for writer in self.writers)

    @property
    def is_alone(self) -> bool:
        return not self.is_held

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        self.at, self.is_by_itself = self.writers[0], True
        try:
            yield
        finally:
            self.is_by_itself = False

    def pick(self, index: int) -> Copy:
        if not self.is_by_itself:
            self.at = self.writers[index // 4]
        return super().pick(index % 4)

    def owner(self, copy: Copy) -> Writer | None:
        """Return the writer whose open transaction has saved a copy."""
        return next((one for one in self.writers if id(copy) in one.saved), None)

    def touch(self, copy: Copy) -> None:
        """Note the state of a copy before a transaction changes it, unless it belongs to another transaction."""
        at = self.at
        if at.transaction is not None and id(copy) not in at.former and self.owner(copy) in (None, at):
            at.former[id(copy)] = copy, (kept(copy), *told(copy))

    def stores(self, copy: Copy | None, is_inside: bool = False, sends: bool = True) -> None:
        """Note that a copy is stored: other transactions must not restore its former state."""
        for writer in self.writers:
            if writer is not self.at or not is_inside:
                writer.former.pop(id(copy), None)
        if copy is not None and is_inside:
            self.touch(copy)
            self.at.saved.add(id(copy))
            self.at.has_written |= sends
        else:
            self.commits += 1

    def is_free(self, writer: Writer) -> bool:
        """Whether no other writer has written since a transaction began."""
        others = [other for other in self.writers if other is not writer]
        return writer.seen == self.commits and not any(other.has_written for other in others)

    def change(self, copy: Copy, work: Callable[[], Any]) -> None:
        if self.is_by_itself:
            # Perhaps in one of several tasks or threads.
            work()
            return
        self.touch(copy)
        self.at.context.run(work)

    def load(self, is_far: bool) -> None:
        with self.outside() if is_far else nullcontext():
            super().load(is_far)

    def settle(
        self,
        copy: Copy,
        changed: set[str],
        before: Any,
        save: Callable[[], Any],
        is_apart: bool = False,
    ) -> None:
        at, owner = self.at, self.owner(copy)
        is_inside = at.transaction is not None and not (copy.is_far or is_apart)
        if owner is not None and not (owner is at and is_inside):
            self.refuse(copy, save)
            return
        if not is_inside:
            if not self.is_held:
                self.stores(copy)
                with self.outside():
                    super().settle(copy, changed, self.row, save)
            return
        is_free = self.is_free(at)
        self.stores(copy, True, bool(changed | set(copy.document.changes())) or self.is_in_unit)
        before = self.row

        def attempt() -> None:
            try:
                save()
            except (OperationFailure, StaleDocument) as error:
                if isinstance(error, StaleDocument) and not self.is_in_unit:
                    raise
                raise Broken from error

        try:
            super().settle(copy, changed, before, attempt)
        except Broken as broken:
            error: Any = broken.__cause__
            if isinstance(error, OperationFailure) and error.has_error_label(TRANSIENT):
                assert not is_free, f"a conflict with no other writer: {error}"
            else:
                assert self.is_known(error), error
                assert not self.must_be_stored(copy, before, changed), error
            self.end(at, error)

    def is_known(self, error: Any) -> bool:
        """Return whether another writer's changes may cause this refusal."""
        return isinstance(error, StaleDocument) or self.is_of_null(error)

    def refuse(self, copy: Copy, save: Callable[[], Any]) -> None:
        """Save a transaction's copy outside it: the save is refused, and nothing changes."""
        before = told(copy)
        with pytest.raises(ParallelSaveError) as raised:
            save()
        assert told(copy) == before
        if self.is_in_unit and self.at.transaction is not None:
            # The unit is part of the transaction, which can no longer be committed.
            self.end(self.at, raised.value)

    def reload_copy(self, copy: Copy, keeps: bool) -> None:
        if self.owner(copy) not in (None, self.at):
            self.refuse(copy, lambda: self.face.call(copy.document, "reload", keep_changes=keeps))
            return
        self.touch(copy)
        for writer in self.writers if not keeps else ():
            if writer is not self.at or writer.transaction is None:
                # The copy has the stored state, so their recorded former states are void.
                writer.former.pop(id(copy), None)
        with self.outside() if copy.is_far else nullcontext():
            super().reload_copy(copy, keeps)

    def update_copy(self, copy: Copy, unsaved: set[str]) -> None:
        at, owner = self.at, self.owner(copy)
        is_inside = at.transaction is not None and not copy.is_far
        if owner is not None and not (owner is at and is_inside):
            self.refuse(copy, lambda: self.face.call(copy.document, "update", {"$inc": {"n": 1}}))
            return
        row = self.row if is_inside else self.committed
        if copy.rev is not None and unsaved and row["rev"] != copy.rev:
            return
        if not is_inside:
            if not self.is_held:
                self.stores(copy)
                with self.outside():
                    super().update_copy(copy, unsaved)
            return
        is_free = self.is_free(at)
        self.stores(copy, True)
        refused = refusal(super().update_copy, copy, unsaved)
        if refused is not None:
            assert refused.has_error_label(TRANSIENT), refused
            assert not is_free, f"a conflict with no other writer: {refused}"
            self.end(at, refused)

    # Transactions.

    @initialize(first=st.booleans(), second=st.booleans())
    def begin_some(self, first: bool, second: bool) -> None:
        for writer, begins in ((1, first), (2, second)):
            if begins:
                self.begin_at(writer)

    @rule(writer=st.integers(1, 2))
    def begin(self, writer: int) -> None:
        self.begin_at(writer)

    def begin_at(self, writer: int) -> None:
        """Begin a transaction, unless the writer has one."""
        self.at = at = self.writers[writer]
        if at.transaction is None:
            at.transaction = made = self.db.transaction()
            self.face.run(made.__aenter__ if self.face.is_async else made.__enter__)
            at.seen = self.commits
            # Its snapshot dates from its first read.
            at.began = self.row
            assert at.began == self.committed

    @rule(writer=st.integers(1, 2), commits=st.booleans(), begins=st.booleans())
    def end_transaction(self, writer: int, commits: bool, begins: bool) -> None:
        self.at = self.writers[writer]
        if self.at.transaction is not None:
            self.end(self.at, None if commits else LookupError("aborted"))
        if begins:
            self.begin_at(writer)

    @rule(index=COPIES, kind=st.sampled_from(LISTS))
    def append_and_save(self, index: int, kind: str) -> None:
        copy = self.pick(index)
        self.append_to(copy, kind)
        self.settle(copy, copy.changed, self.row, lambda: self.save_by(copy, "save"))

    def leave(self, block: Any, error: BaseException | None) -> None:
        """Leave the block of a transaction."""
        leave = block.__aexit__ if self.face.is_async else block.__exit__
        self.face.run(lambda: leave(error and type(error), error, None))

    def end(self, writer: Writer, error: BaseException | None) -> None:
        """Commit a transaction, or leave its block with an error, and check the result."""
        view = self.row if error is None else writer.began
        # It may have written only other documents, while others stored this one.
        wanted = self.committed if view == writer.began else view
        self.leave(writer.transaction, error)
        former = writer.former
        self.commits += writer.has_written
        writer.close()
        assert self.row == wanted
        for key, (copy, (values, *before)) in former.items() if error is not None else ():
            for other in self.writers:
                # Another transaction's recorded state of the copy is void: the abort has discarded its values.
                other.former.pop(key, None)
            vars(copy).update(values)
            assert told(copy) == tuple(before)

    # Whole transactions in one step.

    def unit_of(self, saved: list[Any], deleted: tuple[Any, ...] = ()) -> None:
        """Save and delete documents as one unit."""
        unit = self.db.unit()

        def block() -> None:
            with unit:
                unit.save(*saved)
                unit.delete(*deleted)

        async def steps() -> None:
            async with unit:
                unit.save(*saved)
                unit.delete(*deleted)

        self.face.run(steps if self.face.is_async else block)

    @contextmanager
    def failing(self, command: str, times: int) -> Iterator[None]:
        """Make the server's next commands fail with a transient error."""
        data = {"failCommands": [command], "errorCode": 112, "errorLabels": [TRANSIENT]}
        if times:
            self.admin.command("configureFailPoint", "failCommand", mode={"times": times}, data=data)
        try:
            yield
        finally:
            if times:
                self.admin.command("configureFailPoint", "failCommand", mode="off")

    def exists(self, document: Any) -> bool:
        """Return whether the writer sees another document as stored."""
        found: bool = self.face.call(self.model.find(self.model.id == document.id), "exists")
        return found

    @rule(index=COPIES, times=st.integers(0, 2))
    def save_in_a_unit(self, index: int, times: int) -> None:
        copy, fresh = self.pick(index), self.model(tags=[self.name()])
        if copy.is_far:
            return
        self.is_in_unit = True
        try:
            with self.failing("update", 0 if self.is_held or self.at.transaction else times):
                self.settle(copy, copy.changed, self.row, lambda: self.unit_of([copy.document, fresh]))
        finally:
            self.is_in_unit = False
        assert self.exists(fresh) is not fresh.is_new

    @rule(one=COPIES, another=COPIES, way=st.sampled_from(["unit", "save_all"]), deletes=st.booleans())
    @alone
    def save_two_copies(self, one: int, another: int, way: str, deletes: bool) -> None:
        both = self.pick(one), self.pick(another)
        if both[0] is both[1] or both[0].is_far or both[1].is_far:
            return
        fresh, gone = self.model(tags=[self.name()]), self.model()
        self.face.save(gone)
        first, second = (copy.document for copy in both)
        before, changed = self.row, [copy.changed for copy in both]
        memory = [told(copy) for copy in both]
        for copy in both:
            self.stores(copy)
        if way == "unit":
            refused = refusal(self.unit_of, [first, fresh, second], (gone,) if deletes else ())
        else:
            refused = refusal(self.face.call, self.model, "save_all", [first, second])
        row = self.row
        assert refused is None or self.is_known(refused), refused
        if way == "unit":
            assert fresh.is_new is (refused is not None)
            assert self.exists(fresh) is (refused is None)
            assert self.exists(gone) is not (deletes and refused is None)
            if refused is not None:
                assert (row, [told(copy) for copy in both]) == (before, memory)
                return
        if refused is None:
            self.check_both(both, changed, before, row)
            assert not first.changes()
            assert not second.changes()
        for copy in both:
            # The error does not name the refused update of a bulk write; changes known as stored are not sent again.
            self.face.call(copy.document, "reload")
            copy.took(self.row)

    def check_both(self, both: tuple[Copy, Copy], changed: list[set[str]], before: Any, row: Any) -> None:
        """Fail unless exactly the elements that two copies appended are stored."""
        for name in LISTS:
            known, found = names_in(before.get(name)), names_in(row.get(name))
            for copy, names in zip(both, changed, strict=True):
                mine, base = (
                    names_in(getattr(copy.document, name)),
                    {key for key, _ in copy.loaded[name] or []},
                )
                if name in names and name not in copy.assigned and not copy.is_uncertain:
                    assert mine - base <= found, (name, mine, base, found)
                known |= mine
            assert found <= known, (name, found, known)

    @rule(
        index=COPIES,
        kind=st.sampled_from(["tags", "parts"]),
        times=st.integers(0, 2),
        command=st.sampled_from(["update", "commitTransaction"]),
    )
    @alone
    def run_again(self, index: int, kind: str, times: int, command: str) -> None:
        copy, name = self.pick(index), self.name()
        if copy.is_far:
            return
        document, before, changed = copy.document, self.row, copy.changed
        memory, changes = told(copy)
        self.stores(copy)

        def function() -> Any:
            getattr(document, kind).append(Part(name=name) if kind == "parts" else name)
            return document.asave() if self.face.is_async else document.save()

        with self.failing(command, times):
            refused = refusal(self.face.call, self.db, "run", function)
        if refused is not None:
            assert self.is_known(refused), refused
            assert (self.row, told(copy)) == (before, (memory, changes))
            return
        after = state_of(document)
        assert [key for key, _ in after[kind]] == [*(key for key, _ in memory[kind]), name]
        wrong = self.may_be_stored(copy, before, self.row, changed | {kind})
        assert wrong is None, wrong
        copy.believes(after, (changed | changes | {kind}) & set(FIELDS))
        assert not document.changes()

    @rule(index=COPIES, way=st.sampled_from(["save", "save_all", "unit"]))
    @alone
    def commit_with_an_unknown_outcome(self, index: int, way: str) -> None:
        copy = self.pick(index)
        before, changed, document = self.row, copy.changed, copy.document
        if copy.is_far or not changed or not self.must_be_stored(copy, before, changed):
            return
        memory, _ = told(copy)
        self.stores(copy)
        failure = {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "timed out"}
        data = {"failCommands": ["commitTransaction"], "writeConcernError": failure}
        self.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
        former, transactions.RETRY_S = transactions.RETRY_S, 0.0
        try:
            with pytest.raises(OperationFailure):
                self.commit(document, way)
        finally:
            transactions.RETRY_S = former
            self.admin.command("configureFailPoint", "failCommand", mode="off")
        wrong = self.may_be_stored(copy, before, self.row, changed)
        assert wrong is None, wrong
        assert state_of(document) == memory
        assert set(document.changes()) >= changed
        copy.is_uncertain = True

    def commit(self, document: Any, way: str) -> None:
        """Save in a transaction of its own."""
        if way == "unit":
            self.unit_of([document])
            return
        owner, method, given = (
            (document, "save", ()) if way == "save" else (self.model, "save_all", ([document],))
        )
        start = getattr(owner, "a" + method if self.face.is_async else method)
        self.face.call(self.db, "run", lambda: start(*given))

    @rule(index=COPIES, how=st.sampled_from(["aborted", "in one", "in two"]))
    @alone
    def delete_and_bring_back(self, index: int, how: str) -> None:
        copy = self.pick(index)
        if copy.is_far:
            return
        document, before = copy.document, self.row
        memory, changes = told(copy)
        self.stores(copy)

        def block() -> None:
            document.delete()
            if how == "aborted":
                raise LookupError
            document.insert()

        async def steps() -> None:
            await document.adelete()
            if how == "aborted":
                raise LookupError
            await document.ainsert()

        def in_two() -> None:
            self.face.call(document, "delete")
            assert (self.row, document.is_deleted, document.is_new) == (None, True, True)
            self.face.call(document, "insert")

        if how == "in two":
            refused = refusal(in_two)
        else:
            refused = refusal(self.face.call, self.db, "run", steps if self.face.is_async else block)
        if refused is not None:
            assert isinstance(refused, LookupError) or before["rev"] != copy.rev
            assert self.row == before
            assert told(copy) == (memory, changes)
        else:
            assert how != "aborted"
            row = self.row
            for name in FIELDS:
                assert (self.stored(row, name) or None) == (memory[name] or None), name
            assert not document.changes()
            copy.took(row)
        assert (document.is_deleted, document.is_new, state_of(document)) == (False, False, memory)


def refusal(act: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; return the error by which it was refused, or None."""
    try:
        act(*arguments)
    except (StaleDocument, OperationFailure, LookupError) as error:
        return error
    return None


def kept(copy: Copy) -> dict[str, Any]:
    """Return a copy of the machine's beliefs about a copy."""
    values = {name: set(value) if isinstance(value, set) else value for name, value in vars(copy).items()}
    return {**values, "loaded": dict(copy.loaded)}


def told(copy: Copy) -> tuple[dict[str, Any], set[str]]:
    """Return a copy's values in memory, and its changed fields."""
    return state_of(copy.document), set(copy.document.changes())
