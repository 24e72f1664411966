"""find_one by `_id`: one document of 13 fields out of 10 000, keys in random order."""

from __future__ import annotations

from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import ASYNCIO, BLOCKING
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows

DOCUMENTS = 10_000


class FindOneTask(Task):
    """So many find_one, one at a time or with tasks."""

    documents = DOCUMENTS

    def __init__(self, part: Part, bench: Bench, in_flight: int) -> None:
        self._bench = bench
        self._in_flight = in_flight
        self._keys = [bench.random.randrange(self.documents) for _ in range(part.operations)]
        self._adapter = bench.connect(in_flight)

    def verify(self) -> str:
        """Compare a few documents with what was stored."""
        answers = []
        for key in (0, 1, 77, self.documents // 2 - 1, self.documents - 1):
            document = self._adapter.decoded(self._bench.run(self._adapter.find_one(key)))
            found: Any = document[0] if isinstance(document, list) else document
            if dict(found) != {"_id": key, **documents.small(key)}:
                raise AssertionError(f"expected the document {key}, got {str(found)[:200]}")
            answers.append(found)
        return digest(answers)

    def warm_up(self) -> None:
        self._bench.drive(self._adapter.find_one, self._keys[: max(50, 3 * self._in_flight)], self._in_flight)

    def act(self) -> int:
        self._bench.drive(self._adapter.find_one, self._keys, self._in_flight)
        return len(self._keys)


class FindOne(Experiment):
    """Spec task FindOneByID, one at a time and 100 in flight."""

    id = "find-one"
    title = "find_one by _id"
    dataset = "small"
    brief_s = 6.0

    def parts(self, size: Size) -> list[Part]:
        """One at a time on both faces, 100 tasks on event loops."""
        table = [
            ("blocking", "one at a time, blocking", BLOCKING, (1000, 5000, 400), (4, 6)),
            ("asyncio", "one at a time, event loop", ASYNCIO, (500, 3000, 250), (2, 4)),
            ("tasks-100", "100 tasks", ASYNCIO, (2000, 10_000, 500), (3, 5)),
        ]
        return rows(size, table)

    def task(self, part: Part, bench: Bench) -> Task:
        return FindOneTask(part, bench, 100 if part.id == "tasks-100" else 1)


EXPERIMENT = FindOne()
