"""find_one by `_id` with 1 to 1000 tasks on one client."""

from __future__ import annotations

from mangonel.lab.contender import ASYNCIO
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
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
        least, each = size.choose(1000, 5000, 300), 2 if size.brief else 3
        table = [
            (f"tasks-{n}", f"{n} task{'s' * (n > 1)}", ASYNCIO, max(least, each * n), (2, 4)) for n in COUNTS
        ]
        return rows(size, table)

    def task(self, part: Part, bench: Bench) -> Task:
        return FindOneTask(part, bench, int(part.id.rpartition("-")[2]))


EXPERIMENT = Tasks()
