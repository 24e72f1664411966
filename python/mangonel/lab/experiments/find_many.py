"""Reading 100 000 small documents: one by one with each way of batching, and all of them into a list."""

from __future__ import annotations

import gc
from pathlib import Path
from resource import getpagesize
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import ASYNCIO, BATCH_SIZE, BLOCKING, DECODES, EXHAUST, PREFETCH, Batching
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows

COUNTS = (100_000, 100_000, 20_000)
EVERY = 250  # one document in so many is compared
BATCHINGS = {
    "default": Batching(),
    "default-asyncio": Batching(),
    "batch": Batching(5000),
    "exhaust": Batching(2000, exhaust=True),
    "prefetch": Batching(10_000, prefetch=True),
}


class IterateTask(Task):
    """Read the collection document by document; a sample is the whole collection."""

    def __init__(self, part: Part, bench: Bench, batching: Batching) -> None:
        self._bench = bench
        self._count = part.operations
        self._batching = batching
        self._adapter = bench.connect()

    def verify(self) -> str:
        """Count all, and compare every so many with what was stored."""
        if self._bench.is_async:
            seen, count = self._bench.run(self._read_async())
        else:
            seen, count = self._read()
        if count != self._count:
            raise AssertionError(f"expected {self._count} documents, got {count}")
        for place, document in enumerate(seen):
            compare(document, place * EVERY)
        return digest(seen)

    def act(self) -> int:
        count: int = self._bench.run(self._adapter.iterate(self._batching))
        if count != self._count:
            raise AssertionError(f"expected {self._count} documents, got {count}")
        return count

    def _read(self) -> tuple[list[Any], int]:
        seen, count = [], 0
        for document in self._adapter.documents(self._batching):
            if count % EVERY == 0:
                seen.append(document)
            count += 1
        return seen, count

    async def _read_async(self) -> tuple[list[Any], int]:
        seen, count = [], 0
        async for document in self._adapter.documents(self._batching):
            if count % EVERY == 0:
                seen.append(document)
            count += 1
        return seen, count


class ToListTask(Task):
    """Read the collection into one list; the first sample's growth of the process is what the list weighs."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._count = part.operations
        self._adapter = bench.connect()
        self._kept: list[Any] = []
        self._before = 0
        self._growth: float | None = None

    def verify(self) -> str:
        """Read one document, which connects; the list itself is checked after the first sample."""
        self._bench.run(self._adapter.find_list(1))
        return digest("checked after the first sample")

    def arrange(self) -> None:
        self._kept = []
        gc.collect()
        self._before = resident()

    def act(self) -> int:
        self._kept = self._bench.run(self._adapter.to_list())
        return len(self._kept)

    def extras(self) -> dict[str, float]:
        """Return the growth, once: later samples find the memory of the first one."""
        if self._growth is not None:
            return {}
        self._growth = float(resident() - self._before)
        if len(self._kept) != self._count:
            raise AssertionError(f"expected {self._count} documents, got {len(self._kept)}")
        for number in range(0, self._count, EVERY):
            compare(self._kept[number], number)
        return {"growth": self._growth}


class FindMany(Experiment):
    """Spec task FindMany with ten times the documents, small ones."""

    id = "find-many"
    title = "reading 100 000 small documents"
    dataset = "users"
    brief_dataset = "few-users"
    own_process = True
    brief_s = 6.0

    def parts(self, size: Size) -> list[Part]:
        """The list comes first, in a process that has not grown yet."""
        few, alone = (2, 5), (1 if size.quick else 2, 5)
        batches, exhaust = (
            "one by one, batches of 5000, blocking",
            "one by one, exhaust cursor, batches of 2000",
        )
        table = [
            ("to-list", "all into a list, blocking", (BLOCKING, DECODES), COUNTS, few),
            ("default", "one by one, default batches, blocking", BLOCKING, COUNTS, few),
            ("batch", batches, (BLOCKING, BATCH_SIZE), COUNTS, few),
            ("exhaust", f"{exhaust}, blocking", (BLOCKING, EXHAUST), COUNTS, few),
            (
                "prefetch",
                "one by one, prefetch, batches of 10 000, blocking",
                (BLOCKING, PREFETCH),
                COUNTS,
                few,
            ),
            ("default-asyncio", "one by one, default batches, event loop", ASYNCIO, COUNTS, alone),
        ]
        return rows(size, table, unit="document")

    def task(self, part: Part, bench: Bench) -> Task:
        if part.id == "to-list":
            return ToListTask(part, bench)
        return IterateTask(part, bench, BATCHINGS[part.id])


def compare(document: Any, number: int) -> None:
    """Check one document against what was stored.

    Raises:
        AssertionError: it is another one.
    """
    expected = documents.user(number)
    found = {key: value for key, value in document.items() if key != "_id"}
    if found != expected or str(document["_id"]) != f"{number:024x}":
        raise AssertionError(f"expected user {number}, got {str(document)[:200]}")


def resident() -> int:
    """Return how much memory this process holds, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


EXPERIMENT = FindMany()
