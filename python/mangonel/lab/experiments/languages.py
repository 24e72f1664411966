"""The same work by programs in several languages, and the cost to the process of each.

Every contender, in Python too, is a separate process that the worker talks to. It makes the same documents and checks
every answer. Its processor time is read from the process's own clock, which counts all of its threads.
"""

from __future__ import annotations

import importlib
import json
import os
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contenders._pymongo_like import uri_with
from mangonel.lab.contenders.languages import ProgramContender
from mangonel.lab.contenders.languages._program import Program, Site, run_once
from mangonel.lab.digest import digest, digest_documents
from mangonel.lab.experiment import Bench, Part, Task, expect
from mangonel.lab.experiments._parts import Tabled, content
from mangonel.lab.fixtures import modules
from mangonel.lab.webload import generate

BUCKET = "languages"  # bytes of the file that is read, and its name
BASE = 20  # documents that updates change
MEBIBYTES = 50
CONNECTIONS = 100
WAIT_S = 20.0
SHOWN, AT_ONCE = 30, 32  # documents of a page; requests at a time
WARM_AT_MOST_S = 30.0
PROCESSES = 8
# Documents that a call stores, if any.
STORED = {"insert_one": 1, "insert_many_10": 10, "insert_many_1000": 1000}
CHANGING = (*STORED, "update_one", "bulk_write_10", "change_stream", "gridfs_upload")


# The verbs of the parts of `crowd`.
CROWD = {
    "one": "find_100",
    "threads-32": "find_100_threads_32",
    "processes-8": "find_100",
    "tasks-1": "find_one",
    "tasks-100": "find_one_100",
    "tasks-5000": "find_one_tasks_5000",
}


class ProgramTask(Task):
    """Repeated calls of one verb of the contender's program."""

    def __init__(self, part: Part, bench: Bench) -> None:
        assert isinstance(bench.contender, ProgramContender)
        self.part, self.bench, self.contender = part, bench, bench.contender
        self.verb, self.count = part.id.replace("-", "_"), part.operations
        self.told: dict[str, float] = {}
        self.program = self.opened()
        self.expected = self.count * STORED[self.verb] if self.verb in STORED else None
        if self.verb in ("update_one", "bulk_write_10"):
            self.expected = BASE

    def opened(self) -> Any:
        """Return the contender's program, which all parts of a round use."""
        if "program" not in self.bench.kept:
            self.bench.kept["program"] = started(self.bench, self.contender)
        return self.bench.kept["program"]

    def verify(self) -> str:
        told = digest(self.program.documents(self.verb))
        return told if self.expected is None else told + digest_documents(self.scratch().find())

    def warm_up(self) -> None:
        """Repeat samples until the process has worked for as long as its runtime needs, at least once.

        Measured in processor time: on a busy machine, a JIT compiler would get little of a period of wall-clock time.
            The driver is warm after a program's first part, so later ones take a third.
        """
        share = 1 / 3 if self.program.is_warm else 1.0
        self.program.is_warm = True
        until = self.program.cpu_ns() + share * self.contender.warm_s * 1e9
        latest = time.monotonic() + WARM_AT_MOST_S
        while True:
            self.arrange()
            self.run(0.0)
            if self.program.cpu_ns() > until or time.monotonic() > latest:
                break

    def arrange(self) -> None:
        if self.verb in CHANGING:
            self.program.ask("clear", self.verb, self.count)

    def act(self) -> int:
        before = self.program.cpu_ns()
        self.told = self.run(self.bench.plant)
        self.told["cpu_ns"] = self.program.cpu_ns() - before
        return self.count

    def run(self, plant: float) -> dict[str, float]:
        """Let the program do its work, slowed down by a share, and return the times that it reported."""
        return self.program.ask("run", self.verb, self.count, plant)

    def extras(self) -> dict[str, float]:
        """Return the program's report, after its writes were counted: the next sample begins by removing them."""
        if self.expected is not None:
            expect("documents", self.scratch().count_documents({}), self.expected)
        return dict(self.told)

    def scratch(self) -> Any:
        """Return the collection that the program writes to, on a client of another driver."""
        if "checker" not in self.bench.kept:
            self.bench.kept["checker"] = modules()[0].MongoClient(self.bench.target.uri)
        return self.bench.kept["checker"][self.bench.target.database][self.bench.scratch]


class FileTask(ProgramTask):
    """A file of 50 MiB, stored or read as a whole; all read the one that PyMongo or this driver stored."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        data = content(MEBIBYTES * 2**20)
        self._ensure_file(data)
        with TemporaryDirectory(prefix="mangonel-lab-") as folder:
            path = Path(folder) / "file"
            path.write_bytes(data)
            self.program.ask("file", path)

    def _ensure_file(self, data: bytes) -> None:
        driver = modules()[0]
        gridfs: Any = importlib.import_module("gridfs" if driver.__name__ == "pymongo" else "mangonel.gridfs")
        with driver.MongoClient(self.bench.target.uri) as client:
            database = client[self.bench.target.database]
            if database[f"{BUCKET}.files"].find_one({"filename": BUCKET, "length": len(data)}) is None:
                gridfs.GridFSBucket(database, BUCKET).upload_from_stream(BUCKET, data)


class OnceTask(ProgramTask):
    """One sample is one process that connects, inserts one document, closes its client and exits."""

    def opened(self) -> Any:
        return None

    def verify(self) -> str:
        return digest(self.verb)

    def warm_up(self) -> None:
        """Fill the file cache."""
        self.act()

    def arrange(self) -> None:
        pass

    def act(self) -> int:
        target = self.bench.target
        words = ("once", uri_with(target), target.database, f"{self.bench.scratch}_once")
        wall, user, system = run_once(self.contender.command(*words))
        self.told = {"wall_ns": wall, "cpu_ns": (user + system) * 1e9, "user_us": user * 1e6}
        return 1


class PageTask(ProgramTask):
    """Requests of a page that the program serves: every answer must have the bytes of the first, checked one."""

    def opened(self) -> Any:
        if "site" not in self.bench.kept:
            target = self.bench.target
            where = uri_with(target), target.database, target.collection
            self.bench.kept["site"] = Site(self.contender.command("page", *where))
        return self.bench.kept["site"]

    def verify(self) -> str:
        """Compare the page with the stored documents; dates are texts in ISO 8601, with or without UTC's zone."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.program.port}/", timeout=WAIT_S) as answer:
            self._body = answer.read().decode()
        found = json.loads(self._body)
        for each in found:
            each["created"] = datetime.fromisoformat(each["created"]).replace(tzinfo=None)
        expect("page", found, [{"_id": number, **documents.member(number)} for number in range(SHOWN)])
        return digest(found)

    def arrange(self) -> None:
        pass

    def run(self, plant: float) -> dict[str, float]:
        expect("planted share", plant, 0.0)  # nothing slows a site down by a share
        seen = generate(self.program.port, self.count, AT_ONCE, expected=self._body)
        return {"wall_ns": seen.seconds * 1e9}


class IdleTask(ProgramTask):
    """The memory that each of a hundred idle connections adds to the process.

    Drivers open them in the background, some of them slowly; those that are open after a while are counted.
    """

    def opened(self) -> Any:
        # A new program: earlier samples have grown the memory of the shared one.
        self.bench.close_adapter()
        self.bench.adapter = started(self.bench, self.contender)
        return self.bench.adapter

    def arrange(self) -> None:
        self.program = self.opened()

    def verify(self) -> str:
        return digest(self.verb)

    def warm_up(self) -> None:
        pass

    def act(self) -> int:
        memory, connections = self.program.memory(), self.program.connections()
        before, start, found = self.program.cpu_ns(), time.perf_counter_ns(), 0
        self.program.ask("idle", CONNECTIONS)
        until = time.monotonic() + WAIT_S
        while found < CONNECTIONS and time.monotonic() < until:
            time.sleep(0.05)
            found = self.program.connections() - connections
        found = found or self.program.connections() - connections
        if found < CONNECTIONS // 10:
            raise AssertionError(f"expected {CONNECTIONS} more connections within {WAIT_S} s, got {found}")
        after = self.program.memory()
        self.told = {
            "wall_ns": time.perf_counter_ns() - start,
            "cpu_ns": self.program.cpu_ns() - before,
            "memory": after,
            "each": (after - memory) / found,
            "connections": found,
        }
        return 1


class CrowdTask(ProgramTask):
    """The same call by many at once: threads or tasks of one client, or processes."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self.verb = CROWD[part.id]
        self._others: list[Program] = []
        if part.id == "processes-8":
            self._others = [started(bench, self.contender) for _ in range(PROCESSES)]
            bench.adapter = self

    def verify(self) -> str:
        return digest(self.program.documents("find_100" if "find_100" in self.verb else "find_one"))

    def warm_up(self) -> None:
        for _ in range(2):
            self.act()

    def act(self) -> int:
        if not self._others:
            return super().act()
        before, start = sum(each.cpu_ns() for each in self._others), time.perf_counter_ns()
        share = self.count // PROCESSES
        asked = [each.tell("run", self.verb, share, self.bench.plant) for each in self._others]
        for each, verb in zip(self._others, asked, strict=True):
            each.read(verb)
        wall, after = time.perf_counter_ns() - start, sum(each.cpu_ns() for each in self._others)
        self.told = {"wall_ns": wall, "cpu_ns": after - before}
        return share * PROCESSES

    def close(self) -> None:
        for each in self._others:
            each.close()


def started(bench: Bench, contender: ProgramContender) -> Program:
    """Return a connected program; on one core, not the server's, if its experiment requires that."""
    cores = {min(os.sched_getaffinity(0))} if bench.kept.get("one core") else set()
    program = Program(contender.command(), cores)
    try:
        target = bench.target
        program.ask("open", uri_with(target), target.database, target.collection, bench.scratch)
    except BaseException:
        program.close()
        raise
    return program


class OneCore:
    """Marks a bench whose programs start on one core."""

    def close(self) -> None:
        """Nothing is open."""


def on_one_core(part: Part, bench: Bench) -> Task:
    bench.kept.setdefault("one core", OneCore())
    return ProgramTask(part, bench)


EXPERIMENTS = (
    Tabled("languages", {"gridfs": FileTask, "page": PageTask, "process": OnceTask, "": ProgramTask}),
    Tabled("languages-control", ProgramTask),
    Tabled("languages-idle", IdleTask),
    Tabled("languages-one-core", on_one_core),
    Tabled("crowd", CrowdTask),
)
