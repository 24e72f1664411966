"""Time zones with a fixed offset, and UTC. Must not know: the codec."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

ZERO: timedelta = timedelta(0)


class FixedOffset(tzinfo):
    """A time zone with a constant offset from UTC.

    Args:
        offset: minutes east of UTC, or a timedelta.
        name: the result of `tzname`.

    Example:
        >>> FixedOffset(60, "CET")
        FixedOffset(datetime.timedelta(seconds=3600), 'CET')
    """

    def __init__(self, offset: float | timedelta, name: str) -> None:
        if not isinstance(offset, timedelta):
            offset = timedelta(minutes=offset)
        self.__offset = offset
        self.__name = name

    def __getinitargs__(self) -> tuple[timedelta, str]:
        return self.__offset, self.__name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__offset!r}, {self.__name!r})"

    def utcoffset(self, dt: datetime | None) -> timedelta:
        """Return the offset from UTC, the same for every `dt`."""
        return self.__offset

    def tzname(self, dt: datetime | None) -> str:
        """Return the name passed to the constructor."""
        return self.__name

    def dst(self, dt: datetime | None) -> timedelta:
        """Return zero: a fixed offset has no daylight saving time."""
        return ZERO


utc: FixedOffset = FixedOffset(0, "UTC")
"""The time zone that aware datetimes are decoded into by default."""
