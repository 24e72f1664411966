"""A session of Spark with two threads, four attempts for a task, and the formats of this package."""

import contextlib
import os
import sys
import time
from pathlib import Path

from dying_source import DyingSource
from pyspark.sql import SparkSession

from mangonel.spark import register


@contextlib.contextmanager
def session():
    """A session, which ends with the block."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2, 4]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    spark.dataSource.register(DyingSource)
    try:
        yield spark
    finally:
        spark.stop()


def begun(begin, checkpoint):
    """Return the stream that `begin` starts, once it has planned a batch.

    Spark waits 10 seconds for the planning process, and a busy machine may need longer; the guide says to start the
    stream again.
    """
    planned = len(list(Path(checkpoint).glob("offsets/*")))
    query = begin()
    while len(list(Path(checkpoint).glob("offsets/*"))) == planned:
        if (error := query.exception()) is not None:
            assert "failed to connect back" in str(error), error
            query = begin()
        time.sleep(0.1)
    return query
