"""Websessions behind Tornado, as the original benchmark had them and as visitors behave; store calls are asserted.

The cache class may lose the last second and the durable class may not: each has tables of its own. Acknowledged writes
only. The scenarios: A new visitors, B known readers, C known writers, D the mix of them, E readers who are nobody,
F twenty writers on one websession, G a login and the page behind it, H a store that stalls.
"""

from __future__ import annotations

from typing import Any

from mangonel.lab.contender import Contender
from mangonel.lab.contenders.web import COUNTED, DURABLE, KNOWN, LAYER, STALLS, STORED, WEB, WIRE
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size, Task
from mangonel.lab.experiments._parts import Table, Tabled
from mangonel.lab.experiments._visits import (
    BYSTANDERS_PER_SECOND,
    PAYLOAD,
    WRITERS,
    WRK_SECONDS,
    CountTask,
    LoginTask,
    ParallelTask,
    PopulateTask,
    SiteTask,
    StallTask,
)

# Of the other stores `engines/stores.py` tells. Not read by the lab's own check of write concerns, which counts what
# anybody writes to the lab's server: most of these sites write elsewhere.
W1 = "MongoDB with w:1"
DURABLY = "MongoDB with w:majority, journaled"


class LayerTask(Task):
    """What the layer itself costs, with a store that costs nothing: opening, reading or writing, committing."""

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel.websessions import MemoryStore, WebSessions

        self._part = part
        self._bench = bench
        self._face: Any = WebSessions(MemoryStore()).asynchronous

    def verify(self) -> str:
        return digest(self._bench.run(self._one_visit()))

    def warm_up(self) -> None:
        self.act()

    def act(self) -> int:
        self._bench.run(self._visits(self._part.operations, self._part.id == "layer-write"))
        return self._part.operations

    async def _one_visit(self) -> str:
        from mangonel.websessions import Visit
        from mangonel.websessions.answer import headers_of

        session = await self._face.load(Visit())
        session["v"] = PAYLOAD
        await self._face.commit(session)
        self._cookie = headers_of(session)[0][1].partition(";")[0]
        return str((await self._face.load(Visit(self._cookie)))["v"])

    async def _visits(self, count: int, are_writes: bool) -> None:
        from mangonel.websessions import Visit
        from mangonel.websessions.machine import decide

        face, cookie = self._face, self._cookie
        for number in range(count):
            session = await face.load(Visit(cookie))
            if are_writes:
                session["v"] = number
            else:
                session.get("v")
            if plan := decide(session):
                await face.commit(session, plan)


class WebSessionsExperiment(Tabled):
    """One Tornado process and a store; the original layout of nginx and four processes."""

    def leaves_out(self, contender: Contender, size: Size) -> str:
        """Leave out, where connections are to be encrypted, the stores that have none."""
        if not size.parameters.get("tls", 0) or contender.id in self.references or WIRE in contender.offers:
            return ""
        return "no connection to encrypt"


def _table(size: Size) -> Table:
    """The scenarios in the cache class, the original layout, the durable class, the layer alone.

    Parameters: `population`, how many websessions there are before anybody comes (1000 in the short form, 10 000
    otherwise); `requests` of a sample; `payload` in bytes (100); `unix`, 1 for Unix sockets to the stores that have
    them; `tls`, 1 for encrypted connections, without the stores that have none; `stall` and `wrk`, in seconds;
    `seed` and `durable`, requests of these; `counted`, anonymous requests whose instructions are counted
    (0: not played; 200, in the short form 100, over TLS 0).

    The brief form stalls no store, and counts no instructions: either takes many seconds.

    The full form has three rounds, so that the original layout has its worst and best of three. What takes long
    or is not compared by ratio, as stalls, latencies and the durable class, is played in the first alone.
    """
    is_encrypted = bool(size.parameters.get("tls", 0))
    if is_encrypted and size.parameters.get("unix", 0):
        raise ValueError("expected tls=1 or unix=1, got both; play one series after the other")
    requests = size.parameters.get("requests", size.choose(500, 2000, 150))
    yield from _scenarios(size, requests)
    if not size.quick:
        yield from _durable(size, requests)
    for kind in ("read", "write"):
        title = f"the layer alone, on memory, a {kind}"
        yield f"layer-{kind}", title, LAYER, 20_000, 5, {"judge": "client", "server": False}
    # The last: a part that takes too long on a busy machine takes those behind it along.
    if counted := size.parameters.get("counted", 0 if is_encrypted else size.choose(100, 200, 0)):
        words = "E below valgrind, for the count of instructions; these times mean nothing"
        yield "anonymous-counted", words, COUNTED, counted, (2, 3), {"rounds": 1, "server": False}


def _scenarios(size: Size, requests: int) -> Table:
    population = size.parameters.get("population", size.choose(1000, 10_000, 500))
    # A site that is asked for many at once is waited for 110 s.
    steps = max(1, population // 20_000)
    samples, mix = (1, 2), "90 % reads, 9 % writes, 1 % new; cache class"
    stall, wrk = size.parameters.get("stall", size.choose(1, 2)), size.parameters.get("wrk", WRK_SECONDS)
    seed = size.parameters.get("seed", 10_000)
    bystanders, writes = round(BYSTANDERS_PER_SECOND * (stall + 1.0)), WRITERS * size.choose(5, 10, 3)
    puts = "before all: put by the store's own interface, 50 at once; cache class"
    steady = f"D at 70 % of its fastest rate, latency; {mix}"
    twenty = "F twenty writers at once on one websession; cache class"
    stalls = f"H bystanders' p99, {BYSTANDERS_PER_SECOND} a second, while the store stalls for {stall} s"
    once, w1 = {"rounds": 1}, {"write_concern": W1}
    short = {**w1, "rounds": size.choose(0, 1)}
    put = {**w1, "unit": "websession"}
    stalled = {"judge": "p99", "server": False, "rounds": size.choose(0, 1)}
    yield "populate", puts, STORED, max(1, population // steps), steps, put
    yield "new-visitor", "A new visitor, writes; cache class", WEB, requests, samples, w1
    if not size.quick:
        yield "known-reads", "B known visitor, reads; cache class", WEB, requests, samples, once
        yield "known-reads-wrk", f"B the same by wrk for {wrk} s; cache class", WEB, requests, 1, once
        yield "known-writes", "C known visitor, writes; cache class", WEB, requests, samples, {**w1, **once}
    yield "mixed", f"D {mix}", WEB, requests, samples, w1
    if not size.quick:
        yield "mixed-steady", steady, WEB, requests, samples, {**w1, **once, "judge": "p99"}
    yield "anonymous", "E anonymous reader, one read of nothing", WEB, requests, samples
    yield "parallel-writers", twenty, STORED, writes, 1, short
    yield (
        "login",
        "G login, redirect, page; cache class",
        KNOWN,
        (100, 400, 30),
        1,
        {**short, "unit": "story"},
    )
    if not size.brief:
        yield "stall", stalls, STALLS, bystanders, 1, stalled
    if not size.quick:
        yield "seed", _original(seed, "cache"), WEB, seed, 1, {**w1, "refuses": frozenset({LAYER})}


def _durable(size: Size, requests: int) -> Table:
    shared, mix = {"write_concern": DURABLY, "rounds": 1}, "D 90 % reads, 9 % writes, 1 % new; durable class"
    count, seed = size.parameters.get("durable", 1000), size.parameters.get("seed", 10_000) // 4
    yield "new-visitor-durable", "A new visitor, writes; durable class", DURABLE, count, 2, shared
    yield "mixed-durable", mix, (DURABLE, KNOWN), requests, 1, shared
    yield "seed-durable", _original(seed, "durable"), DURABLE, seed, 3, shared


def _original(requests: int, durability: str) -> str:
    return f"the original: nginx, four processes, ab -n {requests} -c 300; {durability} class"


EXPERIMENT = WebSessionsExperiment(
    "websessions",
    "websessions behind Tornado",
    {
        "populate": PopulateTask,
        "parallel-writers": ParallelTask,
        "login": LoginTask,
        "stall": StallTask,
        "anonymous-counted": CountTask,
        "layer": LayerTask,
        "": SiteTask,
    },
    _table,
    {"unit": "request"},
    version=3,
    passes=2,
    own_process=True,
    loads_site=True,
    brief_s=20.0,
    references=("web-none",),
    # Of these, 40 s are for counting instructions, in the first round only.
    short_budget=130.0,
    full_rounds=3,
    shows="what websessions cost a Tornado site with each store; a run with other store calls than foretold is void",
)
