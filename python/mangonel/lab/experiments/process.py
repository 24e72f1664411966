"""A whole process: start, connect, one insert (w:1), exit; and with `--set exits=N` that many exits of this
driver's programs, half with the client left open, all of which must be clean.

The time of an import is that of an interpreter that does nothing else; the bare one is in every row.
"""

from __future__ import annotations

from mangonel.lab.contender import EXITS, IMPORT, PROGRAM
from mangonel.lab.experiment import Bench, Part, Size
from mangonel.lab.experiments._parts import Table, Tabled
from mangonel.lab.experiments._process import ProgramTask

FEW_EXITS = 6
SHARED = {"unit": "process", "meter": "children", "server": False}


class ExitsTask(ProgramTask):
    """Programs in turn with the client left open and closed; unclean exits are counted, not fatal."""

    kind = "insert-1"

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._exits = part.operations
        self._unclean = 0

    def act(self) -> int:
        for number in range(self._exits):
            self.run("insert-1" if number % 2 else "insert-1_closed")
            self._unclean += self.status != 0
        return self._exits

    def extras(self) -> dict[str, float]:
        return {"unclean": float(self._unclean), "exits": float(self._exits)}


def _table(size: Size) -> Table:
    exits = size.parameters.get("exits", FEW_EXITS)
    words = f"{exits} exits, client in turn closed and left open"
    yield "insert-1", "start, connect, one insert, exit, client left open", PROGRAM, 1, (1, 6)
    yield "exits", words, (PROGRAM, EXITS), exits, 1


EXPERIMENTS = (
    Tabled(
        "import-time",
        "import",
        ProgramTask,
        [("import", "interpreter that imports the client and exits", IMPORT, 1, (3, 10))],
        SHARED,
        brief_s=2.0,
    ),
    Tabled(
        "process",
        "whole process",
        {"exits": ExitsTask, "": ProgramTask},
        _table,
        {**SHARED, "write_concern": "w:1"},
        passes=2,
        brief_s=8.0,
    ),
)
