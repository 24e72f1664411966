"""Two transactions, saves and reloads in random order, all on one instance.

No confirmed change is lost or doubled, and a last save makes the database equal to memory.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel._core import run_now
from mangonel.errors import OperationFailure
from mangonel.odm import (
    Connection,
    Document,
    ParallelSaveError,
    StaleDocument,
    Version,
    field,
    identity_map,
)

STEPS = ("begin", "append", "set", "save", "unit", "commit", "abort", "reload", "refresh")


class Plain(Document):
    __collection__ = "together"
    tags: list[str] = field(default_factory=list)
    n: int = 0


class Counted(Document):
    __collection__ = "together"
    tags: list[str] = field(default_factory=list)
    n: int = 0
    rev: Annotated[int, Version] = 0


class Writer:
    """A task of its own, whose context holds its transaction."""

    def __init__(self, face: Any, db: Connection, document: Any, confirmed: list[str]) -> None:
        self.is_async = face.is_async
        self.db, self.document, self.confirmed = db, document, confirmed
        self.context = contextvars.copy_context()
        self.transaction: Any = None
        # Saved in the open transaction.
        self.saved: list[str] = []
        self.has_saved = False

    async def step(self, name: str, tag: str) -> None:
        step = getattr(self, name)(tag)
        if self.is_async:
            await asyncio.create_task(step, context=self.context)
        else:
            self.context.run(run_now, step)

    async def begin(self, tag: str) -> None:
        if self.transaction is None:
            self.transaction = self.db.transaction()
            if self.is_async:
                await self.transaction.__aenter__()
            else:
                self.transaction.__enter__()

    async def append(self, tag: str) -> None:
        self.document.tags.append(tag)

    async def set(self, tag: str) -> None:
        self.document.n += 1

    async def save(self, tag: str) -> None:
        sent = list(self.document.tags)
        try:
            if self.is_async:
                await self.document.asave()
            else:
                self.document.save()
        except ParallelSaveError:
            # Nothing was sent, so a transaction continues.
            return
        except (OperationFailure, StaleDocument) as error:
            await self.end(error)
            return
        self.note(sent)

    async def reload(self, tag: str, keep_changes: bool = False) -> None:
        # The snapshot of a transaction that has not saved the document may be older than stored changes of others.
        if self.transaction is not None and not self.has_saved:
            return
        try:
            if self.is_async:
                await self.document.areload(keep_changes=keep_changes)
            else:
                self.document.reload(keep_changes=keep_changes)
        except ParallelSaveError:
            return
        except OperationFailure as error:
            await self.end(error)

    async def refresh(self, tag: str) -> None:
        await self.reload(tag, True)

    async def unit(self, tag: str) -> None:
        sent = list(self.document.tags)
        try:
            if self.is_async:
                async with self.db.unit() as unit:
                    unit.save(self.document)
            else:
                with self.db.unit() as unit:
                    unit.save(self.document)
        except (ParallelSaveError, OperationFailure, StaleDocument) as error:
            # In an inner transaction it makes the outer one fail.
            await self.end(error)
            return
        self.note(sent)

    def note(self, sent: list[str]) -> None:
        self.has_saved = True
        (self.confirmed if self.transaction is None else self.saved).extend(sent)

    async def commit(self, tag: str) -> None:
        await self.end(None)

    async def abort(self, tag: str) -> None:
        await self.end(LookupError("aborted"))

    async def end(self, error: BaseException | None) -> None:
        transaction, self.transaction = self.transaction, None
        saved, self.saved = self.saved, []
        self.has_saved = False
        if transaction is None:
            return
        raised = error and type(error), error, None
        if self.is_async:
            await transaction.__aexit__(*raised)
        else:
            transaction.__exit__(*raised)
        if error is None:
            self.confirmed += saved


@pytest.mark.parametrize("model", [Plain, Counted])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STEPS)), min_size=4, max_size=24))
def test_every_order_leaves_one_truth(
    db: Connection, face: Any, model: Any, steps: list[tuple[int, str]]
) -> None:
    document = model()
    face.save(document)
    confirmed: list[str] = []
    writers = [Writer(face, db, document, confirmed) for _ in range(3)]

    async def play() -> None:
        for number, (writer, name) in enumerate(steps):
            # The third one has no transaction.
            if writer < 2 or name not in ("begin", "commit", "abort"):
                await writers[writer].step(name, str(number))
        for one in writers:
            await one.step("abort", "")

    played(face, play())
    face.save(document)
    found = db.client[db.name]["together"].find_one({"_id": document.id})
    assert (found["tags"], found["n"]) == (document.tags, document.n)
    assert len(set(document.tags)) == len(document.tags)
    assert set(confirmed) <= set(document.tags)
    assert document.changes() == {}


def played(face: Any, flow: Any) -> None:
    face.wait(flow) if face.is_async else run_now(flow)


@pytest.mark.parametrize("keep_changes", [False, True])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_reload_waits_for_the_transaction_that_saved_the_document(
    db: Connection, face: Any, outcome: str, keep_changes: bool
) -> None:
    document = Plain()
    face.save(document)
    owner, other = (Writer(face, db, document, []) for _ in range(2))

    async def reload() -> None:
        if face.is_async:
            await document.areload(keep_changes=keep_changes)
        else:
            document.reload(keep_changes=keep_changes)

    async def play() -> None:
        for name in ("begin", "set", "save"):
            await owner.step(name, "")
        with pytest.raises(ParallelSaveError, match="to reload a Plain of which no save is under way"):
            await reload()
        # The transaction itself sees its own writes.
        await owner.step("reload", "")
        assert document.n == 1
        await owner.step(outcome, "")
        await other.step("reload", "")

    played(face, play())
    assert document.n == (outcome == "commit")
    assert face.call(Plain, "get", document.id).n == document.n


def test_a_document_that_was_reloaded_is_not_put_back_to_an_older_state(db: Connection, face: Any) -> None:
    document = Plain()
    face.save(document)
    owner = Writer(face, db, document, [])

    async def play() -> None:
        await owner.step("begin", "")
        await owner.step("set", "")
        Plain.collection().update_one({"_id": document.id}, {"$set": {"tags": ["other"]}})
        await Writer(face, db, document, []).step("reload", "")
        await owner.step("abort", "")

    played(face, play())
    assert (document.tags, document.n, document.changes()) == (["other"], 0, {})


def test_a_find_in_an_identity_map_leaves_what_a_transaction_has_saved(db: Connection, face: Any) -> None:
    stored = Plain()
    face.save(stored)
    with identity_map():
        document = face.call(Plain, "get", stored.id)
        owner = Writer(face, db, document, [])

        async def play() -> None:
            for name in ("begin", "set", "save"):
                await owner.step(name, "")
            found = await Plain.aget(stored.id) if face.is_async else Plain.get(stored.id)
            assert found is document
            assert found.n == 1
            await owner.step("commit", "")

        played(face, play())
        assert (document.n, face.call(Plain, "get", stored.id).n) == (1, 1)
