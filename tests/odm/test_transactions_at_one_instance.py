"""Random orders of two transactions and of saves without one, all at one instance.

Nothing confirmed is lost, nothing is doubled, and a last save leaves in the database what is in memory.
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
from mangonel.odm import Connection, Document, ParallelSaveError, StaleDocument, Version, field

STEPS = ("begin", "append", "set", "save", "unit", "commit", "abort")


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
    """A task of its own: its context has its transaction."""

    def __init__(self, face: Any, db: Connection, document: Any, confirmed: list[str]) -> None:
        self.is_async = face.is_async
        self.db, self.document, self.confirmed = db, document, confirmed
        self.context = contextvars.copy_context()
        self.transaction: Any = None
        # Saved in the transaction that is open.
        self.saved: list[str] = []

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
            # Nothing was sent, so a transaction goes on.
            return
        except (OperationFailure, StaleDocument) as error:
            await self.end(error)
            return
        self.note(sent)

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
            # As an inner transaction it makes the outer one fail.
            await self.end(error)
            return
        self.note(sent)

    def note(self, sent: list[str]) -> None:
        (self.confirmed if self.transaction is None else self.saved).extend(sent)

    async def commit(self, tag: str) -> None:
        await self.end(None)

    async def abort(self, tag: str) -> None:
        await self.end(LookupError("aborted"))

    async def end(self, error: BaseException | None) -> None:
        transaction, self.transaction = self.transaction, None
        saved, self.saved = self.saved, []
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
            # The third has no transaction.
            if writer < 2 or name not in ("begin", "commit", "abort"):
                await writers[writer].step(name, str(number))
        for one in writers:
            await one.step("abort", "")

    face.wait(play()) if face.is_async else run_now(play())
    face.save(document)
    found = db.client[db.name]["together"].find_one({"_id": document.id})
    assert (found["tags"], found["n"]) == (document.tags, document.n)
    assert len(set(document.tags)) == len(document.tags)
    assert set(confirmed) <= set(document.tags)
    assert document.changes() == {}
