"""The enumerations of the package, in their own module so that only their users import `enum`."""

from __future__ import annotations

from enum import Enum


class DatetimeConversion(int, Enum):
    """The Python type of decoded dates. Python's datetime covers the years 1 to 9999, BSON far more."""

    DATETIME = 1
    """datetime; a date out of its range raises InvalidBSON."""
    DATETIME_CLAMP = 2
    """datetime; a date out of its range becomes the nearest one in range."""
    DATETIME_MS = 3
    """DatetimeMS, always."""
    DATETIME_AUTO = 4
    """datetime where it fits, otherwise DatetimeMS."""


class BinaryVectorDtype(Enum):
    """The type of a vector's elements; the value is its code in BSON."""

    INT8 = b"\x03"
    """Signed, 8 bits."""
    FLOAT32 = b"\x27"
    """IEEE 754, 32 bits."""
    PACKED_BIT = b"\x10"
    """Eight one-bit elements in each byte; passed and returned as bytes, 0 to 255."""


# Programs, and pickles, know the classes under these modules.
DatetimeConversion.__module__ = "mangonel.bson.codec_options"
BinaryVectorDtype.__module__ = "mangonel.bson.binary"
