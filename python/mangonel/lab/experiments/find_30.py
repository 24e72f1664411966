"""find(limit=30): a page of posts, as the field's web comparison asks for it, without the web."""

from __future__ import annotations

from mangonel.lab import documents
from mangonel.lab.contender import ASYNCIO, BLOCKING
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows

PAGE = 30
IN_FLIGHT = 50


class Find30Task(Task):
    """So many pages, one at a time or with tasks."""

    def __init__(self, part: Part, bench: Bench, in_flight: int) -> None:
        self._bench = bench
        self._in_flight = in_flight
        self._limits = [PAGE] * part.operations
        self._adapter = bench.connect(in_flight)

    def verify(self) -> str:
        page = list(self._adapter.decoded(self._bench.run(self._adapter.find_list(PAGE))))
        expected = [documents.post(number) for number in range(PAGE)]
        if [dict(document) for document in page] != expected:
            raise AssertionError(f"expected the first {PAGE} posts, got {str(page)[:200]}")
        return digest(page)

    def warm_up(self) -> None:
        self._bench.drive(
            self._adapter.find_list, self._limits[: max(50, 3 * self._in_flight)], self._in_flight
        )

    def act(self) -> int:
        self._bench.drive(self._adapter.find_list, self._limits, self._in_flight)
        return len(self._limits)


class Find30(Experiment):
    """Pages of 30 documents to a list."""

    id = "find-30"
    title = "find(limit=30)"
    passes = 2
    brief_s = 5.0
    dataset = "posts"

    def parts(self, size: Size) -> list[Part]:
        """One at a time on both faces, 50 tasks on event loops."""
        table = [
            ("blocking", "one at a time, blocking", BLOCKING, (600, 3000, 250), (3, 5)),
            ("asyncio", "one at a time, event loop", ASYNCIO, (400, 2000, 150), (2, 4)),
            ("tasks-50", "50 tasks", ASYNCIO, (1500, 8000, 400), (3, 5)),
        ]
        return rows(size, table)

    def task(self, part: Part, bench: Bench) -> Task:
        return Find30Task(part, bench, IN_FLIGHT if part.id == "tasks-50" else 1)


EXPERIMENT = Find30()
