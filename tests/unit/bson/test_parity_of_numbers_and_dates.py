"""Decimal128 and DatetimeMS behave as in PyMongo's package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

DECIMALS = """
Decimal128("1.5"), Decimal128(D("1.5")), Decimal128("1e5"), Decimal128("0.00000001"), Decimal128("-0")
[Decimal128(text) for text in ("NaN", "-NaN", "sNaN", "-sNaN", "inf", "-inf", "Infinity", "-Infinity")]
[Decimal128(text).bid for text in ("NaN", "-NaN", "sNaN", "-sNaN", "inf", "-inf", "0", "-0", "1", "-1E-6176")]
[repr(Decimal128(text).to_decimal()) for text in ("-NaN", "sNaN", "-inf", "-0.00", "1E5")]
[str(Decimal128(text)) for text in ("1E6144", "1E6111", "1E-6176", "0E-9999", "0E9999", "-0E9999")]
Decimal128("1234567890123456789012345678901234"), Decimal128("10000000000000000000000000000000000")
Decimal128("1" * 34 + "0" * 6111)
Decimal128("abc")
Decimal128("")
Decimal128(" 1 ")
Decimal128("1_0")
Decimal128("NaN123")
Decimal128(D("NaN123"))
Decimal128("1E6145")
Decimal128("1E-6177")
Decimal128("12345678901234567890123456789012345")
Decimal128("1" * 5000)
Decimal128("1E99999999999999999999")
Decimal128(5)
Decimal128(True)
Decimal128(1.5)
Decimal128(None)
Decimal128(b"1")
Decimal128(Decimal128("1"))
Decimal128([1])
Decimal128((1, 2, 3))
Decimal128((1, 2)), Decimal128((3476778912330022912, 5)), Decimal128([3476778912330022912, 5])
Decimal128((0x6C00000000000000, 5)), Decimal128((0x6000000000000000, 5))
Decimal128((0x3041FFFFFFFFFFFF, 2**64 - 1)), Decimal128((0x3041ED09BEAD87C0, 0x378D8E63FFFFFFFF))
Decimal128((0x3041ED09BEAD87C0, 0x378D8E6400000000))
Decimal128.from_bid(b"a" * 16), Decimal128.from_bid(b"\\xff" * 16), Decimal128.from_bid(b"\\x00" * 16)
Decimal128.from_bid(b"a" * 15)
Decimal128.from_bid("a" * 16)
Decimal128.from_bid(bytearray(b"a" * 16))
Decimal128("1") == Decimal128("1.0"), Decimal128("1") == Decimal128("1"), Decimal128("1") != Decimal128("1")
Decimal128("1") == 1, Decimal128("NaN") == Decimal128("NaN"), Decimal128("1") != "1"
hash(Decimal128("1"))
Decimal128("1") < Decimal128("2")
float(Decimal128("1"))
Decimal128("1").__getstate__(), Decimal128("1")._type_marker
decimal128.create_decimal128_context()
decimal128.create_decimal128_context().create_decimal("1" * 40)
Decimal128(decimal128.create_decimal128_context().divide(D(1), D(3)))
DecimalEncoder().transform_python(D("1")), DecimalDecoder().transform_bson(Decimal128("1"))
DecimalEncoder().python_type, DecimalDecoder().bson_type
setattr(Decimal128("1"), "x", 1)
"""

DATES = """
DatetimeMS(5), DatetimeMS(-5), DatetimeMS(2**63 - 1), DatetimeMS(-(2**63))
DatetimeMS("a")
DatetimeMS(1.5)
DatetimeMS(None)
DatetimeMS(2**63)
DatetimeMS(-(2**63) - 1)
DatetimeMS(dt(2020, 1, 1)), DatetimeMS(dt(2020, 1, 1, tzinfo=east))
DatetimeMS(dt(2020, 1, 1, 0, 0, 0, 999999))
DatetimeMS(dt(1969, 1, 1, 0, 0, 0, 999)), DatetimeMS(dt.min), DatetimeMS(dt.max)
hash(DatetimeMS(5)), int(DatetimeMS(5)), str(DatetimeMS(5)), DatetimeMS(5)._type_marker, DatetimeMS(5)._value
DatetimeMS(5) == DatetimeMS(5), DatetimeMS(5) == 5, DatetimeMS(5) != 5, DatetimeMS(5) == dt(1970, 1, 1)
DatetimeMS(5) < 6, DatetimeMS(5) < DatetimeMS(6), DatetimeMS(5) >= DatetimeMS(5), DatetimeMS(5) > 4
DatetimeMS(5) <= 4, DatetimeMS(5) <= DatetimeMS(5), DatetimeMS(5) > DatetimeMS(5)
DatetimeMS(5) < "a"
DatetimeMS(5) < dt(2020, 1, 1)
DatetimeMS(5).as_datetime(), DatetimeMS(-1).as_datetime(), DatetimeMS(253402300799999).as_datetime()
DatetimeMS(-62135596800000).as_datetime()
DatetimeMS(-62135596800001).as_datetime()
DatetimeMS(253402300800000).as_datetime()
DatetimeMS(2**62).as_datetime()
DatetimeMS(5).as_datetime(CodecOptions(tz_aware=True))
DatetimeMS(5).as_datetime(CodecOptions(tz_aware=True, tzinfo=east))
DatetimeMS(253402300799999).as_datetime(CodecOptions(tz_aware=True, tzinfo=east))
shown([-(2**62), -1, 0, 2**62], datetime_conversion=2)
shown([-(2**62), -1, 0, 2**62], datetime_conversion=3)
shown([-(2**62), -1, 0, 2**62], datetime_conversion=4)
shown([-(2**62), 2**62], tz_aware=True, tzinfo=east, datetime_conversion=2)
shown([-(2**62), 2**62], tz_aware=True, tzinfo=west, datetime_conversion=2)
shown([253402300799999, 253402297199999], tz_aware=True, tzinfo=east, datetime_conversion=4)
DatetimeMS(5).as_datetime(CodecOptions(datetime_conversion=9))
datetime_ms._datetime_to_millis(dt(2020, 1, 1)), datetime_ms._min_datetime_ms()
datetime_ms._max_datetime_ms()
[f(tz) for f in (datetime_ms._min_datetime_ms, datetime_ms._max_datetime_ms) for tz in (east, west, utc)]
bson.EPOCH_AWARE, bson.EPOCH_NAIVE, datetime_ms.EPOCH_AWARE == bson.EPOCH_AWARE
"""


def lines(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


@pytest.mark.parametrize("expression", lines(DECIMALS, DATES))
def test_numbers_and_dates_agree_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)
