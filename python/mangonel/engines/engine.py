"""A server's process: started until it answers, stalled, ended, started again."""

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

__all__ = ["START_TIMEOUT", "Engine", "accepts", "free_port"]

START_TIMEOUT = 60.0


class Engine:
    """A running server: its URL, and how to stall, end and start it again.

    Attributes:
        name: of the engine.
        url: for `WebSessions`.
        unix_url: the same over a Unix socket, or "" where there is none.
        port: on 127.0.0.1.
        pid: of the server.
    """

    def __init__(
        self,
        name: str,
        url: str,
        port: int,
        command: list[str],
        directory: str,
        user: str | None,
        is_ready: Callable[[], bool],
    ) -> None:
        self.name = name
        self.url = url
        self.unix_url = ""
        self.port = port
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
        """Start it, and return when it answers."""
        with open(os.path.join(self._directory, "output"), "ab") as output:
            keywords: dict[str, Any] = {"user": self._user, "group": "nogroup"} if self._user else {}
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                start_new_session=True,
                **keywords,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Missing(f"{self.name} did not start: {self._tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stall it: connections stay, answers do not come."""
        self._tell_family(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stalled server go on."""
        self._tell_family(signal.SIGCONT)

    def _tell_family(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _family(self) -> list[int]:
        # PostgreSQL has a process, and a process group, for each connection.
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

    def _tail(self) -> str:
        with open(os.path.join(self._directory, "output"), "rb") as output:
            return output.read()[-600:].decode(errors="replace").strip()


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    """Return whether somebody listens on a loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
