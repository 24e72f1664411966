"""A task that starts a whole Python program and waits for its exit."""

from __future__ import annotations

import os
import sys

from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Task


class ProgramError(Exception):
    """A program failed by itself: it ended with a positive exit status."""


class ProgramTask(Task):
    """One sample is one process; `inserts` is how many documents each leaves behind."""

    def __init__(self, bench: Bench, kind: str, inserts: int) -> None:
        self._bench = bench
        self._kind = kind
        self._inserts = inserts
        self._runs = 0
        self.status = 0

    def verify(self) -> str:
        """Nothing to compare ahead: the status of every run is checked, and what it wrote is counted."""
        return digest(self._kind)

    def warm_up(self) -> None:
        """Fill the file cache; the short form leaves that to its first round."""
        if not self._bench.size.quick:
            self.run(self._kind)

    def act(self) -> int:
        """Run the program from start to exit."""
        self.run(self._kind)
        return 1

    def extras(self) -> dict[str, float]:
        """Return the exit status of the last run; a signal at exit does not void the time, but is shown."""
        return {"exit_status": float(self.status)}

    def written(self) -> int | None:
        """Return how many documents all runs inserted, None for programs that write nothing."""
        return self._runs * self._inserts if self._inserts else None

    def run(self, kind: str) -> None:
        """Run a program and keep its status.

        Raises:
            ProgramError: it raised; a program ended by a signal has done its work before.
        """
        make = self._bench.contender.program
        assert make is not None
        source = make(kind, self._bench.target)
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", source], os.environ)
        _, status, _ = os.wait4(pid, 0)
        self._runs += 1
        self.status = os.waitstatus_to_exitcode(status)
        if self.status > 0:
            raise ProgramError(f"the program {kind} ended with exit status {self.status}")
