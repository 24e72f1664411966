"""The time of an import, as that of an interpreter that does nothing else; the bare one is in every row."""

from __future__ import annotations

from mangonel.lab.contender import IMPORT
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._process import ProgramTask


class ImportTime(Experiment):
    """Start, import, exit."""

    id = "import-time"
    title = "import"
    brief_s = 2.0

    def parts(self, size: Size) -> list[Part]:
        """One part: a process that imports the client."""
        return [
            Part(
                "import",
                "interpreter that imports the client and exits",
                frozenset({IMPORT}),
                1,
                size.choose(3, 10),
                unit="process",
                meter="children",
                server=False,
            )
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task."""
        return ProgramTask(bench, "import", 0)


EXPERIMENT = ImportTime()
