"""Servers that run in the background until stopped: `lab up` starts them, `lab down` stops them.

A keeper process owns them. The state file records every process with its start time, so that a reused process id is
never killed. Run as `python -m mangonel.engines.daemon FOLDER ORDER`. Knows no driver.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

START_TIMEOUT = 120.0  # seconds that all servers together may take to come up
END_TIMEOUT = 30.0
LOOK_S = 0.05
FILE, LOG = "servers.json", "servers.log"


class DaemonError(Exception):
    """The servers did not start; the message says why."""


class Daemon:
    """The running servers: their addresses and process ids."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.uris: dict[str, str] = content["uris"]
        self.order: dict[str, Any] = content["order"]
        self._keeper: tuple[int, str] = (content["keeper"][0], content["keeper"][1])
        self._processes: list[tuple[int, str]] = [(pid, start) for pid, start in content["processes"]]
        self._data: str = content["data"]

    @property
    def is_kept(self) -> bool:
        """Return whether the keeper process is alive."""
        return _lives(*self._keeper)

    def end(self) -> None:
        """End all servers. If the keeper is gone, end each recorded process whose start time still matches."""
        if _lives(*self._keeper):
            _signal(self._keeper[0], signal.SIGTERM)
            _wait_for([self._keeper], END_TIMEOUT)
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = [each for each in (self._keeper, *self._processes) if _lives(*each)]
            for pid, _ in left:
                _signal(pid, number)
            _wait_for(left, 10.0)
        shutil.rmtree(self._data, ignore_errors=True)


def folder() -> Path:
    """Return the folder of the state file, according to the XDG rules."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "mangonel"


def state(where: Path) -> Daemon | None:
    """Return the contents of the state file, or None if there is none."""
    try:
        return Daemon(json.loads((where / FILE).read_text()))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def up(order: dict[str, Any], where: Path) -> tuple[Daemon, bool]:
    """Start servers that are not running; return them, and whether this call started them.

    Args:
        order: "stores", the names of engines besides MongoDB, and "latency_ms", a round trip; 0 for no delay.
        where: folder of the state file.

    Raises:
        DaemonError: servers of another order are running, or the servers did not start.
    """
    with _locked(where):
        found = state(where)
        if found is not None and found.is_kept:
            if found.order != order:
                raise DaemonError(
                    f"expected no servers, or the same, got {_words(found.order)}: "
                    "`mangonel lab down` ends it"
                )
            return found, False
        if found is not None:
            found.end()
            (where / FILE).unlink(missing_ok=True)
        return _start(order, where), True


def down(where: Path) -> bool:
    """Stop the running servers; return whether there were any."""
    if not (where / FILE).exists():
        return False
    with _locked(where):
        found = state(where)
        if found is not None:
            found.end()
        (where / FILE).unlink(missing_ok=True)
        return found is not None


def started(pid: int) -> str:
    """Return the start time of a process, which tells it from others with its id; "" if it does not exist."""
    try:
        # The fields after the name, which may contain blanks and brackets; the start time is field 22 in total.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except OSError:
        if os.path.isdir("/proc/self"):
            return ""
    told = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def _start(order: dict[str, Any], where: Path) -> Daemon:
    with open(where / LOG, "wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "mangonel.engines.daemon", str(where), json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT
    while (found := state(where)) is None:
        if keeper.poll() is not None:
            words = (where / LOG).read_text(errors="replace").strip().splitlines()
            raise DaemonError(words[-1] if words else "the keeper of the servers ended without a word")
        if time.monotonic() > deadline:
            keeper.terminate()
            keeper.wait(END_TIMEOUT)
            raise DaemonError(f"the servers were not up within {START_TIMEOUT:.0f} s; see {where / LOG}")
        time.sleep(LOOK_S)
    return found


def _words(order: dict[str, Any]) -> str:
    names = ["mongodb", *order["stores"]]
    return ", ".join(names) + (f", {order['latency_ms']:g} ms away as well" if order["latency_ms"] else "")


def _lives(pid: int, start: str) -> bool:
    return bool(start) and started(pid) == start


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_for(processes: list[tuple[int, str]], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while any(_lives(*each) for each in processes) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


@contextlib.contextmanager
def _locked(where: Path) -> Iterator[None]:
    import fcntl

    where.mkdir(parents=True, exist_ok=True)
    with open(where / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _keep(where: Path, order: dict[str, Any]) -> None:
    """Start the servers, write the state file, and hold them until the signal."""
    from mangonel.engines.delay import Delay
    from mangonel.engines.stores import running
    from mangonel.server import start

    with ExitStack() as stack:
        data = tempfile.mkdtemp(prefix="mangonel-lab-")
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        # Engines that refuse to run as root run as another user, who must be able to reach their data.
        os.chmod(data, 0o755)
        tempfile.tempdir = data
        server = stack.enter_context(start(replica_set=1))
        pids = [member.pid for member in server.members if member.pid is not None]
        uris = {"mongodb": server.uri}
        if order["latency_ms"]:
            delay = Delay(server.members[0].port, order["latency_ms"] / 2)
            stack.callback(delay.close)
            pids.append(delay.pid)
            uris["mongodb-delayed"] = f"mongodb://127.0.0.1:{delay.port}/?directConnection=true"
        for name in order["stores"]:
            engine = stack.enter_context(running(name))
            pids.append(engine.pid)
            uris[name] = engine.url
        content = {
            "uris": uris,
            "order": order,
            "keeper": [os.getpid(), started(os.getpid())],
            "processes": [[pid, started(pid)] for pid in pids],
            "data": data,
        }
        # A reader must never see half of the file.
        half = where / f"{FILE}.{os.getpid()}"
        half.write_text(json.dumps(content))
        half.replace(where / FILE)
        while True:
            signal.pause()


def _stop(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


def main() -> int:
    """Run the servers of an order until SIGTERM; return the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        _keep(Path(sys.argv[1]), json.loads(sys.argv[2]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
