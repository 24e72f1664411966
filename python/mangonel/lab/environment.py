"""The servers of the experiment `websessions`: one store of one class, and Tornado processes, optionally behind nginx.

A worker keeps an environment from part to part, so that a store is started and populated once in a round. Knows no
task.
"""

from __future__ import annotations

import atexit
import json
import os
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from mangonel.engines.certificates import Certificates, certify
from mangonel.engines.engine import Engine
from mangonel.engines.nginx import nginx
from mangonel.engines.programs import find_program
from mangonel.engines.stores import running
from mangonel.lab import cores
from mangonel.lab.contender import Target
from mangonel.lab.site_process import SiteProcess

SITE = "mangonel.lab.website"
CALLGRIND = ("--tool=callgrind", "--zero-before=getppid", "--dump-before=getsid", "-q")


@dataclass(frozen=True)
class Layout:
    """How a store runs."""

    store: str  # the name in `contenders/sites.toml`, without its prefix
    durable: bool = False  # acknowledged writes are on the disk
    own: bool = False  # MongoDB on its own server, which may be stopped; otherwise on the lab's deployment
    unix: bool = False  # over a Unix socket if the store has one; MongoDB on its own server
    tls: bool = False  # encrypted, with a certificate made for it; MongoDB on its own server


class Environment:
    """A running store, its URL for sites, and methods to pause and restart it."""

    def __init__(self, layout: Layout, target: Target) -> None:
        self._stack = ExitStack()
        self._sites: dict[tuple[int, bool], Site] = {}
        self._path = ""
        # An engine or a member of a replica set: both have pause, resume and kill.
        self._server: Any = None
        self._held: list[Any] = []
        try:
            with cores.kept("servers"):
                self.url = self._url(layout, target)
        except BaseException:
            self._stack.close()
            raise

    def site(self, processes: int = 1, *, behind_nginx: bool = False) -> Site:
        key = (processes, behind_nginx)
        if key not in self._sites:
            site = Site(self.url, processes, behind_nginx=behind_nginx)
            self._sites[key] = self._stack.enter_context(closing(site))
        return self._sites[key]

    def counted_site(self) -> Site:
        """Return a new site under valgrind that ends with the environment; Missing if there is no valgrind."""
        return self._stack.enter_context(closing(Site(self.url, 1, counted=True)))

    def stall(self) -> None:
        """Pause the store: it keeps its connections and answers nothing."""
        if self._server is not None:
            self._server.pause()
        elif os.path.isdir(self._path):
            self._held = _locked_shards(self._path)
        else:
            self._held = [_locked_database(self._path)]

    def resume(self) -> None:
        if self._server is not None:
            self._server.resume()
        while self._held:
            self._held.pop().close()

    def restart(self) -> bool:
        """Kill the store as a power failure would, and restart it; return False if it has no server."""
        if self._server is None:
            return False
        self._server.kill()
        with cores.kept("servers"):
            if isinstance(self._server, Engine):
                self._server.start()
            else:
                self._server.restart()
        return True

    def cpu_seconds(self) -> float:
        """Return the processor time of the store's own processes; 0 if it has none."""
        if self._server is None:
            return 0.0
        ticks = 0
        for pid in self._server.family() if isinstance(self._server, Engine) else [self._server.pid]:
            with suppress(OSError):  # the process ended meanwhile
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.resume()
        self._sites.clear()
        self._stack.close()

    def _url(self, layout: Layout, target: Target) -> str:
        store, durable = layout.store, layout.durable
        if store in ("none", "memory", "cookie"):
            return {"none": "none", "memory": "memory:lab", "cookie": "cookie:"}[store]
        if store.startswith("mongodb") or store == "pymongo":
            return self._mongodb(layout, target)
        if store in ("sqlite", "directory"):
            is_file = store == "sqlite"
            self._path = self._folder() + ("/app.db" if is_file else "/sessions")
            scheme = "sqlite:///" if is_file else "files://"
            return f"{scheme}{self._path}?durable={int(durable)}"
        certificates = self._certificates() if layout.tls else None
        engine = self._stack.enter_context(running(store, durable=durable, tls=certificates))
        self._server = engine
        return (layout.unix and engine.unix_url) or engine.url

    def _mongodb(self, layout: Layout, target: Target) -> str:
        uri = target.uri
        if layout.own or layout.unix or layout.tls:
            from mangonel.server import start

            folder = self._folder()
            arguments = ["--unixSocketPrefix", folder] if layout.unix else []
            encrypting = self._certificates().for_mongod() if layout.tls else None
            server = self._stack.enter_context(start(replica_set=1, arguments=arguments, tls=encrypting))
            self._server, uri = server.members[0], server.uri
            if layout.unix:
                # Its members know each other by address, so a client that discovered them would leave the Unix socket.
                path = quote(f"{folder}/mongodb-{self._server.port}.sock", safe="")
                uri = f"mongodb://{path}/?directConnection=true"
        address, _, options = uri.partition("/?")
        address = address.rstrip("/")
        if layout.store == "pymongo":
            concern = "w=majority&journal=true" if layout.durable else "w=1"
            return f"pymongo+{address}/{target.database}?{options}&{concern}"
        # The manual's URL names no write concern, so the server's default applies: majority.
        default = "" if layout.store == "mongodb-majority" else "&w=1"
        concern = "&durable=1" if layout.durable else default
        name = target.collection + ("_durable" if layout.durable else "")
        return f"{address}/{target.database}?{options}&collection={name}{concern}"

    def _folder(self) -> str:
        return self._stack.enter_context(TemporaryDirectory(prefix="mangonel-web-"))

    def _certificates(self) -> Certificates:
        return certify(Path(self._folder()))


class Site:
    """Tornado processes on one store, optionally behind nginx, or one whose instructions are counted."""

    def __init__(
        self, url: str, processes: int, *, behind_nginx: bool = False, counted: bool = False
    ) -> None:
        self._stack = ExitStack()
        before, environment = [], None
        try:
            if counted:
                self._counts = Path(self._stack.enter_context(TemporaryDirectory(prefix="mangonel-counts-")))
                before = [find_program("valgrind"), *CALLGRIND, f"--callgrind-out-file={self._counts}/out"]
                # Sets must have the same order in every run.
                environment = {**os.environ, "PYTHONHASHSEED": "0"}
            self._processes = [
                self._stack.enter_context(
                    closing(SiteProcess(SITE, url, before=before, environment=environment))
                )
                for _ in range(processes)
            ]
            self.port = self._processes[0].port
            # Asks the first process.
            self.get = self._processes[0].get
            if behind_nginx:
                with cores.kept("servers"):
                    self.port = self._stack.enter_context(nginx([each.port for each in self._processes]))
        except BaseException:
            self._stack.close()
            raise

    def used(self) -> tuple[dict[str, int], float]:
        """Return the store's calls and the processor seconds of all processes since the last call."""
        calls: dict[str, int] = {}
        cpu = 0.0
        for process in self._processes:
            told = json.loads(process.get("/calls"))
            cpu += told["cpu"]
            for name, count in told["calls"].items():
                calls[name] = calls.get(name, 0) + count
        return calls, cpu

    def counts(self) -> list[int]:
        """Return the instructions between each begin and end that `/count` marked."""
        files = sorted(self._counts.glob("out.*"), key=lambda path: int(path.suffix[1:]))
        lines = [line for path in files for line in path.read_text().splitlines()]
        return [int(line.split()[1]) for line in lines if line.startswith("summary: ")]

    def close(self) -> None:
        self._stack.close()


_environments: dict[Layout, Environment] = {}


def environment_for(layout: Layout, target: Target) -> Environment:
    """Return an environment, reusing the one of this process if it fits; it ends with the process."""
    if layout not in _environments:
        for other in list(_environments):
            # Close the environment of the previous parts: parts of one class follow each other, so it is done.
            if other.durable != layout.durable:
                _environments.pop(other).close()
        if not _environments:
            atexit.register(_close_all)
        _environments[layout] = Environment(layout, target)
    return _environments[layout]


def _close_all() -> None:
    while _environments:
        _environments.popitem()[1].close()


def _locked_shards(path: str) -> list[Any]:
    """Hold the locks of a writer that never finishes."""
    import fcntl

    held = []
    for shard in range(256):
        folder = f"{path}/{shard:02x}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # The open file holds the lock, so it must stay open.
        file = os.fdopen(os.open(f"{folder}/.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        held.append(file)
    return held


def _locked_database(path: str) -> Any:
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection
