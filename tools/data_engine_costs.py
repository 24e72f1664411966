"""`python tools/data_engine_costs.py [local ray dask clusters spark]`: what a collection costs inside engines.

Runs in the engines' environment (tools/data_engines.py) with pymongo and pymongoarrow beside it, on its own server.
Prints CPU seconds of the client and peak memory, ours beside Ray's own reader, PyMongoArrow, PyMongo and mongo-spark.
CPU is that of the process and its descendants, without the server.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

ROWS = int(os.environ.get("MANGONEL_COST_ROWS", "300000"))
ROUNDS = int(os.environ.get("MANGONEL_COST_ROUNDS", "3"))
CONNECTOR = "org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"
FIELDS = {"_id": int, "n": int, "total": float, "city": str, "at": datetime, "paid": bool, "name": str}


def documents(start: int, end: int) -> list[dict[str, Any]]:
    """Documents of seven fields."""
    at = datetime(2026, 1, 2)
    return [
        {
            "_id": number,
            "n": number % 1000,
            "total": number / 4,
            "city": ("Paris", "Rome")[number % 2],
            "at": at,
            "paid": number % 3 == 0,
            "name": f"customer {number}",
        }
        for number in range(start, end)
    ]


def cpu() -> float:
    """Return the CPU seconds of this process and of all below it, those that ended included."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parts = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(folder.name)
        parents.setdefault(int(parts[1]), []).append(pid)
        used[pid] = sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0.0)
        waiting += parents.get(pid, [])
    return total


def measured(name: str, call: Callable[[], int], server: int | None = None) -> None:
    """Print what a call costs: the median of some rounds after one that is not counted."""
    call()
    spent, walls = [], []
    for _ in range(ROUNDS):
        before, begun = cpu() - server_cpu(server), time.monotonic()
        rows = call()
        spent.append(cpu() - server_cpu(server) - before)
        walls.append(time.monotonic() - begun)
        assert rows == ROWS, (name, rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:44} {statistics.median(spent):7.2f} s CPU [{min(spent):.2f}, {max(spent):.2f}]"
        f" {statistics.median(walls):7.2f} s wall, peak {peak} MB",
        flush=True,
    )


def server_cpu(pid: int | None) -> float:
    """Return the CPU seconds of the server, which is a child too."""
    if pid is None:
        return 0.0
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, parts[11:13])) / os.sysconf("SC_CLK_TCK")


def of_local(uri: str, ours: Any, server: int) -> None:
    """Read in one process, with threads and with processes."""
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    measured("one process: to_arrow()", lambda: len(ours.find().to_arrow(FIELDS)), server)
    measured(
        "one process: to_arrow(parallel=4)", lambda: len(ours.find().to_arrow(FIELDS, parallel=4)), server
    )
    with ThreadPoolExecutor(2) as pool:
        measured("two threads: partitions(8)", lambda: sum(pool.map(length, ours.partitions(8))), server)
    with ProcessPoolExecutor(2) as processes:
        measured(
            "two processes: partitions(8)", lambda: sum(processes.map(length, ours.partitions(8))), server
        )


def length(part: Any) -> int:
    """Return how many rows a part has."""
    return len(part.to_arrow(FIELDS))


def of_clusters(uri: str, ours: Any, server: int) -> None:
    """Count all rows in Ray and in Dask with two workers, which are descendants of this process."""
    import ray
    from dask.distributed import Client, LocalCluster

    from mangonel.dask import read
    from mangonel.ray import Source

    os.environ["MANGONEL_URI"] = uri
    before = cpu()
    ray.init(num_cpus=2, object_store_memory=400_000_000, include_dashboard=False, log_to_driver=False)
    print(f"ray: to start it {cpu() - before:.2f} s CPU")
    try:
        source = Source(ours, parts=8, schema=FIELDS)
        dataset = ray.data.read_datasource(source)
        measured("ray: rows through two workers", lambda: int(dataset.materialize().count()), server)
    finally:
        ray.shutdown()
    before = cpu()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        print(f"dask: to start it {cpu() - before:.2f} s CPU")
        frame = read(ours, parts=8, schema=FIELDS)
        measured("dask: rows through two workers", lambda: int(frame["n"].count().compute()), server)


def of_ray(uri: str, ours: Any, server: int) -> None:
    """Run the tasks of both sources in this process: Ray itself costs the same with either."""
    import pymongo
    from pymongoarrow.api import Schema, aggregate_arrow_all
    from ray.data._internal.datasource.mongo_datasource import MongoDatasource

    from mangonel.ray import Source

    source = Source(ours, parts=8, schema=FIELDS)
    measured("ray: mangonel.ray.Source", lambda: rows_of(source.get_read_tasks(8)), server)
    inferred = Source(ours, parts=8)
    measured("ray: mangonel.ray.Source, schema inferred", lambda: rows_of(inferred.get_read_tasks(8)), server)
    theirs = MongoDatasource(uri, "costs", "rows")
    measured("ray: read_mongo", lambda: rows_of(theirs.get_read_tasks(8)), server)
    with pymongo.MongoClient(uri) as client:
        rows = client.costs.rows
        schema = Schema(FIELDS)
        measured(
            "PyMongoArrow, with the schema",
            lambda: aggregate_arrow_all(rows, [], schema=schema).num_rows,
            server,
        )


def rows_of(tasks: Any) -> int:
    """Run read tasks; return the number of rows."""
    return sum(block.num_rows for task in tasks for block in task())


def of_dask(uri: str, ours: Any, server: int) -> None:
    """Compute in this process; there is no reader of Dask's own, so PyMongo's documents become frames."""
    import dask
    import pandas
    import pymongo

    from mangonel.dask import read

    frame = read(ours, parts=8, schema=FIELDS)

    def theirs() -> int:
        with pymongo.MongoClient(uri) as client:
            rows = client.costs.rows
            step = ROWS // 8
            frames = [
                pandas.DataFrame(list(rows.find({"_id": {"$gte": at, "$lt": at + step}})))
                for at in range(0, ROWS, step)
            ]
            return sum(map(len, frames))

    with dask.config.set(scheduler="synchronous"):
        measured("dask: mangonel.dask.read", lambda: len(frame.compute()), server)
    measured("dask: PyMongo and pandas", theirs, server)


def of_spark(uri: str, ours: Any, server: int) -> None:
    """Count the rows of all columns; the JVM is below this process."""
    from pyspark.sql import SparkSession

    from mangonel.spark import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["MANGONEL_URI"] = uri
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g")
    has_connector = os.environ.get("MANGONEL_COST_CONNECTOR", "1") == "1"
    if has_connector:
        builder = builder.config("spark.jars.packages", CONNECTOR)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)

    def counted(frame: Any) -> int:
        # Every column is needed, so that none is left out.
        hashed = frame.selectExpr("hash(*) as h").selectExpr("count(h) as n", "max(h) as m")
        return int(hashed.collect()[0].n)

    try:
        where = {"database": "costs", "collection": "rows"}
        mine = spark.read.format("mangonel").options(**where, parts="8", sample="1000").load()
        measured("spark: mangonel.spark", lambda: counted(mine), server)
        if has_connector:
            theirs = spark.read.format("mongodb").option("connection.uri", uri).options(**where).load()
            measured("spark: mongo-spark", lambda: counted(theirs), server)
    finally:
        spark.stop()


def main() -> None:
    """Measure the named engines, or all."""
    from mangonel import MongoClient, server

    wanted = sys.argv[1:] or ["local", "ray", "dask", "clusters", "spark"]
    with server.start(replica_set=1) as deployment, MongoClient[Any](deployment.uri) as client:
        rows = client.costs.rows
        for start in range(0, ROWS, 20_000):
            rows.insert_many(documents(start, min(start + 20_000, ROWS)))
        print(f"{ROWS} documents of 7 fields, median of {ROUNDS} rounds; load {os.getloadavg()[0]:.1f}")
        for name in wanted:
            globals()[f"of_{name}"](deployment.uri, rows, deployment.members[0].pid)


if __name__ == "__main__":
    main()
