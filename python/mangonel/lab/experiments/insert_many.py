"""insert_many of 50 000 small documents, w:1, in one call: spec task SmallDocBulkInsert with five times as many."""

from __future__ import annotations

from typing import Any

from mangonel.lab import documents
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size, Task
from mangonel.lab.experiments._parts import Tabled


class InsertManyTask(Task):
    """A sample is one insert_many; what is stored is counted afterwards."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._count = part.operations
        self._adapter = bench.connect()
        self._documents: list[dict[str, Any]] = []
        self._written = 0

    def verify(self) -> str:
        """Insert a first thousand; that they arrived is checked with the count at the end."""
        self._make(1000)
        self.act()
        return digest("inserted")

    def arrange(self) -> None:
        self._make(self._count)

    def act(self) -> int:
        self._bench.run(self._adapter.insert_many(self._documents))
        self._written += len(self._documents)
        return len(self._documents)

    def written(self) -> int | None:
        return self._written

    def _make(self, count: int) -> None:
        """Make documents without `_id`: drivers add it, and that is part of the work."""
        self._documents = [documents.user(number) for number in range(count)]
        # Only floors encode ahead: they stand for what is left when a driver's own work costs nothing.
        if hasattr(self._adapter, "arrange_many"):
            self._adapter.arrange_many(self._documents)


def in_thousands(size: Size, known: dict[str, Any]) -> dict[str, Any]:
    """Return what titles say of the number."""
    return {"thousands": known["count"] // 1000}


EXPERIMENT = Tabled("insert-many", InsertManyTask, in_thousands)
