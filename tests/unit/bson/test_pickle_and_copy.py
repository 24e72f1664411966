"""Values survive pickling with every protocol, copy and deepcopy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from mangonel.bson import encode
from mangonel.bson.raw_bson import RawBSONDocument

VALUES = """
Timestamp(1, 2)
Regex("a", "i")
Regex(b"a", 5)
Code("x")
Code("x", {"a": [1]})
DBRef("c", 1)
DBRef("c", OID, "d", x=[5])
MinKey()
MaxKey()
Int64(5)
ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f")
Binary(b"x", 3)
Binary(b"x", 8)
BinaryVector([1, 2], BinaryVectorDtype.INT8)
BinaryVectorDtype.FLOAT32
Decimal128("1.50")
Decimal128("-NaN")
DatetimeMS(5)
SON([("b", 1), ("a", [2])])
SON([("a", SON(b=1))])
FixedOffset(90, "x")
RawBSONDocument(encode({"a": 1, "b": {"c": 2}}))
CodecOptions(tz_aware=True, uuid_representation=4, document_class=SON)
JSONOptions(json_mode=0, strict_uuid=True, tz_aware=True)
DatetimeConversion.DATETIME_MS
BSON.encode({"a": 1})
""".strip().splitlines()


def _state(value: Any) -> str:
    return f"{type(value)} {value!r}"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("expression", VALUES)
def test_value_survives_pickling(expression: str, protocol: int, ours: Callable[[str], Any]) -> None:
    value = ours(expression)

    found = pickle.loads(pickle.dumps(value, protocol))

    assert _state(found) == _state(value)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("expression", VALUES)
def test_value_survives_copying(
    expression: str, copied: Callable[[Any], Any], ours: Callable[[str], Any]
) -> None:
    value = ours(expression)

    assert _state(copied(value)) == _state(value)


@pytest.mark.parametrize(
    ("expression", "inside"),
    [
        ('DBRef("c", [1])', "value.id"),
        ('DBRef("c", 1, x=[1])', "value.x"),
        ('Code("x", {"a": [1]})', "value.scope['a']"),
        ('SON([("a", [1])])', "value['a']"),
    ],
)
def test_deep_copy_shares_nothing_that_can_change(
    expression: str, inside: str, ours: Callable[[str], Any]
) -> None:
    value = ours(expression)

    found = copy.deepcopy(value)

    assert eval(inside, {"value": found}) == eval(inside, {"value": value})
    assert eval(inside, {"value": found}) is not eval(inside, {"value": value})


def test_raw_document_over_a_view_can_be_pickled(ours: Callable[[str], Any]) -> None:
    value = ours('RawBSONDocument(memoryview(encode({"a": 1})))')

    found = pickle.loads(pickle.dumps(value))

    assert found == value
    assert found["a"] == 1


class Slotted(RawBSONDocument):
    """A raw document with an attribute of its own."""

    __slots__ = ("tag",)


def test_slots_of_a_raw_documents_subclass_survive_pickling_and_copying() -> None:
    document = Slotted(memoryview(encode({"a": 1})))
    document.tag = "own"

    for duplicate in (pickle.loads(pickle.dumps(document)), copy.deepcopy(document), copy.copy(document)):
        assert (type(duplicate), duplicate.tag, duplicate["a"]) == (Slotted, "own", 1)
        assert duplicate == document


def test_error_keeps_its_document_when_pickled(ours: Callable[[str], Any]) -> None:
    error = pickle.loads(pickle.dumps(ours('InvalidDocument("message", {"a": 1})')))

    assert str(error) == "message"
    assert error.document == {"a": 1}


def test_json_options_keep_their_mode_when_copied(ours: Callable[[str], Any]) -> None:
    options = copy.copy(ours("JSONOptions(json_mode=2, tz_aware=True, tzinfo=east)"))

    assert (options.json_mode, options.strict_number_long, options.datetime_representation) == (2, True, 1)
    assert options.tzinfo.tzname(None) == "east"
