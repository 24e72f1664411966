"""BSON dates: milliseconds since 1970 in 64 bits, and the conversion to and from datetime.

Spec: bson, type 0x09.
"""

from __future__ import annotations

import datetime

from mangonel.bson import schema_of
from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, DatetimeConversion
from mangonel.bson.errors import InvalidBSON
from mangonel.bson.tz_util import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EPOCH_AWARE = datetime.datetime(1970, 1, 1, tzinfo=utc)
EPOCH_NAIVE = datetime.datetime(1970, 1, 1)

# Looking up an enum's member is slow.
_DATETIME, _DATETIME_CLAMP, _DATETIME_MS, _DATETIME_AUTO = DatetimeConversion

# The range of datetime in UTC: the years 1 to 9999.
_MIN_UTC_MS = -62_135_596_800_000
_MAX_UTC_MS = 253_402_300_799_999

_DATETIME_ERROR_SUGGESTION = (
    "use CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO) to get a DatetimeMS instead"
)


class DatetimeMS:
    """A date in milliseconds, in the full range of BSON.

    Args:
        value: milliseconds since 1970-01-01 UTC, or a datetime (a naive one is taken as UTC; microseconds are
            truncated).

    Raises:
        TypeError: `value` is of another type.
        OverflowError: `value` does not fit in 64 bits.

    Example:
        >>> DatetimeMS(datetime.datetime(2000, 1, 1))
        DatetimeMS(946684800000)
    """

    __slots__ = ("_value",)
    _type_marker = 9

    _value: int

    def __init__(self, value: int | datetime.datetime):
        if isinstance(value, datetime.datetime):
            value = _datetime_to_millis(value)
        elif not isinstance(value, int):
            raise TypeError(f'expected int or datetime for "value", got {type(value).__name__}')
        if not -(2**63) <= value < 2**63:
            raise OverflowError(f"expected milliseconds that fit in 64 bits, got {value}")
        self._value = value

    def __getstate__(self) -> Any:
        return (None, {"_value": self._value})

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"DatetimeMS({self._value!r})"

    def __int__(self) -> int:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatetimeMS) and self._value == other._value

    def __lt__(self, other: DatetimeMS | int) -> bool:
        return self._value < other

    def __le__(self, other: DatetimeMS | int) -> bool:
        return self._value <= other

    def __gt__(self, other: DatetimeMS | int) -> bool:
        return self._value > other

    def __ge__(self, other: DatetimeMS | int) -> bool:
        return self._value >= other

    def as_datetime(self, codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS) -> datetime.datetime:
        """Return the date as a decoder with `codec_options` would.

        Args:
            codec_options: set the time zone, and the result for dates outside of datetime's range.

        Raises:
            InvalidBSON: the date is outside the years 1 to 9999 and `datetime_conversion` is DATETIME.

        Example:
            >>> DatetimeMS(0).as_datetime()
            datetime.datetime(1970, 1, 1, 0, 0)
        """
        # DATETIME_MS and DATETIME_AUTO may return a DatetimeMS; the annotation is PyMongo's.
        return _millis_to_datetime(self._value, codec_options)  # type: ignore[return-value]

    __get_pydantic_core_schema__ = classmethod(schema_of)


def _offset_ms(tz: datetime.tzinfo, moment: datetime.datetime) -> int:
    try:
        offset = tz.utcoffset(moment.replace(tzinfo=tz))
    except (OverflowError, ValueError):
        return 0
    return 0 if offset is None else offset // datetime.timedelta(milliseconds=1)


def _min_datetime_ms(tz: datetime.tzinfo = utc) -> int:
    """Return the first millisecond that datetime can hold both in UTC and in `tz`."""
    return max(_MIN_UTC_MS, _MIN_UTC_MS - _offset_ms(tz, datetime.datetime.min))


def _max_datetime_ms(tz: datetime.tzinfo = utc) -> int:
    """Return the last millisecond that datetime can hold both in UTC and in `tz`."""
    return min(_MAX_UTC_MS, _MAX_UTC_MS - _offset_ms(tz, datetime.datetime.max))


def _millis_to_datetime(millis: int, opts: CodecOptions[Any]) -> datetime.datetime | DatetimeMS:
    """Return the date `millis` in the form that `opts` asks for.

    Raises:
        InvalidBSON: `opts` asks for a datetime, and the date is out of its range.
    """
    conversion = opts.datetime_conversion
    if conversion == _DATETIME_MS:
        return DatetimeMS(millis)
    if conversion == _DATETIME_CLAMP or conversion == _DATETIME_AUTO:
        tz = opts.tzinfo or utc
        first, last = _min_datetime_ms(tz), _max_datetime_ms(tz)
        if conversion == _DATETIME_CLAMP:
            millis = max(first, min(millis, last))
        elif not first <= millis <= last:
            return DatetimeMS(millis)
    elif conversion != _DATETIME:
        raise ValueError(f'expected a DatetimeConversion for "datetime_conversion", got {conversion!r}')
    try:
        since = datetime.timedelta(milliseconds=millis)
        if not opts.tz_aware:
            return EPOCH_NAIVE + since
        moment = EPOCH_AWARE + since
        return moment.astimezone(opts.tzinfo) if opts.tzinfo else moment
    except (OverflowError, ValueError):
        raise InvalidBSON(
            f"the date {millis} (milliseconds since 1970) is outside the years 1 to 9999: "
            f"{_DATETIME_ERROR_SUGGESTION}"
        ) from None


def _datetime_to_millis(dtm: datetime.datetime) -> int:
    """Return the milliseconds from 1970 to `dtm`, rounded down; a naive datetime is taken as UTC."""
    since = dtm.replace(tzinfo=None) - EPOCH_NAIVE
    offset = dtm.utcoffset()
    if offset is not None:
        since -= offset
    return since // datetime.timedelta(milliseconds=1)
