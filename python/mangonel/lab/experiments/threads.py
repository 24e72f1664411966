"""find_one by `_id` with 1 to 32 threads on one client."""

from __future__ import annotations

from mangonel.lab.contender import THREADS
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments.find_one import FindOneTask

COUNTS = (1, 2, 4, 8, 16, 32)


class Threads(Experiment):
    """How blocking clients share a machine among threads."""

    id = "threads"
    title = "find_one with threads"
    brief_s = 3.0
    dataset = "small"

    def parts(self, size: Size) -> list[Part]:
        """One part for each count of threads."""
        counts = COUNTS[::5] if size.quick else COUNTS
        return [
            Part(
                f"threads-{count}",
                f"{count} thread" + ("s" if count > 1 else ""),
                frozenset({THREADS}),
                size.choose(1000, 5000, 400),
                size.choose(2, 4),
            )
            for count in counts
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task with the part's load."""
        return FindOneTask(part, bench, int(part.id.rpartition("-")[2]))


EXPERIMENT = Threads()
