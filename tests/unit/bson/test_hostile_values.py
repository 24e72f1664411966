"""Wrong arguments raise an exception that says what was expected, what was found, and what to do."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel.bson import Binary, CodecOptions, DatetimeMS, Decimal128, InvalidBSON, Regex, Timestamp
from mangonel.bson.binary import BinaryVector, BinaryVectorDtype
from mangonel.bson.json_util import CANONICAL_JSON_OPTIONS, dumps, loads

MESSAGES = [
    ('Timestamp("a", 2)', 'expected int for "time", got str'),
    ("Timestamp(2**32, 2)", r'expected "time" in \[0, 2\*\*32\), got 4294967296'),
    ("Timestamp(1, -1)", r'expected "inc" in \[0, 2\*\*32\), got -1'),
    ("Regex(5)", 'expected str or bytes for "pattern", got int'),
    ('Regex("a", None)', 'expected str or int for "flags", got NoneType'),
    ('Regex.from_native("a")', 'expected a compiled pattern for "regex", got str'),
    ("Code(5)", "code must be an instance of str, not <class 'int'>"),
    ('Code("x", 5)', 'expected a mapping for "scope", got int'),
    ("DBRef(5, 1)", 'expected str for "collection", got int'),
    ('DBRef("c", 1, 5)', 'expected str for "database", got int'),
    ("DatetimeMS(1.5)", 'expected int or datetime for "value", got float'),
    ("DatetimeMS(2**63)", "64 bits, got 9223372036854775808"),
    ("DatetimeMS(2**62).as_datetime()", "years 1 to 9999: use .*DATETIME_AUTO"),
    ("Decimal128(1.5)", "expected decimal.Decimal or str .* got float: 1.5"),
    ("Decimal128((1, 2, 3))", r"\(high, low\), got 3 items"),
    ("Decimal128((-1, 2))", "unsigned 64-bit numbers .* got -1"),
    ("Decimal128((2**64, 2))", "unsigned 64-bit numbers"),
    ('Decimal128(("a", 2))', "two ints .* got str"),
    ('Decimal128("NaN5")', "NaN with a payload"),
    ('Decimal128.from_bid(b"a")', "expected 16 bytes, got 1"),
    ('Binary("x")', 'expected a bytes-like object for "data", got str'),
    ('Binary(b"x", 256)', r'"subtype" in \[0, 256\), got 256'),
    ('Binary.from_uuid("x")', 'expected uuid.UUID for "uuid", got str'),
    ("Binary.from_uuid(ID16, 0)", "Binary.from_uuid.*UuidRepresentation.STANDARD"),
    ('Binary(b"x", 4).as_uuid()', "expected 16 bytes for a uuid, got 1"),
    ('Binary(b"x", 0).as_uuid()', "expected subtype 3 or 4 for a uuid, got 0"),
    ('Binary(b"x", 9).as_vector()', "expected at least 2 bytes for a vector, got 1"),
    (r'Binary(b"\x27\x00\x05", 9).as_vector()', "multiple of 4 bytes"),
    (r'Binary(b"\x10\x09\x05", 9).as_vector()', r'"padding" in \[0, 7\], got 9'),
    ("Binary.from_vector([200], BinaryVectorDtype.INT8)", r"ints in \[-128, 127\]"),
    ("Binary.from_vector([1])", "INT8, FLOAT32 or PACKED_BIT"),
    ("Binary.from_vector((1,), BinaryVectorDtype.INT8)", "got tuple"),
    ("CodecOptions(document_class=list)", "expected dict, SON, RawBSONDocument .* got <class 'list'>"),
    ("CodecOptions(tz_aware=1)", 'expected bool for "tz_aware", got 1'),
    ("CodecOptions(tzinfo=utc)", '"tzinfo" needs "tz_aware"'),
    ("CodecOptions(uuid_representation=9)", "expected a UuidRepresentation .* got 9"),
    ("TypeRegistry([5])", "Expected an instance of TypeEncoder, TypeDecoder, or TypeCodec, got 5 instead"),
    ("TypeRegistry([encoder(int)])", r"encoder\(int\) for <class 'int'>"),
    ("JSONOptions(json_mode=5)", 'expected a JSONMode for "json_mode", got 5'),
    ("JSONOptions(strict_uuid=False)", '"strict_uuid" to be True with JSONMode.RELAXED, got False'),
    ('RawBSONDocument(b"abc")', "at least 5 bytes .* got 3"),
    ('RawBSONDocument(b"\\6\\0\\0\\0\\0")', "6 bytes, as its length says, got 5"),
    ("""json_util.loads('{"$oid": "a", "x": 1}')""", r"expected \$oid alone, got 'x' beside it"),
    ("""json_util.loads('{"$date": "today"}')""", "'today' does not match ISO-8601"),
    ("""json_util.loads('{"$timestamp": {"t": 1}}')""", 'exactly "t" and "i" components'),
]


@pytest.mark.parametrize(("expression", "message"), MESSAGES, ids=[expression for expression, _ in MESSAGES])
def test_message_says_what_was_expected_and_found(
    expression: str, message: str, ours: Callable[[str], Any]
) -> None:
    with pytest.raises(Exception, match=message):
        ours(expression)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_vector_or_an_error(data: bytes) -> None:
    try:
        vector = Binary(data, 9).as_vector()
    except (ValueError, struct.error):
        return
    except DeprecationWarning:
        return
    if vector.padding and data[-1] & ((1 << vector.padding) - 1):
        return
    # NaNs are not equal to themselves, so the bytes are compared.
    assert Binary.from_vector(vector) == Binary(data, 9)


@given(
    st.lists(st.integers(-300, 300) | st.floats(), max_size=8),
    st.sampled_from(list(BinaryVectorDtype)),
    st.integers(-2, 9),
)
def test_any_numbers_are_a_vector_or_an_error(
    numbers: list[float], dtype: BinaryVectorDtype, padding: int
) -> None:
    try:
        binary = Binary.from_vector(BinaryVector(numbers, dtype, padding))
    except (ValueError, OverflowError, struct.error):
        return

    assert Binary.from_vector(binary.as_vector()) == binary


@given(st.binary(min_size=16, max_size=16))
def test_any_16_bytes_are_a_decimal(data: bytes) -> None:
    value = Decimal128.from_bid(data)

    assert value.bid == data
    # Several encodings of one number exist; its text names the canonical one.
    text = str(value)
    assert str(Decimal128(text)) == text
    assert loads(dumps(value)) == Decimal128(text)


@given(st.text(alphabet="0123456789.eE+-naifNI ", max_size=50))
def test_any_text_is_a_decimal_or_an_error(text: str) -> None:
    import decimal

    try:
        value = Decimal128(text)
    except (decimal.DecimalException, ValueError):
        return
    found, wanted = value.to_decimal(), decimal.Decimal(text)
    assert found.compare_total(wanted) == 0 or (found == wanted and (found == 0 or found.is_finite()))


@given(st.integers(), st.integers())
def test_any_ints_are_a_timestamp_or_an_error(time: int, inc: int) -> None:
    try:
        value = Timestamp(time, inc)
    except ValueError:
        assert not (0 <= time < 2**32 and 0 <= inc < 2**32)
        return

    assert (value.time, value.inc) == (time, inc)
    assert value.as_datetime().timestamp() == time


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_milliseconds_are_a_date_in_range_or_an_error(millis: int) -> None:
    try:
        moment = DatetimeMS(millis).as_datetime()
    except InvalidBSON:
        assert not -62_135_596_800_000 <= millis <= 253_402_300_799_999
        return

    assert DatetimeMS(moment) == DatetimeMS(millis)


@given(st.datetimes(timezones=st.none() | st.timezones()), st.timezones())
def test_date_survives_options_of_any_time_zone(moment: Any, zone: Any) -> None:
    options: CodecOptions[Any] = CodecOptions(tz_aware=True, tzinfo=zone, datetime_conversion=4)  # type: ignore[arg-type]

    found = DatetimeMS(moment).as_datetime(options)

    assert isinstance(found, DatetimeMS) or DatetimeMS(found) == DatetimeMS(moment)


@pytest.mark.parametrize("pattern", ["(" * 5000, "a" * 100_000, "[", "(?P<x>", "\0"])
def test_pattern_is_not_compiled_unasked(pattern: str) -> None:
    assert Regex(pattern, "i").pattern == pattern


def test_sensitive_bytes_are_not_shown() -> None:
    assert "secret" not in repr(Binary(b"secret", 8))


@pytest.mark.parametrize("digits", [4301, 100_000])
def test_endless_number_in_text_is_refused_quickly(digits: int) -> None:
    with pytest.raises(ValueError, match="4300"):
        loads('{"$numberLong": "' + "9" * digits + '"}', json_options=CANONICAL_JSON_OPTIONS)


def test_vector_with_dirty_padding_keeps_its_numbers() -> None:
    with pytest.warns(DeprecationWarning, match="padding"):
        assert Binary(b"\x10\x03\xff", 9).as_vector().data == [255]
