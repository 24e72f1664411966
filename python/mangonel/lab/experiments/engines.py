"""A collection inside Polars, DuckDB, Ray, Dask and Spark. PyMongo stored the same data for all."""

from __future__ import annotations

import datetime
import os
from typing import Any

from mangonel.lab import documents, process_tree
from mangonel.lab.contenders.engines import COLLECTION, SEVENTH, SHARE
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task, expect
from mangonel.lab.experiments._parts import Play, Tabled
from mangonel.lab.fixtures import fill


def row(number: int) -> dict[str, Any]:
    at = documents.EPOCH + datetime.timedelta(seconds=number)
    found = {
        "_id": number,
        "n": number % SHARE,
        "total": number * 0.25,
        "name": f"name {number:06d}",
        "at": at,
    }
    return {**found, "ok": number % 2 == 0, "items": number % 7}


class EngineTask(Task):
    """One query over a collection with an index on the value that a hundredth of the rows share."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self.verb, _, share = part.id.partition("-")
        self.verb = "by_hand" if self.verb == "filter" else self.verb
        self.is_whole = share != "percent"
        self.count: int = EXPERIMENT.figures(bench.size)["rows"]
        self.bench, self.adapter = bench, bench.connect()
        self.result: Any = None
        bench.first(COLLECTION, self._fill)

    def _fill(self) -> str:
        import pymongo

        with pymongo.MongoClient[Any](self.bench.target.uri) as client:
            rows = client[self.bench.target.database][COLLECTION]
            fill(rows, self.count, row)
            rows.create_index("n")
        return COLLECTION

    def verify(self) -> str:
        self.act()
        return self.check()

    def check(self) -> str:
        """Compare the number of rows and their sum."""
        numbers = range(self.count) if self.is_whole else range(SEVENTH, self.count, SHARE)
        expect("rows", self.result, (sum(numbers) * 0.25, len(numbers)))
        return digest([float(each) for each in self.result])

    def act(self) -> int:
        self.result = getattr(self.adapter, self.verb)(self.is_whole)
        # Times are per row of the collection, whether it was sent or not.
        return self.count


class DataEngineTask(EngineTask):
    """The same inside an engine whose workers may be processes; their time is included."""

    spent_ns = 0.0

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        self.verb = part.id.replace("-", "_")

    def act(self) -> int:
        before = process_tree.processor_ns(os.getpid())
        count = super().act()
        self.spent_ns = process_tree.processor_ns(os.getpid()) - before
        return count

    def extras(self) -> dict[str, float]:
        return {"cpu_ns": self.spent_ns, "memory": process_tree.resident_bytes(os.getpid())}


_OWN = ("polars", "duckdb", "filter")
KINDS: dict[str, Play] = {**dict.fromkeys(_OWN, EngineTask), "": DataEngineTask}
EXPERIMENT = Tabled("engines", KINDS)
