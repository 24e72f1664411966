"""RawBSONDocument refers to its parent's bytes instead of copying them, where these cannot change."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from mangonel.bson import decode, decode_all, encode
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.raw_bson import RawBSONDocument

RAW: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
LARGE = {
    "large": {"data": b"x" * 5000, "inner": {"data": b"y" * 6000}},
    "items": [{"data": b"z" * 5000}],
    "small": {},
}


def test_large_part_is_a_view_of_its_parents_bytes() -> None:
    data = encode(LARGE)
    document = RawBSONDocument(data)

    for part in (document["large"].raw, document["large"]["inner"].raw, document["items"][0].raw):
        assert isinstance(part, memoryview)
        assert part.obj is data
        assert part.readonly
    assert bytes(document["large"].raw) == encode(LARGE["large"])
    assert document["large"]["inner"]["data"] == b"y" * 6000


def test_small_part_is_bytes_that_keep_nothing_else_alive() -> None:
    assert type(RawBSONDocument(encode(LARGE))["small"].raw) is bytes


def test_decoded_whole_is_the_callers_own_object() -> None:
    data = encode(LARGE)
    assert decode(data, RAW).raw is data


def test_documents_one_after_the_other_are_views_when_they_are_large() -> None:
    data = encode(LARGE) + encode({})
    large, small = decode_all(data, RAW)
    assert isinstance(large.raw, memoryview)
    assert large.raw.obj is data
    assert type(small.raw) is bytes


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data)).toreadonly()])
def test_bytes_that_may_change_are_copied(kind: Any) -> None:
    data = encode(LARGE)
    changing = kind(data)
    document = decode(changing, RAW)
    (changing.obj if isinstance(changing, memoryview) else changing)[-100:] = bytes(100)
    assert document.raw == data
    assert document["large"]["data"] == b"x" * 5000


def test_documents_of_a_buffer_that_may_change_are_views_of_one_copy() -> None:
    data = encode(LARGE)
    changing = bytearray(data + encode({}) + data)
    first, small, last = decode_all(memoryview(changing), RAW)
    changing[:] = bytes(len(changing))

    assert isinstance(first.raw, memoryview)
    assert isinstance(last.raw, memoryview)
    assert first.raw.obj is last.raw.obj
    assert first.raw == last.raw == data
    assert small.raw == encode({})
    assert last["large"]["inner"]["data"] == b"y" * 6000


def test_documents_of_a_bytearray_are_copies_of_their_own() -> None:
    data = encode(LARGE)
    documents = decode_all(bytearray(data + data), RAW)
    assert [type(document.raw) for document in documents] == [bytes, bytes]
    assert [document.raw for document in documents] == [data, data]


@pytest.mark.parametrize("step", [-1, 2])
def test_view_that_skips_bytes_is_read_as_it_shows_them(step: int) -> None:
    data = encode(LARGE)
    spread = bytearray(2 * len(data)) if step == 2 else bytearray(data)
    spread[::step] = data
    assert decode(memoryview(bytes(spread))[::step], RAW)["large"]["data"] == b"x" * 5000


def test_view_of_the_middle_of_other_bytes_is_read_from_there() -> None:
    data = encode(LARGE)
    document = decode(memoryview(b"before" + data + b"behind")[6:-6], RAW)
    assert document["large"].raw == encode(LARGE["large"])
    assert RawBSONDocument(document["large"].raw)["inner"]["data"] == b"y" * 6000


def test_view_is_encoded_pickled_and_copied_like_bytes() -> None:
    part = RawBSONDocument(encode(LARGE))["large"]
    assert encode(part) == encode(LARGE["large"])
    assert decode(encode({"again": part}))["again"] == LARGE["large"]
    assert pickle.loads(pickle.dumps(part)) == part
    assert copy.deepcopy(part) == part
    assert repr(part) == repr(RawBSONDocument(bytes(part.raw)))
