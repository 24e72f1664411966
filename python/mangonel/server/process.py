"""Starts, signals and ends mongod processes through the supervisor. Knows no MongoDB message."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from mangonel.server.errors import ServerError
from mangonel.server.find import missing_library

__all__ = ["POLL", "Process", "Supervisor", "free_port"]

HOST = "127.0.0.1"
POLL = 0.02  # seconds between two checks of a log or a process
ANSWER_TIMEOUT = 30.0  # seconds; the supervisor answers within a millisecond unless the machine hangs
LISTENING = b'"Waiting for connections"'
ADDRESS_IN_USE = 48  # exit status of a mongod that could not bind
# mongod logs this and aborts if another process bound the same port at the same moment and listened first.
LISTENS_ALREADY = b"Address already in use"
LOG_LINES = 6
FULL = "No space left on device"
LEAST_FREE = 1_000_000  # free bytes below which a disk counts as full


class Supervisor:
    """The connection to the process that owns the mongods of one server.

    Args:
        remove: directory to remove when the parent exits. None: keep the data and end each mongod cleanly.
    """

    def __init__(self, remove: str | None) -> None:
        if not sys.executable:
            raise ServerError("expected a Python interpreter in sys.executable to supervise mongod, got none")
        script = os.path.join(os.path.dirname(__file__), "supervisor.py")
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._buffer = b""
        # In its own session: Ctrl-C in the terminal must reach only the parent.
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", script, str(self._owner), remove or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    @property
    def is_owner(self) -> bool:
        """Whether this process started the supervisor; a forked child did not, and must leave it alone."""
        return os.getpid() == self._owner

    def request(self, **fields: Any) -> dict[str, Any]:
        """Send one request and return its response."""
        if not self.is_owner:
            raise ServerError("this server belongs to the process that started it, not to its forked child")
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        with self._lock:
            try:
                self._popen.stdin.write(json.dumps(fields).encode() + b"\n")
                while b"\n" not in self._buffer:
                    if not select.select([self._popen.stdout], [], [], ANSWER_TIMEOUT)[0]:
                        raise ServerError(
                            f"the supervisor of mongod did not answer within {ANSWER_TIMEOUT} s"
                        )
                    received = os.read(self._popen.stdout.fileno(), 65536)
                    if not received:
                        raise BrokenPipeError
                    self._buffer += received
            except (OSError, ValueError) as error:
                raise ServerError("the server is stopped: its supervisor has ended") from error
            line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ServerError(answer["error"])
        return answer

    def close(self) -> None:
        """End every mongod, remove temporary data, and wait until that is done."""
        if not self.is_owner:
            return
        with self._lock:
            assert self._popen.stdin is not None
            assert self._popen.stdout is not None
            self._popen.stdin.close()
            self._popen.wait()
            self._popen.stdout.close()


class Process:
    """One mongod, running or not: its command, its log and its number at the supervisor."""

    def __init__(self, supervisor: Supervisor, number: int, command: list[str], directory: str) -> None:
        self.supervisor = supervisor
        self.number = number
        self.command = command
        self.log = os.path.join(directory, "mongod.log")
        self.output = os.path.join(directory, "mongod.out")
        self.pid: int | None = None
        self._log_start = 0

    def spawn(self, port: int) -> None:
        """Start it. `wait_listening` returns when it is usable."""
        self._log_start = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        command = [*self.command, "--port", str(port), "--logpath", self.log]
        started = self.supervisor.request(do="start", number=self.number, command=command, output=self.output)
        self.pid = started["pid"]

    def wait_listening(self, deadline: float) -> bool:
        """Wait until it accepts connections; return False if its port was taken.

        Raises:
            ServerError: it exited, or was not ready at the deadline; the message ends with its last log lines.
        """
        # Reads the log, not the port: another server may have taken the port and would answer instead.
        while not self._has_logged(LISTENING):
            status = self.exit_status()
            if status == ADDRESS_IN_USE or (status is not None and self._has_logged(LISTENS_ALREADY)):
                return False
            if status is not None:
                raise ServerError(f"mongod ended at start with exit status {status}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ServerError(f"mongod was not ready in time\n{self.log_tail()}")
            time.sleep(POLL)
        return True

    def exit_status(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs."""
        return self.supervisor.request(do="status", number=self.number)["exit"]

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; do nothing if the process has exited."""
        self.supervisor.request(do="signal", number=self.number, signal=int(number))

    def wait_ended(self, timeout: float) -> bool:
        """Wait until it has exited; return False if it still runs after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.exit_status() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def log_tail(self) -> str:
        """Return its last output for a message: standard output, then the end of the log."""
        printed = self._read(self.output, 0).decode(errors="replace")
        explanation = missing_library(printed)
        if explanation:
            return explanation
        logged = self._read(self.log, self._log_start).splitlines()
        records = [_describe(line) for line in logged]
        severe = [text for text in records if text.startswith(("F ", "E "))]
        # Before it opens its log, mongod prints its log lines.
        before = [_describe(line.encode()) for line in printed.strip().splitlines()]
        before = [text for text in before if not text.startswith("I ")]
        lines = [*before[-LOG_LINES:], *(severe or records)[-LOG_LINES:]]
        directory = os.path.dirname(self.log)
        # The log may itself be on the full disk, and so lack the message.
        if any(FULL in line for line in lines) or _is_full(directory):
            lines.append(
                f"the disk of {directory} is full: make room there, or name another folder, by dbpath or, for "
                "temporary data, by TMPDIR"
            )
        return "\n".join(f"  {line}" for line in lines) or "  (it wrote nothing)"

    def _has_logged(self, text: bytes) -> bool:
        return text in self._read(self.log, self._log_start)

    @staticmethod
    def _read(path: str, start: int) -> bytes:
        try:
            with open(path, "rb") as file:
                file.seek(start)
                return file.read()
        except FileNotFoundError:
            return b""


def _is_full(directory: str) -> bool:
    try:
        return shutil.disk_usage(directory).free < LEAST_FREE
    except OSError:
        return False


def free_port() -> int:
    """Return a free loopback port below the range of ephemeral ports.

    An ephemeral port could be given to any outgoing connection while a killed member waits for its restart.
    """
    for _ in range(100):
        port = random.SystemRandom().randrange(20_000, 32_768)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _describe(line: bytes) -> str:
    try:
        record = json.loads(line)
        attributes = record.get("attr")
        return f"{record['s']} {record['c']}: {record['msg']}" + (
            f" {json.dumps(attributes)[:400]}" if attributes else ""
        )
    except (ValueError, KeyError, TypeError):
        return line.decode(errors="replace")[:400]
