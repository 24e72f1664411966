"""The process of one server: started and checked, paused, ended, restarted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mangonel.engines.programs import Missing
from mangonel.server.process import free_port

START_TIMEOUT = 60.0

# Placeholder of the port in commands and URLs; the first start chooses the port.
PORT = "{port}"

# How often to try another port after another process took the free one.
PORT_ATTEMPTS = 5

# Every engine prints this, in the C locale, if its port is taken.
TAKEN = "Address already in use"


class Engine:
    """A running server: its URL, and methods to pause, end and restart it.

    Attributes:
        name: name of the engine.
        url: URL for `WebSessions`. Complete after the first start.
        unix_url: URL of its Unix socket, or "" without one.
        port: port on 127.0.0.1; 0 before the first start, then constant.
        prepare: called with the port before each start, for an engine that reads it from a file; or None.
        pid: process id of the server.
    """

    def __init__(
        self,
        name: str,
        url: str,
        command: list[str],
        directory: str,
        user: str | None,
        is_ready: Callable[[int], bool],
    ) -> None:
        self.name = name
        self.url = url
        self.unix_url = ""
        self.port = 0
        self.prepare: Callable[[int], object] | None = None
        self._command = command
        self._directory = directory
        self._user = user
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and return when it answers. The first start takes any free port; later starts keep it.

        Raises:
            Missing: it exited, or did not answer in time; the message ends with its last output.
        """
        if self.port:
            if not self._start(self.port):
                raise Missing(f"{self.name} did not start: port {self.port} is taken")
            return
        for _ in range(PORT_ATTEMPTS):
            port = free_port()
            if self._start(port):
                self.port = port
                self.url, self.unix_url = (
                    each.replace(PORT, str(port)) for each in (self.url, self.unix_url)
                )
                return
        raise Missing(f"{self.name} did not start: other programs took each of {PORT_ATTEMPTS} free ports")

    def _start(self, port: int) -> bool:
        """Start the server on a port; return False if another process has the port."""
        if self.prepare is not None:
            self.prepare(port)
        with open(os.path.join(self._directory, "output"), "ab") as output:
            start = output.tell()
            keywords: dict[str, Any] = {"user": self._user, "group": "nogroup"} if self._user else {}
            self._process = subprocess.Popen(
                [word.replace(PORT, str(port)) for word in self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
                **keywords,
            )
        deadline = time.monotonic() + START_TIMEOUT
        # An answer alone does not suffice: another server may have taken the port and would answer instead.
        while not (self._is_ready(port) and self._listens(port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                if TAKEN in self._said(start):
                    return False
                raise Missing(f"{self.name} did not start: {self._said(start)[-600:].strip()}")
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        """Kill the process, as a power failure would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the process to end, and kill it after a while."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Suspend the process: connections stay open, and it answers nothing."""
        self._tell_family(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process."""
        self._tell_family(signal.SIGCONT)

    def _tell_family(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        for pid in self.family():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def family(self) -> list[int]:
        """Return the ids of its processes: PostgreSQL has one, with a process group, for each connection."""
        family = [self.pid]
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat") as stat:
                        parent = int(stat.read().rpartition(")")[2].split()[1])
                except (OSError, ValueError):
                    continue
                if parent == self.pid:
                    family.append(int(name))
        return family

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.resume()
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)

    def _listens(self, port: int) -> bool:
        if not os.path.exists("/proc/net/tcp"):
            return self._process is not None and self._process.poll() is None
        listening = set()
        with open("/proc/net/tcp") as table:
            for fields in map(str.split, table.readlines()[1:]):
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    listening.add(f"socket:[{fields[9]}]")
        descriptors = f"/proc/{self.pid}/fd"
        with suppress(OSError):  # the process ended meanwhile
            for name in os.listdir(descriptors):
                with suppress(OSError):  # or closed this descriptor
                    if os.readlink(f"{descriptors}/{name}") in listening:
                        return True
        return False

    def _said(self, start: int) -> str:
        with open(os.path.join(self._directory, "output"), "rb") as output:
            output.seek(start)
            return output.read().decode(errors="replace")


def accepts(port: int) -> bool:
    """Return whether a process listens on a loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
