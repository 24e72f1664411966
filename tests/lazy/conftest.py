"""A collection of values that are easy to confuse, and predicates on them."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from mangonel.server import Server

MISSING = object()
UTC = datetime.UTC
DATES = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    datetime.datetime(2020, 1, 1),
    datetime.datetime(2020, 1, 1, 0, 0, 0, 1000),
]
OBJECT_IDS = [ObjectId("00" * 12), ObjectId("7f" * 12), ObjectId("80" * 12), ObjectId("ff" * 12)]
EMPTY = [None, MISSING]

# By column: values that fit the column.
FITTING: dict[str, list[Any]] = {
    "i": [-(2**31), -1, 0, 1, 5, 2**31 - 1, Int64(5), *EMPTY],
    "l": [Int64(-(2**63)), -(2**53) - 1, 0, 1, 5, 2**53, 2**53 + 1, Int64(2**63 - 1), *EMPTY],
    "f": [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 0.5, 1, 5.0, 2**53, -(2.0**53), 1e300, *EMPTY],
    "s": ["", "a", "A", "ab", "b", "5", "ä", "a.b", "\U0001f600", "\uffff", Decimal128("5"), Regex("a"),
          Code("a"), Timestamp(1, 1), MinKey(), MaxKey(), *EMPTY],
    "c": ["", "a", "A", "b", Decimal128("5"), *EMPTY],
    "b": [True, False, *EMPTY],
    "d": [*DATES, *EMPTY],
    "n": [datetime.datetime(2020, 1, 1), *EMPTY],
    "o": [*OBJECT_IDS, *EMPTY],
    "t": [[], [1], [None], [5, None], *EMPTY],
    "st": [{}, {"x": None}, {"x": 1, "y": "a"}, {"x": 5, "y": None}, {"x": -1, "y": "ab"}, *EMPTY],
}  # fmt: skip
# Values of other types; with on_invalid="null" they are null.
OTHERS: list[Any] = [
    1, 0.5, 2.5, "5", "a", True, [5, "a", True], [None], {"x": 5}, DATES[1], OBJECT_IDS[1], b"a", Regex("a"),
    Decimal128("5"), Decimal128("NaN"), Timestamp(1, 1), MinKey(), MaxKey(), float("nan"),
]  # fmt: skip
SCHEMA: dict[str, Any] = {
    "_id": int,
    "i": "int32",
    "l": int,
    "f": float,
    "s": str,
    "c": "category",
    "b": bool,
    "d": datetime.datetime,
    "n": "timestamp[ms]",
    "o": ObjectId,
    "t": [int],
    "st": {"x": int, "y": str},
}


def documents(*, misfits: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Return each value of each column, beside changing values of the others; `misfits` columns have values of any
    type.
    """
    turns = {
        name: itertools.cycle([*values, *OTHERS, {"x": "5"}, {"x": [1]}] if name in misfits else values)
        for name, values in FITTING.items()
    }
    # A prime, so that values of the columns meet in many combinations.
    for number in range(397):
        row = {name: next(values) for name, values in turns.items()}
        yield {"_id": number, **{name: value for name, value in row.items() if value is not MISSING}}


@pytest.fixture(scope="session")
def confusing(standalone: Server) -> Iterator[Any]:
    """Collections `fitting`, `misfits`, `texts` with misfits in text columns, and `ruled`, which has a collation."""
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"lazy_{uuid.uuid4().hex[:8]}"]
        database.fitting.insert_many(documents())
        database.misfits.insert_many(documents(misfits=FITTING))
        database.texts.insert_many(documents(misfits=("s", "c")))
        database.create_collection("ruled", collation={"locale": "en", "strength": 1})
        database.ruled.insert_many(documents())
        yield database
        client.drop_database(database.name)
