"""The tasks of the experiment `websessions`: a load, and the store calls that it must cause; other calls void it."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
import urllib.error
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mangonel.engines.programs import has_program
from mangonel.lab.digest import digest
from mangonel.lab.environment import Environment, Layout, Site, environment_for
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.webload import Ask, generate, percentile, players, run_ab, run_wrk, visit_all

AT_ONCE = 300
VISITORS = 50
WRITERS = 20
PAYLOAD = "x" * 100
# Latency is measured at this share of the fastest rate.
SHARE = 0.7
BYSTANDERS_PER_SECOND = 200
COUNT_WARM_UP = 60
WRK_SECONDS = 3
# A visitor's next request comes a thousand requests later; after a long stall the two overlap, and one writes again.
MEETINGS = 0.002

# wrk's script: visitors in turn.
WRK_VISITS = """\
local c, i = {}, 0
for l in io.lines("COOKIES") do c[#c + 1] = l end
request = function()
  i = i % #c + 1
  return wrk.format("GET", "/read", {Cookie = c[i]})
end
"""

# The request of each part; the mix varies, see `_visit_of`.
VISITS = {
    "new-visitor": "new",
    "seed": "new",
    "known-reads": "read",
    "known-writes": "write",
    "anonymous": "nothing",
}
STATELESS = ("none", "cookie")
MONGODB = ("mongodb", "mongodb-majority", "pymongo")
# The end of a part's name: the number of concurrent requests.
LEVEL = re.compile(r"-c(\d+)$")
# Engines that know a user's websessions read the user's epoch before and after a login.
WITHOUT_USERS = ("memcached", "directory", "cookie")


def _met_themselves(foretold: dict[str, int], calls: dict[str, int]) -> bool:
    """Return whether the surplus is a few writes that met another write of the same visitor: a get and a put each."""
    if calls.keys() != foretold.keys() or set(foretold) != {"get", "put"}:
        return False
    gets, puts = calls["get"] - foretold["get"], calls["put"] - foretold["put"]
    return gets == puts and 0 < puts <= max(1, MEETINGS * foretold["put"])


class VisitTask(Task):
    """The common base: an environment, a site, and the counting."""

    def __init__(self, part: Part, bench: Bench, *, own: bool = False) -> None:
        self._part = part
        self._bench = bench
        level = LEVEL.search(part.id)
        self._level = int(level[1]) if level else 0
        self._kind = LEVEL.sub("", part.id).removesuffix("-durable")
        self._store = bench.name.removeprefix("web-")
        layout = Layout(
            self._store,
            durable=part.id.endswith("-durable"),
            # The part whose processor time is measured alone.
            own=(own or bool(level)) and self._store in MONGODB,
            unix=bool(bench.size.parameters.get("unix", 0)),
            tls=bool(bench.size.parameters.get("tls", 0)),
        )
        self._environment: Environment = environment_for(layout, bench.target)
        is_seed = self._kind == "seed"
        self._site: Site = self._environment.site(4 if is_seed else 1, behind_nginx=is_seed)
        self._loads = 0
        self._store_cpu = 0.0
        self._size = bench.size.parameters.get("payload", len(PAYLOAD))
        self._payload = "x" * self._size

    def verify(self) -> str:
        self._visit([("/health", "")])
        return digest("visited")

    def arrange(self) -> None:
        self._site.used()
        self._store_cpu = self._environment.cpu_seconds()

    def act(self) -> int:
        self.load(self._part.operations)
        return self._part.operations

    def load(self, count: int) -> None:
        """Perform `count` visits, or other operations of the part."""
        raise NotImplementedError

    def _counted(self, wanted: dict[str, int], operations: int) -> dict[str, float]:
        """Return Tornado's processor time per operation, after checking the store's calls."""
        calls, cpu = self._site.used()
        wanted = {name: count for name, count in wanted.items() if count}
        if self._store not in STATELESS and calls != wanted and not _met_themselves(wanted, calls):
            raise RuntimeError(f"void: expected the store's calls to be {wanted}, they are {calls}")
        store = self._environment.cpu_seconds() - self._store_cpu
        return {"tornado_us": cpu / operations * 1e6, "store_us": store / operations * 1e6}

    def _visit(self, requests: list[tuple[str, str]], at_once: int = VISITORS) -> list[str]:
        return visit_all(self._site.port, requests, min(at_once, len(requests)))


class SiteTask(VisitTask):
    """Repeated requests of one kind, sent by `ab`, `wrk` or the lab's generator."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._cookies = [""]
        self._rate = 0.0
        self._seen: dict[str, float] = {}
        self._wrk_requests = 0.0

    def verify(self) -> str:
        """Create the visitors: some of the population, or new ones."""
        if self._kind.startswith(("known", "mixed")) and self._store != "none":
            self._cookies = json.loads(self._site.get("/visitors"))
            if not self._cookies:
                count = min(1000, self._part.operations)
                self._cookies = self._visit([(f"/?v={self._payload}", "")] * count)
            self._visit([("/read", self._cookies[0])])
        return super().verify()

    def warm_up(self) -> None:
        """Open the connections of the store's client; if needed, find the fastest rate."""
        if self._kind == "mixed-steady":
            count = max(500, self._part.operations // 5)
            self._loads += 1
            self._rate = SHARE * count / (self._generated(count)["wall_ns"] / 1e9)
        else:
            self.load(max(300, self._part.operations // 5))
        self._site.used()

    def extras(self) -> dict[str, float]:
        """Return the load's figures, after checking the store's calls."""
        found, self._seen = self._seen, {}
        if self._kind == "known-reads-wrk":
            calls, cpu = self._site.used()
            gets = calls.pop("get", 0)
            # wrk ends a little late, and only one side counts the requests in flight at that moment.
            if self._store not in STATELESS and (
                calls or abs(gets - self._wrk_requests) > 2 * VISITORS + 0.1 * gets
            ):
                raise RuntimeError(
                    f"void: expected {self._wrk_requests:.0f} get, there were {gets} and {calls}"
                )
            return {**found, "tornado_us": cpu / self._wrk_requests * 1e6}
        requests = self._part.operations
        return {**found, **self._counted(_foretold(self._kind, requests), requests)}

    def load(self, count: int) -> None:
        self._loads += 1
        base = f"http://127.0.0.1:{self._site.port}"
        if self._kind in ("new-visitor", "seed", "anonymous"):
            path = "/anonymous" if self._kind == "anonymous" else f"/?v={self._payload}"
            at_once = min(self._level or AT_ONCE, count)
            if self._kind == "seed" or has_program("ab"):
                rate = run_ab(base + path, count, at_once).requests_per_second
            else:
                targets = [(path, "")]
                seen = generate(self._site.port, count, at_once, keep_alive=False, targets=targets)
                rate = count / seen.seconds
            self._seen = {"requests_per_second": rate, "wall_ns": count / rate * 1e9}
        elif self._kind == "known-reads-wrk":
            # The first load is the warm-up.
            self._wrk(base, self._bench.size.parameters.get("wrk", WRK_SECONDS) if self._loads > 1 else 1)
        else:
            self._seen = self._generated(count)

    def _generated(self, operations: int) -> dict[str, float]:
        targets = [self._request(number) for number in range(operations)]
        at_once = self._level or VISITORS
        seen = generate(self._site.port, operations, at_once, rate=self._rate, targets=targets)
        rate = {} if self._rate else {"requests_per_second": operations / seen.seconds}
        return {**seen.figures(), **rate, "wall_ns": seen.seconds * 1e9}

    def _wrk(self, base: str, seconds: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            cookies, script = Path(folder, "cookies"), Path(folder, "visits.lua")
            cookies.write_text("\n".join(self._cookies) + "\n")
            script.write_text(WRK_VISITS.replace("COOKIES", str(cookies)))
            rate = run_wrk(f"{base}/read", seconds, VISITORS, script=str(script))
        self._wrk_requests = rate * seconds
        self._seen = {"requests_per_second": rate, "wall_ns": 1e9 / rate * self._part.operations}

    def _request(self, number: int) -> tuple[str, str]:
        cookie, visit = self._cookies[number % len(self._cookies)], _visit_of(self._kind, number)
        if visit == "read":
            return "/read", cookie
        # Never the stored value. Of the original's length, unless a size was requested.
        value = f"{self._loads}-{number}"
        if "payload" in self._bench.size.parameters:
            value = value.ljust(self._size, "x")
        return f"/?v={value}", cookie if visit == "write" else ""


def _visit_of(kind: str, number: int) -> str:
    """Return the action of the request with this number; the mix has 90 reads, 9 writes and 1 new visitor in 100."""
    if not kind.startswith("mixed"):
        return VISITS[kind]
    place = number % 100
    return "read" if place < 90 else "write" if place < 99 else "new"


def _foretold(kind: str, requests: int) -> dict[str, int]:
    visits = Counter(_visit_of(kind, number) for number in range(requests))
    return {"get": visits["read"] + visits["write"], "put": visits["write"] + visits["new"]}


class PopulateTask(VisitTask):
    """Websessions put into the store through its own interface, fifty at once; later parts use them."""

    def warm_up(self) -> None:
        self._site.get("/populate?count=100")

    def load(self, count: int) -> None:
        self._site.get(f"/populate?count={count}&size={self._size}")


class ParallelTask(VisitTask):
    """Twenty concurrent requests write one websession, each its own key; no key may be lost."""

    def verify(self) -> str:
        self._begin()
        return super().verify()

    def warm_up(self) -> None:
        self._burst("warm")

    def arrange(self) -> None:
        self._begin()
        super().arrange()

    def load(self, count: int) -> None:
        for number in range(count // WRITERS):
            self._burst(str(number))

    def extras(self) -> dict[str, float]:
        """Return how many writes conflicted, after checking the store's calls and the keys."""
        calls, cpu = self._site.used()
        writes = self._part.operations
        # A write reads once; each conflict adds a read and a write.
        if calls.get("get") != calls.get("put") or calls.get("put", 0) < writes:
            raise RuntimeError(f"void: expected a get for each put of {writes} writes, there were {calls}")
        kept = int(self._site.get("/keys", self._cookie))
        if kept != writes + 1:
            raise RuntimeError(f"void: {writes + 1} keys were acknowledged, {kept} are kept")
        return {"tornado_us": cpu / writes * 1e6, "conflicts": calls["put"] / writes - 1}

    def _begin(self) -> None:
        (self._cookie,) = self._visit([("/add?key=first", "")])

    def _burst(self, name: str) -> None:
        self._visit([(f"/add?key={name}-{number}", self._cookie) for number in range(WRITERS)], WRITERS)


class LoginTask(VisitTask):
    """A login is answered with a redirect, and the next page must know the user: read your own writes."""

    def warm_up(self) -> None:
        self.load(20)
        self._site.used()

    def extras(self) -> dict[str, float]:
        gets = 1 if self._store in WITHOUT_USERS else 3
        stories = self._part.operations
        return self._counted({"put": stories, "get": gets * stories}, stories)

    def load(self, count: int) -> None:
        async def stories(ask: Ask, number: int) -> None:
            for story in range(number, count, WRITERS):
                status, cookie, _ = await ask(f"/login?user=user{story}", "")
                if status != 302 or not cookie:
                    raise RuntimeError(f"expected a redirect with a cookie, got {status}")
                status, _, body = await ask("/page", cookie)
                if (status, body) != (200, f"user{story}".encode()):
                    raise RuntimeError(f"the page does not know who logged in: {status} {body!r}")

        asyncio.run(players(self._site.port, WRITERS, stories))


class CountTask(VisitTask):
    """Anonymous readers one after another, each on its own connection, measured in Tornado's instructions.

    Time cannot resolve 2 % on a busy machine, but a count can; a second site without sessions gives the baseline.
    """

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self._site = self._environment.counted_site()

    def warm_up(self) -> None:
        """Let the interpreter specialise frequent code, and count once: the first count is 3 % above the others."""
        self.load(COUNT_WARM_UP)
        self.arrange()
        self.load(COUNT_WARM_UP)
        self._site.get("/count?what=end")

    def arrange(self) -> None:
        self._site.get("/count?what=begin")

    def extras(self) -> dict[str, float]:
        self._site.get("/count?what=end")
        return {"instructions": self._site.counts()[-1] / self._part.operations}

    def load(self, count: int) -> None:
        for _ in range(count):
            self._site.get("/anonymous")


class StallTask(VisitTask):
    """The store stops answering for a while; requests that do not need it must not notice."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench, own=True)
        self._seconds = bench.size.parameters.get("stall", bench.size.choose(1, 2))
        self._seen: dict[str, float] = {}

    def warm_up(self) -> None:
        self._visit([(f"/?v={self._payload}", "")] * 100)

    def act(self) -> int:
        """Stall the store in the middle of a steady load of requests that use no websession."""
        told: dict[str, float] = {}
        with ThreadPoolExecutor(2) as pool:
            stalled = pool.submit(self._stall, told, pool)
            seen = generate(
                self._site.port,
                self._part.operations,
                VISITORS,
                rate=BYSTANDERS_PER_SECOND,
                targets=[("/health", "")],
            )
            stalled.result()
        # A generator that was late by milliseconds does not void a figure of seconds.
        shares = {f"p{share:g}": float(percentile(seen.latencies_us, share)) for share in (50.0, 99.0, 100.0)}
        shares["max"] = shares.pop("p100")
        self._seen = {**shares, **told, "wall_ns": seen.seconds * 1e9}
        # With a blocked loop, most requests of the stall would have waited; a single late one is noise.
        waited = percentile(seen.latencies_us, 75.0) / 1e6
        if waited > self._seconds / 4:
            raise RuntimeError(f"a quarter of the bystanders waited {waited:.2f} s while the store stalled")
        return self._part.operations

    def extras(self) -> dict[str, float]:
        self._site.used()
        return self._seen

    def _stall(self, told: dict[str, float], pool: ThreadPoolExecutor) -> None:
        time.sleep(0.6)  # until the load has begun
        self._environment.stall()
        try:
            waiting = pool.submit(self._wait_for_the_store, told)
            time.sleep(self._seconds)
        finally:
            self._environment.resume()
        told["recovery_ms"] = self._recovery()
        waiting.result()
        if not self._bench.size.quick and self._environment.restart():
            told["restart_ms"] = self._recovery()

    def _wait_for_the_store(self, told: dict[str, float]) -> None:
        statuses: Counter[bool] = Counter()

        async def write(ask: Ask, number: int) -> None:
            statuses[(await ask(f"/?v={self._payload}", ""))[0] == 200] += 1

        asyncio.run(players(self._site.port, WRITERS, write))
        told["waited"], told["refused"] = float(statuses[True]), float(statuses[False])

    def _recovery(self) -> float:
        start = time.perf_counter()
        while True:
            try:
                self._site.get(f"/?v={self._payload}")
                return (time.perf_counter() - start) * 1000
            except urllib.error.URLError:
                if time.perf_counter() - start > 60:
                    raise
                time.sleep(0.02)
