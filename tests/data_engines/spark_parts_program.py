"""Spark's sources without Java: pushed-down filters, options, ids as text, and changes after a drop."""

import datetime
import json
import os
import pickle
import sys
import threading

import pyarrow
from pyspark.sql import types
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
)

from mangonel import MongoClient
from mangonel.arrow import ColumnError
from mangonel.bson import Binary, Decimal128, ObjectId, Regex
from mangonel.errors import ConfigurationError
from mangonel.spark import MangonelSource
from mangonel.spark.changes import _KNOWN, _Reader
from mangonel.spark.options import Options
from mangonel.spark.types import stored

WHEN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
IDS = [ObjectId(bytes([n] * 12)) for n in range(3)]
# Values of the field `x`, a filter, and the values whose rows Spark keeps. The values are as in a column of one type;
# in a column of text, ids, decimals and all other values are text.
CASES = [
    ([Decimal128("5"), Decimal128("6")], EqualTo(("x",), "5"), [Decimal128("5")]),
    ([Decimal128("5"), Decimal128("6")], In(("x",), ("6", "7")), [Decimal128("6")]),
    ([Regex("a"), Regex("b")], GreaterThan(("x",), ""), [Regex("a"), Regex("b")]),
    (["a", 7, {"a": 1}], EqualTo(("x",), "7"), [7]),
    (["a", [None], None], IsNotNull(("x",)), ["a", [None]]),
    (["a", "B", "C"], GreaterThan(("x",), "B"), ["a", "C"]),
    ([0.5, float("nan"), 7.0], GreaterThan(("x",), 1.0), [float("nan"), 7.0]),
    ([1, 5, 9], GreaterThanOrEqual(("x",), 5), [5, 9]),
    ([True, False, None], EqualTo(("x",), False), [False]),
    (IDS, EqualTo(("x",), str(IDS[1])), [IDS[1]]),
    (IDS, LessThan(("x",), "01"), [IDS[0]]),
    (
        [WHEN, WHEN + datetime.timedelta(milliseconds=1)],
        LessThan(("x",), WHEN + datetime.timedelta(microseconds=1)),
        [WHEN],
    ),
    (
        [WHEN, WHEN + datetime.timedelta(milliseconds=1)],
        GreaterThan(("x",), WHEN + datetime.timedelta(microseconds=1)),
        [WHEN + datetime.timedelta(milliseconds=1)],
    ),
]


def main():
    uri, name, _ = sys.argv[1:]
    os.environ["MANGONEL_URI"] = uri
    with MongoClient(uri) as client:
        filters(client[name])
        sent(client[name])
        options(name)
        texts()
        changes(client[name])
        begins(client[name])


def filters(database):
    for place, (values, filter, kept) in enumerate(CASES):
        for collation in (None, {"locale": "en", "strength": 1}):
            collection = database.create_collection(
                f"case{place}{'ruled' if collation else ''}", collation=collation
            )
            collection.insert_many([{"_id": n, "x": value} for n, value in enumerate(values)])
            source = MangonelSource(
                {"database": database.name, "collection": collection.name, "pushdown": "true", "parts": "1"}
            )
            reader = source.reader(source.schema())
            assert reader.pushFilters([filter]) == [filter]
            # As Spark sends them to workers.
            reader, parts = pickle.loads(pickle.dumps((reader, reader.partitions())))
            found = {row["_id"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()}
            wanted = {n for n, value in enumerate(values) if any(repr(value) == repr(each) for each in kept)}
            assert found >= wanted, (filter, collation, found)


def sent(database):
    """Check that most filters leave out rows on the server."""
    reader = MangonelSource({"database": database.name, "collection": "case7", "pushdown": "true"})
    reader = reader.reader(reader.schema())
    reader.pushFilters([GreaterThan(("x",), 4), EqualTo(("x",), 5)])
    assert reader._queries == [{"x": {"$gt": 4}}, {"x": {"$eq": 5}}], reader._queries


def options(name):
    where = {"database": name, "collection": "rows"}
    columns = types.StructType(
        [types.StructField("_id", types.StringType()), types.StructField("n", types.LongType())]
    )
    for more, said in (
        ({"filter": "{no"}, "expected extended JSON for the option 'filter', got '{no'"),
        ({"filter": "[1]"}, "expected a JSON object for the option 'filter', got [1]"),
        ({"sample": "0"}, "expected a positive number for the option 'sample', got '0'"),
        ({"shards": "2"}, "as an option, got 'shards'"),
    ):
        assert said in refusal(lambda more=more: MangonelSource({**where, **more}).schema()), more
    for more, said in (
        ({"key": "_idd"}, "expected names of the columns ['_id', 'n'] in the option 'key', got ['_idd']"),
        ({"ids": "id,n"}, "expected names of the columns ['_id', 'n'] in the option 'ids', got ['id']"),
        ({"ids": "n"}, "expected columns of text in the option 'ids', got n: bigint"),
    ):
        for writer in ("writer", "streamWriter"):
            source = MangonelSource({**where, **more})
            found = refusal(lambda source=source, writer=writer: getattr(source, writer)(columns, False))
            assert said in found, found


def refusal(act):
    try:
        act()
    except (ConfigurationError, ColumnError) as error:
        return str(error)
    return ""


def texts():
    """Ids as text become bytes at every depth; other text is reported."""
    kinds = {
        "id": "object_id",
        "in": ("struct", [("by", "uuid"), ("n", "int64")]),
        "all": ("list", ("struct", [("id", "object_id")])),
    }
    by = Binary(bytes(range(16)), 4).as_uuid()
    rows = [
        {"id": str(IDS[0]), "in": {"by": str(by), "n": 1}, "all": [{"id": str(IDS[1])}, None, {"id": None}]},
        {"id": None, "in": None, "all": None},
        {"id": str(IDS[2]), "in": {"by": None, "n": 2}, "all": []},
    ]
    (batch,) = pyarrow.Table.from_pylist(rows).to_batches()
    for start in range(3):
        found = stored(batch.slice(start), kinds).to_pylist()
        assert (
            found
            == [
                {
                    "id": IDS[0].binary,
                    "in": {"by": by.bytes, "n": 1},
                    "all": [{"id": IDS[1].binary}, None, {"id": None}],
                },
                {"id": None, "in": None, "all": None},
                {"id": IDS[2].binary, "in": {"by": None, "n": 2}, "all": []},
            ][start:]
        ), found
    wrong = refusal(lambda: stored(pyarrow.record_batch({"id": ["x"]}), {"id": "object_id"}))
    assert "hexadecimal digits of an ObjectId, got 'x' in the column id; name the columns" in wrong, wrong


def changes(database):
    """A dropped and re-created collection continues in the same stream."""
    for more, wanted in (
        ({}, ["insert", "drop", "invalidate", "insert"]),
        ({"filter": '{"operationType": "insert"}'}, ["insert", "insert"]),
    ):
        live = database.create_collection("live")
        reader = _Reader(Options({"database": database.name, "collection": "live", **more}, _KNOWN))
        start = reader.initialOffset()
        assert reader.latestOffset(start, None) == start
        live.insert_one({"_id": 1})
        live.drop()
        live.insert_one({"_id": 2})
        end = reader.latestOffset(start, None)
        (part,) = reader.partitions(start, end)
        rows = list(reader.read(part))
        assert [row[1] for row in rows] == wanted, rows
        # From each change on, as if a batch had ended there.
        for place, row in enumerate(rows):
            parts = reader.partitions({"token": row[0]}, end)
            assert [each for part in parts for each in reader.read(part)] == rows[place + 1 :]
        live.insert_one({"_id": 3})
        assert [row[3] for row in reader.read(reader.partitions(end, reader.latestOffset(end, None))[0])] == [
            '{"_id": 3}'
        ]
        live.drop()


def begins(database):
    """A stream has one start, also while others write: Spark asks for it again when it plans the first batch."""
    busy = database.create_collection("busy")
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            busy.insert_many([{} for _ in range(20)])

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(60):
            reader = _Reader(Options({"database": database.name, "collection": "busy"}, _KNOWN))
            start = reader.initialOffset()
            # Without it if the server's first reply had changes already.
            assert json.loads(start["token"]) is not None
            assert reader.initialOffset() == start
    finally:
        is_over.set()
        for writer in writers:
            writer.join()


main()
