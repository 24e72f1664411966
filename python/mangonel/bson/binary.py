"""Binary data with a subtype, and the UUIDs and vectors in it. Spec: bson (type 0x05), uuid, bson-binary-vector.

`uuid`, `struct` and numpy are imported at first use only.
"""

from __future__ import annotations

from mangonel import _light
from mangonel.bson import schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array as _array
    from mmap import mmap as _mmap
    from typing import Any, Self
    from uuid import UUID

    import numpy as np
    import numpy.typing as npt

    from mangonel.bson._enumerations import BinaryVectorDtype as BinaryVectorDtype
    from mangonel.bson._vector import BinaryVector as BinaryVector

__all__ = [
    "ALL_UUID_REPRESENTATIONS",
    "ALL_UUID_SUBTYPES",
    "BINARY_SUBTYPE",
    "COLUMN_SUBTYPE",
    "CSHARP_LEGACY",
    "FUNCTION_SUBTYPE",
    "JAVA_LEGACY",
    "MD5_SUBTYPE",
    "OLD_BINARY_SUBTYPE",
    "OLD_UUID_SUBTYPE",
    "PYTHON_LEGACY",
    "SENSITIVE_SUBTYPE",
    "STANDARD",
    "USER_DEFINED_SUBTYPE",
    "UUID_REPRESENTATION_NAMES",
    "UUID_SUBTYPE",
    "VECTOR_SUBTYPE",
    "Binary",
    "BinaryVector",
    "BinaryVectorDtype",
    "UuidRepresentation",
]

BINARY_SUBTYPE = 0
"""Plain bytes; decoded to `bytes`, not to Binary."""
FUNCTION_SUBTYPE = 1
OLD_BINARY_SUBTYPE = 2
"""The former default, with a second length inside."""
OLD_UUID_SUBTYPE = 3
"""UUIDs in one of three byte orders; see UuidRepresentation."""
UUID_SUBTYPE = 4
"""UUIDs in the byte order of RFC 4122."""
MD5_SUBTYPE = 5
COLUMN_SUBTYPE = 7
SENSITIVE_SUBTYPE = 8
"""Data that logs must not show."""
VECTOR_SUBTYPE = 9
USER_DEFINED_SUBTYPE = 128

ALL_UUID_SUBTYPES = (OLD_UUID_SUBTYPE, UUID_SUBTYPE)


class UuidRepresentation:
    """How a `uuid.UUID` is stored: the subtype and the byte order."""

    UNSPECIFIED = 0
    """UUIDs are not converted: encoding one is an error, and stored ones stay Binary."""
    STANDARD = 4
    """Subtype 4, the byte order of RFC 4122. The one to use."""
    PYTHON_LEGACY = 3
    """Subtype 3, the byte order of RFC 4122."""
    JAVA_LEGACY = 5
    """Subtype 3, both halves reversed."""
    CSHARP_LEGACY = 6
    """Subtype 3, the first three fields reversed."""


STANDARD = UuidRepresentation.STANDARD
PYTHON_LEGACY = UuidRepresentation.PYTHON_LEGACY
JAVA_LEGACY = UuidRepresentation.JAVA_LEGACY
CSHARP_LEGACY = UuidRepresentation.CSHARP_LEGACY

ALL_UUID_REPRESENTATIONS = (
    UuidRepresentation.UNSPECIFIED,
    UuidRepresentation.STANDARD,
    UuidRepresentation.PYTHON_LEGACY,
    UuidRepresentation.JAVA_LEGACY,
    UuidRepresentation.CSHARP_LEGACY,
)
UUID_REPRESENTATION_NAMES = {
    UuidRepresentation.UNSPECIFIED: "UuidRepresentation.UNSPECIFIED",
    UuidRepresentation.STANDARD: "UuidRepresentation.STANDARD",
    UuidRepresentation.PYTHON_LEGACY: "UuidRepresentation.PYTHON_LEGACY",
    UuidRepresentation.JAVA_LEGACY: "UuidRepresentation.JAVA_LEGACY",
    UuidRepresentation.CSHARP_LEGACY: "UuidRepresentation.CSHARP_LEGACY",
}


__getattr__ = _light.late_names(
    __name__,
    {"BinaryVector": "mangonel.bson._vector", "BinaryVectorDtype": "mangonel.bson._enumerations"},
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _swap_halves(data: bytes) -> bytes:
    return data[7::-1] + data[:7:-1]


class Binary(bytes):
    """Bytes with a subtype.

    Args:
        data: bytes, or any object with the buffer protocol; it is copied.
        subtype: 0 to 255; applications define those from 128 on.

    Raises:
        TypeError: `data` is not bytes-like, or `subtype` not an int.
        ValueError: `subtype` is out of range.

    Example:
        >>> Binary(b"abc", USER_DEFINED_SUBTYPE)
        Binary(b'abc', 128)
    """

    _type_marker = 5
    __subtype: int

    def __new__(
        cls,
        data: memoryview | bytes | bytearray | _mmap | _array[Any],
        subtype: int = BINARY_SUBTYPE,
    ) -> Self:
        if not isinstance(subtype, int):
            raise TypeError(f'expected int for "subtype", got {type(subtype).__name__}')
        if not 0 <= subtype <= 255:
            raise ValueError(f'expected "subtype" in [0, 256), got {subtype}')
        try:
            self = bytes.__new__(cls, memoryview(data).tobytes())
        except TypeError:
            raise TypeError(f'expected a bytes-like object for "data", got {type(data).__name__}') from None
        self.__subtype = subtype
        return self

    @classmethod
    def from_uuid(
        cls: type[Binary], uuid: UUID, uuid_representation: int = UuidRepresentation.STANDARD
    ) -> Binary:
        """Return a UUID as Binary.

        Args:
            uuid: a `uuid.UUID`.
            uuid_representation: one of UuidRepresentation, but not UNSPECIFIED.

        Raises:
            TypeError: `uuid` is not a `uuid.UUID`.
            ValueError: `uuid_representation` is UNSPECIFIED or unknown.

        Example:
            >>> Binary.from_uuid(uuid.UUID(int=1)).subtype
            4
        """
        from uuid import UUID

        if not isinstance(uuid, UUID):
            raise TypeError(f'expected uuid.UUID for "uuid", got {type(uuid).__name__}')
        _check_representation(uuid_representation)
        if uuid_representation == UuidRepresentation.UNSPECIFIED:
            raise ValueError(
                "cannot encode native uuid.UUID with UuidRepresentation.UNSPECIFIED: convert it with "
                "Binary.from_uuid(), or choose another representation, "
                "for example CodecOptions(uuid_representation=UuidRepresentation.STANDARD)"
            )
        if uuid_representation == UuidRepresentation.STANDARD:
            return cls(uuid.bytes, UUID_SUBTYPE)
        if uuid_representation == UuidRepresentation.JAVA_LEGACY:
            return cls(_swap_halves(uuid.bytes), OLD_UUID_SUBTYPE)
        if uuid_representation == UuidRepresentation.CSHARP_LEGACY:
            return cls(uuid.bytes_le, OLD_UUID_SUBTYPE)
        return cls(uuid.bytes, OLD_UUID_SUBTYPE)

    def as_uuid(self, uuid_representation: int = UuidRepresentation.STANDARD) -> UUID:
        """Return the UUID stored here.

        Args:
            uuid_representation: the representation that it was stored with; one of UuidRepresentation, but not
                UNSPECIFIED.

        Raises:
            ValueError: subtype or length do not fit a UUID of that representation, or the
                representation is UNSPECIFIED or unknown.

        Example:
            >>> Binary.from_uuid(uuid.UUID(int=1)).as_uuid()
            UUID('00000000-0000-0000-0000-000000000001')
        """
        if self.__subtype not in ALL_UUID_SUBTYPES:
            raise ValueError(f"expected subtype 3 or 4 for a uuid, got {self.__subtype}")
        _check_representation(uuid_representation)
        if uuid_representation == UuidRepresentation.UNSPECIFIED:
            raise ValueError("cannot read a uuid with UuidRepresentation.UNSPECIFIED: choose another one")
        if len(self) != 16:
            raise ValueError(f"expected 16 bytes for a uuid, got {len(self)}")
        standard = uuid_representation == UuidRepresentation.STANDARD
        if standard != (self.__subtype == UUID_SUBTYPE):
            name = UUID_REPRESENTATION_NAMES[uuid_representation]
            raise ValueError(f"cannot decode subtype {self.__subtype} to {name}")
        from uuid import UUID

        if uuid_representation == UuidRepresentation.JAVA_LEGACY:
            return UUID(bytes=_swap_halves(self))
        if uuid_representation == UuidRepresentation.CSHARP_LEGACY:
            return UUID(bytes_le=bytes(self))
        return UUID(bytes=bytes(self))

    @classmethod
    def from_vector(
        cls: type[Binary],
        vector: BinaryVector | list[int] | list[float] | npt.NDArray[np.number],
        dtype: BinaryVectorDtype | None = None,
        padding: int | None = None,
    ) -> Binary:
        """Return numbers as a vector, subtype 9.

        Args:
            vector: the numbers; a BinaryVector also supplies `dtype` and `padding`.
            dtype: type of the elements. Required, except with a BinaryVector.
            padding: for PACKED_BIT: how many low bits of the last byte to ignore, 0 to 7. They must be zero.

        Raises:
            TypeError: `vector` has another type, or `dtype` is missing.
            ValueError: `padding` does not fit the data, or `dtype` or `padding` is given with a BinaryVector.
            struct.error: a number does not fit the type.
            OverflowError: a number is too large for FLOAT32.

        Example:
            >>> Binary.from_vector([1, -2], BinaryVectorDtype.INT8)
            Binary(b'\\x03\\x00\\x01\\xfe', 9)
        """
        from mangonel.bson import _vector

        return cls(_vector.pack(vector, dtype, padding), VECTOR_SUBTYPE)

    def as_vector(self, return_numpy: bool = False) -> BinaryVector:
        """Return the vector stored here.

        Args:
            return_numpy: True: `data` is a read-only numpy array over these bytes. False: `data` is a list.

        Raises:
            ValueError: the subtype is not 9, or the bytes are not a valid vector.
            struct.error: there are fewer than two bytes.
            ImportError: numpy is not installed.

        Example:
            >>> Binary.from_vector([1, 2], bson.binary.BinaryVectorDtype.INT8).as_vector().data
            [1, 2]
        """
        if self.__subtype != VECTOR_SUBTYPE:
            raise ValueError(f"expected subtype {VECTOR_SUBTYPE} for a vector, got {self.__subtype}")
        from mangonel.bson import _vector

        return _vector.unpack(self, return_numpy)

    @property
    def subtype(self) -> int:
        """The subtype, 0 to 255."""
        return self.__subtype

    def __getnewargs__(self) -> tuple[bytes, int]:  # type: ignore[override]
        return bytes(self), self.__subtype

    def __eq__(self, other: object) -> bool:
        # Never equal to plain bytes, which are stored with another subtype or not at all.
        return (
            isinstance(other, Binary)
            and self.__subtype == other.__subtype
            and bytes.__eq__(self, other) is True
        )

    def __hash__(self) -> int:
        return super().__hash__() ^ hash(self.__subtype)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        if self.__subtype == SENSITIVE_SUBTYPE:
            return f"<Binary(REDACTED, {self.__subtype})>"
        return f"Binary({bytes.__repr__(self)}, {self.__subtype})"

    __get_pydantic_core_schema__ = classmethod(schema_of)


def _check_representation(uuid_representation: int) -> None:
    if uuid_representation not in ALL_UUID_REPRESENTATIONS:
        raise ValueError(
            f'expected a value of UuidRepresentation for "uuid_representation", got {uuid_representation!r}'
        )
