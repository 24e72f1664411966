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
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
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

TASKS: dict[str, type[Task]] = {
    "populate": PopulateTask,
    "parallel-writers": ParallelTask,
    "login": LoginTask,
    "stall": StallTask,
    "anonymous-counted": CountTask,
}


class LayerTask(Task):
    """What the layer itself costs, with a store that costs nothing: opening, reading or writing, committing."""

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel.websessions import MemoryStore, Visit, WebSessions
        from mangonel.websessions.answer import headers_of
        from mangonel.websessions.machine import decide

        self._part = part
        self._bench = bench
        self._face: Any = WebSessions(MemoryStore()).asynchronous
        self._visit: Any = Visit
        self._decide: Any = decide
        self._headers_of: Any = headers_of

    def verify(self) -> str:
        value = self._bench.run(self._one_visit())
        return digest(value)

    def warm_up(self) -> None:
        self.act()

    def act(self) -> int:
        play = self._reads if self._part.id == "layer-read" else self._writes
        self._bench.run(play(self._part.operations))
        return self._part.operations

    async def _one_visit(self) -> str:
        face = self._face
        session = await face.load(self._visit())
        session["v"] = PAYLOAD
        await face.commit(session)
        self._cookie = self._headers_of(session)[0][1].partition(";")[0]
        session = await face.load(self._visit(self._cookie))
        return str(session["v"])

    async def _reads(self, count: int) -> None:
        face, visit, cookie, decide = self._face, self._visit, self._cookie, self._decide
        for _ in range(count):
            session = await face.load(visit(cookie))
            session.get("v")
            if plan := decide(session):
                await face.commit(session, plan)

    async def _writes(self, count: int) -> None:
        face, visit, cookie, decide = self._face, self._visit, self._cookie, self._decide
        for number in range(count):
            session = await face.load(visit(cookie))
            session["v"] = number
            if plan := decide(session):
                await face.commit(session, plan)


class WebSessionsExperiment(Experiment):
    """One Tornado process and a store; the original layout of nginx and four processes."""

    id = "websessions"
    version = 3
    title = "websessions behind Tornado"
    passes = 2
    own_process = True
    loads_site = True
    brief_s = 20.0
    references = ("web-none",)
    # Of these, 40 s are for counting instructions, in the first round only.
    short_budget = 130.0
    full_rounds = 3
    shows = "what websessions cost a Tornado site with each store; a run with other store calls than foretold is void"

    def parts(self, size: Size) -> list[Part]:
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
        parts = _scenarios(size, requests)
        if not size.quick:
            parts += _durable(size, requests)
        table: list[tuple[Any, ...]] = [
            (
                f"layer-{kind}",
                f"the layer alone, on memory, a {kind}",
                LAYER,
                20_000,
                5,
                {"judge": "client"},
            )
            for kind in ("read", "write")
        ]
        # The last: a part that takes too long on a busy machine takes those behind it along.
        if counted := size.parameters.get("counted", 0 if is_encrypted else size.choose(100, 200, 0)):
            words = "E below valgrind, for the count of instructions; these times mean nothing"
            table.append(("anonymous-counted", words, COUNTED, counted, (2, 3), {"rounds": 1}))
        return parts + rows(size, table, unit="request", server=False)

    def leaves_out(self, contender: Contender, size: Size) -> str:
        """Leave out, where connections are to be encrypted, the stores that have none."""
        if not size.parameters.get("tls", 0) or contender.id in self.references or WIRE in contender.offers:
            return ""
        return "no connection to encrypt"

    def task(self, part: Part, bench: Bench) -> Task:
        if part.id.startswith("layer"):
            return LayerTask(part, bench)
        kind: Any = TASKS.get(part.id.removesuffix("-durable"), SiteTask)
        task: Task = kind(part, bench)
        return task


def _scenarios(size: Size, requests: int) -> list[Part]:
    population = size.parameters.get("population", size.choose(1000, 10_000, 500))
    # A site that is asked for many at once is waited for 110 s.
    steps = max(1, population // 20_000)
    samples, mix = (1, 2), "90 % reads, 9 % writes, 1 % new; cache class"
    stall, wrk = size.parameters.get("stall", size.choose(1, 2)), size.parameters.get("wrk", WRK_SECONDS)
    seed = size.parameters.get("seed", 10_000)
    bystanders = round(BYSTANDERS_PER_SECOND * (stall + 1.0))
    puts = "before all: put by the store's own interface, 50 at once; cache class"
    stalls = f"H bystanders' p99, {BYSTANDERS_PER_SECOND} a second, while the store stalls for {stall} s"
    original = f"the original: nginx, four processes, ab -n {seed} -c 300; cache class"
    writes, once = {"write_concern": W1}, {"rounds": 1}
    short, full = {**writes, "rounds": size.choose(0, 1)}, {**writes, **once}
    stalled = {"judge": "p99", "server": False, "rounds": size.choose(0, 1)}
    table: list[tuple[str, str, Any, Any, Any, dict[str, Any]]] = [
        ("populate", puts, STORED, max(1, population // steps), steps, {**writes, "unit": "websession"}),
        ("new-visitor", "A new visitor, writes; cache class", WEB, requests, samples, writes),
        ("known-reads", "B known visitor, reads; cache class", WEB, requests, samples, once),
        ("known-reads-wrk", f"B the same by wrk for {wrk} s; cache class", WEB, requests, 1, once),
        ("known-writes", "C known visitor, writes; cache class", WEB, requests, samples, full),
        ("mixed", f"D {mix}", WEB, requests, samples, writes),
        (
            "mixed-steady",
            f"D at 70 % of its fastest rate, latency; {mix}",
            WEB,
            requests,
            samples,
            {**full, "judge": "p99"},
        ),
        ("anonymous", "E anonymous reader, one read of nothing", WEB, requests, samples, {}),
        (
            "parallel-writers",
            "F twenty writers at once on one websession; cache class",
            STORED,
            WRITERS * size.choose(5, 10, 3),
            1,
            short,
        ),
        (
            "login",
            "G login, redirect, page; cache class",
            KNOWN,
            (100, 400, 30),
            1,
            {**short, "unit": "story"},
        ),
        ("stall", stalls, STALLS, bystanders, 1, stalled),
        ("seed", original, WEB, seed, 1, {**writes, "refuses": frozenset({LAYER})}),
    ]
    left_out = {"stall"} if size.brief else set()
    if size.quick:
        left_out |= {"known-reads", "known-reads-wrk", "known-writes", "mixed-steady", "seed"}
    return rows(size, [row for row in table if row[0] not in left_out], unit="request")


def _durable(size: Size, requests: int) -> list[Part]:
    count = size.parameters.get("durable", 1000)
    seed = size.parameters.get("seed", 10_000) // 4
    original = f"the original: nginx, four processes, ab -n {seed} -c 300; durable class"
    table = [
        ("new-visitor-durable", "A new visitor, writes; durable class", DURABLE, count, 2),
        (
            "mixed-durable",
            "D 90 % reads, 9 % writes, 1 % new; durable class",
            (DURABLE, KNOWN),
            requests,
            1,
        ),
        ("seed-durable", original, DURABLE, seed, 3),
    ]
    return rows(size, table, unit="request", write_concern=DURABLY, rounds=1)


EXPERIMENT = WebSessionsExperiment()
