"""A task that starts a whole Python program and waits for its exit."""

from __future__ import annotations

import os
import sys

from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Task


class ProgramError(Exception):
    """A program did not exit with status 0."""


class ProgramTask(Task):
    """One sample is one process; `inserts` is how many documents each leaves behind."""

    def __init__(self, bench: Bench, kind: str, inserts: int) -> None:
        self._bench = bench
        self._kind = kind
        self._inserts = inserts
        self._runs = 0
        self._status = 0

    def verify(self) -> str:
        """Run the program once, which also fills the file cache."""
        self._run(self._kind)
        return digest(self._kind)

    def act(self) -> int:
        """Run the program from start to exit."""
        self._run(self._kind)
        return 1

    def extras(self) -> dict[str, float]:
        """Return the exit status of the last run; an unclean one does not void the time."""
        return {"exit_status": self._status}

    def written(self) -> int | None:
        """Return how many documents all runs inserted, 0 for programs that write nothing."""
        return self._runs * self._inserts if self._inserts else None

    def _run(self, kind: str) -> None:
        make = self._bench.contender.program
        assert make is not None
        source = make(kind, self._bench.target)
        arguments = [sys.executable, "-c", source]
        pid = os.posix_spawn(sys.executable, arguments, os.environ)
        _, status, _ = os.wait4(pid, 0)
        self._runs += 1
        self._status = os.waitstatus_to_exitcode(status)
        if self._status > 0:
            raise ProgramError(f"exit status {self._status}: {kind}")
