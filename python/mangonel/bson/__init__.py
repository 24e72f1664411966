"""BSON: the types MongoDB stores, and the way to bytes and back, under the names of the `bson` package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _built_in_types() -> tuple[Any, ...]:
    """Return the types that the encoder handles by itself; no TypeEncoder may change them."""
    import datetime
    import re
    from collections.abc import Mapping
    from uuid import UUID

    from mangonel.bson.binary import Binary
    from mangonel.bson.code import Code
    from mangonel.bson.datetime_ms import DatetimeMS
    from mangonel.bson.dbref import DBRef
    from mangonel.bson.decimal128 import Decimal128
    from mangonel.bson.int64 import Int64
    from mangonel.bson.max_key import MaxKey
    from mangonel.bson.min_key import MinKey
    from mangonel.bson.regex import Regex
    from mangonel.bson.son import SON
    from mangonel.bson.timestamp import Timestamp

    return (
        *(bool, bytes, datetime.datetime, DatetimeMS, dict, float, int, list, str, tuple, type(None), UUID),
        *(Binary, Int64, Code, DBRef, MaxKey, MinKey, Regex, re.Pattern, SON, Timestamp, Decimal128, Mapping),
    )
