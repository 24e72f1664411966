"""Where the experiment `websessions` plays: one store of one class, and Tornado processes on it, perhaps behind nginx.

A worker keeps a house from part to part, so that a store is started and populated once in a round. Knows no task.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mangonel.lab import cores
from mangonel.lab.certificates import Certificates, certify
from mangonel.lab.contender import Target
from mangonel.lab.stores import Engine, find_program, running

__all__ = ["House", "Site", "house_for"]

NGINX = """
worker_processes 1; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream site {{ {servers} keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{ proxy_pass http://site; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""


class House:
    """A store that runs, its URL for sites, and how to stall and to restart it.

    Args:
        store: a name as in `contenders/web.py`, without its prefix.
        durable: acknowledged writes are on the disk.
        own: MongoDB on a server of its own, which may be stopped; else on the lab's deployment.
        unix: over a Unix socket where the store has one; MongoDB on a server of its own.
        tls: encrypted, with a certificate made for this house; MongoDB on a server of its own.
    """

    def __init__(
        self,
        store: str,
        target: Target,
        *,
        durable: bool,
        own: bool,
        unix: bool = False,
        tls: bool = False,
    ) -> None:
        self._stack = ExitStack()
        self._sites: dict[tuple[int, bool], Site] = {}
        self._path = ""
        self._engine: Engine | None = None
        self._member: Any = None
        self._held: list[Any] = []
        try:
            self.url = self._url(store, target, durable, own, unix, tls)
        except BaseException:
            self._stack.close()
            raise

    def site(self, processes: int = 1, *, behind_nginx: bool = False) -> Site:
        """Return a site on this store; the same one when asked again."""
        key = (processes, behind_nginx)
        if key not in self._sites:
            self._sites[key] = self._stack.enter_context(
                contextlib.closing(Site(self.url, processes, behind_nginx=behind_nginx))
            )
        return self._sites[key]

    def counted_site(self) -> Site:
        """Return a site below valgrind's callgrind, a new one each time; it ends with the house.

        Raises:
            Missing: there is no valgrind.
        """
        return self._stack.enter_context(contextlib.closing(Site(self.url, 1, counted=True)))

    def stall(self) -> None:
        """Let the store keep its connections and answer nobody."""
        if self._engine is not None:
            self._engine.pause()
        elif self._member is not None:
            self._member.pause()
        elif os.path.isdir(self._path):
            self._held = _locked_shards(self._path)
        else:
            self._held = [_locked_database(self._path)]

    def resume(self) -> None:
        """End the stall."""
        if self._engine is not None:
            self._engine.resume()
        elif self._member is not None:
            self._member.resume()
        while self._held:
            self._held.pop().close()

    def restart(self) -> bool:
        """End the store as a power cut would, and start it again; False where there is no server to end."""
        if self._engine is not None:
            self._engine.kill()
            self._engine.start()
        elif self._member is not None:
            self._member.kill()
            self._member.restart()
        else:
            return False
        return True

    def close(self) -> None:
        """End the sites, then the store."""
        self.resume()
        self._sites.clear()
        self._stack.close()

    def _url(self, store: str, target: Target, durable: bool, own: bool, unix: bool, tls: bool) -> str:
        if store in ("none", "memory", "cookie"):
            return {"none": "none", "memory": "memory:lab", "cookie": "cookie:"}[store]
        if store in ("mongodb", "pymongo"):
            uri = target.uri
            if own or unix or tls:
                from mangonel.server import start

                folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-web-"))
                arguments = ["--unixSocketPrefix", folder] if unix else []
                with cores.kept("servers"):
                    encrypting = self._certificates().for_mongod() if tls else None
                    server = self._stack.enter_context(
                        start(replica_set=1, arguments=arguments, tls=encrypting)
                    )
                self._member, uri = server.members[0], server.uri
                if unix:
                    # Its members know each other by address, so a client that looked for them would leave the socket.
                    path = quote(f"{folder}/mongodb-{self._member.port}.sock", safe="")
                    uri = f"mongodb://{path}/?directConnection=true"
            address, _, options = uri.partition("/?")
            address = address.rstrip("/")
            concern = "w=majority&journal=true" if durable else "w=1"
            if store == "pymongo":
                return f"pymongo+{address}/{target.database}?{options}&{concern}"
            concern = "durable=1" if durable else "w=1"
            name = target.collection + ("_durable" if durable else "")
            return f"{address}/{target.database}?{options}&collection={name}&{concern}"
        if store in ("sqlite", "directory"):
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-web-"))
            self._path = f"{folder}/app.db" if store == "sqlite" else f"{folder}/sessions"
            scheme = "sqlite" if store == "sqlite" else "files"
            slash = "/" if store == "sqlite" else ""
            return f"{scheme}://{slash}{self._path}?durable={int(durable)}"
        certificates = self._certificates() if tls else None
        self._engine = self._stack.enter_context(running(store, durable=durable, tls=certificates))
        return (unix and self._engine.unix_url) or self._engine.url

    def _certificates(self) -> Certificates:
        return certify(Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-tls-"))))


class Site:
    """Tornado processes on one store, perhaps behind nginx, or one whose instructions are counted."""

    def __init__(
        self, url: str, processes: int, *, behind_nginx: bool = False, counted: bool = False
    ) -> None:
        self._stack = ExitStack()
        self._counts = ""
        try:
            if counted:
                self._counts = self._stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="mangonel-counts-")
                )
            self.ports = [self._start(url) for _ in range(processes)]
            self.port = self._nginx() if behind_nginx else self.ports[0]
        except BaseException:
            self._stack.close()
            raise

    def get(self, path: str) -> bytes:
        """Return the body of one answer of the first process."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}{path}", timeout=110) as answer:
            body: bytes = answer.read()
        return body

    def used(self) -> tuple[dict[str, int], float]:
        """Return the store's calls and the processor seconds of all processes since this was asked before."""
        calls: dict[str, int] = {}
        cpu = 0.0
        for port in self.ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/calls", timeout=30) as answer:
                told = json.loads(answer.read())
            cpu += told["cpu"]
            for name, count in told["calls"].items():
                calls[name] = calls.get(name, 0) + count
        return calls, cpu

    def counts(self) -> list[int]:
        """Return the instructions between each begin and end that `/count` was asked for."""
        return [_total(path) for path in sorted(Path(self._counts).glob("out.*"), key=_number)]

    def close(self) -> None:
        """End the processes."""
        self._stack.close()

    def _start(self, url: str) -> int:
        command, environment = [sys.executable, "-m", "mangonel.lab.website", url], dict(os.environ)
        if self._counts:
            tool = ["--tool=callgrind", "--zero-before=getppid", "--dump-before=getsid", "-q"]
            command = [find_program("valgrind"), *tool, f"--callgrind-out-file={self._counts}/out", *command]
            # The order of sets must not be another one in every run.
            environment["PYTHONHASHSEED"] = "0"
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._stack.callback(_end, process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the site did not start; its error is above")
        return int(line)

    def _nginx(self) -> int:
        import socket

        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-nginx-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        servers = " ".join(f"server 127.0.0.1:{each};" for each in self.ports)
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w") as file:
            file.write(NGINX.format(folder=folder, servers=servers, port=port))
        command = [find_program("nginx"), "-c", path, "-p", folder]
        with cores.kept("servers"):
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._stack.callback(_end, process)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return port
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


_houses: dict[tuple[str, bool, bool, bool, bool], House] = {}


def house_for(
    store: str,
    target: Target,
    *,
    durable: bool = False,
    own: bool = False,
    unix: bool = False,
    tls: bool = False,
) -> House:
    """Return a house, the one that this process has already if it has; it ends with the process."""
    own = own and store in ("mongodb", "pymongo")
    key = (store, durable, own, unix, tls)
    if key not in _houses:
        for other in list(_houses):
            # What the parts before needed is in the way now; parts of one class follow each other.
            if other[1] != durable:
                _houses.pop(other).close()
        if not _houses:
            atexit.register(_close_all)
        _houses[key] = House(store, target, durable=durable, own=own, unix=unix, tls=tls)
    return _houses[key]


def _close_all() -> None:
    while _houses:
        _houses.popitem()[1].close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _number(path: Path) -> int:
    return int(path.suffix[1:])


def _total(path: Path) -> int:
    for line in path.read_text().splitlines():
        if line.startswith("totals: "):
            return int(line.split()[1])
    raise RuntimeError(f"{path.name} holds no total")


def _locked_shards(path: str) -> list[Any]:
    """Hold what another process would hold that writes and does not end."""
    import fcntl

    held = []
    for shard in range(256):
        folder = f"{path}/{shard:02x}"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # The file is what holds the lock, so it must stay open.
        file = os.fdopen(os.open(f"{folder}/.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        held.append(file)
    return held


def _locked_database(path: str) -> Any:
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection
