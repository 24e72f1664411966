"""A whole process: start, connect, one insert (w:1), exit; and with `--set exits=N` that many exits of this
driver's programs, half with the client left open, all of which must be clean.
"""

from __future__ import annotations

from mangonel.lab.contender import EXITS, PROGRAM
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
from mangonel.lab.experiments._process import ProgramTask

FEW_EXITS = 6


class ExitsTask(ProgramTask):
    """Programs in turn with the client left open and closed; unclean exits are counted, not fatal."""

    def __init__(self, bench: Bench, exits: int) -> None:
        super().__init__(bench, "insert-1", 1)
        self._exits = exits
        self._unclean = 0

    def act(self) -> int:
        for number in range(self._exits):
            self.run("insert-1" if number % 2 else "insert-1_closed")
            self._unclean += self.status != 0
        return self._exits

    def extras(self) -> dict[str, float]:
        """Return how many ended otherwise than with status 0."""
        return {"unclean": float(self._unclean), "exits": float(self._exits)}


class Process(Experiment):
    """Start to exit."""

    id = "process"
    title = "whole process"
    passes = 2
    brief_s = 8.0

    def parts(self, size: Size) -> list[Part]:
        exits = size.parameters.get("exits", FEW_EXITS)
        words = f"{exits} exits, client in turn closed and left open"
        table = [
            ("insert-1", "start, connect, one insert, exit, client left open", PROGRAM, 1, (1, 6)),
            ("exits", words, (PROGRAM, EXITS), exits, 1),
        ]
        return rows(size, table, unit="process", write_concern="w:1", meter="children", server=False)

    def task(self, part: Part, bench: Bench) -> Task:
        if part.id == "exits":
            return ExitsTask(bench, part.operations)
        return ProgramTask(bench, "insert-1", 0 if "floor" in bench.contender.offers else 1)


EXPERIMENT = Process()
