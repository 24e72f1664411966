"""Spark with Python workers: its rows equal those of find(), also with filters; dying workers lose and double none."""

import math

from common import ROUTER, STAYS, die_once, same, sharded, started, stored, writers
from spark_session import session

from mangonel import MongoClient
from mangonel.bson import Binary, ObjectId, json_util
from mangonel.errors import ConfigurationError
from mangonel.server import start
from mangonel.spark.options import Options

# As in Spark: NaN equals itself and is greater than every number, and null is neither true nor false.
FILTERS = {
    "n > 10 and n <= 20 and mixed is not null": lambda row: 10 < row["n"] <= 20 and row["mixed"] is not None,
    "x > 5 and n < 500": lambda row: row["x"] is not None and not row["x"] <= 5 and row["n"] < 500,
    "x <= 3 or n = 7": lambda row: row["n"] == 7 or (row["x"] is not None and row["x"] <= 3),
    "x is null and n in (1, 2, 3, 4, 5, 6, 50)": lambda row: (
        row["x"] is None and row["n"] in (1, 2, 3, 4, 5, 6, 50)
    ),
    "x = double('NaN')": lambda row: row["x"] is not None and math.isnan(row["x"]),
    "mixed = '1' and in.id is not null": lambda row: row["mixed"] == "1" and row["in"] is not None,
    "by = '00000000-0000-0000-0000-000000000005'": lambda row: row["n"] == 5,
}


def main():
    _, database, _ = started()
    with session() as spark:
        batch(spark, database)


def load(spark, database, form="mangonel", **options):
    where = {"database": database.name, "collection": "rows", "filter": json_util.dumps(STAYS)}
    return spark.read.format(form).options(**where, parts="6", **options).load()


def save(frame, database, collection, form="mangonel", **options):
    where = {"database": database.name, "collection": collection}
    frame.write.format(form).mode("append").options(**where, **options).save()


def batch(spark, database):
    with writers(database):
        frame = load(spark, database, "dying").cache()
        rows = sorted(frame.toArrow().to_pylist(), key=lambda row: row["n"])
        same(rows, database.rows)
        sharded(database)
        same(load(spark, database, connect=ROUTER).toArrow().to_pylist(), database.rows)
    looks_once(spark, database)
    another_deployment(spark, database)

    for text, keeps in FILTERS.items():
        pushed = load(spark, database, pushdown="true", sample="2000").filter(text).select("n").toArrow()
        assert sorted(pushed["n"].to_pylist()) == [row["n"] for row in rows if keeps(row)], text

    def dying(batches):
        die_once("before_a_commit")
        yield from batches

    save(frame.mapInArrow(dying, frame.schema), database, "once", "dying", once="job")
    stored(database.once)
    # The job has ended, so other tasks have nothing to store.
    save(frame.coalesce(3), database, "once", once="job")
    stored(database.once)
    for _ in range(2):
        save(frame.select("n", "x"), database, "by_key", key="n")
    stored(database.by_key)
    save(
        frame.filter("n < 10 and in is not null").selectExpr("in.id as _id", "n"), database, "ids", ids="_id"
    )
    copies(spark, database)
    wanted = {
        row["in"]["id"]: row["n"]
        for row in database.rows.find({"n": {"$gte": 0, "$lt": 10}, "in": {"$ne": None}})
    }
    assert {row["_id"]: row["n"] for row in database.ids.find()} == wanted


def copies(spark, database):
    """Fail unless ids and UUIDs of a copy equal those of the documents, though Spark has them as text."""
    documents = [
        {
            "_id": ObjectId(),
            "by": Binary(bytes([n] * 16), 4),
            "in": {"ids": [ObjectId(), ObjectId()][: n % 3]},
            "n": n,
        }
        for n in range(30)
    ]
    database.whole.insert_many(documents)
    where = {"database": database.name, "collection": "whole"}
    frame = spark.read.format("mangonel").options(**where, parts="2").load()
    save(frame, database, "copy", key="_id")
    assert database.copy.find(sort={"n": 1}).to_list() == documents
    save(frame.select("n", "_id").withColumnRenamed("_id", "from"), database, "renamed", key="n")
    assert [row["from"] for row in database.renamed.find(sort={"n": 1})] == [
        each["_id"] for each in documents
    ]
    save(frame.selectExpr("upper(_id) as id", "n"), database, "text", key="n")
    assert [row["id"] for row in database.text.find(sort={"n": 1})] == [
        str(each["_id"]).upper() for each in documents
    ]


def looks_once(spark, database):
    """Fail unless documents are read at once for the schema. A user's schema does not distinguish ids from text."""
    noted = load(spark, database, sample="50").schema
    for schema, looks in ((None, 1), (noted, 0), ("n long, in struct<id: string>", 1)):
        database.command("profile", 2)
        reader = spark.read if schema is None else spark.read.schema(schema)
        where = {"database": database.name, "collection": "rows", "sample": "50", "parts": "6"}
        rows = reader.format("mangonel").options(**where).load().select("n", "in.id").collect()
        database.command("profile", 0)
        assert len(rows) == database.rows.count_documents({})
        assert {len(row.id) for row in rows if row.id is not None} == {24}
        sampled = {"command.pipeline.0.$sample.size": 50}
        assert database.system.profile.count_documents(sampled) == looks, schema
        database.system.profile.drop()


def another_deployment(spark, database):
    """Fail unless workers, which inherit MANGONEL_URI, use the deployment of the option `uri`."""
    where = {"database": database.name, "collection": "rows"}
    with start() as other, MongoClient(other.uri) as client:
        client[database.name].rows.insert_many([{"_id": number} for number in range(10)])
        frame = spark.read.format("mangonel").options(**where, uri=other.uri, parts="2").load()
        assert sorted(row._id for row in frame.collect()) == list(range(10))
        save(frame, database, "elsewhere", uri=other.uri)
        assert client[database.name].elsewhere.count_documents({}) == 10
        assert database.elsewhere.count_documents({}) == 0
    secret = refusal({**where, "uri": "mongodb://ada:secret@a.example"})
    assert "the password of 'ada'" in secret
    assert "secret@" not in secret
    assert "got both" in refusal({**where, "uri": "mongodb://a.example", "connect": ROUTER})


def refusal(options):
    try:
        Options(options, frozenset()).client()
    except ConfigurationError as error:
        return str(error)
    return ""


main()
