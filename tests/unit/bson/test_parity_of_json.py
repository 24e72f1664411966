"""json_util writes and reads the same as PyMongo's package; the tests name where it is stricter."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from mangonel.bson import Binary, json_util
from mangonel.bson.json_util import CANONICAL_JSON_OPTIONS, dumps, loads

VALUES = """
OID
DBRef("c", 1)
DBRef("c", OID, "d", x=b"x")
dt(2020, 1, 2, 3, 4, 5, 678900, tzinfo=utc)
dt(2020, 1, 2, 3, 4, 5)
dt(2020, 1, 2, 3, 4, 5, 120)
dt(1960, 1, 1)
dt(1970, 1, 1)
dt.max
dt(2020, 1, 2, 3, 4, 5, tzinfo=east)
DatetimeMS(5)
DatetimeMS(2**62)
DatetimeMS(-5)
re.compile("a/b", re.I | re.M | re.S | re.X)
re.compile(b"ab", re.I)
re.compile("a")
Regex("a/b", "ilmsux")
Regex("a", 0)
Regex(b"a", 0)
MinKey()
MaxKey()
Timestamp(4, 5)
Code("x")
Code("x", {})
Code("x", {"a": Int64(1)})
Binary(b"ab", 0)
Binary(b"a" * 16, 3)
Binary(b"a", 4)
Binary(b"ab", 128)
Binary(b"a", 8)
MyBinary(b"ab", 128)
b"xy"
ID16
Decimal128("1.50")
Int64(5)
5
2**40
2**70
-(2**31)
-(2**31) - 1
2**31
1.5
3.0
nan
float("inf")
-float("inf")
-0.0
1e300
True
None
"x\\u00e9"
[Int64(1), b"x"]
(1, Int64(2))
{"a": {"b": Int64(3)}}
SON([("b", 1), ("a", 2)])
{1}
object()
OrderedDict(a=1)
UserDict(a=1)
RawBSONDocument(encode({"a": 1, "b": {"c": Int64(2)}}))
bytearray(b"a")
D(1)
date(2020, 1, 1)
MyStr("q")
MyInt(4)
{5: 1}
{OID: 1}
{"$oid": "abc"}
"""

OPTIONS = (
    "json_util.RELAXED_JSON_OPTIONS",
    "json_util.CANONICAL_JSON_OPTIONS",
    "json_util.LEGACY_JSON_OPTIONS",
    "jopts(uuid_representation=4, tz_aware=True)",
    "jopts(uuid_representation=5, tz_aware=True, tzinfo=east, document_class=SON)",
    "jopts(json_mode=0, strict_uuid=True, uuid_representation=6, strict_number_long=True)",
    "jopts(json_mode=0, datetime_representation=1, datetime_conversion=DatetimeConversion.DATETIME_AUTO)",
    "jopts(json_mode=0, datetime_representation=2, datetime_conversion=DatetimeConversion.DATETIME_MS)",
)

TEXTS = r"""
{"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}
{"$oid": "abc"}
{"$oid": 5}
{"x": 1, "$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}
{"$ref": "c", "$id": 1}
{"$id": 1, "$ref": "c"}
{"$ref": "c", "$id": 1, "$db": "d", "x": 2}
{"$ref": 5, "$id": 1}
{"$ref": "c"}
{"$ref": "c", "$id": 1, "$db": 5}
{"$ref": "c", "$id": 1, "$db": null}
{"$date": "2020-01-02T03:04:05.678Z"}
{"$date": "2020-01-02T03:04:05Z"}
{"$date": "2020-01-02T03:04:05"}
{"$date": "2020-01-02T03:04:05.123456Z"}
{"$date": "2020-01-02T03:04:05.5+0130"}
{"$date": "2020-01-02T03:04:05.678+01:30"}
{"$date": "2020-01-02T03:04:05.678-01"}
{"$date": "2020-01-02T03:04:05-0130"}
{"$date": "2020-13-02T03:04:05Z"}
{"$date": "2020-01-02"}
{"$date": "x"}
{"$date": ""}
{"$date": {"$numberLong": "5"}}
{"$date": {"$numberLong": "-5"}}
{"$date": {"$numberLong": "4611686018427387904"}}
{"$date": null}
{"$date": "2020-01-02T03:04:05.678Z", "x": 1}
{"$date": "0001-01-01T00:00:00.000+01:00"}
{"$regularExpression": {"pattern": "a", "options": "im"}}
{"$regularExpression": {"pattern": "a", "options": 5}}
{"$regularExpression": {"pattern": 5, "options": ""}}
{"$regularExpression": {"pattern": "a"}}
{"$regularExpression": {"pattern": "a", "options": "", "x": 1}}
{"$regularExpression": "a"}
{"$regularExpression": {"pattern": "a", "options": ""}, "x": 1}
{"$regex": "a", "$options": "im"}
{"$regex": "a"}
{"$regex": 5, "$options": "im"}
{"$regex": "a", "$options": 5}
{"$regex": "a", "$options": "zq"}
{"$regex": "a", "$options": "i", "x": 1}
{"$regex": {"$regularExpression": {"pattern": "a", "options": ""}}, "$options": "i"}
{"$minKey": 1}
{"$minKey": 2}
{"$minKey": 1, "x": 1}
{"$minKey": true}
{"$maxKey": 1}
{"$maxKey": "1"}
{"$binary": {"base64": "YWI=", "subType": "00"}}
{"$binary": {"base64": "YWI=", "subType": "3"}}
{"$binary": {"base64": "YWFhYWFhYWFhYWFhYWFhYQ==", "subType": "04"}}
{"$binary": {"base64": "YWFhYWFhYWFhYWFhYWFhYQ==", "subType": "03"}}
{"$binary": {"base64": "YWI=", "subType": "zz"}}
{"$binary": {"base64": "YWI=", "subType": 5}}
{"$binary": {"base64": "YWI=", "subType": "123"}}
{"$binary": {"base64": 5, "subType": "00"}}
{"$binary": {"base64": "Y", "subType": "00"}}
{"$binary": {"base64": "YW!I=", "subType": "00"}}
{"$binary": {"base64": "YWI=", "subType": "00", "x": 1}}
{"$binary": {"base64": "YWI=", "subType": "00"}, "x": 1}
{"$binary": "YWI=", "$type": "00"}
{"$binary": "YWI=", "$type": "80"}
{"$binary": "YWI=", "$type": 128}
{"$binary": "YWI=", "$type": 0}
{"$binary": "YWI="}
{"$binary": "YWI=", "$type": "00", "x": 1}
{"$binary": "YWI=", "$type": "ffffff80"}
{"$binary": null}
{"$type": "string"}
{"$type": "00", "$binary": "YWI="}
{"$code": "x"}
{"$code": "x", "$scope": {"a": 1}}
{"$code": "x", "$scope": 5}
{"$code": 5}
{"$code": "x", "y": 5}
{"$scope": {"a": 1}}
{"$uuid": "00112233445566778899aabbccddeeff"}
{"$uuid": "00112233-4455-6677-8899-AABBCCDDEEFF"}
{"$uuid": "001"}
{"$uuid": 5}
{"$uuid": "00112233445566778899aabbccddeeff", "x": 1}
{"$undefined": true}
{"$undefined": true, "x": 1}
{"$numberLong": "5"}
{"$numberLong": "x"}
{"$numberLong": "5", "x": 1}
{"$numberLong": "99999999999999999999"}
{"$numberLong": null}
{"$numberInt": "5"}
{"$numberInt": 5}
{"$numberInt": "5.5"}
{"$numberInt": "5", "$numberLong": "6"}
{"$numberDouble": "5.5"}
{"$numberDouble": "NaN"}
{"$numberDouble": "-Infinity"}
{"$numberDouble": "x"}
{"$numberDouble": 5}
{"$numberDouble": "5", "x": 1}
{"$numberDecimal": "5.5"}
{"$numberDecimal": 5}
{"$numberDecimal": "x"}
{"$numberDecimal": "5", "x": 1}
{"$timestamp": {"t": 4, "i": 5}}
{"$timestamp": {"t": "4", "i": 5}}
{"$timestamp": {"t": 4}}
{"$timestamp": {"t": 4, "i": 5, "x": 1}}
{"$timestamp": {"t": 4, "i": 5}, "x": 1}
{"$timestamp": 5}
{"$timestamp": {"t": -4, "i": 5}}
{"$timestamp": {"t": 4294967296, "i": 5}}
{"$dbPointer": {"$ref": "c", "$id": {"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}}}
{"$dbPointer": {"$ref": "c", "$id": 5}}
{"$dbPointer": {"$ref": "c", "$id": {"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}, "x": 1}}
{"$dbPointer": {"$ref": "c", "$id": {"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}}, "x": 1}
{"$dbPointer": 5}
{"$dbPointer": {"$ref": "c", "$id": {"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}, "$db": "d"}}
{"$symbol": "a"}
{"$symbol": 5}
{"$symbol": "a", "x": 1}
{"$foo": 1}
{"a": NaN, "b": Infinity, "c": 99999999999999999999999}
[1, {"$numberInt": "5"}]
{"a": {"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}, "a": 2}
5
null
{
"""

# Read by the relaxed and the legacy options only; see the test of canonical text below.
OLD_NUMBERS = ('{"$date": 5}', '{"$date": 5.7}', '{"$date": true}', '{"$numberLong": 5}')

CALLS = """
json_util.dumps({"a": 1}, indent=2)
json_util.dumps({"b": 1, "a": Int64(2)}, sort_keys=True)
json_util.dumps({"a": object()}, default=lambda value: "other")
json_util.default(OID), json_util.default(5), json_util.default("x")
json_util.default(Code("x", {"a": b"x"}))
json_util.default(object())
json_util.default([1])
json_util.default({"a": 1})
json_util.loads('{"a":1.5}', parse_float=str), json_util.loads(b'{"a":1}')
json_util.object_hook({"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}), json_util.object_hook({"a": 1})
json_util.object_pairs_hook([("$numberInt", "5")]), json_util.object_pairs_hook([("a", 1)])
json_util.object_pairs_hook([("a", 1)], jopts(document_class=SON))
json_util.loads("[" * 100000)
json_util.dumps((lambda a: (a.append(a), a)[1])([]))
[json_util.get_size(v, 10000) for v in (1, "abc", b"abc", 1.5, True, None, OID, Int64(5), 2**40)]
[json_util.get_size(v, 10000) for v in ([1, 2], (1,), {"a": 1}, MinKey(), MaxKey(), Timestamp(1, 2))]
[json_util.get_size(v, 10000) for v in (DBRef("coll", 1), Regex("abc"), Code("xyz"), Decimal128("1"))]
[json_util.get_size(v, 10000) for v in (dt(2020, 1, 1), dt(2020, 1, 1, 1, 1, 1, 5), ID16, DatetimeMS(5))]
"""


def lines(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("value", lines(VALUES))
def test_value_is_written_as_the_field_writes_it(
    value: str, options: str, agree: Callable[[str], None]
) -> None:
    agree(f"json_util.dumps({value}, json_options={options})")


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("text", lines(TEXTS))
def test_text_is_read_as_the_field_reads_it(text: str, options: str, agree: Callable[[str], None]) -> None:
    agree(f"json_util.loads({text!r}, json_options={options})")


@pytest.mark.parametrize("options", [options for options in OPTIONS if "CANONICAL" not in options])
@pytest.mark.parametrize("text", OLD_NUMBERS)
def test_numbers_of_old_exports_are_read(text: str, options: str, agree: Callable[[str], None]) -> None:
    agree(f"json_util.loads({text!r}, json_options={options})")


@pytest.mark.parametrize("expression", lines(CALLS))
def test_functions_agree_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)


@pytest.mark.parametrize("text", OLD_NUMBERS)
def test_canonical_text_has_no_bare_numbers(text: str) -> None:
    with pytest.raises(TypeError, match="expected str"):
        loads(text, json_options=CANONICAL_JSON_OPTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"$uuid": "0011223-34455-6677-8899-aabbccddeeff"}', "8-4-4-4-12"),
        ('{"$regularExpression": {"pattern": "a", "options": "i\\u0000"}}', "no zero byte"),
        ('{"$binary": {"base64": "YWI="}}', '"base64" and "subType"'),
        ('{"$binary": 5, "$type": "00"}', "expected base64 text"),
        ('{"$oid": null}', r"expected str for \$oid"),
    ],
)
def test_text_the_specification_forbids_is_refused(text: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        loads(text)


def test_deep_text_is_refused_without_a_crash() -> None:
    with pytest.raises(RecursionError):
        loads('{"a":' * 100_000)


def test_deep_values_are_refused_without_a_crash() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(RecursionError):
        dumps(deep)


def test_values_of_another_package_are_written() -> None:
    import bson

    theirs = {
        "id": bson.ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f"),
        "binary": bson.Binary(b"x", 128),
        "decimal": bson.Decimal128("1.5"),
        "ref": bson.DBRef("c", bson.Int64(5)),
        "code": bson.Code("x", {"a": bson.MinKey()}),
        "when": [bson.Timestamp(1, 2), bson.DatetimeMS(5), bson.Regex("a", "i")],
    }
    ours = dumps(theirs, json_options=CANONICAL_JSON_OPTIONS)

    from bson import json_util as field

    assert ours == field.dumps(theirs, json_options=field.CANONICAL_JSON_OPTIONS)


def test_dbref_may_have_a_key_named_items() -> None:
    import bson

    from mangonel.bson import DBRef

    class Reference(DBRef):
        pass

    for kind in (DBRef, Reference, bson.DBRef):
        assert json.loads(dumps(kind("c", 1, items=5))) == {"$ref": "c", "$id": 1, "items": 5}


def test_size_stops_being_counted_at_the_limit() -> None:
    assert json_util.get_size(["abc"] * 1_000_000, 10) == 12
    assert json_util.get_size({"a": "bcd", "e": "fgh"}, 5) == 5
    assert json_util.get_size("abc", 1, 5) == 5


def test_uuids_are_read_in_the_representation_of_the_options() -> None:
    text = dumps(Binary(bytes(range(16)), 3))

    found = loads(text, json_options=json_util.JSONOptions(uuid_representation=5))

    assert str(found) == "07060504-0302-0100-0f0e-0d0c0b0a0908"
