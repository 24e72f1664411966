"""insert_many of 50 000 small documents, w:1, in one call."""

from __future__ import annotations

from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import BLOCKING
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import FACES, rows

COUNTS = (50_000, 50_000, 10_000)


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
        self._insert([documents.user(number) for number in range(1000)])
        return digest("inserted")

    def arrange(self) -> None:
        """Make documents without `_id`: drivers add it, and that is part of the work."""
        self._documents = [documents.user(number) for number in range(self._count)]
        self._encode(self._documents)

    def act(self) -> int:
        self._bench.run(self._adapter.insert_many(self._documents))
        self._written += self._count
        return self._count

    def written(self) -> int | None:
        return self._written

    def _insert(self, batch: list[dict[str, Any]]) -> None:
        self._encode(batch)
        self._bench.run(self._adapter.insert_many(batch))
        self._written += len(batch)

    def _encode(self, batch: list[dict[str, Any]]) -> None:
        # Only floors encode ahead: they stand for what is left when a driver's own work costs nothing.
        if hasattr(self._adapter, "arrange_many"):
            self._adapter.arrange_many(batch)


class InsertMany(Experiment):
    """Spec task SmallDocBulkInsert with five times the documents."""

    id = "insert-many"
    title = "insert_many of 50 000"

    def parts(self, size: Size) -> list[Part]:
        title = f"{size.choose(*COUNTS) // 1000} 000 small documents in one call"
        table = [
            (name, f"{title}, {words}", flag, COUNTS, (2 if flag == BLOCKING else 1, 4))
            for name, words, flag in FACES
        ]
        return rows(size, table, unit="document", write_concern="w:1")

    def task(self, part: Part, bench: Bench) -> Task:
        return InsertManyTask(part, bench)


EXPERIMENT = InsertMany()
