"""Spark reads changes as a stream and stores each once, although workers die and queries restart."""

import json
from pathlib import Path

from common import die_once, started
from spark_session import begun, session

from mangonel import MongoClient
from mangonel.server import start
from mangonel.spark import changes as reading
from mangonel.spark.options import Options


def main():
    on_a_quiet_server()
    _, database, folder = started()
    with session() as spark:
        stream(spark, database, Path(folder))
        stores(spark, database, Path(folder))


def on_a_quiet_server():
    """Read on a server without other writes: the read would wait for ever for an offset beyond the last change."""
    with (
        start(replica_set=1, set_parameters={"writePeriodicNoops": "false"}) as server,
        MongoClient(server.uri) as client,
    ):
        live = client.test.create_collection("live")
        where = {
            "uri": server.uri,
            "database": "test",
            "collection": "live",
            "filter": '{"operationType": "insert"}',
        }
        reader = reading._Reader(Options(where, reading._KNOWN))
        offset = reader.initialOffset()
        for number in range(3):
            live.insert_many([{"_id": 2 * number}, {"_id": 2 * number + 1}])
            live.update_one({"_id": 2 * number}, {"$set": {"a": 1}})
            begin, offset = offset, reader.latestOffset(offset, None)
            (part,) = reader.partitions(begin, offset)
            keys = [json.loads(row[3])["_id"] for row in reader.read(part)]
            assert keys == [2 * number, 2 * number + 1], keys
            assert reader.latestOffset(offset, None) == offset
        # An idle stream advances its token, and still sees later changes.
        client.test.other.insert_one({})
        reading._IDLE_S = 0
        begin, offset = offset, reader.latestOffset(offset, None)
        assert begin["token"] < offset["token"], (begin, offset)
        assert not [row for part in reader.partitions(begin, offset) for row in reader.read(part)]
        live.insert_one({"_id": "last"})
        (part,) = reader.partitions(offset, reader.latestOffset(offset, None))
        assert [json.loads(row[3])["_id"] for row in reader.read(part)] == ["last"]


def stream(spark, database, folder):
    live = database.create_collection("live")
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")

    def begin():
        where = {"database": database.name, "collection": "live"}
        changes = spark.readStream.format("mangonel_changes").options(**where).load()
        written = changes.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        return written.start(out)

    query = begun(begin, checkpoint)
    live.insert_many([{"_id": number} for number in range(300)])
    query.processAllAvailable()
    query.stop()
    # While no query runs: the next one starts after the last token.
    live.insert_many([{"_id": number} for number in range(300, 500)])
    live.update_one({"_id": 5}, {"$set": {"a": 1}})
    query = begun(begin, checkpoint)
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
    query = begun(begin, checkpoint)
    for first in (0, 300, 600):
        source.insert_many([{"_id": number} for number in range(first, first + 300)])
        query.processAllAvailable()
    query.stop()
    # The token is the _id, so storing a batch twice would have failed.
    assert database.stored.count_documents({"operation": "insert"}) == 900


main()
