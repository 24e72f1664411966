"""Counts of each of the last seconds, so that a new plot is full at once. Reads counters, and no database."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

EVERY_S = 1.0
KEPT = 120  # samples: two minutes


class Reading(NamedTuple):
    """The counters at one moment.

    Attributes:
        totals: counters that only grow, by name; a sample holds the growth in a second.
        levels: current values or None, by name; a sample holds them unchanged.
    """

    totals: dict[str, int]
    levels: dict[str, Any]


class History:
    """Samples of the last minutes, numbered from 0 at the start of the process.

    Args:
        read: returns the current counters.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, read: Callable[[], Reading], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._samples: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._last, self._at = read(), clock()
        self.next = 0

    async def run(self) -> None:
        """Take a sample every second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.take()

    def take(self) -> None:
        """Take a sample: the growth of the totals since the last one, and the levels."""
        now, reading = self._clock(), self._read()
        spent = max(now - self._at, 0.001)
        grown = {
            name: round((total - self._last.totals.get(name, 0)) / spent, 1)
            for name, total in reading.totals.items()
        }
        self._samples.append({**grown, **reading.levels})
        self._last, self._at, self.next = reading, now, self.next + 1

    def since(self, number: int) -> list[dict[str, Any]]:
        """Return the samples from a number on, as far as they are still kept."""
        kept = list(self._samples)
        return kept[max(0, number - (self.next - len(kept))) :]
