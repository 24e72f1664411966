"""Spark 4 on this driver: a source of collections for batches, a target for them, and a source of changes for streams.

    register(spark)
    orders = spark.read.format("mangonel").option("database", "shop").option("collection", "orders").load()
    orders.write.format("mangonel").mode("append").options(database="shop", collection="copies", key="_id").save()
    spark.readStream.format("mangonel_changes").options(database="shop", collection="orders").load()

Spark's driver plans the parts, and Python workers read them straight into Arrow. Credentials are never pickled: set
`MANGONEL_URI` in the environment of driver and executors. Needs `pip install "mangonel[spark]"` and Java 17.
"""

from __future__ import annotations

from typing import Any

from mangonel.spark.batch import MangonelSource
from mangonel.spark.changes import ChangeSource

__all__ = ["ChangeSource", "MangonelSource", "register"]


def register(spark: Any) -> None:
    """Make the formats "mangonel" and "mangonel_changes" known to a session.

    Args:
        spark: a SparkSession.

    Example:
        >>> register(spark)
    """
    for source in (MangonelSource, ChangeSource):
        spark.dataSource.register(source)
