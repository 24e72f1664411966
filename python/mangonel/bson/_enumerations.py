"""The enumerations of the package, by themselves: `enum` is imported by those who use one."""

from __future__ import annotations

from enum import Enum


class DatetimeConversion(int, Enum):
    """What BSON dates become. Python's datetime covers the years 1 to 9999, BSON far more."""

    DATETIME = 1
    """datetime; a date out of range raises InvalidBSON."""
    DATETIME_CLAMP = 2
    """datetime; a date out of range becomes the nearest one that fits."""
    DATETIME_MS = 3
    """DatetimeMS, always."""
    DATETIME_AUTO = 4
    """datetime where it fits, DatetimeMS where not."""


class BinaryVectorDtype(Enum):
    """The type of a vector's elements; the value is the byte that stands for it."""

    INT8 = b"\x03"
    """Signed, 8 bits."""
    FLOAT32 = b"\x27"
    """IEEE 754, 32 bits."""
    PACKED_BIT = b"\x10"
    """Eight elements of one bit in each byte; given and read as bytes, 0 to 255."""


# Where programs, pickles among them, know them from.
DatetimeConversion.__module__ = "mangonel.bson.codec_options"
BinaryVectorDtype.__module__ = "mangonel.bson.binary"
