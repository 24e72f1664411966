"""find_one by `_id`: one document of 13 fields out of 10 000, keys in random order, by one, by tasks and by threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import ASYNCIO, BLOCKING, THREADS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size
from mangonel.lab.experiments._parts import CallsTask, Table, Tabled


class FindOneTask(CallsTask):
    """So many find_one."""

    documents = 10_000

    def __init__(self, part: Part, bench: Bench, in_flight: int = 0) -> None:
        super().__init__(part, bench, in_flight)
        self.keys = [bench.random.randrange(self.documents) for _ in range(part.operations)]

    def arguments(self, count: int) -> Sequence[int]:
        return self.keys[:count]

    def verify(self) -> str:
        """Compare a few documents with what was stored."""
        answers = []
        for key in (0, 1, 77, self.documents // 2 - 1, self.documents - 1):
            document = self.adapter.decoded(self.bench.run(self.adapter.find_one(key)))
            found: Any = document[0] if isinstance(document, list) else document
            if dict(found) != {"_id": key, **documents.small(key)}:
                raise AssertionError(f"expected the document {key}, got {str(found)[:200]}")
            answers.append(found)
        return digest(answers)


def _tasks(size: Size) -> Table:
    """More than 100 wait for a connection by default."""
    least, each = size.choose(1000, 5000, 300), 2 if size.brief else 3
    for n in (1, 10, 100, 1000):
        yield f"tasks-{n}", f"{n} task{'s' * (n > 1)}", ASYNCIO, max(least, each * n), (2, 4)


def _threads(size: Size) -> Table:
    for n in (1, 32) if size.quick else (1, 2, 4, 8, 16, 32):
        yield f"threads-{n}", f"{n} thread{'s' * (n > 1)}", THREADS, (1000, 5000, 400), (2, 4)


EXPERIMENTS = (
    # Spec task FindOneByID.
    Tabled(
        "find-one",
        "find_one by _id",
        FindOneTask,
        [
            ("blocking", "one at a time, blocking", BLOCKING, (1000, 5000, 400), (4, 6)),
            ("asyncio", "one at a time, event loop", ASYNCIO, (500, 3000, 250), (2, 4)),
            ("tasks-100", "100 tasks", ASYNCIO, (2000, 10_000, 500), (3, 5)),
        ],
        dataset="small",
        brief_s=6.0,
    ),
    Tabled("tasks", "find_one with tasks", FindOneTask, _tasks, dataset="small", passes=2, brief_s=6.0),
    Tabled("threads", "find_one with threads", FindOneTask, _threads, dataset="small", brief_s=3.0),
)
