"""The functions around the codec: streams of documents, validity, raw documents, and the BSON class."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mangonel.bson import (
    BSON,
    Code,
    CodecOptions,
    InvalidBSON,
    decode,
    decode_file_iter,
    decode_iter,
    encode,
    get_data_and_view,
)
from mangonel.bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument

DOCUMENT = r"""encode({"a": 1, "b": {"c": 2}, "d": [{"e": 1}, [{"f": 1}], 3], "r": DBRef("c", 1)})"""

STREAMS = r"""
[list(decode_iter(encode({"a": 1}) + encode({"b": 2})))]
list(decode_iter(b""))
list(decode_iter(bytearray(encode({"a": 1}))))
list(decode_iter(memoryview(encode({"a": 1}))))
list(decode_iter(encode({"a": 1}) * 2, CodecOptions(document_class=SON)))
list(decode_iter((encode({"a": 1}) * 2)[:-2]))
list(decode_iter(b"\0\0\0\0\0"))
list(decode_iter(b"\xff\xff\xff\xff\0"))
list(decode_iter(b"\5\0\0\0\1"))
list(decode_iter(5))
list(decode_iter(encode({}), 5))
list(decode_file_iter(io.BytesIO(encode({"a": 1}) + encode({"b": 2}))))
list(decode_file_iter(io.BytesIO(encode({"a": 1}) * 2), CodecOptions(document_class=SON)))
list(decode_file_iter(io.BytesIO(b"")))
list(decode_file_iter(io.BytesIO(encode({"a": 1}) + encode({"a": 1})[:-1])))
list(decode_file_iter(io.BytesIO(encode({}) + b"\1\2")))
list(decode_file_iter(io.BytesIO(encode({}) + b"\1\0\0\0\0")))
list(decode_file_iter(io.BytesIO(encode({}) + b"\xff\xff\xff\xff\0")))
list(decode_file_iter(5))
[is_valid(x) for x in (encode({"a": 1}), b"", encode({"a": 1})[:-1], encode({}) * 2, b"\5\0\0\0\1")]
is_valid(5)
is_valid(bytearray(encode({})))
is_valid(encode({"a": DatetimeMS(2**62)}))
has_c()
[next(names) for names in [bson.gen_list_name()] for _ in range(12)][-3:]
BSON.encode({"a": 1}), type(BSON.encode({"a": 1})), BSON.encode({"a": 1}).decode()
BSON.encode({"a": 1}).decode(CodecOptions(document_class=SON)), BSON(b"a")
BSON.encode({"$a": 1}, check_keys=True)
BSON(b"x").decode()
[getattr(bson, name) for name in bson.__all__ if name.startswith("BSON") and name != "BSON"]
"""

RAW = rf"""
RawBSONDocument({DOCUMENT})
dict(RawBSONDocument({DOCUMENT}))
RawBSONDocument({DOCUMENT}).items()
list(RawBSONDocument({DOCUMENT})), len(RawBSONDocument({DOCUMENT})), "a" in RawBSONDocument({DOCUMENT})
RawBSONDocument({DOCUMENT}) == RawBSONDocument({DOCUMENT}), RawBSONDocument({DOCUMENT}) == {{"a": 1}}
hash(RawBSONDocument({DOCUMENT}))
RawBSONDocument({DOCUMENT})["zz"]
RawBSONDocument({DOCUMENT}).raw == {DOCUMENT}, RawBSONDocument({DOCUMENT})._type_marker
RawBSONDocument(encode({{"a": Code("x", {{"b": {{"c": 1}}}})}}))["a"]
RawBSONDocument(encode({{"a": dt(2020, 1, 1)}}), CodecOptions(RawBSONDocument, tz_aware=True))["a"]
RawBSONDocument(b"")
RawBSONDocument(b"\5\0\0\0\1")
RawBSONDocument(b"\6\0\0\0\0")
RawBSONDocument({DOCUMENT} + b"x")
RawBSONDocument({DOCUMENT} + b"\0")
RawBSONDocument(b"\7\0\0\0\1a\0").items()
RawBSONDocument(5)
RawBSONDocument("abcdef")
RawBSONDocument({DOCUMENT}, CodecOptions())
decode({DOCUMENT}, raw_bson.DEFAULT_RAW_BSON_OPTIONS)
decode_all({DOCUMENT} * 2, raw_bson.DEFAULT_RAW_BSON_OPTIONS)
encode(RawBSONDocument({DOCUMENT})) == {DOCUMENT}, encode({{"x": RawBSONDocument(encode({{"a": 1}}))}})
raw_bson.DEFAULT_RAW_BSON_OPTIONS
"""


@pytest.mark.parametrize("expression", STREAMS.strip().splitlines())
def test_streams_agree_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)


@pytest.mark.parametrize("expression", RAW.strip().splitlines())
def test_raw_documents_agree_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)


def test_document_before_a_broken_one_is_yielded() -> None:
    documents = decode_iter(encode({"a": 1}) + b"\x07\0\0\0")

    assert next(documents) == {"a": 1}
    with pytest.raises(InvalidBSON, match="at byte 12"):
        next(documents)


def test_iterators_check_their_options_at_once() -> None:
    with pytest.raises(TypeError, match="CodecOptions"):
        decode_iter(b"", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="CodecOptions"):
        decode_file_iter(io.BytesIO(), 5)  # type: ignore[arg-type]


def test_wrong_length_in_a_file_asks_for_little_at_once() -> None:
    class Watched(io.BytesIO):
        largest = 0

        def read(self, size: int | None = -1) -> bytes:
            self.largest = max(self.largest, size or 0)
            return super().read(size)

    file = Watched(b"\xff\xff\xff\x7f" + b"\0" * 100)

    with pytest.raises(InvalidBSON, match="end of the file"):
        list(decode_file_iter(file))
    assert file.largest <= 1 << 20


def test_file_may_give_a_document_in_pieces() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(size if size == 4 else min(size or 0, 3))

    assert list(decode_file_iter(Slow(encode({"key": "value"}) * 2))) == [{"key": "value"}] * 2


def test_raw_document_is_decoded_at_the_first_key() -> None:
    broken = b"\x0c\0\0\0\x55a\0\0\0\0\0\0"

    document = RawBSONDocument(broken)

    assert encode(document) == broken
    with pytest.raises(InvalidBSON):
        document["a"]


def test_raw_document_reads_repeated_keys_as_a_dict_does() -> None:
    repeated = b"\x13\0\0\0\x10a\0\x01\0\0\0\x10a\0\x02\0\0\0\0"

    assert dict(RawBSONDocument(repeated)) == decode(repeated) == {"a": 2}


def test_scope_of_code_in_a_raw_document_stays_raw() -> None:
    code = RawBSONDocument(encode({"a": Code("x", {"b": 1})}))["a"]

    assert isinstance(code.scope, RawBSONDocument)


def test_nested_raw_documents_share_the_options() -> None:
    options = DEFAULT_RAW_BSON_OPTIONS.with_options(unicode_decode_error_handler="replace")
    nested = b"\x11\0\0\0\x02b\0\x05\0\0\0ab\xff\xff\0\0"
    data = (8 + len(nested)).to_bytes(4, "little") + b"\x03a\0" + nested + b"\0"

    document: Mapping[str, Any] = RawBSONDocument(data, options)

    assert document["a"]["b"] == "ab��"


def test_data_and_view_of_a_buffer() -> None:
    data = bytearray(b"abc")

    same, view = get_data_and_view(data)
    copied, _ = get_data_and_view(memoryview(b"abc"))

    assert same is data
    assert view == b"abc"
    assert copied == b"abc"


def test_bson_class_is_bytes() -> None:
    assert BSON.encode({"a": 1}) == encode({"a": 1})
    assert isinstance(BSON.encode({}, codec_options=CodecOptions()), bytes)
