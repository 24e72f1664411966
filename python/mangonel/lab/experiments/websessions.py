"""Websessions behind Tornado, as the original benchmark had them and as visitors behave; store calls are asserted.

The cache class may lose the last second and the durable class may not: two parts, two tables. Acknowledged writes only.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.contenders.web import DURABLE, LAYER, SHORT, WEB
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.stores import find_program, running
from mangonel.lab.webload import run_ab, visit_all

AT_ONCE = 300
VISITORS = 50
PAYLOAD = "x" * 100

# Store calls for each request, by part.
CALLS: dict[str, dict[str, float]] = {
    "new-visitor": {"put": 1},
    "new-visitor-durable": {"put": 1},
    "known-reads": {"get": 1},
    "known-writes": {"get": 1, "put": 1},
    "mixed": {"get": 0.99, "put": 0.10},
    "anonymous": {},
    "seed": {"put": 1},
}
STATELESS = ("none", "cookie")

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


class Site:
    """Tornado processes on one store, perhaps behind nginx; a bench closes it like an adapter."""

    def __init__(
        self, store: str, target: Target, *, durable: bool, processes: int, behind_nginx: bool
    ) -> None:
        self._stack = ExitStack()
        try:
            url = self._url(store, target, durable)
            self.ports = [self._start(url) for _ in range(processes)]
            self.port = self._nginx() if behind_nginx else self.ports[0]
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """End the processes and the store."""
        self._stack.close()

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

    def _url(self, store: str, target: Target, durable: bool) -> str:
        if store in ("none", "memory", "cookie"):
            return {"none": "none", "memory": "memory:lab", "cookie": "cookie:"}[store]
        if store in ("mongodb", "pymongo"):
            address, _, options = target.uri.partition("/?")
            if store == "pymongo":
                concern = "w=majority&journal=true" if durable else "w=1"
                return f"pymongo+{address}/{target.database}?{options}&{concern}"
            concern = "durable=1" if durable else "w=1"
            return f"{address}/{target.database}?{options}&collection={target.collection}&{concern}"
        if store in ("sqlite", "directory"):
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-web-"))
            path = f"sqlite:///{folder}/app.db" if store == "sqlite" else f"files://{folder}/sessions"
            return f"{path}?durable={int(durable)}"
        return self._stack.enter_context(running(store, durable=durable)).url

    def _start(self, url: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-m", "mangonel.lab.website", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
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
        process = subprocess.Popen(
            [find_program("nginx"), "-c", path, "-p", folder], stdin=subprocess.DEVNULL
        )
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


class SiteTask(Task):
    """So many requests of one kind; a run whose store calls are not as expected is void."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self._part = part
        self._bench = bench
        store = bench.contender.id.removeprefix("web-").removesuffix("#2")
        is_seed = part.id == "seed"
        self._site = bench.adapter = Site(
            store,
            bench.target,
            durable=part.id.endswith("-durable"),
            processes=4 if is_seed else 1,
            behind_nginx=is_seed,
        )
        self._store = store
        self._is_stateless = store in STATELESS
        self._cookies: list[str] = [""]
        self._loads = 0

    def verify(self) -> str:
        """Make visitors, and see that a login-like write is read after a redirect's time: at once."""
        count = 200 if self._part.id in ("known-reads", "known-writes", "mixed") else 1
        cookies = self._visit([(f"/?v={PAYLOAD}", "")] * count)
        self._cookies = cookies or [""]
        if self._store != "none" and len(cookies) != count:
            raise RuntimeError(f"expected {count} cookies, got {len(cookies)}")
        if cookies:
            self._visit([("/read", cookies[0])])
        return digest("visited")

    def warm_up(self) -> None:
        """Open the connections of the store's client."""
        self._load(max(300, self._part.operations // 5))
        self._site.used()

    def arrange(self) -> None:
        """Begin to count."""
        self._site.used()

    def act(self) -> int:
        """Send the requests."""
        self._load(self._part.operations)
        return self._part.operations

    def extras(self) -> dict[str, float]:
        """Return Tornado's processor time for each request, after looking at the store's calls."""
        calls, cpu = self._site.used()
        if not self._is_stateless:
            for name, share in CALLS[self._part.id].items():
                expected = share * self._part.operations
                if calls.pop(name, 0) != round(expected):
                    raise RuntimeError(f"void: expected {round(expected)} {name} for the run")
            if calls:
                raise RuntimeError(f"void: unexpected store calls {calls}")
        return {"tornado_us": cpu / self._part.operations * 1e6}

    def _load(self, operations: int) -> None:
        kind = self._part.id
        self._loads += 1
        base = f"http://127.0.0.1:{self._site.port}"
        if kind in ("new-visitor", "new-visitor-durable", "seed"):
            run_ab(f"{base}/?v={PAYLOAD}", operations, min(AT_ONCE, operations))
        elif kind == "anonymous":
            run_ab(f"{base}/anonymous", operations, min(AT_ONCE, operations))
        else:
            self._visit([self._request(kind, number) for number in range(operations)])

    def _request(self, kind: str, number: int) -> tuple[str, str]:
        cookie = self._cookies[number % len(self._cookies)]
        if kind == "known-reads":
            return "/read", cookie
        if kind == "known-writes":
            return f"/?v={self._loads}-{number}", cookie  # never what is stored already
        # The mix: 90 known readers, 9 known writers and one new visitor in a hundred.
        place = number % 100
        if place == 99:
            return f"/?v={number}", ""
        return (f"/?v={self._loads}-{number}", cookie) if place >= 90 else ("/read", cookie)

    def _visit(self, requests: list[tuple[str, str]]) -> list[str]:
        import asyncio

        # 50 visitors with four cookies each: no write conflicts, so the store's calls can be foretold.
        at_once = min(VISITORS, len(requests))
        return asyncio.run(visit_all(self._site.port, requests, at_once))


class LayerTask(Task):
    """What the layer itself costs, with a store that costs nothing: opening, reading or writing, committing."""

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel.websessions import MemoryStore, Visit, WebSessions

        self._part = part
        self._bench = bench
        self._face: Any = WebSessions(MemoryStore()).asynchronous
        self._visit: Any = Visit

    def verify(self) -> str:
        """Store a visitor's value and read it again."""
        value = self._bench.run(self._one_visit())
        return digest(value)

    def warm_up(self) -> None:
        """Play once."""
        self.act()

    def act(self) -> int:
        """Read, or write, so many times."""
        play = self._reads if self._part.id == "layer-read" else self._writes
        self._bench.run(play(self._part.operations))
        return self._part.operations

    async def _one_visit(self) -> str:
        face = self._face
        session = await face.load(self._visit())
        session["v"] = PAYLOAD
        await face.commit(session)
        self._cookie = session._headers()[0][1].partition(";")[0]
        session = await face.load(self._visit(self._cookie))
        return str(session["v"])

    async def _reads(self, count: int) -> None:
        face, visit, cookie = self._face, self._visit, self._cookie
        for _ in range(count):
            session = await face.load(visit(cookie))
            session.get("v")
            if plan := session._decide():
                await face.commit(session, plan)

    async def _writes(self, count: int) -> None:
        face, visit, cookie = self._face, self._visit, self._cookie
        for number in range(count):
            session = await face.load(visit(cookie))
            session["v"] = number
            if plan := session._decide():
                await face.commit(session, plan)


class WebSessionsExperiment(Experiment):
    """One Tornado process and a store; the original layout of nginx and four processes."""

    id = "websessions"
    title = "websessions behind Tornado"
    references = ("web-none",)

    def parts(self, size: Size) -> list[Part]:
        """The original's handler in both classes, known visitors, anonymous readers, the original layout, the layer."""
        needs = frozenset({SHORT if size.quick else WEB})
        requests = size.parameters.get("requests", size.choose(1500, 5000))
        parts = [
            Part("new-visitor", "new visitor, writes; cache class", needs, requests, 3, "request", "w:1"),
            Part("anonymous", "anonymous reader, one read of nothing", needs, requests, 3, "request"),
        ]
        if not size.quick:
            durable = frozenset({DURABLE})
            parts += [
                Part(
                    "new-visitor-durable",
                    "new visitor, writes; durable class",
                    durable,
                    size.parameters.get("durable", 2000),
                    3,
                    "request",
                    "w:majority, journaled",
                ),
                Part("known-reads", "known visitor, reads; cache class", needs, requests, 3, "request"),
                Part(
                    "known-writes", "known visitor, writes; cache class", needs, requests, 3, "request", "w:1"
                ),
                Part(
                    "mixed",
                    "90 % reads, 9 % writes, 1 % new; cache class",
                    needs,
                    requests,
                    3,
                    "request",
                    "w:1",
                ),
                Part(
                    "seed",
                    "nginx, four processes, ab -n 10000 -c 300; cache class",
                    needs,
                    size.parameters.get("seed", 10_000),
                    3,
                    "request",
                    "w:1",
                    refuses=frozenset({LAYER}),
                ),
            ]
        alone = frozenset({LAYER})
        for kind in ("read", "write"):
            parts.append(
                Part(
                    f"layer-{kind}",
                    f"the layer alone, on memory, a {kind}",
                    alone,
                    20_000,
                    5,
                    "request",
                    judge="client",
                    server=False,
                )
            )
        return parts

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task of a part."""
        return LayerTask(part, bench) if part.id.startswith("layer") else SiteTask(part, bench)


EXPERIMENT = WebSessionsExperiment()
