"""Whole programs from start to exit, one process each: imports, inserts, exits, and the original comparison's.

`process` starts, connects, inserts once (w:1) and exits. With `--set exits=N`, it runs this driver's programs N times,
half with an open client, and all must exit cleanly. Import times include the interpreter's start; the bare interpreter
is in every row.
"""

from __future__ import annotations

import contextlib
import os
import pty
import sys
import threading
import time
from typing import Any

from mangonel.lab.contenders.drivers import INSERTS, INSIDE_FD
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled


class ProgramError(Exception):
    """A program failed by itself: it exited with a positive status."""


# Appended to a program: writes its end time. This process reads the same clock.
END = f"\nimport os, time\nos.write({INSIDE_FD}, str(time.perf_counter_ns()).encode())\n"


class ProgramTask(Task):
    """One sample is one process.

    The time from the last line to the exit is also reported, since some drivers join threads that sleep.
    """

    end, kind = END, ""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._bench = bench
        self._kind = self.kind or part.id
        self._inserts = 0 if "floor" in bench.contender.offers else INSERTS[self._kind]
        self._runs = 0
        self._told: dict[str, float] = {}
        self.status = 0

    def verify(self) -> str:
        """Return nothing: the status of every run is checked, and its writes are counted."""
        return digest(self._kind)

    def warm_up(self) -> None:
        """Fill the file cache; the short form leaves that to its first round."""
        if not self._bench.size.quick:
            self.run(self._kind)

    def act(self) -> int:
        self.run(self._kind)
        return 1

    def extras(self) -> dict[str, float]:
        """Return the last run's exit status, which is shown but does not void the time, and its figures."""
        return {"exit_status": float(self.status), **self._told}

    def written(self) -> int | None:
        return self._runs * self._inserts if self._inserts else None

    def run(self, kind: str) -> None:
        """Run a program and record its status and figures; ProgramError if it raised."""
        told, _ = self.start(kind)
        # A program that a signal ended before its last line has no exit phase.
        self._told = {"exit_us": (self._ended - told) / 1000 if told else 0.0}

    def start(self, kind: str, output: int | None = None) -> tuple[int, Any]:
        """Run a program; return the ns that it wrote to its descriptor, and its resource usage."""
        make = self._bench.contender.program
        assert make is not None
        read, write = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, write, INSIDE_FD)]
        if output is not None:
            actions.append((os.POSIX_SPAWN_DUP2, output, 1))
        try:
            words = [sys.executable, "-c", make(kind, self._bench.target) + self.end]
            pid = os.posix_spawn(sys.executable, words, os.environ, file_actions=actions)
            _, status, usage = os.wait4(pid, 0)
            self._ended = time.perf_counter_ns()
        finally:
            os.close(write)
            told = os.read(read, 100)
            os.close(read)
        self._runs += 1
        self.status = os.waitstatus_to_exitcode(status)
        if self.status > 0:
            raise ProgramError(f"the program {kind} ended with exit status {self.status}")
        return int(told or b"0"), usage


class OriginalTask(ProgramTask):
    """One sample is one process of the original comparison, on a terminal that is being read.

    It reports real, user and system time as `time` does, and the time inside the program. Otherwise a driver that waits
    for a sleeping thread at exit would be charged for it as for an insert.
    """

    end = ""

    def warm_up(self) -> None:
        """Do nothing: the original had no warm-up, and its longest program prints for many seconds."""

    def run(self, kind: str) -> None:
        with Terminal() as terminal:
            told, usage = self.start(kind, terminal.writer)
        times = {"user_s": usage.ru_utime, "sys_s": usage.ru_stime, "inside_s": told / 1e9}
        self._told = {**times, "lines": float(terminal.lines)}


class Terminal:
    """A pseudo-terminal with a reading thread, in place of the original's terminal window."""

    def __init__(self) -> None:
        self._reader, self.writer = pty.openpty()
        self.lines = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)

    def __enter__(self) -> Terminal:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        # Remaining output is read before the end is reported.
        os.close(self.writer)
        self._thread.join()
        os.close(self._reader)

    def _drain(self) -> None:
        # Raises once the last writer has closed the terminal.
        with contextlib.suppress(OSError):
            while data := os.read(self._reader, 65536):
                self.lines += data.count(b"\n")


class ExitsTask(ProgramTask):
    """Programs that alternately leave the client open and close it; unclean exits are counted, not fatal."""

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
