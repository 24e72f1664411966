"""Websessions behind Tornado, as in the original benchmark and with realistic visitors; store calls are asserted.

The cache class may lose the last second, the durable class may not; each has its own tables. All writes are
acknowledged. The scenarios: A new visitors, B known readers, C known writers, D a mix of them, E anonymous readers, F
twenty writers on one websession, G a login and the next page, H a store that stalls. And sessions of other packages.
"""

from __future__ import annotations

from typing import Any

from mangonel.lab.contender import Contender
from mangonel.lab.contenders.drivers import WIRE
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size, Task
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.experiments._peers import PeerTask
from mangonel.lab.experiments._visits import (
    BYSTANDERS_PER_SECOND,
    PAYLOAD,
    CountTask,
    LoginTask,
    ParallelTask,
    PopulateTask,
    SiteTask,
    StallTask,
)


class LayerTask(Task):
    """The cost of the layer itself, with a store that costs nothing: opening, reading or writing, committing."""

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
        from mangonel.websessions import RequestView
        from mangonel.websessions.answer import headers_of

        session = await self._face.load(RequestView())
        session["v"] = PAYLOAD
        await self._face.commit(session)
        self._cookie = headers_of(session)[0][1].partition(";")[0]
        return str((await self._face.load(RequestView(self._cookie)))["v"])

    async def _visits(self, count: int, are_writes: bool) -> None:
        from mangonel.websessions import RequestView
        from mangonel.websessions.machine import decide

        face, cookie = self._face, self._cookie
        for number in range(count):
            session = await face.load(RequestView(cookie))
            if are_writes:
                session["v"] = number
            else:
                session.get("v")
            if plan := decide(session):
                await face.commit(session, plan)


class WebSessionsExperiment(Tabled):
    """One Tornado process and a store; in the original layout, nginx and four processes."""

    def leaves_out(self, contender: Contender, size: Size) -> str:
        """Leave out stores without encryption if connections must be encrypted."""
        if not size.parameters.get("tls", 0) or contender.id in self.references or WIRE in contender.offers:
            return ""
        return "no connection to encrypt"


def _figures(size: Size, known: dict[str, Any]) -> dict[str, Any]:
    if known["tls"] and known["unix"]:
        raise ValueError("expected tls=1 or unix=1, got both; play one series after the other")
    # Waits up to 110 s for a site under many concurrent requests.
    steps = max(1, known["population"] // 20_000)
    further = {
        "steps": steps,
        "populate": max(1, known["population"] // steps),
        "quarter": known["seed"] // 4,
    }
    if known["tls"] and "counted" not in size.parameters:
        further["counted"] = 0
    return {**further, "bystanders": round(BYSTANDERS_PER_SECOND * (known["stall"] + 1.0))}


EXPERIMENT = WebSessionsExperiment(
    "websessions",
    {
        "populate": PopulateTask,
        "parallel-writers": ParallelTask,
        "login": LoginTask,
        "stall": StallTask,
        "anonymous-counted": CountTask,
        "layer": LayerTask,
        "flask": PeerTask,
        "starlette": PeerTask,
        "django": PeerTask,
        "": SiteTask,
    },
    _figures,
)
