"""Users' finalizers that run or raise while the codec makes or releases an object: reported, and harmless."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import decode, decode_all, encode
from mangonel.bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from mangonel.bson.errors import InvalidBSON
from tools.scripted_server import ScriptedServer

CUT_OFF = encode({"a": {"n": 1}, "b": [{"n": 2}, {"n": 3}], "c": {"when": 1}})[:-4] + b"\xff\xff\xff\x00"


class Finalized(dict[str, Any]):
    """A document whose finalizer follows the test's orders."""

    def __del__(self) -> None:
        self.finalize()

    @staticmethod
    def finalize() -> None:
        raise LookupError("from a finalizer")


class Number:
    """A value of the user's own whose finalizer raises."""

    def __del__(self) -> None:
        raise LookupError("from a finalizer")


class ToNumber(TypeDecoder):
    bson_type = int

    def transform_bson(self, value: int) -> Number:
        return Number()


@pytest.fixture
def heard() -> Iterator[list[type[BaseException]]]:
    """Return the finalizers' exceptions, as the interpreter reports them."""
    errors: list[type[BaseException]] = []
    usual = sys.unraisablehook
    # The exception itself would keep the object alive that is being finalized.
    sys.unraisablehook = lambda told: errors.append(told.exc_type)
    try:
        yield errors
    finally:
        sys.unraisablehook = usual


DOCUMENTS: CodecOptions[Any] = CodecOptions(document_class=Finalized)
VALUES: CodecOptions[Any] = CodecOptions(type_registry=TypeRegistry([ToNumber()]))


@pytest.mark.parametrize(("options", "count"), [(DOCUMENTS, 3), (VALUES, 3)], ids=["documents", "values"])
def test_error_of_a_finalizer_is_heard_beside_that_of_the_bytes(
    options: CodecOptions[Any], count: int, heard: list[type[BaseException]]
) -> None:
    with pytest.raises(InvalidBSON):
        decode(CUT_OFF, options)

    assert len(heard) >= count
    assert set(heard) == {LookupError}


def test_error_of_a_finalizer_leaves_the_documents_that_were_decoded(
    heard: list[type[BaseException]],
) -> None:
    data = encode({"a": {"n": 1}})
    for _ in range(3):
        assert decode_all(data * 2, DOCUMENTS) == [{"a": {"n": 1}}] * 2
    # Each document and the one inside it.
    assert len(heard) == 12


def test_finalizer_may_decode_again(monkeypatch: pytest.MonkeyPatch) -> None:
    data, inner = encode({"a": {"n": 1}, "b": {"n": 2}}), []
    monkeypatch.setattr(Finalized, "finalize", staticmethod(lambda: inner.append(decode(data))))
    with pytest.raises(InvalidBSON):
        decode(CUT_OFF, DOCUMENTS)
    assert inner
    assert all(document == {"a": {"n": 1}, "b": {"n": 2}} for document in inner)
    monkeypatch.undo()


def test_finalizer_may_call_the_driver_that_lets_go_of_its_batch(
    scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [{"n": {"m": number}} for number in range(5)]
    scripted_server.on("find", {"ok": 1, "cursor": {"id": 0, "ns": "a.b", "firstBatch": batch}})
    scripted_server.on("count", {"ok": 1, "n": 7})
    counted: list[int] = []
    with MongoClient(scripted_server.uri, maxPoolSize=1) as client:
        plain = client.a.b
        monkeypatch.setattr(
            Finalized, "finalize", staticmethod(lambda: counted.append(plain.estimated_document_count()))
        )
        found = client.a.get_collection("b", codec_options=DOCUMENTS).find({})
        assert next(found)["n"] == {"m": 0}
        rest = found.to_list()
        assert len(rest) == 4
        del rest, found
        assert set(counted) == {7}
        assert len(counted) == 10
        monkeypatch.undo()
