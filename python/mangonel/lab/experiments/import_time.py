"""The time of an import, as that of an interpreter that does nothing else; the bare one is in every row."""

from __future__ import annotations

from mangonel.lab.contender import IMPORT
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
from mangonel.lab.experiments._process import ProgramTask


class ImportTime(Experiment):
    """Start, import, exit."""

    id = "import-time"
    title = "import"
    brief_s = 2.0

    def parts(self, size: Size) -> list[Part]:
        table = [("import", "interpreter that imports the client and exits", IMPORT, 1, (3, 10))]
        return rows(size, table, unit="process", meter="children", server=False)

    def task(self, part: Part, bench: Bench) -> Task:
        return ProgramTask(bench, "import", 0)


EXPERIMENT = ImportTime()
