"""Reads and writes of collections as tables of columns and as JSON lines.

PyMongo stored the data to read, the same for all, and all use the same schema, since the peers infer different ones.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contenders.drivers import PyMongoTypes
from mangonel.lab.contenders.tables import LINES, NESTED, ROWS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task, expect
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.fixtures import fill

SEEN = 50
ALIVE = 500  # documents or texts that are alive at a time
TIMEOUT_S = 300


def row(number: int) -> dict[str, Any]:
    return {"_id": number, "name": f"name {number:06d}", "total": number * 0.25}


def nested(number: int) -> dict[str, Any]:
    id, at = PyMongoTypes().ObjectId(f"{number:024x}"), documents.EPOCH + datetime.timedelta(seconds=number)
    place = {"city": f"city {number % 100}", "code": number % 1000, "owner": id}
    found = {"_id": id, "n": number, "x": number * 0.25, "name": f"name {number:06d}", "at": at}
    return {**found, "ok": number % 2 == 0, "place": place, "tags": ["red", "green", "blue"][: number % 4]}


VERBS = {"pandas": "frame", "write": "write", "import": "insert_lines", "export": "write_lines"}
MESSAGE = documents.message()


def lined(number: int) -> dict[str, Any]:
    return {"_id": number, **MESSAGE}


MAKES = {ROWS: row, NESTED: nested, LINES: lined}


class TableTask(Task):
    """One call for all rows of a collection; writing parts use an empty one."""

    def __init__(self, part: Part, bench: Bench) -> None:
        self.verb = VERBS.get(part.id, "table")
        self.name = NESTED if "nested" in part.id else LINES if part.unit == "line" else ROWS
        self.count: int = next(iter(EXPERIMENTS[part.unit == "line"].figures(bench.size).values()))
        self.bench, self.adapter = bench, bench.connect()
        self.result: Any = None
        self.arguments: list[Any] = [self.name]
        self._is_writing = bool(part.write_concern)
        self._held = 0  # documents in the collection that is written to
        bench.first(self.name, self._fill)

    def _fill(self) -> str:
        import pymongo

        with pymongo.MongoClient[Any](self.bench.target.uri) as client:
            fill(client[self.bench.target.database][self.name], self.count, MAKES[self.name])
        return self.name

    def verify(self) -> str:
        self.arrange()
        self.act()
        return digest("inserted") if self._is_writing else self.check()

    def check(self) -> str:
        """Compare the number of rows, and the last rows."""
        expect("rows", len(self.result), self.count)
        if self.verb == "frame":
            return digest([float(self.result["total"].sum()), str(self.result["name"].iloc[-1])])
        return digest([plain(each) for each in self.result.slice(self.count - SEEN).to_pylist()])

    def arrange(self) -> None:
        self.result = None
        if self._is_writing:
            self.adapter.collection.drop()
            self._held = 0

    def act(self) -> int:
        self.result = getattr(self.adapter, self.verb)(*self.arguments)
        self._held += self.count
        return self.count

    def written(self) -> int | None:
        return self._held if self._is_writing else None


class WriteTask(TableTask):
    def __init__(self, part: Part, bench: Bench) -> None:
        import pyarrow

        super().__init__(part, bench)
        self.arguments = [pyarrow.Table.from_pylist([row(number) for number in range(self.count)])]


class FileTask(TableTask):
    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        bench.kept[part.id] = stack = contextlib.ExitStack()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-lab-lines-"))
        self._path = Path(folder) / "lines.jsonl"
        self.arguments.append(self._path)
        if self._is_writing:
            self._path.write_text("".join(json.dumps(lined(n)) + "\n" for n in range(self.count)))

    def check(self) -> str:
        lines = self._path.read_text().splitlines()
        expect("lines", len(lines), self.count)
        return digest(json.loads(lines[-1]))


class MemoryTask(TableTask):
    """Makes a table in a separate process, which reports how much memory it gained."""

    def check(self) -> str:
        return digest("made")

    def act(self) -> int:
        target, module = self.bench.target, "mangonel.lab.contenders.tables"
        command = [sys.executable, "-m", module, self.bench.name, target.uri, target.database, self.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        self.result = json.loads(told.stdout)
        return 1

    def extras(self) -> dict[str, float]:
        return {"of_table": self.result["growth"] / self.result["table"]}


class TextTask(Task):
    def __init__(self, part: Part, bench: Bench) -> None:
        verb, _, shape = part.id.partition("-")
        self._act: Callable[[list[Any]], list[Any]] = getattr(bench.connect(), verb)
        self._document = documents.full(PyMongoTypes()) if shape == "full" else MESSAGE
        from bson import json_util

        line = json_util.dumps(self._document, json_options=json_util.CANONICAL_JSON_OPTIONS)
        given = line if verb == "loads" else bench.adapter.loads([line])[0]
        self._given = [given] * part.operations
        # Live objects decide how much fresh memory and the collector take, so the size is the same in every form.
        self._alive = part.operations if shape == "kept" else ALIVE
        self._read: Any = json_util.loads if verb == "dumps" else lambda found: found

    def verify(self) -> str:
        found = digest(self._read(self._act(self._given[:1])[0]))
        expect("document", found, digest(self._document))
        return found

    def act(self) -> int:
        for start in range(0, len(self._given), self._alive):
            self._act(self._given[start : start + self._alive])
        return len(self._given)


def plain(value: Any) -> Any:
    """Return a value without the class that ids get from their Arrow extension type."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return getattr(value, "binary", value)


EXPERIMENTS = (
    Tabled("arrow", {"memory": MemoryTask, "write": WriteTask, "": TableTask}),
    Tabled("jsonl", {"loads": TextTask, "dumps": TextTask, "": FileTask}),
)
