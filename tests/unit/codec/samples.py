"""Documents with every BSON type, with this package's classes or with those of the peer `bson`."""

from __future__ import annotations

import datetime
import re
from types import ModuleType
from typing import Any

# Both packages have the same names, so one function serves both.
ID = bytes(range(12))


def every_type(package: ModuleType) -> dict[str, Any]:
    """Return a document with each type that both packages can write."""
    binary, code, dbref = package.binary.Binary, package.code.Code, package.dbref.DBRef
    object_id = package.objectid.ObjectId
    return {
        "_id": object_id(ID),
        "double": 1.5,
        "string": "text",
        "latin": "é" * 9,
        "wide": "\u1234\U0001f600",
        "nul inside": "a\0b",
        "empty": "",
        "one": "x",
        "document": {"a": {"b": {}}},
        "array": [1, [2, []], {"c": None}, "x"] * 4,
        "tuple": (1, 2),
        "bytes": b"\0\1\2",
        "binary": binary(b"abc", 5),
        "old binary": binary(b"abc", 2),
        "user binary": binary(b"", 128),
        "bool": [True, False],
        "date": datetime.datetime(2020, 2, 29, 23, 59, 59, 999_000),
        "first date": datetime.datetime(1, 1, 1),
        "last date": datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000),
        "old date": datetime.datetime(1969, 12, 31, 23, 59, 59, 1000),
        "aware date": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
        "none": None,
        "regex": package.regex.Regex("^a.*", "imx"),
        "compiled": re.compile("^ä", re.IGNORECASE),
        "dbref": dbref("c", object_id(ID), "d", extra=1),
        "bare dbref": dbref("c", 5),
        "code": code("function() {}"),
        "scoped code": code("function() {}", {"x": 1}),
        "int32": [0, 1, -1, 256, 257, -(2**31), 2**31 - 1],
        "int64": [2**31, -(2**31) - 1, 2**63 - 1, -(2**63)],
        "small int64": [package.int64.Int64(value) for value in (0, 5, -5, 2**30, -(2**30), 2**60, -(2**60))],
        "timestamp": package.timestamp.Timestamp(2**32 - 1, 7),
        "decimal": package.decimal128.Decimal128("-1.50E+3"),
        "min": package.min_key.MinKey(),
        "max": package.max_key.MaxKey(),
        "millis": package.datetime_ms.DatetimeMS(-(2**40)),
        "a name that is longer than thirty-two bytes, as some are": 1,
        "näme": 1,
        "": 1,
    }
