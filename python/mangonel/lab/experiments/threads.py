"""find_one by `_id` with 1 to 32 threads on one client."""

from __future__ import annotations

from mangonel.lab.contender import THREADS
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
from mangonel.lab.experiments.find_one import FindOneTask

COUNTS = (1, 2, 4, 8, 16, 32)


class Threads(Experiment):
    """How blocking clients share a machine among threads."""

    id = "threads"
    title = "find_one with threads"
    brief_s = 3.0
    dataset = "small"

    def parts(self, size: Size) -> list[Part]:
        counts = COUNTS[::5] if size.quick else COUNTS
        return rows(
            size,
            [
                (f"threads-{n}", f"{n} thread{'s' * (n > 1)}", THREADS, (1000, 5000, 400), (2, 4))
                for n in counts
            ],
        )

    def task(self, part: Part, bench: Bench) -> Task:
        return FindOneTask(part, bench, int(part.id.rpartition("-")[2]))


EXPERIMENT = Threads()
