"""insert_one of a document of two strings, w:1: what the field's sync against async comparison measured, as a
steady state, and as whole processes as it was printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangonel.lab.digest import digest
from mangonel.lab.experiments._parts import CallsTask, Tabled
from mangonel.lab.experiments._process import OriginalTask, ProgramTask

STEPS = 10_000


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


EXPERIMENT = Tabled(
    "insert", {"original": OriginalTask, "insert-": ProgramTask, "mixed": MixedTask, "": InsertTask}
)
