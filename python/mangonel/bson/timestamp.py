"""MongoDB's internal timestamp: seconds and a counter. Spec: bson, type 0x11.

Not for dates: use datetime. The codec sets the two slots directly, so they are part of its contract.
"""

from __future__ import annotations

import datetime

from mangonel.bson import schema_of
from mangonel.bson.tz_util import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UPPERBOUND: int = 4_294_967_296


def _check_range(name: str, value: object) -> None:
    if not isinstance(value, int):
        raise TypeError(f'expected int for "{name}", got {type(value).__name__}')
    if not 0 <= value < UPPERBOUND:
        raise ValueError(f'expected "{name}" in [0, 2**32), got {value}')


class Timestamp:
    """A point in a deployment's history, as the oplog records it.

    Args:
        time: seconds since 1970-01-01 UTC, in [0, 2**32), or a datetime (a naive one is taken as UTC).
        inc: position among the operations of that second, in [0, 2**32).

    Raises:
        TypeError: `time` or `inc` is of another type.
        ValueError: `time` or `inc` is out of range.

    Example:
        >>> Timestamp(1, 2) < Timestamp(1, 3)
        True
    """

    __slots__ = ("__inc", "__time")
    _type_marker = 17

    __time: int
    __inc: int

    def __init__(self, time: datetime.datetime | int, inc: int) -> None:
        if isinstance(time, datetime.datetime):
            offset = time.utcoffset()
            if offset is not None:
                time = time - offset
            since = time.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)
            time = since.days * 86_400 + since.seconds
        _check_range("time", time)
        _check_range("inc", inc)
        self.__time = time
        self.__inc = inc

    @property
    def time(self) -> int:
        """Seconds since 1970-01-01 UTC."""
        return self.__time

    @property
    def inc(self) -> int:
        """Position among the operations of that second."""
        return self.__inc

    def as_datetime(self) -> datetime.datetime:
        """Return `time` as an aware datetime in UTC; `inc` is ignored."""
        return datetime.datetime(1970, 1, 1, tzinfo=utc) + datetime.timedelta(seconds=self.__time)

    def __getstate__(self) -> Any:
        return {"_Timestamp__inc": self.__inc, "_Timestamp__time": self.__time}

    def __setstate__(self, state: Any) -> None:
        self.__inc = state["_Timestamp__inc"]
        self.__time = state["_Timestamp__time"]

    def _pair(self) -> tuple[int, int]:
        return self.__time, self.__inc

    def __eq__(self, other: object) -> bool:
        return self._pair() == other._pair() if isinstance(other, Timestamp) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__time) ^ hash(self.__inc)

    def __lt__(self, other: Any) -> bool:
        return self._pair() < other._pair() if isinstance(other, Timestamp) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self._pair() <= other._pair() if isinstance(other, Timestamp) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self._pair() > other._pair() if isinstance(other, Timestamp) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self._pair() >= other._pair() if isinstance(other, Timestamp) else NotImplemented

    def __repr__(self) -> str:
        return f"Timestamp({self.__time}, {self.__inc})"

    __get_pydantic_core_schema__ = classmethod(schema_of)
