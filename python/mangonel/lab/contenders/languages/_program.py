"""A program's process, and the lab's side of `PROTOCOL.md`, which is beside this file."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, Any

from mangonel.lab.fixtures import modules
from mangonel.lab.sentinel import cpu_ns

SHOWN = 500  # characters of its final error output
END_S = 20.0


class ProgramError(Exception):
    """A program ended, or answered with an error."""


class Program:
    """A running program; with `cores`, it starts on only those, so that its runtime sees no others."""

    def __init__(self, command: Sequence[str], cores: Collection[int] = ()) -> None:
        self.is_warm = False  # whether it has already done a part's work
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        before = os.sched_getaffinity(0)
        if cores:
            os.sched_setaffinity(0, cores)  # inherited
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        finally:
            os.sched_setaffinity(0, before)

    def ask(self, *words: object) -> dict[str, Any]:
        """Send a request and return the answer; ProgramError if the program ended or failed."""
        return self.read(self.tell(*words))

    def tell(self, *words: object) -> str:
        """Send a request, and return its verb for the message of an error."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProgramError(f"ended before {words[0]}: {self._last_words()}") from None
        return str(words[0])

    def read(self, verb: str) -> dict[str, Any]:
        """Return the answer to a request."""
        told: dict[str, Any] = json.loads(self.line(verb))
        if "error" in told:
            raise ProgramError(f"{verb}: {told['error']}"[:SHOWN])
        return told

    def documents(self, verb: str) -> Any:
        """Return the documents that a verb read, from their extended JSON."""
        text: Any = importlib.import_module(f"{modules()[1].__name__}.json_util")
        told = text.loads(self.line(self.tell("answer", verb)))
        if "error" in told:
            raise ProgramError(f"answer {verb}: {told['error']}"[:SHOWN])
        return told["answer"]

    def line(self, verb: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ProgramError(f"ended in {verb}: {self._last_words()}")
        return line.decode()

    def cpu_ns(self) -> int:
        """Return the processor time of the process with all its threads, including ended ones."""
        return cpu_ns(self._process.pid)

    def memory(self) -> int:
        """Return its memory in bytes; shared pages are divided among the processes that share them."""
        return self._status("smaps_rollup", "Pss:") * 1024

    def connections(self) -> int:
        """Return how many sockets it holds."""
        folder = Path(f"/proc/{self._process.pid}/fd")
        return sum(os.readlink(each).startswith("socket:") for each in folder.iterdir() if each.is_symlink())

    def close(self) -> None:
        """End its input, which ends it; kill it if it does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the program ended before it read its last request
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _status(self, file: str, name: str) -> int:
        lines = Path(f"/proc/{self._process.pid}/{file}").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

    def _last_words(self) -> str:
        self._process.wait(END_S)
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()
        return f"exit status {self._process.returncode} {words[-SHOWN:]}"


class Site(Program):
    """A program that serves a page, on the port that it prints first."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        try:
            self.port = int(self.read("page")["port"])
        except BaseException:
            self.close()
            raise


def run_once(command: Sequence[str]) -> tuple[int, float, float]:
    """Run a command to its end; return its ns by the clock, and its user and system seconds."""
    start = time.perf_counter_ns()
    pid = os.posix_spawnp(command[0], list(command), os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter_ns() - start
    if code := os.waitstatus_to_exitcode(status):
        raise ProgramError(f"{command[0]} ended with exit status {code}")
    return wall, usage.ru_utime, usage.ru_stime
