"""The codec against the peer `bson` package on the same values: same bytes out, same values back."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import ChainMap, OrderedDict, UserDict
from collections.abc import Iterator, Mapping
from typing import Any

import bson as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.codec.samples import ID, every_type

import mangonel.bson
import mangonel.bson.binary
import mangonel.bson.code
import mangonel.bson.codec_options as options_module
import mangonel.bson.datetime_ms
import mangonel.bson.dbref
import mangonel.bson.decimal128
import mangonel.bson.int64
import mangonel.bson.max_key
import mangonel.bson.min_key
import mangonel.bson.regex
import mangonel.bson.timestamp
from mangonel import _core
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.errors import InvalidBSON, InvalidDocument, InvalidStringData
from mangonel.bson.objectid import ObjectId
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.bson.son import SON


def shown(value: Any) -> str:
    return repr(value).replace("mangonel.bson", "bson")


def peer_options(**options: Any) -> peer.CodecOptions[Any]:
    return peer.CodecOptions(**options)


def test_every_type_is_encoded_to_the_peers_bytes() -> None:
    assert _core.encode(every_type(mangonel.bson)) == peer.encode(every_type(peer))


def test_foreign_classes_with_a_type_marker_are_encoded() -> None:
    assert _core.encode(every_type(peer)) == peer.encode(every_type(peer))


def test_every_type_is_decoded_to_the_peers_values() -> None:
    data = peer.encode(every_type(peer))
    assert shown(_core.decode(data)) == shown(peer.decode(data))


def test_decoded_values_have_this_packages_classes() -> None:
    decoded = _core.decode(peer.encode(every_type(peer)))
    original = every_type(mangonel.bson)
    for name in ("_id", "binary", "regex", "dbref", "scoped code", "timestamp", "decimal", "min", "max"):
        assert decoded[name] == original[name]
        assert type(decoded[name]) is type(original[name])
    assert {type(value) for value in decoded["int64"]} == {mangonel.bson.int64.Int64}
    assert decoded["small int64"] == original["small int64"]


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.datetimes().map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)),
)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
documents = st.dictionaries(
    names,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=6),
        max_leaves=30,
    ),
    max_size=12,
)


@given(documents)
def test_random_documents_survive_the_round_trip_with_the_peers_bytes(document: dict[str, Any]) -> None:
    data = _core.encode(document)
    assert data == peer.encode(document)
    decoded = _core.decode(data)
    assert shown(decoded) == shown(peer.decode(data))
    assert _core.encode(decoded) == data


class Upper(Mapping[str, Any]):
    """A mapping that is not a dict."""

    def __init__(self, **items: Any) -> None:
        self.items_ = items

    def __getitem__(self, key: str) -> Any:
        return self.items_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


class Text(str):
    pass


class Number(int):
    pass


@pytest.mark.parametrize(
    "document",
    [
        OrderedDict(b=1, _id=2),
        UserDict(b=1, _id=2),
        Upper(b=1, _id=2),
        ChainMap({"a": 1}, {"b": 2}),
        {"m": Upper(a=1), "o": OrderedDict(a=1)},
        {Text("a"): Text("b"), "n": Number(5), "big": Number(2**40)},
        {"a": 1, "_id": 2, "b": {"c": 1, "_id": 3}},
        {"empty": {}, "list": [], "nested": [[], {}]},
    ],
)
def test_mappings_and_subclasses_are_encoded_as_the_peer_does(document: Any) -> None:
    assert _core.encode(document) == peer.encode(document)


def test_son_is_encoded_in_its_order() -> None:
    document = SON([("b", 1), ("a", 2)])
    assert _core.encode(document) == peer.encode(peer.SON([("b", 1), ("a", 2)]))


@pytest.mark.parametrize("representation", [3, 4, 5, 6])
def test_uuid_representations_match_the_peer(representation: int) -> None:
    value = uuid.UUID("12345678-90ab-cdef-0123-456789abcdef")
    ours = CodecOptions(uuid_representation=representation)
    theirs = peer_options(uuid_representation=representation)
    data = _core.encode({"u": value}, False, ours)
    assert data == peer.encode({"u": value}, codec_options=theirs)
    decoded = _core.decode(data, ours)["u"]
    assert decoded == value
    assert type(decoded) is uuid.UUID
    assert decoded.is_safe is value.is_safe
    for other in (0, 3, 4, 5, 6):
        expected = peer.decode(data, peer_options(uuid_representation=other))
        assert shown(_core.decode(data, CodecOptions(uuid_representation=other))) == shown(expected)


def test_uuid_without_representation_is_refused() -> None:
    with pytest.raises(ValueError, match="UuidRepresentation"):
        _core.encode({"u": uuid.uuid4()})


def wrap(millis: int) -> bytes:
    return b"\x10\0\0\0\x09d\0" + millis.to_bytes(8, "little", signed=True) + b"\0"


ZONES = [
    None,
    datetime.timezone(datetime.timedelta(hours=14)),
    datetime.timezone(-datetime.timedelta(hours=7)),
]


@pytest.mark.parametrize("conversion", [1, 2, 3, 4])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("is_aware", [True, False])
def test_dates_are_converted_as_the_peer_does(conversion: int, zone: Any, is_aware: bool) -> None:
    if zone is not None and not is_aware:
        pytest.skip("a zone needs aware dates")
    settings = {"tz_aware": is_aware, "tzinfo": zone}
    ours = CodecOptions(datetime_conversion=options_module.DatetimeConversion(conversion), **settings)
    theirs = peer_options(datetime_conversion=peer.DatetimeConversion(conversion), **settings)
    edges = [-62_135_596_800_000, 253_402_300_799_999, 0, -1, 951_868_799_999, 2**62, -(2**62)]
    for edge in edges:
        for millis in (edge - 1, edge, edge + 1, edge + 50_400_000, edge - 25_200_000):
            try:
                expected = shown(peer.decode(wrap(millis), theirs))
            except peer.InvalidBSON:
                with pytest.raises(InvalidBSON):
                    _core.decode(wrap(millis), ours)
            else:
                assert shown(_core.decode(wrap(millis), ours)) == expected, millis


@given(st.datetimes(timezones=st.none() | st.timezones()))
def test_any_date_is_encoded_as_the_peer_does(value: datetime.datetime) -> None:
    try:
        expected = peer.encode({"d": value})
    except OverflowError:
        return
    assert _core.encode({"d": value}) == expected


@pytest.mark.parametrize("document_class", [dict, SON, OrderedDict, UserDict])
def test_document_class_is_used_on_every_level(document_class: Any) -> None:
    data = peer.encode({"a": {"b": [{"c": 1}]}})
    decoded = _core.decode(data, CodecOptions(document_class=document_class))
    for document in (decoded, decoded["a"], decoded["a"]["b"][0]):
        assert type(document) is document_class


def test_raw_documents_keep_their_bytes_on_every_level() -> None:
    data = peer.encode({"a": {"b": 1}})
    decoded = _core.decode(data, CodecOptions(document_class=RawBSONDocument))
    assert type(decoded) is RawBSONDocument
    assert bytes(decoded.raw) == data
    fields = _core.decode_fields(data, CodecOptions(document_class=RawBSONDocument))
    assert bytes(fields["a"].raw) == peer.encode({"b": 1})
    assert _core.encode(decoded) == data
    assert _core.encode({"x": decoded}) == peer.encode({"x": {"a": {"b": 1}}})


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "c", "$id": 1},
        {"$id": 1, "$ref": "c"},
        {"$ref": "c", "$id": 1, "$db": "d", "x": 1},
        {"x": 1, "$db": "d", "$id": 1, "$ref": "c"},
        {"$ref": 5, "$id": 1},
        {"$ref": "c", "$id": 1, "$db": 5},
        {"$ref": "c"},
        {"$id": "c"},
    ],
)
@pytest.mark.parametrize("document_class", [dict, SON])
def test_embedded_references_become_dbrefs_as_the_peer_does(document: Any, document_class: Any) -> None:
    data = peer.encode({"r": document, "list": [document], **document})
    expected = peer.decode(data, peer_options(document_class=peer.SON if document_class is SON else dict))
    assert shown(_core.decode(data, CodecOptions(document_class=document_class))) == shown(expected)


def test_decode_all_reads_documents_one_after_another() -> None:
    data = b"".join(peer.encode({"i": i, "x": "y" * i}) for i in range(50))
    assert _core.decode_all(data) == peer.decode_all(data)


@pytest.mark.parametrize("wrap_data", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_decoded(wrap_data: Any) -> None:
    data = peer.encode({"a": "b"})
    assert _core.decode(wrap_data(data)) == {"a": "b"}


@pytest.mark.parametrize("handler", ["strict", "replace", "ignore", "backslashreplace"])
def test_unicode_decode_error_handlers_match_the_peer(handler: str) -> None:
    data = peer.encode({"ab": "abcd"}).replace(b"bc", b"\xff\xfe").replace(b"ab\0", b"\xff\xfe\0")
    theirs = peer_options(unicode_decode_error_handler=handler)
    ours = CodecOptions(unicode_decode_error_handler=handler)
    if handler == "strict":
        with pytest.raises(InvalidBSON):
            _core.decode(data, ours)
    else:
        assert _core.decode(data, ours) == peer.decode(data, theirs)


@pytest.mark.parametrize("handler", ["strict", "replace", "ignore", "backslashreplace"])
def test_a_handler_forgives_the_options_of_a_regular_expression_too(handler: str) -> None:
    data = peer.encode({"r": peer.Regex("a", "im")}).replace(b"im\0", b"i\xff\0")
    ours = CodecOptions(unicode_decode_error_handler=handler)
    if handler == "strict":
        with pytest.raises(InvalidBSON, match=r"utf-8.* at \$\.r$"):
            _core.decode(data, ours)
    else:
        theirs = peer_options(unicode_decode_error_handler=handler)
        assert shown(_core.decode(data, ours)) == shown(peer.decode(data, theirs))


def test_an_error_names_the_path_and_carries_the_document() -> None:
    document = {"a": {"b": [1, 2, {"c": object()}]}}
    with pytest.raises(
        InvalidDocument, match=r"cannot encode object: .* at \$\.a\.b\[2\]\.c: use a type"
    ) as caught:
        _core.encode(document)
    assert caught.value.document is document


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ({1}, "BSON has no sets; use a list"),
        (frozenset([1]), "BSON has no sets; use a list"),
        (datetime.date(2024, 1, 1), "BSON has no dates without a time; use datetime.datetime"),
        (datetime.time(1), "use a number of seconds, or text"),
        (datetime.timedelta(1), "use a number of seconds, or text"),
        (decimal.Decimal(1), "use Decimal128"),
        (1j, "give the codec options an encoder for this one"),
    ],
)
def test_an_error_names_what_to_store_in_place_of_the_value(value: Any, remedy: str) -> None:
    with pytest.raises(InvalidDocument, match=rf" at \$\.a\[0\]: .*{remedy}$"):
        _core.encode({"a": [value]})


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200, pytest.param(10**5000, id="huge")])
def test_ints_beyond_64_bits_overflow_with_their_path(number: int) -> None:
    with pytest.raises(OverflowError, match=r"\$\.a\.n"):
        _core.encode({"a": {"n": number}})


@pytest.mark.parametrize("key", [1, b"a", None, 1.5])
def test_keys_must_be_str(key: Any) -> None:
    with pytest.raises(InvalidDocument, match="documents must have only string keys, key was"):
        _core.encode({key: 1})


@pytest.mark.parametrize(
    "name", ["\0", "a\0", "\0aaaaaaaaa", "aaaaaaaaaaaaaaaaaaaa\0", "aaaaaaaa\0aaa", "abc\0e"]
)
def test_names_must_not_contain_nul(name: str) -> None:
    with pytest.raises(InvalidDocument, match="NUL"):
        _core.encode({name: 1})
    with pytest.raises(InvalidDocument, match="NUL"):
        _core.encode({"x": mangonel.bson.regex.Regex(name)})


@pytest.mark.parametrize("name", ["$a", "a.b", "."])
def test_check_keys_refuses_operators_and_dots(name: str) -> None:
    _core.encode({name: {name: 1}})
    for document in ({name: 1}, {"x": {name: 1}}, {"x": [{name: 1}]}):
        with pytest.raises(InvalidDocument, match="must not"):
            _core.encode(document, True)
    assert _core.encode(every_type(mangonel.bson) | {"": 0}, True)[:4]


def test_values_that_are_no_mapping_are_a_type_error() -> None:
    for value in (1, [], "x", None):
        with pytest.raises(TypeError, match="encoder expected a mapping type"):
            _core.encode(value)  # type: ignore[arg-type]


def test_regex_patterns_in_bytes_must_be_utf8() -> None:
    with pytest.raises(InvalidStringData):
        _core.encode({"r": mangonel.bson.regex.Regex(b"\xff")})


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        _core.encode({"a": "\ud800"})
    with pytest.raises(UnicodeEncodeError):
        _core.encode({"\ud800": 1})


def test_documents_that_contain_themselves_are_refused() -> None:
    document: dict[str, Any] = {}
    document["a"] = document
    items: list[Any] = []
    items.append(items)
    for value in (document, {"l": items}):
        with pytest.raises(RecursionError, match="nested deeper"):
            _core.encode(value)


def test_deep_nesting_is_refused_by_the_decoder() -> None:
    data = b"\x05\0\0\0\0"
    for _ in range(10_000):
        data = (len(data) + 8).to_bytes(4, "little") + b"\x03a\0" + data + b"\0"
    with pytest.raises(InvalidBSON, match="nested deeper"):
        _core.decode(data)


def test_a_hundred_and_eighty_levels_are_fine() -> None:
    document: dict[str, Any] = {}
    for _ in range(180):
        document = {"a": [document]}
    assert _core.decode(_core.encode(document)) == document


def test_object_id_of_the_sample_is_the_natives() -> None:
    assert type(_core.decode(peer.encode({"_id": peer.ObjectId(ID)}))["_id"]) is ObjectId
