"""The last events in order, each with its position. Knows neither browsers nor MongoDB.

A position is a pair: the cluster time of a change, and its resume token, which orders the changes of one cluster time
(a transaction has many). All positions of a deployment are comparable, whichever process saw the change. So a browser
that reconnects to another process sends its last position.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class Position(NamedTuple):
    """The position of an event in its deployment.

    Attributes:
        seconds, increment: the cluster time.
        token: the text of the resume token; "" sorts before every event of the cluster time, `LAST` after all of them.
    """

    seconds: int
    increment: int
    token: str

    def __str__(self) -> str:
        return f"{self.seconds}.{self.increment}.{self.token}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Return the position that a browser sent back.

        Raises:
            ValueError: the text is not a position.
        """
        seconds, increment, token = text.split(".")
        if not token.isalnum() and token not in ("", LAST):
            raise ValueError(f"expected a resume token of letters and digits, got {token!r}")
        return cls(int(seconds), int(increment), token)


# Sorts after every token, since tokens consist of hexadecimal digits.
LAST = "~"


class Ring:
    """A bounded list of events, numbered from 0 at the start of the process.

    Invariant: every event after `start` up to `end` is here, once, in order.

    Args:
        size: how many events to keep; temporarily up to a quarter more.
        start: the position after which events will be added.
    """

    def __init__(self, size: int, start: Position) -> None:
        self._size = size
        self._events: list[bytes] = []
        self._positions: list[Position] = []
        self.start = start
        self.first = 0

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self.first + len(self._events)

    @property
    def end(self) -> Position:
        """The position of the last event."""
        return self._positions[-1] if self._positions else self.start

    def add(self, position: Position, event: bytes) -> None:
        """Add an event. The oldest are removed in slices, since cutting the head of a list is expensive."""
        self._positions.append(position)
        self._events.append(event)
        surplus = len(self._events) - self._size
        if surplus > self._size // 4:
            self.start = self._positions[surplus - 1]
            del self._events[:surplus], self._positions[:surplus]
            self.first += surplus

    def number_behind(self, position: Position) -> int | None:
        """Return the number of the first event after a position, or None if some of those were dropped."""
        if position < self.start:
            return None
        return self.first + bisect_right(self._positions, position)

    def events(self, number: int, limit: int) -> tuple[list[bytes], Position]:
        """Return up to `limit` events from a number on, and the position of the last one."""
        index = number - self.first
        found = self._events[index : index + limit]
        stop = index + len(found)
        return found, self._positions[stop - 1] if stop else self.start
