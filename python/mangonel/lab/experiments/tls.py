"""find_one over TLS, and what a new client costs until its first answer, against a mongod of the worker's own.

The certificates are made for the run with the openssl program. Sessions resume where a driver does so by itself.
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
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task

DOCUMENTS = 500
IN_FLIGHT = 100

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


class SecureFindOneTask(Task):
    """So many find_one over TLS, one at a time or with tasks."""

    def __init__(self, part: Part, bench: Bench, in_flight: int) -> None:
        self._bench = bench
        self._in_flight = in_flight
        self._keys = [bench.random.randrange(DOCUMENTS) for _ in range(part.operations)]
        bench.target = _secure_target(bench)
        self._adapter = bench.connect(in_flight)
        if self._bench.run(self._adapter.find_one(0)) is None:
            made = [{"_id": key, **documents.small(key)} for key in range(DOCUMENTS)]
            bench.run(self._adapter.insert_many(made))

    def verify(self) -> str:
        """Compare a few documents with what was stored."""
        answers = []
        for key in (0, 77, DOCUMENTS - 1):
            document = self._adapter.decoded(self._bench.run(self._adapter.find_one(key)))
            found: Any = document[0] if isinstance(document, list) else document
            if dict(found) != {"_id": key, **documents.small(key)}:
                raise AssertionError(f"expected the document {key}, got {str(found)[:200]}")
            answers.append(found)
        return digest(answers)

    def warm_up(self) -> None:
        """Open every connection of the pool."""
        self._bench.drive(self._adapter.find_one, self._keys[: max(50, 3 * self._in_flight)], self._in_flight)

    def act(self) -> int:
        """Find them all."""
        self._bench.drive(self._adapter.find_one, self._keys, self._in_flight)
        return len(self._keys)


class ConnectTask(SecureFindOneTask):
    """So many clients, each with one find_one."""

    def act(self) -> int:
        """Make them, one after the other."""
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

        def part(name: str, title: str, face: str, operations: int, samples: int, unit: str) -> Part:
            needs = frozenset({face, DECODES})
            return Part(name, title, needs, operations, samples, unit=unit, server=False)

        quick, full = size.choose(300, 3000, 200), size.choose(2, 4)
        return [
            part("blocking", "one at a time, blocking", BLOCKING, quick, full, "operation"),
            part("tasks-100", "100 tasks", ASYNCIO, size.choose(1000, 5000, 400), full, "operation"),
            part(
                "connect", "a new client and its first find_one", BLOCKING, size.choose(5, 20), full, "client"
            ),
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task with the part's load."""
        if part.id == "connect":
            return ConnectTask(part, bench, 1)
        return SecureFindOneTask(part, bench, IN_FLIGHT if part.id == "tasks-100" else 1)


EXPERIMENT = Tls()
