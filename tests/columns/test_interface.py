"""Arrow's C interface, tested by a producer: structures are released exactly once, and invalid ones are refused."""

from __future__ import annotations

import ctypes
import gc
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel import _core
from mangonel.arrow import ColumnError

NAMES = {"schema": b"arrow_schema", "array": b"arrow_array", "stream": b"arrow_array_stream"}


class Schema(Structure):
    pass


class Array(Structure):
    pass


class Stream(Structure):
    pass


ReleaseSchema, ReleaseArray = CFUNCTYPE(None, POINTER(Schema)), CFUNCTYPE(None, POINTER(Array))
ReleaseStream = CFUNCTYPE(None, POINTER(Stream))
FillSchema, FillArray = (
    CFUNCTYPE(c_int, POINTER(Stream), POINTER(Schema)),
    CFUNCTYPE(c_int, POINTER(Stream), POINTER(Array)),
)
LastError = CFUNCTYPE(c_void_p, POINTER(Stream))
Schema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64), ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))), ("dictionary", POINTER(Schema)), ("release", ReleaseSchema),
    ("private_data", c_void_p),
]  # fmt: skip
Array._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)), ("children", POINTER(POINTER(Array))), ("dictionary", POINTER(Array)),
    ("release", ReleaseArray), ("private_data", c_void_p),
]  # fmt: skip
Stream._fields_ = [
    ("get_schema", FillSchema), ("get_next", FillArray), ("get_last_error", LastError), ("release", ReleaseStream),
    ("private_data", c_void_p),
]  # fmt: skip


class Producer:
    """A table of one column whose structures a test can falsify."""

    def __init__(
        self, form: bytes, buffers: list[bytes | None], *, child: dict[str, int] | None = None, **whole: int
    ) -> None:
        self.released: list[str] = []
        self._kept: list[Any] = [buffers]
        self._release_schema = ReleaseSchema(self._schema_released)
        self._release_array = ReleaseArray(self._array_released)
        self.schema = self._schema(b"+s", b"", [self._schema(form, b"a", [])])
        told = {"length": 2, "null_count": 0, "n_buffers": len(buffers)} | (child or {})
        self.array = self._array(
            [None], [self._array(buffers, [], **told)], **({"length": 2, "n_buffers": 1} | whole)
        )

    def _schema_released(self, schema: Any) -> None:
        self.released.append("schema")
        schema.contents.release = ReleaseSchema()

    def _array_released(self, array: Any) -> None:
        self.released.append("array")
        array.contents.release = ReleaseArray()
        try:
            # Other Python code in a callback must not disturb a pending exception.
            raise KeyError("inside of a callback")
        except KeyError:
            pass

    def _schema(self, form: bytes, name: bytes, children: list[Any]) -> Any:
        pointers = (POINTER(Schema) * max(len(children), 1))(*map(ctypes.pointer, children))
        made = Schema(form, name, None, 2, len(children), pointers, None, self._release_schema)
        self._kept += [made, pointers]
        return made

    def _array(self, buffers: list[bytes | None], children: list[Any], **told: int) -> Any:
        pointers = (c_void_p * max(len(buffers), 1))()
        for index, data in enumerate(buffers):
            pointers[index] = None if data is None else ctypes.cast(c_char_p(data), c_void_p)
        inner = (POINTER(Array) * max(len(children), 1))(*map(ctypes.pointer, children))
        made = Array(buffers=pointers, children=inner, release=self._release_array, n_children=len(children))
        for name, value in told.items():
            setattr(made, name, value)
        self._kept += [made, pointers, inner]
        return made

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return capsule(self.schema, "schema"), capsule(self.array, "array")


def capsule(structure: Any, name: str) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    return make(ctypes.addressof(structure), NAMES[name], None)


def read(producer: Any) -> list[dict[str, Any]]:
    rows = _core.ArrowReader(producer, False).next_part(10)
    return [] if rows is None else [rows[index] for index in range(len(rows))]


INTEGERS: list[bytes | None] = [None, b"\x01\x00\x00\x00\x02\x00\x00\x00"]
TEXTS: list[bytes | None] = [None, b"\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00", b"abc"]


def test_what_is_taken_over_is_released_once() -> None:
    producer = Producer(b"i", INTEGERS)

    assert [row["a"] for row in read(producer)] == [1, 2]

    gc.collect()
    assert producer.released == ["schema", "array"]
    with pytest.raises(ValueError, match="read already"):
        read(producer)
    assert producer.released == ["schema", "array"]


@pytest.mark.parametrize(
    ("form", "buffers", "child", "whole"),
    [
        (b"i", INTEGERS, {"length": -1}, {}),
        (b"i", INTEGERS, {"offset": -1}, {}),
        (b"i", INTEGERS, {"length": 1}, {}),
        (b"i", INTEGERS, {"length": 2**62}, {}),
        (b"i", INTEGERS, {"length": 2**63 - 1, "offset": 2**63 - 1}, {}),
        (b"i", INTEGERS, {"n_buffers": 3}, {}),
        (b"i", INTEGERS, {"n_children": 1}, {}),
        (b"i", INTEGERS, {"null_count": 1}, {}),
        (b"i", [None, None], {}, {}),
        (b"i", INTEGERS, {}, {"n_children": 2}),
        (b"i", INTEGERS, {}, {"n_buffers": 2}),
        (b"i", INTEGERS, {}, {"length": 3}),
        (b"u", [None, TEXTS[1], None], {}, {}),
        (b"u", [None, b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff", b"abc"], {}, {}),
        (b"u", [None, b"\0\0\0\0\x03\0\0\0\x02\0\0\0", b"abc"], {}, {}),
        (b"u", [None, b"\x02\0\0\0\x01\0\0\0\x02\0\0\0", b"abc"], {}, {}),
        (b"u", [None, TEXTS[1], b"a\xff\xff"], {}, {}),
        (b"vu", [None, b"\x0d\0\0\0abcd\x00\0\0\0\0\0\0\0" * 2, b"\x04" + bytes(7)], {}, {}),
        (b"vu", [None, b"\x0d\0\0\0abcd\x00\0\0\0\0\0\0\0" * 2, b"0123456789", b"\x0a" + bytes(7)], {}, {}),
        (b"vu", [None, b"\xff\xff\xff\xff" + bytes(12) + bytes(16), b""], {}, {}),
    ],
)
def test_arrays_that_lie_are_refused_and_released_once(
    form: bytes, buffers: list[bytes | None], child: dict[str, int], whole: dict[str, int]
) -> None:
    producer = Producer(form, buffers, child=child, **whole)

    with pytest.raises(ColumnError, match="expected"):
        read(producer)

    gc.collect()
    assert producer.released == ["schema", "array"]


# Numbers in an array's structure, and possible lies about them: never more than the buffers hold.
SHORT = st.integers(-3, 6)


@given(
    form=st.sampled_from([b"i", b"l", b"b", b"u", b"z", b"g", b"n", b"c", b"w:4"]),
    child=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("length", "offset", "null_count", "n_buffers"), SHORT)
    ),
    whole=st.fixed_dictionaries({}, optional=dict.fromkeys(("length", "offset", "null_count"), SHORT)),
    buffers=st.lists(
        st.none() | st.binary(min_size=256, max_size=256) | st.just(bytes(256)), min_size=4, max_size=4
    ),
)
def test_structures_that_lie_become_documents_or_errors(
    form: bytes, child: dict[str, int], whole: dict[str, int], buffers: list[bytes | None]
) -> None:
    usual = {b"u": 3, b"z": 3, b"n": 0}.get(form, 2)
    if form in (b"u", b"z") and buffers[1] is not None:
        # Offsets stay within the text, in any order.
        buffers[1] = b"".join(bytes([byte % 64, 0, 0, 0]) for byte in buffers[1][:64])
    producer = Producer(form, buffers, child={"n_buffers": usual} | child, **whole)
    try:
        told = read(producer)
    except ColumnError:
        told = []
    assert all(list(row) == ["_id", "a"] for row in told)
    gc.collect()
    assert sorted(producer.released) == ["array", "schema"]


def test_schema_that_is_refused_releases_the_array_too() -> None:
    for form in (b"ttm", b"+l", b"", b"\xff"):
        producer = Producer(form, INTEGERS)
        with pytest.raises(TypeError):
            read(producer)
        assert sorted(producer.released) == ["array", "schema"]


def test_callback_leaves_a_pending_exception_alone() -> None:
    producer = Producer(b"i", INTEGERS)

    def fail() -> None:
        rows = _core.ArrowReader(producer, False).next_part(10)
        assert rows is not None
        rows[2]

    # The rows die with the frame while the exception propagates.
    with pytest.raises(IndexError):
        fail()
    gc.collect()
    assert producer.released == ["schema", "array"]


@pytest.mark.parametrize("breaks_at", ["schema", "next", "never"])
def test_stream_is_released_once_and_its_error_is_told(breaks_at: str) -> None:
    table = Producer(b"i", INTEGERS)
    released: list[str] = []
    left = [table.array]
    text = ctypes.create_string_buffer(b"the disk is gone")

    def fill_schema(_: Any, out: Any) -> int:
        if breaks_at != "schema":
            ctypes.memmove(out, ctypes.addressof(table.schema), ctypes.sizeof(Schema))
        return 5 if breaks_at == "schema" else 0

    def fill_array(_: Any, out: Any) -> int:
        if left:
            ctypes.memmove(out, ctypes.addressof(left.pop()), ctypes.sizeof(Array))
        elif breaks_at == "next":
            return 5
        return 0

    def release(stream: Any) -> None:
        released.append("stream")
        stream.contents.release = ReleaseStream()

    stream = Stream(
        FillSchema(fill_schema),
        FillArray(fill_array),
        LastError(lambda _: ctypes.addressof(text)),
        ReleaseStream(release),
    )

    class Table:
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            return capsule(stream, "stream")

    if breaks_at == "never":
        assert len(read(Table())) == 2
    else:
        with pytest.raises(OSError, match="code 5: the disk is gone"):
            read(Table())
    gc.collect()
    assert released == ["stream"]
    assert sorted(table.released) == ([] if breaks_at == "schema" else ["array", "schema"])


def test_capsules_of_other_kinds_are_refused() -> None:
    class Table:
        def __init__(self, given: Any) -> None:
            self.given = given

        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            return self.given

    for made in (None, capsule(Producer(b"i", INTEGERS).array, "array")):
        with pytest.raises(TypeError, match="expected a capsule"):
            read(Table(made))
