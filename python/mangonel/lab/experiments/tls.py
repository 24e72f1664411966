"""find_one over TLS, and what a new client costs until its first answer, against a mongod of the worker's own.

The certificates are made for the run. Sessions resume where a driver does so by itself.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from mangonel.engines.certificates import certify
from mangonel.lab import documents
from mangonel.lab.contender import ASYNCIO, BLOCKING, DECODES, Target
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._parts import rows
from mangonel.lab.experiments.find_one import FindOneTask

# By worker process: one server serves all parts of a contender, and ends with the process.
_servers: list[Any] = []


def _secure_target(bench: Bench) -> Target:
    from mangonel import server

    def start() -> str:
        folder = Path(tempfile.mkdtemp(prefix="mangonel-lab-tls-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _servers.append(server.start(tls=certify(folder).for_mongod()))
        return str(_servers[0].uri)

    target = bench.target
    uri = _servers[0].uri if _servers else bench.first("tls", start)
    return Target(uri, target.database, target.collection)


class SecureFindOneTask(FindOneTask):
    """So many find_one over TLS, one at a time or with tasks."""

    documents = 500

    def __init__(self, part: Part, bench: Bench, in_flight: int) -> None:
        bench.target = _secure_target(bench)
        super().__init__(part, bench, in_flight)
        if bench.run(self._adapter.find_one(0)) is None:
            made = [{"_id": key, **documents.small(key)} for key in range(self.documents)]
            bench.run(self._adapter.insert_many(made))


class ConnectTask(SecureFindOneTask):
    """So many clients, each with one find_one."""

    def act(self) -> int:
        for key in self._keys:
            adapter = self._bench.connect()
            self._bench.run(adapter.find_one(key))
        return len(self._keys)


class Tls(Experiment):
    """The price of TLS per operation and per client."""

    id = "tls"
    title = "TLS"
    passes = 2
    own_process = True

    def parts(self, size: Size) -> list[Part]:
        """One at a time on both faces, 100 tasks on event loops, and new clients."""
        one, many = (BLOCKING, DECODES), (ASYNCIO, DECODES)
        client = "a new client and its first find_one"
        table = [
            ("blocking", "one at a time, blocking", one, (300, 3000, 200), (2, 4)),
            ("tasks-100", "100 tasks", many, (1000, 5000, 400), (2, 4)),
            ("connect", client, one, (5, 20), (2, 4), {"unit": "client"}),
        ]
        return rows(size, table, server=False)

    def task(self, part: Part, bench: Bench) -> Task:
        if part.id == "connect":
            return ConnectTask(part, bench, 1)
        return SecureFindOneTask(part, bench, 100 if part.id == "tasks-100" else 1)


EXPERIMENT = Tls()
