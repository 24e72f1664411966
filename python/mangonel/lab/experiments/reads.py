"""Reads: one document by its `_id`, alone, with tasks and threads, and at a constant rate; a page; a whole collection.

A page of 30 posts is the workload of the published web comparison, here without the web. The rates are the same for all
and far below every contender's limit, so the figures show the path through the driver and not a queue; a contender that
cannot keep up is saturated, and its percentiles show it. The full form adds shares of each contender's own capacity, to
show its behaviour near the limit. Reading a collection is the specification's task FindMany with ten times as many
small documents.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from pathlib import Path
from resource import getpagesize
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Batching
from mangonel.lab.contenders._faces import each, play
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task, expect
from mangonel.lab.experiments._parts import CallsTask, Tabled
from mangonel.lab.latency import Paced


class FindOneTask(CallsTask):
    documents = 10_000

    def __init__(self, part: Part, bench: Bench, in_flight: int = 0) -> None:
        super().__init__(part, bench, in_flight)
        self.keys = [bench.random.randrange(self.documents) for _ in range(part.operations)]

    def arguments(self, count: int) -> Sequence[int]:
        return self.keys[:count]

    def verify(self) -> str:
        answers = []
        for key in (0, 1, 77, self.documents // 2 - 1, self.documents - 1):
            document = self.adapter.decoded(self.bench.run(self.adapter.find_one(key)))
            found: Any = document[0] if isinstance(document, list) else document
            expect("document", dict(found), {"_id": key, **documents.small(key)})
            answers.append(found)
        return digest(answers)


PAGE = 30


class Find30Task(CallsTask):
    verb = "find_list"

    def arguments(self, count: int) -> Sequence[int]:
        return [PAGE] * count

    def verify(self) -> str:
        page = list(self.adapter.decoded(self.bench.run(self.adapter.find_list(PAGE))))
        expect("posts", list(map(dict, page)), [documents.post(number) for number in range(PAGE)])
        return digest(page)


CONNECTIONS = 8
PROBES = 500
OWN_S = 2


class RateTask(FindOneTask):
    """find_one at a constant rate, each at its due time, regardless of earlier ones."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench, CONNECTIONS)
        self.figure = int(part.id.rpartition("-")[2])
        self.rate = float(self.figure)
        self._paced: Paced | None = None

    def act(self) -> int:
        self._paced = self.bench.drive_at_rate(self.adapter.find_one, self.keys, self.rate, CONNECTIONS)
        return len(self.keys)

    def extras(self) -> dict[str, float]:
        return self._paced.extras() if self._paced else {}

    def histograms(self) -> dict[str, str]:
        return self._paced.histograms() if self._paced else {}


class ShareTask(RateTask):
    """The same at a share of the contender's current capacity, which the warm-up measures."""

    def warm_up(self) -> None:
        """Measure the maximum rate, with as many calls in flight as there are connections."""
        super().warm_up()
        probes = (self.keys * (PROBES // len(self.keys) + 1))[:PROBES]
        begun = time.perf_counter()
        self.drive(probes)
        self.rate = self.figure / 100 * PROBES / (time.perf_counter() - begun)
        # Fixed seconds, at any rate.
        wanted = max(PROBES, round(OWN_S * self.rate))
        self.keys = (self.keys * (wanted // len(self.keys) + 1))[:wanted]


EVERY = 250  # one document of this many is compared
BATCHINGS = {
    "batch": Batching(5000),
    "exhaust": Batching(2000, exhaust=True),
    "prefetch": Batching(10_000, prefetch=True),
}


class CollectionTask(Task):
    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._part = part
        self._count = part.operations
        self._adapter = bench.connect()

    def _check(self, count: int, seen: list[Any]) -> None:
        """Raise AssertionError unless all stored documents came; every n-th is compared."""
        expect("documents", count, self._count)
        for number, document in zip(range(0, count, EVERY), seen, strict=False):
            wanted = {"_id": f"{number:024x}", **documents.user(number)}
            expect("user", {**document, "_id": str(document["_id"])}, wanted)


class IterateTask(CollectionTask):
    batching: Batching | None = None

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._batching = self.batching or BATCHINGS.get(part.id, Batching())

    def verify(self) -> str:
        seen, count = play(self._bench, self._read())
        self._check(count, seen)
        return digest(seen)

    def act(self) -> int:
        count: int = self._bench.run(self._adapter.iterate(self._batching))
        self._check(count, [])
        return count

    async def _read(self) -> tuple[list[Any], int]:
        seen, count = [], 0
        async for document in each(self._adapter.documents(self._batching)):
            if count % EVERY == 0:
                seen.append(document)
            count += 1
        return seen, count


class ToListTask(CollectionTask):
    """Read into one list; the process's growth in the first sample is the list's memory."""

    _before: float | None = 0.0
    _kept: Any = ()

    def verify(self) -> str:
        """Read one document, which connects; the list itself is checked after the first sample."""
        self._bench.run(self._adapter.find_list(1))
        return digest("checked after the first sample")

    def arrange(self) -> None:
        self._kept = ()
        gc.collect()
        if self._before is not None:
            self._before = _resident()

    def act(self) -> int:
        self._kept = self._bench.run(self._adapter.to_list())
        return len(self._kept)

    def extras(self) -> dict[str, float]:
        """Return the growth, once: later samples reuse the memory of the first."""
        if self._before is None:
            return {}
        growth, self._before = _resident() - self._before, None
        self._check(len(self._kept), self._kept[::EVERY])
        return {"growth": growth}


def _resident() -> float:
    return float(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


EXPERIMENTS = (
    *(Tabled(name, FindOneTask) for name in ("find-one", "tasks", "threads")),
    Tabled("find-30", Find30Task),
    Tabled("latency", {"blocking-own": ShareTask, "asyncio-own": ShareTask, "": RateTask}),
    Tabled("find-many", {"to-list": ToListTask, "": IterateTask}),
)
