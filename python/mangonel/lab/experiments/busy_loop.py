"""Heartbeats while the program keeps its event loop busy for 200 ms at a time, against a mongod of the worker's own.

The client polls its server every 500 ms. A heartbeat that needs the loop comes late, and one that comes late enough
makes a healthy server look dead.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from mangonel.lab.contender import Target
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled

BLOCKED_S = 0.2
FREE_S = 0.001
HEARTBEAT_S = 0.5

_servers: list[Any] = []


class BusyLoopTask(Task):
    """Block the loop again and again, and count on the server how many heartbeats it saw."""

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel import server

        if not _servers:
            _servers.append(server.start())
        self._bench = bench
        self._turns = part.operations
        self._seen = 0
        self._member = _servers[0].members[0]
        uri = f"mongodb://{self._member.address}/?directConnection=true"
        options = f"&heartbeatFrequencyMS={int(HEARTBEAT_S * 1000)}&serverMonitoringMode=poll"
        bench.target = Target(uri + options, bench.target.database, bench.target.collection)
        self._adapter = bench.connect()
        bench.run(self._adapter.find_one(0))

    def verify(self) -> str:
        return digest(self._bench.run(self._adapter.find_one(0)))

    def act(self) -> int:
        """Block, let the loop run for a moment, and so on; one find_one in each moment."""
        before = self._heartbeats()
        self._bench.run(self._turn())
        self._seen = self._heartbeats() - before
        return self._turns

    async def _turn(self) -> None:
        for _ in range(self._turns):
            time.sleep(BLOCKED_S)
            await asyncio.sleep(FREE_S)
            await self._adapter.find_one(0)

    def _heartbeats(self) -> int:
        counters = self._member.run_command({"serverStatus": 1, "$db": "admin"})["metrics"]["commands"]
        return sum(int(counters[name]["total"]) for name in ("hello", "isMaster") if name in counters)

    def extras(self) -> dict[str, float]:
        return {"heartbeats": float(self._seen), "due": self._turns * BLOCKED_S / HEARTBEAT_S}


EXPERIMENT = Tabled("busy-loop", BusyLoopTask)
