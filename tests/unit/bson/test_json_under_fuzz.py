"""Extended JSON under random values and random text: it round-trips or raises a documented error."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mangonel.bson import (
    Binary,
    Code,
    CodecOptions,
    DatetimeConversion,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    InvalidBSON,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    decode,
    encode,
)
from mangonel.bson.errors import BSONError
from mangonel.bson.json_util import JSONMode, JSONOptions, dumps, loads
from mangonel.bson.raw_bson import RawBSONDocument

EVERY_DATE = DatetimeConversion.DATETIME_AUTO
OPTIONS = [JSONOptions(json_mode=mode, datetime_conversion=EVERY_DATE) for mode in (0, 1, 2)]
CANONICAL = JSONOptions(json_mode=JSONMode.CANONICAL, datetime_conversion=EVERY_DATE)

UINT32 = st.integers(0, 2**32 - 1)
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="$\0"), max_size=5)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.binary(max_size=5),
    st.builds(Binary, st.binary(max_size=5), st.integers(1, 255).filter(lambda subtype: subtype != 2)),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.builds(Timestamp, UINT32, UINT32),
    st.datetimes(datetime.datetime(1, 1, 1)).map(lambda moment: moment.replace(microsecond=0)),
    st.integers(2**60, 2**63 - 1).map(DatetimeMS),
    st.builds(Regex, KEYS, st.sampled_from(["", "i", "imsux"])),
    st.builds(Code, KEYS),
    st.builds(Code, KEYS, st.dictionaries(KEYS, st.integers(0, 9), max_size=2)),
    st.builds(DBRef, KEYS, st.integers(0, 9), st.none() | KEYS),
    st.binary(min_size=16, max_size=16).map(lambda data: Decimal128(str(Decimal128.from_bid(data)))),
    st.sampled_from([MinKey(), MaxKey()]),
)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(
        VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_size=4,
)

DOLLARS = st.sampled_from(
    [
        "$oid",
        "$ref",
        "$id",
        "$db",
        "$date",
        "$regex",
        "$options",
        "$minKey",
        "$maxKey",
        "$binary",
        "$type",
        "$code",
        "$scope",
        "$uuid",
        "$undefined",
        "$numberLong",
        "$timestamp",
        "$numberDecimal",
        "$dbPointer",
        "$regularExpression",
        "$symbol",
        "$numberInt",
        "$numberDouble",
        "base64",
        "subType",
        "pattern",
        "options",
        "t",
        "i",
        "x",
    ]
)
TEXTS = st.sampled_from(
    ["", "00", "5f5f5f5f5f5f5f5f5f5f5f5f", "2020-01-02T03:04:05Z", "YWI=", "1e400", "-1", "NaN"]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(DOLLARS, inner, max_size=3),
    max_leaves=8,
)


@given(DOCUMENTS)
def test_canonical_text_keeps_every_value(document: dict[str, Any]) -> None:
    text = dumps(document, json_options=CANONICAL)

    found = loads(text, json_options=CANONICAL)

    assert found == document
    assert encode(found) == encode(document)


@given(DOCUMENTS, st.sampled_from(OPTIONS))
def test_written_text_can_be_read_in_every_mode(document: dict[str, Any], options: JSONOptions) -> None:
    # A lone number can mean a date in the legacy mode only, so the text is stable after one round.
    text = dumps(document, json_options=options)

    assert dumps(loads(text, json_options=options), json_options=options) == text


@given(JUNK, st.sampled_from(OPTIONS))
def test_any_text_is_read_or_refused(junk: Any, options: JSONOptions) -> None:
    try:
        loads(json.dumps(junk), json_options=options)
    except (TypeError, ValueError, OverflowError, BSONError, decimal.DecimalException):
        return


@given(st.binary(max_size=60))
def test_any_bytes_are_a_raw_document_or_invalid(data: bytes) -> None:
    document = (len(data) + 5).to_bytes(4, "little") + data + b"\0"
    try:
        found = dict(RawBSONDocument(document))
    except InvalidBSON:
        return

    assert list(found) == list(decode(document, CodecOptions(datetime_conversion=EVERY_DATE)))
