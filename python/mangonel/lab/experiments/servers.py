"""Experiments on the worker's own servers: TLS, heartbeats beside a busy event loop, and a killed primary.

TLS: find_one, and the time of a new client until its first result. The certificates are made for the run, and drivers
resume sessions if they do so by default. Busy loop: the client polls its server every 500 ms while its program blocks
the loop for 200 ms at a time. A heartbeat that needs the loop is late, and a late one can make a healthy server look
dead. Failover: the longest stall of a writer in a replica set of three. The duration of the election is chance, the
same for every driver; an observer polls the members every few milliseconds and reports it beside the stall. A write
waits for a majority, and thus until the other member has found its new sync source. Concurrent reads from the primary
show how long the driver needs to find it. Members elect after one second of silence, not after the default ten.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mangonel.engines.certificates import certify
from mangonel.lab import documents
from mangonel.lab.contender import Target
from mangonel.lab.contenders._faces import at_once, wait
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.experiments.reads import FindOneTask
from mangonel.lab.latency import in_threads


def _start() -> str:
    from mangonel import server

    folder = Path(tempfile.mkdtemp(prefix="mangonel-lab-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _servers["tls"] = server.start(tls=certify(folder).for_mongod())
    return str(_servers["tls"].uri)


class SecureFindOneTask(FindOneTask):
    documents = 500

    def __init__(self, part: Part, bench: Bench) -> None:
        uri = _servers["tls"].uri if "tls" in _servers else bench.first("tls", _start)
        bench.target = Target(uri, bench.target.database, bench.target.collection)
        super().__init__(part, bench)
        if bench.run(self.adapter.find_one(0)) is None:
            made = [{"_id": key, **documents.small(key)} for key in range(self.documents)]
            bench.run(self.adapter.insert_many(made))


class ConnectTask(SecureFindOneTask):
    def act(self) -> int:
        for key in self.keys:
            adapter = self.bench.connect()
            self.bench.run(adapter.find_one(key))
        return len(self.keys)


# Servers of this worker process, by subject: one serves all parts of a contender, and ends with the process.
_servers: dict[str, Any] = {}
BLOCKED_S = 0.2
FREE_S = 0.001
HEARTBEAT_S = 0.5


class BusyLoopTask(Task):
    """Block the loop repeatedly, and count on the server how many heartbeats arrived."""

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel import server

        if "busy" not in _servers:
            _servers["busy"] = server.start()
        self._bench = bench
        self._turns = part.operations
        self._seen = 0
        self._member = _servers["busy"].members[0]
        uri = f"mongodb://{self._member.address}/?directConnection=true"
        options = f"&heartbeatFrequencyMS={int(HEARTBEAT_S * 1000)}&serverMonitoringMode=poll"
        bench.target = Target(uri + options, bench.target.database, bench.target.collection)
        self._adapter = bench.connect()
        bench.run(self._adapter.find_one(0))

    def verify(self) -> str:
        return digest(self._bench.run(self._adapter.find_one(0)))

    def act(self) -> int:
        """Block, let the loop run for a moment with one find_one, and repeat."""
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


WRITERS = 4
READERS = 2
BEFORE_S = 0.3  # seconds of undisturbed writing
POLL_S = 0.005
TIMEOUT_S = 60.0
# Pause after a failed operation.
PAUSE_S = 0.01
SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 250}


class Load:
    """Inserts and reads without pause, by several workers, until each has succeeded after the failover."""

    def __init__(self, bench: Bench, numbers: itertools.count[int]) -> None:
        self._bench = bench
        self._numbers = numbers
        self.is_over = threading.Event()
        self.acknowledged = 0
        self.errors = 0
        self.longest_s = {"write": 0.0, "read": 0.0}

    def run(self) -> None:
        """Work until the event is set, then do one more operation."""
        kinds = ["write"] * WRITERS + ["read"] * READERS
        if self._bench.is_async:
            self._bench.run(self._tasks(kinds))
            return
        in_threads(lambda turn: at_once(self._work(kinds[turn])), len(kinds))

    async def _tasks(self, kinds: list[str]) -> None:
        await asyncio.gather(*map(self._work, kinds))

    async def _work(self, kind: str) -> None:
        adapter, pause = self._bench.adapter, asyncio.sleep if self._bench.is_async else time.sleep
        is_last = False
        while not is_last:
            is_last, begun = self.is_over.is_set(), time.monotonic()
            try:
                if kind == "write":
                    await wait(adapter.insert_one({"_id": next(self._numbers)}))
                else:
                    await wait(adapter.find_one(0))
            except Exception:
                self.errors += 1
                await wait(pause(PAUSE_S))
            else:
                self.acknowledged += kind == "write"
                self.longest_s[kind] = max(self.longest_s[kind], time.monotonic() - begun)


class Killer(threading.Thread):
    """Kills the primary during the load, and watches for the next one."""

    def __init__(self, server: Any, load: Load) -> None:
        super().__init__()
        self._server = server
        self._primary = server.wait_until_settled()
        self._load = load
        self.election_s = 0.0

    def run(self) -> None:
        """Kill the primary, and wait until another member accepts writes."""
        try:
            time.sleep(BEFORE_S)
            begun = time.monotonic()
            self._primary.kill()
            others = [member for member in self._server.members if member is not self._primary]
            while not any(member.state == "primary" for member in others):
                if time.monotonic() - begun > TIMEOUT_S:
                    return
                time.sleep(POLL_S)
            self.election_s = time.monotonic() - begun
        finally:
            self._load.is_over.set()

    def mend(self) -> None:
        self._primary.restart()


class FailoverTask(Task):
    """A sample is one failover; its time is the longest operation."""

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel import server

        if "set" not in _servers:
            _servers["set"] = server.start(replica_set=3, settings=SETTINGS)
        self._server = _servers["set"]
        self._bench = bench
        self._numbers = itertools.count(1)
        self._stored = 0
        bench.target = Target(self._server.uri, bench.target.database, bench.target.collection, "majority")
        self._adapter = bench.connect(WRITERS + READERS)
        self._killer: Any = None

    def verify(self) -> str:
        self._bench.run(self._adapter.insert_one({"_id": 0}))
        self._stored = 1
        return digest(self._bench.run(self._adapter.find_one(0)))

    def arrange(self) -> None:
        if self._killer is not None:
            self._killer.mend()
        self._load = Load(self._bench, self._numbers)
        self._killer = Killer(self._server, self._load)

    def act(self) -> int:
        self._killer.start()
        self._load.run()
        self._killer.join()
        return 1

    def extras(self) -> dict[str, float]:
        """Return longest write, election, longest read and errors; AssertionError after a loss or no election."""
        load, election = self._load, self._killer.election_s
        if not election:
            raise AssertionError(f"expected a new primary within {TIMEOUT_S:.0f} s")
        self._stored += load.acknowledged
        found = len(self._bench.run(self._adapter.to_list()))
        if found < self._stored:
            raise AssertionError(f"expected {self._stored} acknowledged documents, got {found}")
        # Writes whose error left the outcome unknown may be there too.
        self._stored = found
        return {
            "wall_ns": load.longest_s["write"] * 1e9,
            "election_ms": election * 1000,
            "read_ms": load.longest_s["read"] * 1000,
            "errors": float(load.errors),
        }


EXPERIMENTS = (
    Tabled("tls", {"connect": ConnectTask, "": SecureFindOneTask}),
    Tabled("busy-loop", BusyLoopTask),
    Tabled("failover", FailoverTask),
)
