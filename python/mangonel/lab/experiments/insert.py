"""insert_one of a document of two strings, w:1: what the field's sync against async comparison measured, as a
steady state, and as whole processes as it was printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangonel.lab.contender import ASYNCIO, BLOCKING, PROGRAM
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Size
from mangonel.lab.experiments._parts import CallsTask, Table, Tabled
from mangonel.lab.experiments._process import OriginalTask, ProgramTask

STEPS = 10_000
ORIGINALS = (
    ("original-a", "A, one insert and three prints"),
    ("original-b", "B, 1000 inserts in a loop"),
    ("original-c", "C, 100 inserts, each with callbacks that print 10 100 lines"),
    ("original-c-silent", "C without its prints"),
)


class InsertTask(CallsTask):
    """So many insert_one; what is stored is counted afterwards."""

    verb, leaves = "insert_one", 1

    def arguments(self, count: int) -> Sequence[Any]:
        # Each is its own, since drivers add `_id` to it.
        return [{"1": "one", "2": "two"} for _ in range(count)]

    def verify(self) -> str:
        """Insert one document; that it arrived is checked with the count at the end."""
        self.drive(self.arguments(1))
        return digest("inserted")


class MixedTask(InsertTask):
    """The same with 10 000 steps of plain Python after each."""

    def act(self) -> int:
        insert_one = self.adapter.insert_one

        def insert(document: Any) -> None:
            insert_one(document)
            _steps()

        async def insert_async(document: Any) -> None:
            await insert_one(document)
            _steps()

        self.drive(self._ready, insert_async if self.bench.is_async else insert)
        return len(self._ready)


def _steps() -> None:
    total = 0
    while total < STEPS:
        total += 1


def _table(size: Size) -> Table:
    """One at a time, 100 in flight; processes with 1, 1000 and 100 inserts mixed with plain Python."""
    steps = "100 inserts, each with 10 000 steps of Python"
    yield "blocking", "one at a time, blocking", BLOCKING, (700, 3000, 300), (3, 5)
    yield "asyncio", "one at a time, event loop", ASYNCIO, (500, 3000, 200), (2, 4)
    yield "tasks-100", "100 in flight", ASYNCIO, (2000, 10_000, 500), (3, 5)
    yield "mixed", f"{steps}, blocking", BLOCKING, 100, (2, 4)
    yield "mixed-asyncio", f"{steps}, event loop", ASYNCIO, 100, (2, 4)
    process = {"unit": "process", "meter": "children", "refuses": frozenset({"floor"}), "server": False}
    # The short form has the one-insert process in the experiment `process` only, the brief one no mixed one.
    if not size.quick:
        yield "insert-1", "whole process, 1 insert", PROGRAM, 1, (1, 3), process
    yield "insert-1000", "whole process, 1000 inserts", PROGRAM, 1, (1, 3), process
    if not size.brief:
        yield "insert-mixed", f"whole process, {steps}", PROGRAM, 1, (1, 3), process
    for name, title in () if size.quick else ORIGINALS:
        yield name, f"as printed, a whole process on a terminal: {title}", PROGRAM, 1, 1, process


EXPERIMENT = Tabled(
    "insert",
    "insert_one",
    {"original": OriginalTask, "insert-": ProgramTask, "mixed": MixedTask, "": InsertTask},
    _table,
    {"write_concern": "w:1"},
    passes=2,
    brief_s=9.0,
)
