"""Documents as tables and as lines of JSON: this driver, PyMongoArrow, and PyMongo with pandas or its own `json_util`.

Methods for tables: `table` reads a collection into a `pyarrow.Table`, `frame` into a pandas DataFrame, `write` inserts
a table. Methods for lines: `loads` and `dumps` for documents in memory, `insert_lines` and `write_lines` for whole
files.

Run as `python -m mangonel.lab.contenders.tables CONTENDER URI DATABASE COLLECTION`, it prints a table's memory use.
"""

from __future__ import annotations

import datetime
import gc
import importlib
import json
import sys
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mangonel.lab.contender import Contender, Target
from mangonel.lab.contenders._faces import named
from mangonel.lab.contenders._pymongo_like import uri_with

ROWS, NESTED, LINES = "arrow_rows", "arrow_nested", "json_lines"
CHUNK = 5000
FEW = 100


class Side:
    """A client with PyMongo's names. Its methods do these tasks as a user of PyMongo would write them."""

    driver = "pymongo"

    def __init__(self, target: Target) -> None:
        self.client = named(f"{self.driver}:MongoClient")(uri_with(target))
        self.database = self.client[target.database]
        self.collection = self.database[target.collection]
        bson = importlib.import_module("bson" if self.driver == "pymongo" else "mangonel.bson")
        self.json = importlib.import_module(f"{bson.__name__}.json_util")
        self.dump = partial(self.json.dumps, json_options=self.json.CANONICAL_JSON_OPTIONS)
        rows = {"_id": int, "name": str, "total": float}
        place = {"city": str, "code": int, "owner": bson.ObjectId}
        nested = {
            "_id": bson.ObjectId,
            "n": int,
            "x": float,
            "name": str,
            "at": datetime.datetime,
            "ok": bool,
        }
        self.schemas: dict[str, dict[str, Any]] = {
            ROWS: rows,
            NESTED: {**nested, "place": place, "tags": [str]},
        }

    def found(self, name: str, limit: int = 0) -> Any:
        return self.database[name].find({}, limit=limit)

    def table(self, name: str, limit: int = 0) -> Any:
        import pyarrow

        return pyarrow.Table.from_pylist(self.found(name, limit).to_list())

    def frame(self, name: str) -> Any:
        return named("pandas:DataFrame")(self.found(name).to_list())

    def write(self, table: Any) -> None:
        self.collection.insert_many(table.to_pylist())

    def loads(self, lines: list[str]) -> list[Any]:
        return [self.json.loads(line) for line in lines]

    def dumps(self, documents: Iterable[Any]) -> list[str]:
        return list(map(self.dump, documents))

    def insert_lines(self, name: str, path: Path) -> None:
        with path.open(encoding="utf-8") as file:
            while documents := self.loads(list(islice(file, CHUNK))):
                self.collection.insert_many(documents, ordered=False)

    def write_lines(self, name: str, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(self.dump(document) + "\n" for document in self.found(name))

    def close(self) -> None:
        self.client.close()


class OurSide(Side):
    driver = "mangonel"

    def table(self, name: str, limit: int = 0) -> Any:
        import pyarrow

        return pyarrow.table(self.found(name, limit).to_arrow(self.schemas[name]))

    def frame(self, name: str) -> Any:
        return self.found(name).to_pandas(self.schemas[name])

    def write(self, table: Any) -> None:
        self.collection.insert_arrow(table)

    def insert_lines(self, name: str, path: Path) -> None:
        named("mangonel.jsonl:import_jsonl")(self.collection, path)

    def write_lines(self, name: str, path: Path) -> None:
        named("mangonel.jsonl:export_jsonl")(self.database[name], path)


class PyMongoArrowSide(Side):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._api: Any = importlib.import_module("pymongoarrow.api")
        self._schemas = {name: self._api.Schema(fields) for name, fields in self.schemas.items()}

    def table(self, name: str, limit: int = 0) -> Any:
        schema = self._schemas[name]
        return self._api.find_arrow_all(self.database[name], {}, schema=schema, limit=limit)

    def frame(self, name: str) -> Any:
        return self._api.find_pandas_all(self.database[name], {}, schema=self._schemas[name])

    def write(self, table: Any) -> None:
        self._api.write(self.collection, table)


# Types without pyarrow columns, such as ObjectId, are flags that a side lacks.
TABLES, NESTS, TEXTS = "tables", "tables-nested", "json-lines"
_SIDES: dict[str, tuple[str, type[Side], tuple[str, ...], tuple[str, ...]]] = {
    "tables-mangonel": ("mangonel", OurSide, (TABLES, NESTS), ("mangonel", "pyarrow", "pandas")),
    "tables-pymongoarrow": ("PyMongoArrow", PyMongoArrowSide, (TABLES, NESTS), ("pymongo", "pymongoarrow")),
    "tables-pandas": ("PyMongo and pandas", Side, (TABLES,), ("pymongo", "pyarrow", "pandas")),
    "lines-mangonel": ("mangonel", OurSide, (TEXTS,), ("mangonel",)),
    "lines-pymongo": ("PyMongo", Side, (TEXTS,), ("pymongo",)),
}
CONTENDERS = tuple(
    Contender(
        id, title, frozenset(offers), packages, blocking=partial(lambda kind, target: kind(target), side)
    )
    for id, (title, side, offers, packages) in _SIDES.items()
)


def memory_of(side: Side, name: str) -> dict[str, int]:
    """Return the bytes of a table, and the peak growth of this process while it was made. Linux only."""
    side.table(name, FEW)
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    table = side.table(name)
    # Measured before the table is used.
    growth = _status("VmHWM") - before
    return {"table": table.nbytes, "growth": growth}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    contender, uri, database, collection = sys.argv[1:]
    print(json.dumps(memory_of(_SIDES[contender][1](Target(uri, database, collection)), collection)))
