"""Binary, UUIDs and vectors behave as in PyMongo's package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

BINARY = r"""
Binary(b"x"), Binary(b"x", 3), Binary(b"x", 9), Binary(b"x", 8), Binary(b"x", subtype=128), Binary(data=b"x")
Binary(b"x", 256)
Binary(b"x", -1)
Binary(b"x", "a")
Binary("x")
Binary(5)
Binary([1])
Binary()
Binary(bytearray(b"ab"), 2), Binary(memoryview(b"ab"), 2), Binary(memoryview(b"abcd")[::2])
Binary(np.array([1, 2], dtype=np.int8))
Binary(b"x") == b"x", b"x" == Binary(b"x"), Binary(b"x", 3) == Binary(b"x", 3)
Binary(b"x", 3) == Binary(b"x", 4)
Binary(b"x", 3) != Binary(b"x", 3), Binary(b"x", 3) != b"x", Binary(b"x") == "x", Binary(b"x") == None
hash(Binary(b"x")) == hash(b"x"), hash(Binary(b"x", 3)) == hash(b"x") ^ hash(3)
str(Binary(b"x", 3)), bytes(Binary(b"x", 3)), Binary(b"xy", 3)[0:1]
Binary(b"x", 3) + b"y", len(Binary(b"xyz"))
Binary(b"x", 3).subtype, Binary(b"x")._type_marker, Binary(b"x", 3).__getnewargs__()
setattr(Binary(b"x", 3), "subtype", 4)
MyBinary(b"x", 3), MyBinary.from_uuid.UUID), MyBinary.from_vector([1], BinaryVectorDtype.INT8)
UuidRepresentation.UNSPECIFIED, UuidRepresentation.STANDARD, UuidRepresentation.PYTHON_LEGACY
UuidRepresentation.JAVA_LEGACY, UuidRepresentation.CSHARP_LEGACY, binary.UUID_REPRESENTATION_NAMES
binary.ALL_UUID_REPRESENTATIONS, binary.ALL_UUID_SUBTYPES, binary.STANDARD, binary.PYTHON_LEGACY
binary.BINARY_SUBTYPE, binary.FUNCTION_SUBTYPE, binary.OLD_BINARY_SUBTYPE, binary.OLD_UUID_SUBTYPE
binary.UUID_SUBTYPE, binary.MD5_SUBTYPE, binary.COLUMN_SUBTYPE
binary.SENSITIVE_SUBTYPE, binary.VECTOR_SUBTYPE
binary.USER_DEFINED_SUBTYPE, binary.JAVA_LEGACY, binary.CSHARP_LEGACY
"""

UUIDS = r"""
[Binary.from_uuid.UUID, r) for r in (3, 4, 5, 6)]
Binary.from_uuid.UUID)
Binary.from_uuid.UUID, 0)
Binary.from_uuid.UUID, 9)
Binary.from_uuid("a")
[Binary.from_uuid.UUID, r).as_uuid(r) for r in (3, 4, 5, 6)]
[Binary.from_uuid.UUID, 3).as_uuid(r) for r in (3, 5, 6)]
Binary.from_uuid.UUID, 4).as_uuid(3)
Binary.from_uuid.UUID, 3).as_uuid()
Binary.from_uuid.UUID, 3).as_uuid(9)
Binary.from_uuid.UUID, 3).as_uuid(0)
Binary(b"a", 0).as_uuid()
Binary(b"a", 4).as_uuid()
Binary(b"a" * 17, 3).as_uuid(6)
"""

VECTORS = r"""
Binary.from_vector([1, -2], BinaryVectorDtype.INT8)
Binary.from_vector([1, 2.5], BinaryVectorDtype.FLOAT32)
Binary.from_vector([1, 2], BinaryVectorDtype.PACKED_BIT)
Binary.from_vector([], BinaryVectorDtype.PACKED_BIT, 0)
Binary.from_vector([1, 8], BinaryVectorDtype.PACKED_BIT, 3)
Binary.from_vector([True], BinaryVectorDtype.INT8)
Binary.from_vector([nan, float("inf")], BinaryVectorDtype.FLOAT32)
Binary.from_vector([1, 2], BinaryVectorDtype.PACKED_BIT, 3)
Binary.from_vector([], BinaryVectorDtype.PACKED_BIT, 3)
Binary.from_vector([1, 2], BinaryVectorDtype.PACKED_BIT, 8)
Binary.from_vector([1, 2], BinaryVectorDtype.PACKED_BIT, "a")
Binary.from_vector([1, 2], BinaryVectorDtype.INT8, 1)
Binary.from_vector([1, 2], BinaryVectorDtype.FLOAT32, 1)
Binary.from_vector([1, 200], BinaryVectorDtype.INT8)
Binary.from_vector([1, -129], BinaryVectorDtype.INT8)
Binary.from_vector([1, 1.5], BinaryVectorDtype.INT8)
Binary.from_vector([1, 256], BinaryVectorDtype.PACKED_BIT)
Binary.from_vector([1, -1], BinaryVectorDtype.PACKED_BIT)
Binary.from_vector([1, "a"], BinaryVectorDtype.FLOAT32)
Binary.from_vector([None], BinaryVectorDtype.INT8)
Binary.from_vector([1e300], BinaryVectorDtype.FLOAT32)
Binary.from_vector([1, 2])
Binary.from_vector([1, 2], 5)
Binary.from_vector([1, 2], b"\x03")
Binary.from_vector(5, BinaryVectorDtype.INT8)
Binary.from_vector("ab", BinaryVectorDtype.INT8)
Binary.from_vector(b"ab", BinaryVectorDtype.INT8)
Binary.from_vector((1, 2), BinaryVectorDtype.INT8)
Binary.from_vector(None, BinaryVectorDtype.INT8)
Binary.from_vector(BinaryVector([1, 8], BinaryVectorDtype.PACKED_BIT, 3))
Binary.from_vector(BinaryVector([1, 2], BinaryVectorDtype.INT8), padding=0)
Binary.from_vector(BinaryVector([1, 2], BinaryVectorDtype.INT8), BinaryVectorDtype.INT8)
Binary.from_vector(BinaryVector([1, 2], BinaryVectorDtype.INT8), padding=1)
Binary.from_vector(np.array([1, 2], dtype=np.int8), BinaryVectorDtype.INT8)
Binary.from_vector(np.array([1, 2], dtype=np.int8), BinaryVectorDtype.FLOAT32)
Binary.from_vector(np.array([1, 2], dtype=np.int64), BinaryVectorDtype.INT8)
Binary.from_vector(np.array([1, 2.5], dtype=np.float64), BinaryVectorDtype.FLOAT32)
Binary.from_vector(np.array([1, 2], dtype=">f4"), BinaryVectorDtype.FLOAT32)
Binary.from_vector(np.array([1, 8], dtype=np.uint8), BinaryVectorDtype.PACKED_BIT, 3)
Binary.from_vector(np.array([1, 200], dtype=np.int64), BinaryVectorDtype.INT8)
Binary.from_vector(np.array([[1, 2], [3, 4]], dtype=np.int8), BinaryVectorDtype.INT8)
Binary.from_vector(np.array([1, 2], dtype=np.int8))
Binary.from_vector(BinaryVector(np.array([1, 2], dtype=np.int8), BinaryVectorDtype.INT8))
[Binary.from_vector([1, 2], t).as_vector() for t in BinaryVectorDtype]
[Binary.from_vector([1, 2], t).as_vector(True) for t in BinaryVectorDtype]
[Binary.from_vector([1, 2], t).as_vector(return_numpy=True).data.dtype for t in BinaryVectorDtype]
Binary.from_vector([1, 2], BinaryVectorDtype.INT8).as_vector(True).data.flags.writeable
Binary(b"", 9).as_vector()
Binary(b"\x03", 9).as_vector()
Binary(b"\x03\x00", 9).as_vector()
Binary(b"\x03\x01\x05", 9).as_vector()
Binary(b"\x27\x00\x05", 9).as_vector()
Binary(b"\x27\x01\x05\x05\x05\x05", 9).as_vector()
Binary(b"\x10\x01", 9).as_vector()
Binary(b"\x10\x08", 9).as_vector(True)
Binary(b"\x10\x09\x00", 9).as_vector()
Binary(b"\x11\x01\x02", 9).as_vector()
Binary(b"\x03\x00\x02", 0).as_vector()
BinaryVector([1, 2], BinaryVectorDtype.INT8), BinaryVector([1, 2], BinaryVectorDtype.PACKED_BIT, 3)
BinaryVector([1], BinaryVectorDtype.INT8) == BinaryVector([1], BinaryVectorDtype.INT8)
BinaryVector([1], BinaryVectorDtype.INT8) == BinaryVector([1], BinaryVectorDtype.FLOAT32)
BinaryVector([1], BinaryVectorDtype.INT8) == [1], len(BinaryVector([1, 2], BinaryVectorDtype.INT8))
hash(BinaryVector([1], BinaryVectorDtype.INT8))
BinaryVector([1])
[(t, t.value) for t in BinaryVectorDtype], BinaryVectorDtype(b"\x03")
"""


def lines(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


@pytest.mark.parametrize("expression", lines(BINARY, UUIDS, VECTORS))
def test_binary_agrees_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)


def test_vector_with_dirty_padding_is_read_with_a_warning(ours: Callable[[str], object]) -> None:
    with pytest.warns(DeprecationWarning, match="padding"):
        vector = ours(r'Binary(b"\x10\x03\xff", 9).as_vector()')

    assert repr(vector) == "BinaryVector(dtype=BinaryVectorDtype.PACKED_BIT, padding=3, data=[255])"
