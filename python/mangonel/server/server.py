"""A running deployment: members, URI, data. `launch` decides mongod's options."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import time
from types import TracebackType
from typing import Any
from urllib.parse import quote

from mangonel.server import replica_set as sets
from mangonel.server.errors import ServerError
from mangonel.server.process import HOST, Process, Supervisor
from mangonel.server.wire import run_command

__all__ = ["Member", "Server"]

STOP_TIMEOUT = 30.0  # seconds for a clean end before it is forced


class Member:
    """One mongod of a server; an element of `Server.members`."""

    def __init__(self, process: Process, port: int, uri_options: list[str], credentials: str) -> None:
        self._process = process
        self._uri_options = uri_options
        self._credentials = credentials
        self._tls: ssl.SSLContext | None = None
        self.number = process.number
        self.host = HOST
        self.port = port

    @property
    def address(self) -> str:
        """`host:port`, as in the replica set's configuration."""
        return f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        """A URI for a direct connection to this member."""
        options = "&".join(["directConnection=true", *self._uri_options])
        return f"mongodb://{self._credentials}{self.address}/?{options}"

    @property
    def pid(self) -> int | None:
        """The process id, or None while it does not run."""
        return self._process.pid if self.is_running else None

    @property
    def log(self) -> str:
        """Path of its log file."""
        return self._process.log

    @property
    def is_running(self) -> bool:
        """Whether the process exists; a paused one does."""
        try:
            return self._process.pid is not None and self._process.exit_status() is None
        except ServerError:
            # If the supervisor is gone, so are its mongods; a forked child cannot know.
            if not self._process.supervisor.is_owner:
                raise
            return False

    @property
    def state(self) -> str:
        """`primary` (also for a standalone), `secondary`, `other`, or `down` if it does not answer."""
        return sets.member_state(lambda command: self.run_command(command, timeout=1.0))

    def kill(self) -> None:
        """Kill the process, as a crash or a power failure would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait_ended(STOP_TIMEOUT)

    def stop(self) -> None:
        """End the process cleanly; kill it after 30 seconds."""
        self._process.send_signal(signal.SIGTERM)
        self._process.send_signal(signal.SIGCONT)
        if not self._process.wait_ended(STOP_TIMEOUT):
            self.kill()

    def restart(self, *, timeout: float = 60.0) -> None:
        """Start it again on its port and data, after a clean stop if it runs. Return when it listens.

        A member of a set may still be recovering then; `Server.wait_for_primary` waits for the set.

        Args:
            timeout: seconds for the stop and the start.

        Raises:
            ServerError: it did not start in time.

        Example:
            >>> with start() as deployment:
            ...     deployment.members[0].kill()
            ...     deployment.members[0].restart()
            ...     deployment.members[0].is_running
            True
        """
        if self.is_running:
            self.stop()
        self._process.spawn(self.port)
        if not self._process.wait_listening(time.monotonic() + timeout):
            raise ServerError(f"cannot restart member {self.number}: port {self.port} is taken")

    def pause(self) -> None:
        """Suspend the process: connections stay open, and it answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process."""
        self._process.send_signal(signal.SIGCONT)

    def run_command(self, command: dict[str, Any], *, timeout: float = 5.0) -> dict[str, Any]:
        """Run a command on `admin` without authentication; for setup and inspection, not for work.

        Args:
            command: the command document; `$db` names another database.
            timeout: seconds for connecting, and for the reply.

        Example:
            >>> with start() as deployment:
            ...     deployment.members[0].run_command({"ping": 1})["ok"]
            1.0
        """
        return run_command(self.port, command, timeout=timeout, tls=self._tls)

    def __repr__(self) -> str:
        return f"<Member {self.number} {self.address}>"


class Server:
    """A standalone mongod or a replica set, made by `start`. As a context manager it stops at the end of the block."""

    def __init__(self, supervisor: Supervisor, directory: str, *, is_temporary: bool) -> None:
        self._supervisor = supervisor
        self._is_temporary = is_temporary
        self._is_stopped = False
        self._uri_options: list[str] = []
        self._credentials = ""
        self.dbpath = directory
        self.members: list[Member] = []
        self.replica_set_name: str | None = None
        self.version: tuple[int, ...] = ()

    @property
    def uri(self) -> str:
        """The connection string, with every member, the set's name, the user and TLS."""
        addresses = ",".join(member.address for member in self.members)
        options = "&".join(self._uri_options)
        return f"mongodb://{self._credentials}{addresses}/" + (f"?{options}" if options else "")

    @property
    def primary(self) -> Member | None:
        """The current primary, or None."""
        return next((member for member in self.members if member.state == "primary"), None)

    @property
    def secondaries(self) -> list[Member]:
        """The current secondaries."""
        return [member for member in self.members if member.state == "secondary"]

    def wait_for_primary(self, *, timeout: float = 60.0) -> Member:
        """Wait for a reachable primary and return it.

        Args:
            timeout: seconds.

        Raises:
            ServerError: there was no primary in time.

        Example:
            >>> with start(replica_set=1) as deployment:
            ...     deployment.wait_for_primary().state
            'primary'
        """
        deadline = time.monotonic() + timeout
        asked = len(self.members) > 1
        while True:
            primary = self.primary
            if primary is not None:
                return primary
            if time.monotonic() > deadline:
                states = ", ".join(f"{member.address} is {member.state}" for member in self.members)
                raise ServerError(f"no primary within {timeout} s: {states}")
            if not asked and self.members[0].state == "secondary":
                # A set of one need not wait for an election timeout after a restart: there is no other candidate.
                asked = sets.step_up(self.members[0].run_command)
            time.sleep(0.05)

    def wait_until_settled(self, *, timeout: float = 60.0) -> Member:
        """Wait until every running member is primary or secondary, and return the primary.

        Args:
            timeout: seconds.

        Raises:
            ServerError: the members did not settle in time.

        Example:
            >>> with start(replica_set=1) as deployment:
            ...     deployment.wait_until_settled().is_running
            True
        """
        running = [member for member in self.members if member.is_running]
        number = sets.wait_for_members(
            [member.run_command for member in running], time.monotonic() + timeout, lambda: None
        )
        return running[number]

    def stop(self) -> None:
        """End every member and remove temporary data. Calling it again, or in a forked child, does nothing."""
        if self._is_stopped or not self._supervisor.is_owner:
            return
        self._is_stopped = True
        # Temporary data is removed anyway, so a clean shutdown would save nothing.
        self._supervisor.close()
        if self._is_temporary:
            shutil.rmtree(self.dbpath, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._is_stopped else os.path.basename(self.dbpath)
        return f"<Server {','.join(member.address for member in self.members)} {state}>"


def credentials_of(auth: tuple[str, str] | None) -> str:
    """Return the credentials part of a URI."""
    return f"{quote(auth[0], safe='')}:{quote(auth[1], safe='')}@" if auth else ""
