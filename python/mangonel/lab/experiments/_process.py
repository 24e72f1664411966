"""A task that starts a whole Python program and waits for its exit."""

from __future__ import annotations

import os
import pty
import sys
import threading
import time
from types import TracebackType

from mangonel.lab.contenders._programs import INSIDE_FD, ORIGINAL_INSERTS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Task


class ProgramError(Exception):
    """A program failed by itself: it ended with a positive exit status."""


# Behind a program: when it was done. This process reads the same clock.
END = f"\nimport os, time\nos.write({INSIDE_FD}, str(time.perf_counter_ns()).encode())\n"


class ProgramTask(Task):
    """One sample is one process; `inserts` is how many documents each leaves behind.

    What a program waits for is told with what of it came after its last line: some drivers join threads that sleep.
    """

    def __init__(self, bench: Bench, kind: str, inserts: int) -> None:
        self._bench = bench
        self._kind = kind
        self._inserts = inserts
        self._runs = 0
        self._exit_us = 0.0
        self.status = 0

    def verify(self) -> str:
        """Nothing to compare ahead: the status of every run is checked, and what it wrote is counted."""
        return digest(self._kind)

    def warm_up(self) -> None:
        """Fill the file cache; the short form leaves that to its first round."""
        if not self._bench.size.quick:
            self.run(self._kind)

    def act(self) -> int:
        self.run(self._kind)
        return 1

    def extras(self) -> dict[str, float]:
        """Return the exit status of the last run and the µs of its exit; a signal there voids no time, but is shown."""
        return {"exit_status": float(self.status), "exit_us": self._exit_us}

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
        source = make(kind, self._bench.target) + END
        told_read, told_write = os.pipe()
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", source],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, told_write, INSIDE_FD)],
            )
            _, status, _ = os.wait4(pid, 0)
            ended = time.perf_counter_ns()
        finally:
            os.close(told_write)
            told = os.read(told_read, 100)
            os.close(told_read)
        self._runs += 1
        self.status = os.waitstatus_to_exitcode(status)
        if self.status > 0:
            raise ProgramError(f"the program {kind} ended with exit status {self.status}")
        # One that a signal ended before its last line had no exit.
        self._exit_us = (ended - int(told)) / 1000 if told else 0.0


class OriginalTask(ProgramTask):
    """One sample is one process of the original comparison, on a terminal that somebody reads from.

    Tells real, user and system time as `time` does, and what lay inside the program: a driver that waits for a
    sleeping thread at exit would otherwise be charged with that as if it were an insert.
    """

    def __init__(self, bench: Bench, kind: str) -> None:
        super().__init__(bench, kind, ORIGINAL_INSERTS[kind])
        self._told: dict[str, float] = {}

    def warm_up(self) -> None:
        """Do nothing: the original had no warm-up, and its longest program prints for many seconds."""

    def extras(self) -> dict[str, float]:
        """Return the last run's times in seconds, the lines it printed, and its exit status."""
        return {**self._told, "exit_status": float(self.status)}

    def run(self, kind: str) -> None:
        """Run the program on a terminal, and keep its times.

        Raises:
            ProgramError: it raised.
        """
        make = self._bench.contender.program
        assert make is not None
        source = make(kind, self._bench.target)
        inside_read, inside_write = os.pipe()
        try:
            with Terminal() as terminal:
                actions = [
                    (os.POSIX_SPAWN_DUP2, terminal.writer, 1),
                    (os.POSIX_SPAWN_DUP2, inside_write, INSIDE_FD),
                ]
                pid = os.posix_spawn(
                    sys.executable, [sys.executable, "-c", source], os.environ, file_actions=actions
                )
                _, status, usage = os.wait4(pid, 0)
            os.close(inside_write)
            inside_write = -1
            inside = os.read(inside_read, 100)
        finally:
            os.close(inside_read)
            if inside_write >= 0:
                os.close(inside_write)
        self._runs += 1
        self.status = os.waitstatus_to_exitcode(status)
        if self.status > 0:
            raise ProgramError(f"the program {kind} ended with exit status {self.status}")
        self._told = {
            "user_s": usage.ru_utime,
            "sys_s": usage.ru_stime,
            "inside_s": int(inside or b"0") / 1e9,
            "lines": float(terminal.lines),
        }


class Terminal:
    """A pseudo terminal with a thread that reads from it, as whoever looked at the original did."""

    def __init__(self) -> None:
        self._reader, self.writer = pty.openpty()
        self.lines = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)

    def __enter__(self) -> Terminal:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What is still in the terminal is read before its end is told.
        os.close(self.writer)
        self._thread.join()
        os.close(self._reader)

    def _drain(self) -> None:
        try:
            while data := os.read(self._reader, 65536):
                self.lines += data.count(b"\n")
        except OSError:
            pass  # the last writer is gone
