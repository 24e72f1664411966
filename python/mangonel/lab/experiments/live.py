"""The demo's live page under load: 1000 inserts a second reach 200 browsers; measures deliveries and other requests.

The web process is the demo's own, started with a closed shop. The inserts are made here, one by one, acknowledged as
the part states. A delivery lasts from the acknowledgement until a browser's socket has the frame. The lab's generator
sends requests at a steady rate at the same time: to a site with browsers, to one without, and to one without while
another web process has them.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import http.client
import json
import re
import time
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

from mangonel.lab.contenders.drivers import BESIDE, BROWSERS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.latency import Latencies
from mangonel.lab.sentinel import cpu_ns
from mangonel.lab.site_process import SiteProcess
from mangonel.lab.webload import generate

RATE = 1000
IN_FLIGHT = 50
REQUESTS_PER_SECOND = 50
CONNECTIONS = 8  # connections of these requests
HOST = "127.0.0.1"
PASSWORD = "mangonel"
PAGE = "/api/posts?size=10"
# Seconds to wait for the last frames, and between checks.
TIMEOUT_S = 60.0
LOOK_S = 0.3


class Site:
    def __init__(self, uri: str, database: str, browsers: int) -> None:
        self._stack = ExitStack()
        try:
            demo = ["mangonel", "demo", uri, "--database", database, "--port", "0", "--rate", "0"]
            self._web = self._start(*demo, "--password", PASSWORD)
            self.port, self._browsers = self._web.port, None
            self.cookie = self._log_in()
            if browsers:
                words = HOST, str(self.port), self.cookie, str(browsers)
                self._browsers = self._start("mangonel.lab.browsers", *words)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self._stack.close()

    def frames(self) -> dict[str, list[int]]:
        """Return the frames since the last call: arrival times by the customers in them."""
        if self._browsers is None:
            return {}
        self._browsers.tell()
        return json.loads(self._browsers.line())

    def requests(self, count: int) -> list[int]:
        """Send `count` requests at their rate, and return the duration of each in µs.

        Counted from sending: at this rate hardly a request waits for a connection, and a late wake-up is the load's
        fault.
        """
        targets = [(PAGE, self.cookie)]
        return generate(self.port, count, CONNECTIONS, rate=REQUESTS_PER_SECOND, targets=targets).services_us

    def cpu(self) -> float:
        """Return the processor seconds of the web process, with all its threads."""
        return cpu_ns(self._web.process.pid) / 1e9

    def _start(self, *arguments: str) -> SiteProcess:
        return self._stack.enter_context(contextlib.closing(SiteProcess(*arguments)))

    def _log_in(self) -> str:
        line = http.client.HTTPConnection(HOST, self.port, timeout=30)
        with contextlib.closing(line):
            line.request("GET", "/login")
            answer = line.getresponse()
            page = answer.read().decode()
            token = re.search(r'name="_csrf" value="([^"]+)"', page)
            assert token is not None
            form = urlencode({"user": "ada", "password": PASSWORD, "_csrf": token[1]})
            cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
            headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
            line.request("POST", "/login", form, headers)
            answer = line.getresponse()
            if answer.status != 302:
                raise RuntimeError(f"expected to be logged in, got {answer.status}")
            return (answer.getheader("Set-Cookie") or "").partition(";")[0]


class LiveTask(Task):
    def __init__(self, part: Part, bench: Bench) -> None:
        self._part = part
        self._bench = bench
        name = bench.name
        self._database = f"{bench.target.database}_{name.replace('-', '_')}"
        self._browsers = BROWSERS[name]
        uri, is_beside = bench.target.uri, name == BESIDE
        self._sites = ExitStack()
        # It has the one method that the bench needs, `close`.
        bench.adapter = self._sites
        self._asked = self._open(uri, 0 if is_beside else self._browsers)
        self._watched = self._open(uri, self._browsers) if is_beside else self._asked
        self._made = 0
        self._requests = Latencies()
        self._deliveries = Latencies()
        self._cpu = 0.0
        self._wall = 0.0

    def _open(self, uri: str, browsers: int) -> Site:
        return self._sites.enter_context(contextlib.closing(Site(uri, self._database, browsers)))

    def verify(self) -> str:
        self._deliver(RATE // 10)
        return digest("delivered")

    def warm_up(self) -> None:
        self._bench.run(self._load(RATE // 2))

    def act(self) -> int:
        self._deliver(self._part.operations)
        return self._part.operations

    def _deliver(self, count: int) -> None:
        self._bench.run(self._load(count))
        if len(self._deliveries) != count * self._browsers:
            raise RuntimeError(
                f"expected {count} deliveries to each of {self._browsers}, counted {len(self._deliveries)}"
            )

    def extras(self) -> dict[str, float]:
        """Return the part's latencies in µs, and the web process's processor time in place of ours."""
        shown = self._deliveries if self._part.id == "delivery" else self._requests
        return {
            **{f"p{share:g}": shown.at(share) for share in (50, 90, 99, 99.9)},
            "max": shown.at(100),
            "requests": float(len(self._requests)),
            "web_cpu": self._cpu / self._wall,
            "cpu_ns": self._cpu * 1e9,
        }

    async def _load(self, count: int) -> None:
        from mangonel import AsyncMongoClient

        self._requests, self._deliveries = Latencies(), Latencies()
        acknowledged: dict[int, int] = {}
        site = self._asked
        self._watched.frames()
        async with AsyncMongoClient[Any](self._bench.target.uri) as client:
            customers: Any = client[self._database].customers
            beside = asyncio.to_thread(site.requests, max(1, REQUESTS_PER_SECOND * count // RATE))
            began, cpu = time.monotonic(), site.cpu()
            made = range(self._made, self._made + count)
            _, took = await asyncio.gather(self._insert(customers, made, acknowledged), beside)
            self._wall, self._cpu = time.monotonic() - began, site.cpu() - cpu
            for each in took:
                self._requests.record(1000 * each)
        self._made += count
        expected, deadline = count * self._browsers, time.monotonic() + TIMEOUT_S
        while True:
            for numbers, times in self._watched.frames().items():
                for number in map(int, filter(None, numbers.split(","))):
                    for at in times:
                        # A browser may receive it before the writer has its acknowledgement.
                        self._deliveries.record(max(0, at - acknowledged[number]))
            if len(self._deliveries) >= expected or time.monotonic() > deadline:
                return
            await asyncio.sleep(LOOK_S)

    async def _insert(self, customers: Any, numbers: range, acknowledged: dict[int, int]) -> None:
        """Insert at the rate, each at its due time, up to the limit in flight."""
        queue = iter(numbers)
        start = time.monotonic()

        async def play() -> None:
            for number in queue:
                wait = start + (number - numbers.start) / RATE - time.monotonic()
                if wait > 0:
                    await asyncio.sleep(wait)
                joined = dt.datetime.now(dt.UTC)
                await customers.insert_one({"name": f"n{number:07}", "city": "Oslo", "joined": joined})
                acknowledged[number] = time.monotonic_ns()

        await asyncio.gather(*(play() for _ in range(IN_FLIGHT)))


EXPERIMENT = Tabled("live", LiveTask)
