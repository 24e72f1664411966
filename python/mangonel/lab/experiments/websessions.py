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

# Of the other stores `lab/stores.py` tells. Not read by the lab's own check of write concerns, which counts what
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
        alone = frozenset({LAYER})
        parts += [
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
            for kind in ("read", "write")
        ]
        # The last: a part that takes too long on a busy machine takes those behind it along.
        if counted := size.parameters.get("counted", 0 if is_encrypted else size.choose(100, 200, 0)):
            parts.append(
                Part(
                    "anonymous-counted",
                    "E below valgrind, for the count of instructions; these times mean nothing",
                    frozenset({COUNTED}),
                    counted,
                    size.choose(2, 3),
                    "request",
                    server=False,
                    rounds=1,
                )
            )
        return parts

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
    everybody, known, stored = frozenset({WEB}), frozenset({KNOWN}), frozenset({STORED})
    samples = size.choose(1, 2)
    population = size.parameters.get("population", size.choose(1000, 10_000, 500))
    # A site that is asked for many at once is waited for 110 s.
    steps = max(1, population // 20_000)
    parts = [
        Part(
            "populate",
            "before all: put by the store's own interface, 50 at once; cache class",
            stored,
            max(1, population // steps),
            steps,
            "websession",
            W1,
        ),
        Part(
            "new-visitor",
            "A new visitor, writes; cache class",
            everybody,
            requests,
            samples,
            "request",
            W1,
        ),
    ]
    if not size.quick:
        parts += [
            Part(
                "known-reads",
                "B known visitor, reads; cache class",
                everybody,
                requests,
                samples,
                "request",
                rounds=1,
            ),
            Part(
                "known-reads-wrk",
                f"B the same by wrk for {size.parameters.get('wrk', WRK_SECONDS)} s; cache class",
                everybody,
                requests,
                1,
                "request",
                rounds=1,
            ),
            Part(
                "known-writes",
                "C known visitor, writes; cache class",
                everybody,
                requests,
                samples,
                "request",
                W1,
                rounds=1,
            ),
        ]
    mix = "90 % reads, 9 % writes, 1 % new; cache class"
    parts.append(Part("mixed", f"D {mix}", everybody, requests, samples, "request", W1))
    if not size.quick:
        parts.append(
            Part(
                "mixed-steady",
                f"D at 70 % of its fastest rate, latency; {mix}",
                everybody,
                requests,
                samples,
                "request",
                W1,
                judge="p99",
                rounds=1,
            )
        )
    writes, stories = WRITERS * size.choose(5, 10, 3), size.choose(100, 400, 30)
    stall = size.parameters.get("stall", size.choose(1, 2))
    parts += [
        Part("anonymous", "E anonymous reader, one read of nothing", everybody, requests, samples, "request"),
        Part(
            "parallel-writers",
            "F twenty writers at once on one websession; cache class",
            stored,
            writes,
            1,
            "request",
            W1,
            rounds=size.choose(0, 1),
        ),
        Part(
            "login",
            "G login, redirect, page; cache class",
            known,
            stories,
            1,
            "story",
            W1,
            rounds=size.choose(0, 1),
        ),
    ]
    if not size.brief:
        parts.append(
            Part(
                "stall",
                f"H bystanders' p99, {BYSTANDERS_PER_SECOND} a second, while the store stalls for {stall} s",
                frozenset({STALLS}),
                round(BYSTANDERS_PER_SECOND * (stall + 1.0)),
                1,
                "request",
                judge="p99",
                server=False,
                rounds=size.choose(0, 1),
            )
        )
    if not size.quick:
        seed = size.parameters.get("seed", 10_000)
        parts += [
            Part(
                "seed",
                f"the original: nginx, four processes, ab -n {seed} -c 300; cache class",
                everybody,
                seed,
                1,
                "request",
                W1,
                refuses=frozenset({LAYER}),
            ),
        ]
    return parts


def _durable(size: Size, requests: int) -> list[Part]:
    durable = frozenset({DURABLE})
    concern = DURABLY
    count = size.parameters.get("durable", 1000)
    seed = size.parameters.get("seed", 10_000) // 4
    return [
        Part(
            "new-visitor-durable",
            "A new visitor, writes; durable class",
            durable,
            count,
            2,
            "request",
            concern,
            rounds=1,
        ),
        Part(
            "mixed-durable",
            "D 90 % reads, 9 % writes, 1 % new; durable class",
            durable | {KNOWN},
            requests,
            1,
            "request",
            concern,
            rounds=1,
        ),
        Part(
            "seed-durable",
            f"the original: nginx, four processes, ab -n {seed} -c 300; durable class",
            durable,
            seed,
            3,
            "request",
            concern,
            rounds=1,
        ),
    ]


EXPERIMENT = WebSessionsExperiment()
