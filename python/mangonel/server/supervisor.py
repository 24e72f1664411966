"""Owns the mongods of one server, in a separate process, so that none of them outlives the parent.

Run by path with `python -I -S`, so it imports nothing of mangonel. It reads one JSON request per line and answers each
with one line. When the parent exits for any reason, the supervisor ends every mongod and removes the temporary data. It
notices the exit at once through the end of its input or the parent's pidfd. A forked child of the parent may keep the
input open, and pidfds exist on Linux only; so it also checks its parent's id every few seconds.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from typing import Any

STOP_GRACE = 10.0  # seconds a mongod with kept data gets for a clean end
PARENT_LOOK = 5.0  # seconds between two checks of the parent's id
PR_SET_PDEATHSIG = 1
OPEN_FILES = 64_000  # MongoDB's recommendation; shells start with 1024, and a mongod out of files aborts


class Keeper:
    """The child processes by number, and the handler of each request."""

    def __init__(self, remove: str | None) -> None:
        self.remove = remove
        self.children: dict[int, int] = {}
        self.exits: dict[int, int] = {}
        self.prctl = _prctl()

    def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        number = request["number"]
        if request["do"] == "start":
            self.children[number] = self._spawn(request["command"], request["output"])
            self.exits.pop(number, None)
            return {"pid": self.children[number]}
        self.reap()
        if request["do"] == "signal" and number in self.children:
            os.kill(self.children[number], request["signal"])
        return {"exit": self.exits.get(number)}

    def reap(self) -> None:
        for number, pid in list(self.children.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.children[number]
                self.exits[number] = os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        if not self.remove:
            # Kept data: let mongod flush acknowledged writes that are not in the journal yet.
            self._signal_all(signal.SIGCONT)
            self._signal_all(signal.SIGTERM)
            deadline = time.monotonic() + STOP_GRACE
            while self.children and time.monotonic() < deadline:
                time.sleep(0.01)
                self.reap()
        self._signal_all(signal.SIGKILL)
        for pid in self.children.values():
            os.waitpid(pid, 0)
        if self.remove:
            shutil.rmtree(self.remove, ignore_errors=True)

    def _signal_all(self, number: int) -> None:
        for pid in self.children.values():
            os.kill(pid, number)

    def _spawn(self, command: list[str], output: str) -> int:
        keeper = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            if self.prctl:
                self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.execv(command[0], command)
        except BaseException as error:
            os.write(2, f"cannot run {command[0]}: {error}\n".encode())
        finally:
            os._exit(127)


def _prctl() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None


def _raise_limit() -> None:
    """Let the mongods open as many files as this user may, since every connection, collection and index takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _parent_watch(parent: int) -> list[int]:
    try:
        return [os.pidfd_open(parent)]
    except (AttributeError, OSError):
        return []


def main() -> None:
    parent, remove = int(sys.argv[1]), sys.argv[2] or None
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        # The parent decides when its servers end; Ctrl-C and hang-up of the terminal are meant for the parent.
        signal.signal(number, signal.SIG_IGN)
    _raise_limit()
    watch = _parent_watch(parent)
    keeper = Keeper(remove)
    pending = b""
    try:
        while os.getppid() == parent:
            ready, _, _ = select.select([0, *watch], [], [], PARENT_LOOK)
            if any(fd in ready for fd in watch):
                break
            if 0 not in ready:
                continue
            received = os.read(0, 65536)
            if not received:
                break
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                try:
                    answer = keeper.handle_request(json.loads(line))
                except OSError as error:
                    answer = {"error": str(error)}
                os.write(1, json.dumps(answer).encode() + b"\n")
    except BrokenPipeError:
        pass
    finally:
        keeper.end()


if __name__ == "__main__":
    main()
