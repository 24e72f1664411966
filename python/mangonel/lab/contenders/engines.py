"""A collection inside Polars and DuckDB: this driver's lazy sources, PyMongoArrow's and PyMongo's whole tables.

Methods: `polars` and `duckdb` return the sum of a column and the number of rows, for all rows or one in a hundred;
`by_hand` reads that hundredth into Polars with a MongoDB filter.
"""

from __future__ import annotations

import datetime
import importlib
from functools import partial
from typing import Any

from mangonel.lab.contender import Contender, Target
from mangonel.lab.contenders._faces import named
from mangonel.lab.contenders._pymongo_like import uri_with

COLLECTION = "engine_rows"
SHARE = 100  # one row of this many
SEVENTH = 7  # the row of each hundred that the query selects
SCHEMA: dict[str, Any] = {
    "_id": int,
    "n": int,
    "total": float,
    "name": str,
    "at": datetime.datetime,
    "ok": bool,
    "items": int,
}
ALL = "select sum(total), count(*) from found"
PERCENT = f"{ALL} where n = {SEVENTH}"


class Side:
    """PyMongo: documents become a table, and the engine works on it."""

    driver = "pymongo"

    def __init__(self, target: Target) -> None:
        self.client = named(f"{self.driver}:MongoClient")(uri_with(target))
        self.rows = self.client[target.database][COLLECTION]
        self.connection: Any = None

    def frame(self, filter: dict[str, Any]) -> Any:
        return named("polars:DataFrame")(self.rows.find(filter).to_list())

    def table(self) -> Any:
        return named("pyarrow:Table").from_pylist(self.rows.find().to_list())

    def lazy(self) -> Any:
        return self.frame({}).lazy()

    def source(self) -> Any:
        return self.table()

    def polars(self, is_whole: bool) -> tuple[float, int]:
        import polars

        frame = self.lazy()
        if not is_whole:
            frame = frame.filter(polars.col("n") == SEVENTH)
        return _sum_of(frame.select("total", "name").collect())

    def duckdb(self, is_whole: bool) -> tuple[float, int]:
        if self.connection is None:
            # Making a connection takes as long as reading 20 000 rows.
            self.connection = importlib.import_module("duckdb").connect()
        self.connection.register("found", self.source())
        (row,) = self.connection.execute(ALL if is_whole else PERCENT).fetchall()
        self.connection.unregister("found")
        return row[0], row[1]

    def by_hand(self, is_whole: bool) -> tuple[float, int]:
        return _sum_of(self.frame({} if is_whole else {"n": SEVENTH}))

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.client.close()


class OurSide(Side):
    driver = "mangonel"

    def frame(self, filter: dict[str, Any]) -> Any:
        return self.rows.find(filter).to_polars(SCHEMA)

    def lazy(self) -> Any:
        return self.rows.scan_polars(SCHEMA)

    def source(self) -> Any:
        return self.rows.dataset(SCHEMA)


class PyMongoArrowSide(Side):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._api: Any = importlib.import_module("pymongoarrow.api")
        self._schema = self._api.Schema(SCHEMA)

    def frame(self, filter: dict[str, Any]) -> Any:
        return self._api.find_polars_all(self.rows, filter, schema=self._schema)

    def table(self) -> Any:
        return self._api.find_arrow_all(self.rows, {}, schema=self._schema)


def _sum_of(frame: Any) -> tuple[float, int]:
    return float(frame["total"].sum()), frame.height


_ENGINES = ("polars", "pyarrow", "duckdb")
_SIDES: dict[str, tuple[str, type[Side], tuple[str, ...]]] = {
    "engines-mangonel": ("mangonel", OurSide, ("mangonel",)),
    "engines-pymongoarrow": ("PyMongoArrow", PyMongoArrowSide, ("pymongo", "pymongoarrow")),
    "engines-pymongo": ("PyMongo", Side, ("pymongo",)),
}
CONTENDERS = tuple(
    Contender(
        id,
        title,
        frozenset(["engines"]),
        (*packages, *_ENGINES),
        blocking=partial(lambda kind, target: kind(target), side),
    )
    for id, (title, side, packages) in _SIDES.items()
)
