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
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Part
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.experiments.find_one import FindOneTask

# By worker process: one server serves all parts of a contender, and ends with the process.
_servers: list[Any] = []


def _start() -> str:
    from mangonel import server

    folder = Path(tempfile.mkdtemp(prefix="mangonel-lab-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _servers.append(server.start(tls=certify(folder).for_mongod()))
    return str(_servers[0].uri)


class SecureFindOneTask(FindOneTask):
    """So many find_one over TLS, one at a time or with tasks."""

    documents = 500

    def __init__(self, part: Part, bench: Bench) -> None:
        uri = _servers[0].uri if _servers else bench.first("tls", _start)
        bench.target = Target(uri, bench.target.database, bench.target.collection)
        super().__init__(part, bench)
        if bench.run(self.adapter.find_one(0)) is None:
            made = [{"_id": key, **documents.small(key)} for key in range(self.documents)]
            bench.run(self.adapter.insert_many(made))


class ConnectTask(SecureFindOneTask):
    """So many clients, each with one find_one."""

    def act(self) -> int:
        for key in self.keys:
            adapter = self.bench.connect()
            self.bench.run(adapter.find_one(key))
        return len(self.keys)


EXPERIMENT = Tabled("tls", {"connect": ConnectTask, "": SecureFindOneTask})
