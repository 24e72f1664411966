"""Spark reads changes as a stream and stores them: each once, although workers die and queries start again."""

import time
from pathlib import Path

from common import die_once, started
from spark_session import session


def main():
    _, database, folder = started()
    with session() as spark:
        stream(spark, database, Path(folder))
        stores(spark, database, Path(folder))


def stream(spark, database, folder):
    live = database.create_collection("live")
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")

    def begin():
        where = {"database": database.name, "collection": "live"}
        changes = spark.readStream.format("mangonel_changes").options(**where).load()
        written = changes.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        return written.start(out)

    query = begin()
    while query.lastProgress is None and not list(Path(checkpoint).glob("offsets/*")):
        assert query.exception() is None, query.exception()
        if query.status["message"] == "Waiting for data to arrive":
            break
        time.sleep(0.1)
    live.insert_many([{"_id": number} for number in range(300)])
    query.processAllAvailable()
    query.stop()
    # While no query runs: the next one begins behind the last token.
    live.insert_many([{"_id": number} for number in range(300, 500)])
    live.update_one({"_id": 5}, {"$set": {"a": 1}})
    query = begin()
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(out).collect()
    assert len(rows) == len({row.token for row in rows}) == 501, len(rows)
    inserted = [row for row in rows if row.operation == "insert"]
    assert sorted(row.key for row in inserted) == sorted(f'{{"_id": {number}}}' for number in range(500))


def stores(spark, database, folder):
    """Copy changes by a stream whose workers die once before and once after a commit."""

    def dying(batches):
        die_once("before_a_commit")
        yield from batches

    def begin():
        where = {"database": database.name, "collection": "copied"}
        changes = spark.readStream.format("mangonel_changes").options(**where).load()
        copies = changes.selectExpr("token as _id", "operation").repartition(2)
        written = copies.mapInArrow(dying, copies.schema).writeStream.format("dying")
        options = {"database": database.name, "collection": "stored", "once": "copies"}
        return written.options(**options).option("checkpointLocation", checkpoint).start()

    source, checkpoint = database.create_collection("copied"), str(folder / "copies")
    query = begin()
    while not list(Path(checkpoint).glob("offsets/*")):
        assert query.exception() is None, query.exception()
        time.sleep(0.1)
    for start in (0, 300, 600):
        source.insert_many([{"_id": number} for number in range(start, start + 300)])
        query.processAllAvailable()
    query.stop()
    # The token is the _id, so a batch that is stored twice would have failed.
    assert database.stored.count_documents({"operation": "insert"}) == 900


main()
