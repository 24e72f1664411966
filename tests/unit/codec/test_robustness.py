"""Hostile bytes, hostile objects, threads and leaks: an exception at worst, never a crash."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import bson as peer
import pytest
from tests.unit.codec.samples import every_type

import mangonel.bson.dbref
from mangonel import _core
from mangonel.bson.codec_options import CodecOptions, TypeEncoder, TypeRegistry
from mangonel.bson.errors import BSONError, InvalidBSON, InvalidDocument
from mangonel.bson.int64 import Int64
from mangonel.bson.objectid import ObjectId
from mangonel.bson.son import SON

SAMPLE = peer.encode(every_type(peer))


def mutate(source: random.Random, data: bytes) -> bytes:
    mutated = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(len(mutated))
        match source.randrange(4):
            case 0:
                mutated[at] = source.randrange(256)
            case 1:
                mutated[at] ^= 1 << source.randrange(8)
            case 2:
                mutated[at : at + 4] = source.choice((0, 1, 4, 5, 2**31 - 1, 2**31, 2**32 - 1)).to_bytes(
                    4, "little"
                )
            case 3:
                del mutated[at : at + source.randrange(1, 4)]
    return bytes(mutated)


def test_mutated_bytes_give_a_value_or_invalid_bson() -> None:
    source = random.Random(20)
    options = [None, CodecOptions(document_class=SON), CodecOptions(tz_aware=True, uuid_representation=4)]
    decoded = refused = 0
    for round_ in range(6000):
        data = mutate(source, SAMPLE)
        if round_ % 2:
            data = len(data).to_bytes(4, "little") + data[4:]
        try:
            _core.decode(data, options[round_ % 3])
            decoded += 1
        except InvalidBSON:
            refused += 1
    assert decoded > 100
    assert refused > 100


def test_fields_are_read_alike_at_any_distance_from_the_end() -> None:
    for length in range(40):
        for name in ("n", "fifteen_letters", "sixteen_letters_", "seventeen_letters"):
            document = {"first": {name: "x" * length}, name: "y" * length, "last": "z" * (length % 19)}
            data = peer.encode(document)
            # Twice, since a name is compared with those seen before.
            assert _core.decode(data) == _core.decode(data) == document
            assert _core.decode_all(data + data) == [document, document]


@pytest.mark.parametrize("behind", [0, 40])
@pytest.mark.parametrize("name", ["left", "sixteen_letters_", "seventeen_letters"])
def test_a_known_name_that_ends_outside_of_its_document_is_refused(name: str, behind: int) -> None:
    assert _core.decode(peer.encode({"in": {name: None}})) == {"in": {name: None}}
    # The NUL of the embedded document stands where that of the name would.
    field = b"\x0a" + name.encode()
    inner = (len(field) + 5).to_bytes(4, "little") + field + b"\0"
    outer = b"\x03in\0" + inner + b"\x02more\0" + (behind + 1).to_bytes(4, "little") + b"m" * behind + b"\0"
    data = (len(outer) + 5).to_bytes(4, "little") + outer + b"\0"
    with pytest.raises(InvalidBSON, match="field name has no end"):
        _core.decode(data)


def test_every_prefix_is_refused() -> None:
    for length in range(len(SAMPLE)):
        with pytest.raises(InvalidBSON):
            _core.decode(SAMPLE[:length])
        cut = length.to_bytes(4, "little") + SAMPLE[4 : length - 1] + b"\0" if length >= 5 else b""
        with contextlib.suppress(InvalidBSON):
            _core.decode(cut)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0"),
        (b"\5\0\0\0\1", "NUL"),
        (b"\6\0\0\0\0\0", "field name has no end|unknown"),
        (b"\x0c\0\0\0\x08a\0\2\0\0\0\0", "boolean"),
        (b"\x0a\0\0\0\x02a\0\0\0\0", "value of 4 bytes|length"),
        (b"\x0e\0\0\0\x02a\0\xff\xff\xff\xff\0\0\0", "string length 4294967295"),
        (b"\x0e\0\0\0\x02a\0\0\0\0\0\0\0\0", "string length 0, with 6 bytes left"),
        (b"\x0e\0\0\0\x02a\0\3\0\0\0x\0\0", "string length 3, with 6 bytes left"),
        (b"\x0e\0\0\0\x02a\0\2\0\0\0xy\0", "string does not end in NUL"),
        (b"\x08\0\0\0\x20a\0\0", r"unknown BSON type b'\\x20' for fieldname 'a' at \$\.a"),
        (b"\x05\0\0\0\0\0", "1 bytes left"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(InvalidBSON, match=message):
        _core.decode(data)


class Shrinking(Mapping[str, Any]):
    """A mapping whose iteration changes the documents around it."""

    def __init__(self, change: Callable[[], object]) -> None:
        self.change = change

    def __getitem__(self, key: str) -> Any:
        return "value " * 3

    def __iter__(self) -> Iterator[str]:
        self.change()
        return iter(["a" * 40, "b"])

    def __len__(self) -> int:
        return 2


def test_a_dict_emptied_while_it_is_encoded_is_an_error() -> None:
    for change in ("clear", "popitem", "grow"):
        document: dict[str, Any] = {}

        def act(document: dict[str, Any] = document, change: str = change) -> None:
            if change == "grow":
                document.update({f"x{i}": object() for i in range(100)})
            else:
                getattr(document, change)()

        document.update({f"key {i}": Shrinking(act) for i in range(20)})
        with pytest.raises((RuntimeError, InvalidDocument)):
            _core.encode(document)


def test_a_list_emptied_while_it_is_encoded_is_an_error() -> None:
    items: list[Any] = []
    items.extend([Shrinking(items.clear), "x" * 50, Shrinking(items.clear)])
    with pytest.raises(RuntimeError, match="changed size"):
        _core.encode({"items": items})


def test_values_replaced_while_they_are_encoded_are_held() -> None:
    document: dict[str, Any] = {}

    def replace() -> None:
        for key in document:
            document[key] = None
        gc.collect()

    document.update({f"k{i}": Shrinking(replace) for i in range(5)})
    assert _core.decode(_core.encode(document))["k4"] is None


def test_errors_of_user_code_come_through() -> None:
    class Failing(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise ZeroDivisionError(key)

        def __iter__(self) -> Iterator[str]:
            return iter("a")

        def __len__(self) -> int:
            return 1

    class Marked:
        @property
        def _type_marker(self) -> int:
            raise ZeroDivisionError

    for value in (Failing(), Marked()):
        with pytest.raises(ZeroDivisionError):
            _core.encode({"x": [value]})


@pytest.mark.parametrize("marker", [5, 7, 9, 11, 13, 17, 18, 19, 100, 101, 42, "x", None, 2**70])
def test_a_lying_type_marker_is_an_exception(marker: Any) -> None:
    class Liar:
        _type_marker = marker

    with pytest.raises((AttributeError, TypeError, BSONError, ValueError)):
        _core.encode({"x": Liar()})
    with pytest.raises((AttributeError, TypeError, BSONError, ValueError)):
        _core.encode(Liar())  # type: ignore[arg-type]


def test_encoders_that_call_the_codec_again_are_fine() -> None:
    class Thing:
        pass

    class Encoder(TypeEncoder):
        python_type = Thing

        def transform_python(self, value: Any) -> Any:
            _core.decode(SAMPLE)
            return {"inner": _core.encode({"x": 1})}

    options = CodecOptions(type_registry=TypeRegistry([Encoder()]))
    data = _core.encode({"a": 1, "b": [Thing(), Thing()], "c": "x" * 200}, False, options)
    assert data == peer.encode({"a": 1, "b": [{"inner": peer.encode({"x": 1})}] * 2, "c": "x" * 200})


def test_a_fallback_that_returns_the_same_again_ends() -> None:
    class Thing:
        pass

    options = CodecOptions(type_registry=TypeRegistry(fallback_encoder=lambda value: value))
    with pytest.raises(InvalidDocument):
        _core.encode({"x": Thing()}, False, options)
    nesting = CodecOptions(type_registry=TypeRegistry(fallback_encoder=lambda value: [value]))
    with pytest.raises(RecursionError):
        _core.encode({"x": Thing()}, False, nesting)
    numbers = CodecOptions(type_registry=TypeRegistry(fallback_encoder=str))
    assert _core.decode(_core.encode({"x": 2**64}, False, numbers)) == {"x": str(2**64)}


def test_document_classes_that_call_the_codec_again_are_fine() -> None:
    class Document(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            _core.decode(SAMPLE)
            super().__setitem__(key, value)

    document = {"a": {"b": [{"c": 1}, "x"]}, "d": "e" * 40}
    assert _core.decode(peer.encode(document), CodecOptions(document_class=Document)) == document


def test_threads_that_change_documents_do_not_crash_the_encoder() -> None:
    shared: dict[str, Any] = {f"k{i}": [i, "x" * i] for i in range(50)}
    shared["m"] = Shrinking(lambda: None)
    stop = threading.Event()

    def change() -> None:
        source = random.Random(1)
        while not stop.is_set():
            key = f"k{source.randrange(60)}"
            if source.random() < 0.4:
                shared.pop(key, None)
            else:
                shared[key] = [source.random(), {"y": "z" * source.randrange(50)}]

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    outcomes = set()
    try:
        for _ in range(3000):
            try:
                _core.decode(_core.encode(shared))
                outcomes.add("encoded")
            except RuntimeError:
                outcomes.add("changed")
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert "encoded" in outcomes


def test_threads_can_decode_at_the_same_time() -> None:
    documents = [
        peer.encode({f"key {i} {j}": j for j in range(i % 40)} | {"x": {"y": i}}) for i in range(200)
    ]
    expected = [peer.decode(data) for data in documents]
    wrong = []

    class Document(dict[str, Any]):
        pass

    def decode(options: Any) -> None:
        for _ in range(10):
            if [_core.decode(data, options) for data in documents] != expected:
                wrong.append(options)

    every = [None, CodecOptions(document_class=Document), CodecOptions(document_class=SON), None]
    threads = [threading.Thread(target=decode, args=(options,)) for options in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def grown(action: Callable[[], object], rounds: int = 300) -> int:
    """Return how many more bytes are in use after many rounds than after a few."""
    tracemalloc.start()
    try:
        # Free lists and caches fill up first.
        for _ in range(rounds):
            action()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(rounds):
            action()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def refused(action: Callable[[], object]) -> Callable[[], None]:
    # Not pytest.raises: it makes reference cycles, which come and go with the collector.
    def run() -> None:
        try:
            action()
        except (BSONError, OverflowError, RecursionError):
            return
        raise AssertionError("accepted")

    return run


CUT = len(SAMPLE).to_bytes(4, "little") + SAMPLE[4:-30] + b"\xee" * 29 + b"\0"
LOOP: dict[str, Any] = {}
LOOP["loop"] = [LOOP]
ORDERED = CodecOptions(document_class=SON)
AWARE = CodecOptions(tz_aware=True, uuid_representation=4)


@pytest.mark.parametrize(
    "action",
    [
        lambda: _core.decode(SAMPLE),
        lambda: _core.decode(SAMPLE, ORDERED),
        lambda: _core.decode(SAMPLE, AWARE),
        lambda: _core.encode(_core.decode(SAMPLE)),
        lambda: _core.encode(every_type(peer)),
        refused(lambda: _core.decode(CUT)),
        refused(lambda: _core.encode({"a": [{"b": object()}]})),
        refused(lambda: _core.encode({"a": [2**70]})),
        refused(lambda: _core.encode(LOOP)),
    ],
    ids=["decode", "son", "aware", "round", "foreign", "invalid", "unknown", "overflow", "loop"],
)
def test_nothing_leaks(action: Callable[[], object]) -> None:
    # The smallest leak would be 24 bytes a round, each time; the interpreter's free lists fill up once.
    rounds = 600
    assert any(grown(action, rounds) < 10 * rounds for _ in range(4))


def test_new_options_do_not_pile_up() -> None:
    rounds = 2000
    options = lambda: _core.encode({}, False, CodecOptions(tz_aware=True))  # noqa: E731
    assert any(grown(options, rounds) < 10 * rounds for _ in range(4))


def test_decoding_leaves_reference_counts_as_they_were() -> None:
    data = peer.encode(
        {"n": None, "t": True, "f": False, "i": [2**40] * 5, "o": [peer.ObjectId()] * 5, "k": "v"}
    )
    watched = (None, True, False, Int64, ObjectId)
    for _ in range(50):
        _core.decode(data)
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    for _ in range(1000):
        _core.decode(data)
    gc.collect()
    for value, count in zip(watched, before, strict=True):
        assert abs(sys.getrefcount(value) - count) < 100, value


@pytest.mark.enough(1)
def test_ever_new_shapes_do_not_pile_up() -> None:
    source = random.Random(3)

    def decode() -> None:
        for _ in range(200):
            _core.decode(peer.encode({f"{source.random()}": i for i in range(8)}))

    assert grown(decode, rounds=60) < 12_000_000


def test_decoded_dicts_can_be_changed_copied_and_collected() -> None:
    data = peer.encode({f"k{i}": {"a": [i], "b": str(i)} for i in range(30)})
    for _ in range(20):
        document = _core.decode(data)
        reference = peer.decode(data)
        for one in (document, reference):
            one["k3"]["self"] = one
            one.pop("k7")
            one["new"] = 1
            one["k4"].clear()
            one["k4"].update(x=1)
            del one["k5"]["a"]
            one["k3"]["self"] = None
        assert document == reference == dict(document) == document.copy()
        assert list(document) == list(reference)
        document["cycle"] = document
    gc.collect()


def test_cycles_through_decoded_dicts_are_collected() -> None:
    class Canary:
        pass

    import weakref

    data = peer.encode({"a": {"b": {"c": 1}}, "d": "x"})
    for _ in range(5):
        document = _core.decode(data)
    canary = Canary()
    gone = weakref.ref(canary)
    document["a"]["b"]["loop"] = document
    document["a"]["b"]["canary"] = canary
    del document, canary
    gc.collect()
    assert gone() is None


def test_dbref_class_is_called_once_per_reference() -> None:
    data = peer.encode({"r": [peer.DBRef("c", 1), peer.DBRef("c", 2, "d", extra=1)]})
    assert _core.decode(data)["r"] == [
        mangonel.bson.dbref.DBRef("c", 1),
        mangonel.bson.dbref.DBRef("c", 2, "d", extra=1),
    ]


@pytest.mark.parametrize(
    "document",
    [{"a": 1, "b": "x", "c": 1.5, "d": None}, {"a": {}}, {"a": [1]}, {"a": b"x"}, {"a": peer.Regex("x")}, {}],
)
def test_dicts_are_tracked_by_the_collector_as_the_interpreter_would(document: Any) -> None:
    data = peer.encode(document)
    for _ in range(4):
        assert gc.is_tracked(_core.decode(data)) is gc.is_tracked(peer.decode(data))
