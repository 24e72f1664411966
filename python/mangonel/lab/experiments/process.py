"""A whole process: start, connect, one insert (w:1), exit; and with `--set exits=N` that many exits of this
driver's programs, half with the client left open, all of which must be clean.

The time of an import is that of an interpreter that does nothing else; the bare one is in every row.
"""

from __future__ import annotations

from mangonel.lab.experiment import Bench, Part
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.experiments._process import ProgramTask


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


EXPERIMENTS = (Tabled("import-time", ProgramTask), Tabled("process", {"exits": ExitsTask, "": ProgramTask}))
