"""Documents that become a table and then documents again are the documents under the table's schema."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import _core
from mangonel.bson import Binary, Decimal128, Int64, ObjectId, decode, encode

pa = pytest.importorskip("pyarrow")

SIMPLE = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
KEYS = st.sampled_from(["a", "b", "é", "", "a.b", "$c"])
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
# By kind of column: a strategy for its values.
KINDS: dict[str, Any] = {
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1).map(Int64),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=20),
    "binary": st.binary(max_size=20),
    "date": MOMENTS,
    "object_id": st.binary(min_size=12, max_size=12).map(ObjectId),
    "uuid": st.uuids().map(Binary.from_uuid),
}


@st.composite
def kinds(draw: Any, depth: int = 3) -> Any:
    """A kind of column."""
    choice = draw(st.sampled_from([*KINDS, *(["list", "struct"] if depth else [])]))
    if choice == "list":
        return ("list", draw(kinds(depth - 1)))
    if choice == "struct":
        return ("struct", draw(fields(depth - 1)))
    return choice


def fields(depth: int) -> Any:
    """Pairs of a name and a kind."""
    return st.lists(st.tuples(KEYS, kinds(depth)), max_size=4, unique_by=lambda field: field[0])


def values(kind: Any) -> Any:
    """A strategy for values of a kind, or None."""
    if isinstance(kind, str):
        return st.none() | KINDS[kind]
    if kind[0] == "list":
        return st.none() | st.lists(values(kind[1]), max_size=4)
    return st.none() | rows(kind[1])


def rows(schema: Any) -> Any:
    """A strategy for documents whose fields may be missing, in any order and beside other fields."""
    known = st.fixed_dictionaries({}, optional={name: values(kind) for name, kind in schema})
    return st.tuples(known, st.booleans()).map(
        lambda drawn: dict(reversed(drawn[0].items())) | {"other": 1} if drawn[1] else drawn[0]
    )


def under(kind: Any, value: Any) -> Any:
    """Return the value as in the table: every field is present, in the schema's order, and no other."""
    if value is None or isinstance(kind, str):
        return value
    if kind[0] == "list":
        return [under(kind[1], item) for item in value]
    return {name: under(inner, value.get(name)) for name, inner in kind[1]}


@st.composite
def tables(draw: Any) -> Any:
    """A schema and documents of it."""
    schema = [("_id", "int32"), *draw(fields(3))]
    return schema, draw(st.lists(rows(schema), max_size=8)), draw(st.integers(1, 4))


@SIMPLE
@given(tables())
def test_documents_come_back_from_a_table_as_they_are_under_its_schema(drawn: Any) -> None:
    schema, documents, chunk = drawn
    builder = _core.ColumnBuilder(schema, "raise", chunk)
    for document in documents:
        builder.add_bytes(encode(document))
    table = builder.take()
    pa.table(table).validate(full=True)

    assert back(table) == [encode(under(("struct", schema), document)) for document in documents]
    # Through another library, and through slices, as well.
    whole = pa.table(table)
    assert back(whole) == back(table)
    assert back(whole.slice(1, 2)) == back(table)[1:3]


@SIMPLE
@given(st.data())
def test_documents_come_back_from_an_inferred_table(data: Any) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    found = data.draw(st.lists(values(kind), min_size=1, max_size=8))
    builder = _core.ColumnBuilder(None, "raise", data.draw(st.integers(1, 4)))
    for number, value in enumerate(found):
        builder.add_bytes(encode({"_id": number, "a": value, "in": {"list": [value, None]}}))

    assert back(builder.take()) == [
        encode({"_id": number, "a": value, "in": {"list": [value, None]}})
        for number, value in enumerate(found)
    ]


@SIMPLE
@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**7), max_value=10**7))
def test_decimals_come_back_with_their_scale(value: Any) -> None:
    builder = _core.ColumnBuilder([("_id", "null"), ("a", ("decimal", 12, 2))], "raise", 10)
    builder.add_bytes(encode({"a": Decimal128(value)}))

    assert [decode(row)["a"].to_decimal() for row in back(builder.take())] == [value]


def back(table: Any) -> list[bytes]:
    """The rows of a table as BSON."""
    reader = _core.ArrowReader(table, False)
    found: list[bytes] = []
    while (part := reader.next_part(3)) is not None:
        found += [encode(part[index]) for index in range(len(part))]
    return found
