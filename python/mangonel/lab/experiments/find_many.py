"""Reading 100 000 small documents: one by one with each way of batching, and all of them into a list.

Spec task FindMany with ten times the documents, small ones.
"""

from __future__ import annotations

import gc
from pathlib import Path
from resource import getpagesize
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Batching
from mangonel.lab.contenders._faces import each, play
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled

EVERY = 250  # one document in so many is compared
BATCHINGS = {
    "batch": Batching(5000),
    "exhaust": Batching(2000, exhaust=True),
    "prefetch": Batching(10_000, prefetch=True),
}


class CollectionTask(Task):
    """A sample reads the whole collection."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._part = part
        self._count = part.operations
        self._adapter = bench.connect()

    def _check(self, count: int, seen: list[Any]) -> None:
        """Raise AssertionError unless as many came as are stored, and every so many is the one that is."""
        if count != self._count:
            raise AssertionError(f"expected {self._count} documents, got {count}")
        for place, document in enumerate(seen):
            expected = documents.user(place * EVERY)
            found = {key: value for key, value in document.items() if key != "_id"}
            if found != expected or str(document["_id"]) != f"{place * EVERY:024x}":
                raise AssertionError(f"expected user {place * EVERY}, got {str(document)[:200]}")


class IterateTask(CollectionTask):
    """Read document by document."""

    batching: Batching | None = None

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._batching = self.batching or BATCHINGS.get(part.id, Batching())

    def verify(self) -> str:
        """Count all, and compare every so many with what was stored."""
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
    """Read into one list; the first sample's growth of the process is what the list weighs."""

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
        """Return the growth, once: later samples find the memory of the first one."""
        if self._before is None:
            return {}
        growth, self._before = _resident() - self._before, None
        self._check(len(self._kept), self._kept[::EVERY])
        return {"growth": growth}


def _resident() -> float:
    """Return how much memory this process holds, in bytes."""
    return float(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


EXPERIMENT = Tabled("find-many", {"to-list": ToListTask, "": IterateTask})
