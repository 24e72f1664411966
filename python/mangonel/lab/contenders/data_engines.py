"""A collection inside Ray, Dask and Spark: this driver's sources, and the readers that users have today.

Methods read all columns, and return the sum of one and the number of rows: `ray`, `dask`, `spark`, and those of
`RoadSide`, for one process and for several. Ray and Dask run their tasks in this process, since their own cost is the
same with any reader; only `ray_workers` and `dask_workers` start processes. Spark has its JVM and its workers. These
contenders play if the engines are installed: `python tools/data_engines.py` makes such an environment.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

from mangonel.lab.contender import Contender, Target
from mangonel.lab.contenders._faces import named
from mangonel.lab.contenders._pymongo_like import uri_with
from mangonel.lab.contenders.engines import COLLECTION, SCHEMA

PARTS = 8
CONNECTOR = "org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"


class Side:
    """A collection of a driver with PyMongo's names."""

    driver = "pymongo"

    def __init__(self, target: Target) -> None:
        self.target, self.uri = target, uri_with(target)
        self.client = named(f"{self.driver}:MongoClient")(self.uri)
        self.rows = self.client[target.database][COLLECTION]
        self.prepared: Any = None

    def once(self, make: Any) -> Any:
        """Return the result of the first call: a plan is made once, and every sample reads it."""
        if self.prepared is None:
            self.prepared = make()
        return self.prepared

    def close(self) -> None:
        self.client.close()


class RaySide(Side):
    """Ray's own reader."""

    def source(self) -> Any:
        module = importlib.import_module("ray.data._internal.datasource.mongo_datasource")
        return module.MongoDatasource(self.uri, self.target.database, COLLECTION)

    def ray(self, is_whole: bool) -> tuple[float, int]:
        tasks = self.once(self.source).get_read_tasks(PARTS)
        return _sum_of(block for task in tasks for block in task())


class OurRaySide(RaySide):
    driver = "mangonel"

    def source(self) -> Any:
        return named("mangonel.ray:Source")(self.rows, schema=SCHEMA, parts=PARTS)


class PyMongoArrowSide(Side):
    """PyMongoArrow has no source for engines: the table is made in one piece."""

    def ray(self, is_whole: bool) -> tuple[float, int]:
        api: Any = importlib.import_module("pymongoarrow.api")
        return _sum_of([api.find_arrow_all(self.rows, {}, schema=api.Schema(SCHEMA))])


class DaskSide(Side):
    """Dask has no MongoDB reader: PyMongo's documents become frames, one for each range of `_id`."""

    def frame(self) -> Any:
        pandas, dask = importlib.import_module("pandas"), importlib.import_module("dask.dataframe")
        step = -(-self.rows.estimated_document_count() // PARTS)

        meta = pandas.DataFrame(self.rows.find().limit(1).to_list()).iloc[:0]
        return dask.from_map(_ReadRange(self.rows, step), range(0, step * PARTS, step), meta=meta)

    def dask(self, is_whole: bool) -> tuple[float, int]:
        frame = self.once(self.frame).compute(scheduler="synchronous")
        return float(frame["total"].sum()), len(frame)


class _ReadRange:
    """Reads the documents from an id on."""

    def __init__(self, rows: Any, step: int) -> None:
        self._rows, self._step = rows, step

    def __call__(self, start: int) -> Any:
        chosen = {"_id": {"$gte": start, "$lt": start + self._step}}
        return importlib.import_module("pandas").DataFrame(self._rows.find(chosen).to_list())

    def __dask_tokenize__(self) -> Any:
        return self._rows.full_name, self._step


class OurDaskSide(DaskSide):
    driver = "mangonel"

    def frame(self) -> Any:
        return named("mangonel.dask:read")(self.rows, schema=SCHEMA, parts=PARTS)


class SparkSide(Side):
    """MongoDB's connector, from Maven."""

    spark_session: Any = None

    def frame(self) -> Any:
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "MANGONEL_URI": self.uri}
        builder = importlib.import_module("pyspark.sql").SparkSession.builder.master("local[2]")
        settings = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", **self.settings()}
        self.spark_session = builder.config(map=settings).getOrCreate()
        self.spark_session.sparkContext.setLogLevel("OFF")
        where = {"database": self.target.database, "collection": COLLECTION}
        return self.reader().options(**where).load()

    def settings(self) -> dict[str, str]:
        return {"spark.jars.packages": CONNECTOR}

    def reader(self) -> Any:
        return self.spark_session.read.format("mongodb").option("connection.uri", self.uri)

    def spark(self, is_whole: bool) -> tuple[float, int]:
        # Use every column, so that Spark leaves none out.
        hashed = self.once(self.frame).selectExpr("total", "hash(*) as h")
        (found,) = hashed.selectExpr("sum(total) as s", "count(h) as n", "max(h) as m").collect()
        return found.s, found.n

    def close(self) -> None:
        if self.spark_session is not None:
            self.spark_session.stop()
        super().close()


class OurSparkSide(SparkSide):
    driver = "mangonel"

    def settings(self) -> dict[str, str]:
        return {}

    def reader(self) -> Any:
        named("mangonel.spark:register")(self.spark_session)
        return self.spark_session.read.format("mangonel").option("sample", "1000")


class RoadSide(Side):
    """The same parts in one process, by several cursors, threads, processes, and workers of Ray and Dask."""

    driver = "mangonel"

    def parts(self) -> list[Any]:
        return self.rows.partitions(PARTS)

    def alone(self, is_whole: bool) -> tuple[float, int]:
        return _sum_of([_table(self.rows.find())])

    def cursors(self, is_whole: bool) -> tuple[float, int]:
        return _sum_of([_table(self.rows.find(), parallel=4)])

    def threads(self, is_whole: bool) -> tuple[float, int]:
        with ThreadPoolExecutor(2) as pool:
            return _sum_of(pool.map(_table, self.parts()))

    def processes(self, is_whole: bool) -> tuple[float, int]:
        # The cost includes starting the processes.
        with ProcessPoolExecutor(2) as pool:
            return _total(pool.map(_sum_of_part, self.parts()))

    def ray_workers(self, is_whole: bool) -> tuple[float, int]:
        dataset = self.once(self.ray_dataset).materialize()
        return float(dataset.sum("total")), int(dataset.count())

    def ray_dataset(self) -> Any:
        # Ray's workers run at niceness 15, so on a busy machine they get no processor for minutes.
        os.environ |= {"MANGONEL_URI": self.uri, "RAY_worker_niceness": "0"}
        ray = importlib.import_module("ray")
        ray.init(num_cpus=2, object_store_memory=400_000_000, include_dashboard=False, log_to_driver=False)
        self.closes = ray.shutdown
        source = named("mangonel.ray:Source")(self.rows, schema=SCHEMA, parts=PARTS)
        return importlib.import_module("ray.data").read_datasource(source)

    def dask_workers(self, is_whole: bool) -> tuple[float, int]:
        frame = self.once(self.dask_frame)
        total, count = importlib.import_module("dask").compute(frame["total"].sum(), frame["name"].count())
        return float(total), int(count)

    def dask_frame(self) -> Any:
        distributed = importlib.import_module("dask.distributed")
        os.environ["MANGONEL_URI"] = self.uri
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        client = distributed.Client(cluster)
        self.closes = lambda: (client.close(), cluster.close())
        return named("mangonel.dask:read")(self.rows, schema=SCHEMA, parts=PARTS)

    closes: Any = None

    def close(self) -> None:
        if self.closes is not None:
            self.closes()
        super().close()


def _table(source: Any, **options: Any) -> Any:
    return importlib.import_module("pyarrow").table(source.to_arrow(SCHEMA, **options))


def _sum_of_part(part: Any) -> tuple[float, int]:
    return _sum_of([_table(part)])


def _total(sums: Iterable[tuple[float, int]]) -> tuple[float, int]:
    totals, counts = zip(*sums, strict=True)
    return sum(totals), sum(counts)


def _sum_of(tables: Iterable[Any]) -> tuple[float, int]:
    compute = importlib.import_module("pyarrow.compute")
    return _total((compute.sum(table["total"]).as_py() or 0.0, table.num_rows) for table in tables)


def _needs_java(uri: str) -> str:
    return "" if shutil.which("java") else "not installed: Java"


# The methods that play, by the name of the part.
_SIDES: dict[str, tuple[str, type[Side], str, tuple[str, ...]]] = {
    "ray-mangonel": ("mangonel.ray", OurRaySide, "ray", ("mangonel", "ray")),
    "ray-own": ("Ray's read_mongo", RaySide, "ray", ("pymongo", "pymongoarrow", "ray")),
    "ray-pymongoarrow": ("PyMongoArrow", PyMongoArrowSide, "ray", ("pymongo", "pymongoarrow", "ray")),
    "dask-mangonel": ("mangonel.dask", OurDaskSide, "dask", ("mangonel", "dask")),
    "dask-pymongo": ("PyMongo and pandas", DaskSide, "dask", ("pymongo", "pandas", "dask")),
    "spark-mangonel": ("mangonel.spark", OurSparkSide, "spark", ("mangonel", "pyspark")),
    "road-mangonel": ("mangonel", RoadSide, "road", ("mangonel", "pyarrow")),
    "road-ray": ("mangonel.ray, two workers", RoadSide, "ray-workers", ("mangonel", "ray")),
    "road-dask": (
        "mangonel.dask, two workers",
        RoadSide,
        "dask-workers",
        ("mangonel", "dask", "distributed"),
    ),
    "spark-own": ("mongo-spark", SparkSide, "spark", ("pymongo", "pyspark")),
}
CONTENDERS = tuple(
    Contender(
        id,
        title,
        frozenset([f"engine-{engine}"]),
        packages,
        blocking=partial(lambda kind, target: kind(target), side),
        unsuited=_needs_java if engine == "spark" else None,
    )
    for id, (title, side, engine, packages) in _SIDES.items()
)
