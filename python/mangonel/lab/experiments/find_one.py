"""find_one by `_id`: one document of 13 fields out of 10 000, keys in random order, by one, by tasks and by threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangonel.lab import documents
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part
from mangonel.lab.experiments._parts import CallsTask, Tabled


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


EXPERIMENTS = tuple(Tabled(name, FindOneTask) for name in ("find-one", "tasks", "threads"))
