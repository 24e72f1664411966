"""Documents become tables of columns: every type, nesting, widening, values that do not fit, invalid BSON."""

from __future__ import annotations

import datetime
import random
import uuid
from typing import Any

import pytest

from mangonel import _core
from mangonel.arrow import ColumnError, Schema
from mangonel.arrow.schema import fields_of, projection_of
from mangonel.bson import (
    Binary,
    Code,
    Decimal128,
    Int64,
    MaxKey,
    ObjectId,
    Regex,
    Timestamp,
    encode,
)

pa = pytest.importorskip("pyarrow")

ID = ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f")
WHEN = datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)


def built(
    documents: list[dict[str, Any]], schema: Any = None, on_invalid: str = "raise", rows: int = 1_000
) -> Any:
    builder = _core.ColumnBuilder(None if schema is None else fields_of(schema), on_invalid, rows)
    for document in documents:
        builder.add_bytes(encode(document))
    table = pa.table(builder.take())
    table.validate(full=True)
    return table


def column(values: list[Any], **options: Any) -> Any:
    return built([{} if value is ... else {"a": value} for value in values], **options)["a"]


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (None, "null", None),
        (True, "bool", True),
        (5, "int32", 5),
        (Int64(5), "int64", 5),
        (1.5, "double", 1.5),
        ("é", "string", "é"),
        (b"ab", "binary", b"ab"),
        (Binary(b"ab", 128), "binary", b"ab"),
        (ID, "fixed_size_binary[12]", ID.binary),
        (WHEN, "timestamp[ms, tz=UTC]", WHEN.replace(tzinfo=datetime.UTC)),
        (Decimal128("1.50"), "string", "1.50"),
        (Code("x"), "string", "x"),
        (Regex("^a", "i"), "string", '{"$regularExpression":{"pattern":"^a","options":"i"}}'),
        (Timestamp(1, 2), "string", '{"$timestamp":{"t":1,"i":2}}'),
        (MaxKey(), "string", '{"$maxKey":1}'),
        ([1, None, 2], "list<item: int32>", [1, None, 2]),
        ([], "list<item: null>", []),
        (
            {"b": {"c": [{"d": 1}]}},
            "struct<b: struct<c: list<item: struct<d: int32>>>>",
            {"b": {"c": [{"d": 1}]}},
        ),
        ({}, "struct<>", {}),
    ],
)
def test_every_type_has_a_column(value: Any, kind: str, found: Any) -> None:
    made = column([value])

    # If a test has loaded PyMongoArrow, ids have its type.
    if isinstance(value, ObjectId) and isinstance(made.type, pa.BaseExtensionType):
        made = pa.chunked_array([chunk.storage for chunk in made.chunks])
    assert str(made.type) == kind
    assert made.to_pylist() == [found]


def test_uuids_are_of_the_canonical_extension() -> None:
    value = uuid.UUID(int=5)

    made = column([Binary.from_uuid(value), None])

    assert made.type == pa.uuid()
    assert made.to_pylist() == [value, None]


@pytest.mark.parametrize("rows", [1, 2, 1_000])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, 1, ..., Int64(2**40)], "int64"),
        ([1, 2.5, None], "double"),
        ([Int64(1), 2.5, 7], "double"),
        ([None, "x", ...], "string"),
        ([[], [1], [2.5], None], "list<item: double>"),
        ([{"x": 1}, {"y": "a"}, {"x": 1.5}, None], "struct<x: double, y: string>"),
        ([None, None, ...], "null"),
    ],
)
def test_inferred_columns_are_widened_in_every_chunk(values: list[Any], kind: str, rows: int) -> None:
    made = column(values, rows=rows)

    plain = [None if value is ... else value for value in values]
    if kind.startswith("struct"):
        plain = [value and {"x": value.get("x"), "y": value.get("y")} for value in plain]
    assert str(made.type) == kind
    assert made.to_pylist() == plain


def test_integer_that_no_double_holds_is_not_changed_silently() -> None:
    for values in ([Int64(2**53 + 1), 1.5], [1.5, Int64(2**53 + 1)]):
        with pytest.raises(ColumnError, match=r"at \$\.a"):
            column(values)


def test_misfit_is_named_with_its_place_and_id() -> None:
    documents = [{"_id": ObjectId(), "a": {"b": [1]}}, {"_id": ID, "a": {"b": [2, "x"]}}]

    with pytest.raises(ColumnError) as raised:
        built(documents)

    assert str(raised.value) == (
        'expected int32, got string at $.a.b.1 of the document with _id {"$oid":"5f5f5f5f5f5f5f5f5f5f5f5f"}'
    )


def test_misfit_becomes_null_or_text_as_asked() -> None:
    values = [1, "x", {"y": [True]}, None, 2.5]

    assert column(values, on_invalid="null").to_pylist() == [1, None, None, None, 2.5]
    assert column(values, on_invalid="string").to_pylist() == ["1", "x", '{"y":[true]}', None, "2.5"]
    assert column(values, on_invalid="string", rows=1).to_pylist() == ["1", "x", '{"y":[true]}', None, "2.5"]
    nested = [{"i": ID, "l": [1, None], "d": WHEN, "b": b"a"}, "x"]
    assert column(nested, on_invalid="string").to_pylist() == [
        '{"i":"5f5f5f5f5f5f5f5f5f5f5f5f","l":[1,null],"d":"2020-01-02T03:04:05.678Z","b":"YQ=="}',
        "x",
    ]


def test_given_schema_decides_names_order_and_types() -> None:
    schema = {"b": float, "a": "int32", "n": {"x": [str]}, "missing": bytes}
    documents = [{"a": Int64(1), "b": 2, "c": 3, "n": {"x": ["q"], "y": 1}}, {"b": None}]

    made = built(documents, schema)

    assert made.to_pylist() == [
        {"b": 2.0, "a": 1, "n": {"x": ["q"]}, "missing": None},
        {"b": None, "a": None, "n": None, "missing": None},
    ]
    with pytest.raises(ColumnError, match=r"expected int32, got long at \$\.a"):
        built([{"a": Int64(2**40)}], schema)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.50", "1.50"),
        ("-0.01", "-0.01"),
        ("1E+3", "1000.00"),
        ("0E-20", "0.00"),
        ("9999999.99", "9999999.99"),
    ],
)
def test_decimals_are_exact(value: str, text: str) -> None:
    made = column([Decimal128(value), None], schema={"a": pa.decimal128(9, 2)})

    assert [each if each is None else str(each) for each in made.to_pylist()] == [text, None]


@pytest.mark.parametrize("value", ["1.505", "10000000", "NaN", "Infinity", "1E+40"])
def test_decimal_that_would_be_rounded_does_not_fit(value: str) -> None:
    with pytest.raises(ColumnError, match=r"decimal128\(9, 2\)"):
        column([Decimal128(value)], schema={"a": pa.decimal128(9, 2)})


def test_schemas_are_understood_in_each_spelling() -> None:
    kinds = {"a": int, "b": [float], "c": {"d": ObjectId}, "e": datetime.datetime}
    arrow = pa.schema(
        {
            "a": pa.int64(),
            "b": pa.list_(pa.float64()),
            "c": pa.struct({"d": pa.binary(12)}),
            "e": pa.timestamp("ms", "UTC"),
        }
    )

    assert fields_of(kinds) == fields_of(Schema(kinds)) == fields_of(arrow)
    assert projection_of(fields_of(kinds)) == {"a": 1, "b": 1, "c.d": 1, "e": 1}
    assert projection_of(fields_of({"a.b": int})) is None
    for wrong in ({"a": object}, {"a": pa.time32("s")}, {"a": [int, str]}):
        with pytest.raises(ValueError, match="columns for 'a'"):
            fields_of(wrong)
    with pytest.raises(TypeError):
        fields_of(["a"])


def test_repeated_key_counts_once() -> None:
    document = b"\x13\x00\x00\x00\x10a\x00\x01\x00\x00\x00\x10a\x00\x02\x00\x00\x00\x00"
    builder = _core.ColumnBuilder(None, "raise", 10)
    builder.add_bytes(document)

    assert pa.table(builder.take()).to_pylist() == [{"a": 1}]


def test_table_outlives_its_maker_and_is_read_twice() -> None:
    builder = _core.ColumnBuilder(None, "raise", 2)
    for number in range(5):
        builder.add_bytes(encode({"a": number, "t": {"s": [str(number)]}}))
    made = builder.take()
    first, second = pa.table(made), pa.table(made)
    del made, builder
    slices = first.column("t").slice(3)
    del first

    assert second["a"].to_pylist() == [0, 1, 2, 3, 4]
    assert slices.to_pylist() == [{"s": ["3"]}, {"s": ["4"]}]


def test_capsules_nobody_reads_are_freed() -> None:
    builder = _core.ColumnBuilder(None, "raise", 2)
    builder.add_bytes(encode({"a": {"b": [1]}}))
    made = builder.take()
    for _ in range(1_000):
        made.__arrow_c_stream__()
        made.__arrow_c_schema__()

    assert pa.schema(made).names == ["a"]
    with pytest.raises(ValueError, match='expected "raise", "null" or "string"'):
        _core.ColumnBuilder(None, "no", 1)


def test_too_deep_and_too_wide_documents_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(120):
        deep = {"a": deep}
    with pytest.raises(ColumnError, match="levels of nesting"):
        built([deep])
    with pytest.raises(ColumnError, match="different fields"):
        built([{str(number): 1 for number in range(2_001)}])


@pytest.mark.parametrize("on_invalid", ["raise", "null", "string"])
def test_hostile_bytes_never_break_a_builder(on_invalid: str) -> None:
    source = random.Random(on_invalid)
    whole = encode(
        {
            "_id": ID,
            "a": {"b": [{"c": 2.5}, {"e": ["x"]}]},
            "d": WHEN,
            "u": Binary.from_uuid(uuid.UUID(int=1)),
            "n": None,
        }
    )
    tables = 0
    for _ in range(3_000):
        builder = _core.ColumnBuilder(None, on_invalid, source.choice((1, 2, 100)))
        try:
            builder.add_bytes(whole)
            for _ in range(3):
                data = bytearray(whole)
                for _ in range(source.choice((1, 1, 3))):
                    data[source.randrange(4, len(data))] = source.randrange(256)
                builder.add_bytes(bytes(data))
            pa.table(builder.take()).validate(full=True)
            tables += 1
        except ColumnError:
            continue

    assert tables > 0
