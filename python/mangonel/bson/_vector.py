"""Vectors: conversion to and from the bytes of a Binary of subtype 9. Spec: bson-binary-vector.

The layout: one byte of type, one byte of padding, the elements in little-endian order.
"""

from __future__ import annotations

import struct

from mangonel.bson._enumerations import BinaryVectorDtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

# struct's letter, bytes per element, numpy's name, range of the integer types
_LAYOUT: dict[BinaryVectorDtype, tuple[str, int, str, tuple[int, int] | None]] = {
    BinaryVectorDtype.INT8: ("b", 1, "<i1", (-128, 127)),
    BinaryVectorDtype.FLOAT32: ("f", 4, "<f4", None),
    BinaryVectorDtype.PACKED_BIT: ("B", 1, "<u1", (0, 255)),
}


class BinaryVector:
    """Numbers of one type, ready for `Binary.from_vector`.

    Args:
        data: the numbers, or a numpy array of one dimension.
        dtype: their type, one of BinaryVectorDtype.
        padding: for PACKED_BIT: how many low bits of the last byte to ignore, 0 to 7.

    The arguments are checked only when the vector is stored.
    """

    __slots__ = ("data", "dtype", "padding")

    data: Sequence[float | int] | npt.NDArray[np.number]
    dtype: BinaryVectorDtype
    padding: int

    def __init__(
        self,
        data: Sequence[float | int] | npt.NDArray[np.number],
        dtype: BinaryVectorDtype,
        padding: int = 0,
    ):
        self.data = data
        self.dtype = dtype
        self.padding = padding

    # The form that object's own __setstate__ rules expect; protocols 0 and 1 need it in full.
    def __getstate__(self) -> Any:
        return (None, {"data": self.data, "dtype": self.dtype, "padding": self.padding})

    def __repr__(self) -> str:
        return f"BinaryVector(dtype={self.dtype}, padding={self.padding}, data={self.data})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryVector):
            return False
        # Comparing two numpy arrays gives an array, as in PyMongo.
        return self.dtype == other.dtype and self.padding == other.padding and self.data == other.data

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.data)


# Programs, and pickles, know the class under this module.
BinaryVector.__module__ = "mangonel.bson.binary"


def pack(vector: Any, dtype: BinaryVectorDtype | None, padding: int | None) -> bytes:
    """Return the bytes of a vector; see `Binary.from_vector`."""
    if isinstance(vector, BinaryVector):
        if dtype or padding:
            raise ValueError("a BinaryVector has its own dtype and padding: give neither beside it")
        vector, dtype, padding = vector.data, vector.dtype, vector.padding
    padding = 0 if padding is None else padding
    if not isinstance(dtype, BinaryVectorDtype):
        raise TypeError(f'expected BinaryVectorDtype.INT8, FLOAT32 or PACKED_BIT for "dtype", got {dtype!r}')
    # The spec counts a vector from its own data, so all checks of padding use the packed bytes.
    data = _pack_list(vector, dtype) if isinstance(vector, list) else _pack_array(vector, dtype)
    if not isinstance(padding, int):
        raise struct.error(f'expected int for "padding", got {type(padding).__name__}')
    _check_padding(dtype, padding, data, ValueError)
    if padding and data[-1] & ((1 << padding) - 1):
        raise ValueError(f"the low {padding} bits of the last byte are padding: they must be zero")
    return dtype.value + bytes((padding,)) + data


def _check_padding(dtype: BinaryVectorDtype, padding: int, data: bytes, error: type[Exception]) -> None:
    if dtype is not BinaryVectorDtype.PACKED_BIT:
        if padding:
            raise error(f"expected padding 0 for {dtype}, got {padding}: only PACKED_BIT has padding")
    elif not 0 <= padding <= 7:
        raise error(f'expected "padding" in [0, 7], got {padding}')
    elif padding and not data:
        raise error(f"expected padding 0 for an empty vector, got {padding}")


def _pack_list(vector: list[Any], dtype: BinaryVectorDtype) -> bytes:
    letter, _, _, limits = _LAYOUT[dtype]
    try:
        return struct.pack(f"<{len(vector)}{letter}", *vector)
    except struct.error as error:
        expected = "numbers" if limits is None else f"ints in [{limits[0]}, {limits[1]}]"
        raise struct.error(f"expected {expected} for a vector of {dtype}: {error}") from None


def _pack_array(vector: Any, dtype: BinaryVectorDtype) -> bytes:
    # If numpy is not loaded, the value cannot be a numpy array.
    import sys

    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(vector, numpy.ndarray):
        raise TypeError(
            f'expected BinaryVector, list or numpy.ndarray for "vector", got {type(vector).__name__}'
        )
    if vector.ndim != 1:
        raise ValueError(f"expected an array of one dimension, got {vector.ndim}")
    _, _, name, limits = _LAYOUT[dtype]
    if limits is not None and vector.size:
        if vector.dtype.kind not in "iub" and not numpy.array_equal(vector, numpy.trunc(vector)):
            raise ValueError(f"expected whole numbers for a vector of {dtype}, got {vector.dtype}")
        if not (limits[0] <= vector.min() and vector.max() <= limits[1]):
            raise ValueError(f"expected numbers in [{limits[0]}, {limits[1]}] for a vector of {dtype}")
    return vector.astype(name).tobytes()


def unpack(binary: bytes, return_numpy: bool) -> BinaryVector:
    """Return the vector in `binary`; see `Binary.as_vector`."""
    if len(binary) < 2:
        raise struct.error(f"expected at least 2 bytes for a vector, got {len(binary)}")
    dtype = BinaryVectorDtype(binary[:1])
    padding = binary[1]
    letter, width, name, _ = _LAYOUT[dtype]
    count, rest = divmod(len(binary) - 2, width)
    if rest:
        raise ValueError(
            f"expected a multiple of {width} bytes after the header of a vector, got {rest} more"
        )
    _check_padding(dtype, padding, binary[2:], ValueError)
    if padding and binary[-1] & ((1 << padding) - 1):
        import warnings

        # Older drivers stored such vectors; refusing them would make the data unreadable.
        warnings.warn(
            f"the low {padding} bits of the last byte are padding but not zero",
            DeprecationWarning,
            stacklevel=3,
        )
    data: Any
    if return_numpy:
        try:
            import numpy
        except ImportError as error:
            raise ImportError("as_vector(return_numpy=True) needs numpy: install it") from error
        data = numpy.frombuffer(binary, dtype=name, offset=2)
    else:
        data = list(struct.unpack_from(f"<{count}{letter}", binary, 2))
    return BinaryVector(data, dtype, padding)
