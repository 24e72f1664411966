"""find_one by `_id` with 1 to 1000 tasks on one client."""

from __future__ import annotations

from mangonel.lab.contender import ASYNCIO
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments.find_one import FindOneTask

COUNTS = (1, 10, 100, 1000)


class Tasks(Experiment):
    """How clients on an event loop serve a crowd; more than 100 wait for a connection by default."""

    id = "tasks"
    title = "find_one with tasks"
    passes = 2
    brief_s = 6.0
    dataset = "small"

    def parts(self, size: Size) -> list[Part]:
        """One part for each count of tasks."""
        return [
            Part(
                f"tasks-{count}",
                f"{count} task" + ("s" if count > 1 else ""),
                frozenset({ASYNCIO}),
                max(size.choose(1000, 5000, 300), (2 if size.brief else 3) * count),
                size.choose(2, 4),
            )
            for count in COUNTS
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task with the part's load."""
        return FindOneTask(part, bench, int(part.id.rpartition("-")[2]))


EXPERIMENT = Tasks()
