"""What was counted in each of the last seconds, for plots that begin full. Reads counters, and no database."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["History", "Reading"]

EVERY_S = 1.0
KEPT = 120  # samples: two minutes


class Reading(NamedTuple):
    """The counters at one moment.

    Attributes:
        totals: by name, what only grows; a sample has its growth in a second.
        levels: by name, what stands at a value, or None; a sample has it as it is.
    """

    totals: dict[str, int]
    levels: dict[str, Any]


class History:
    """Samples of the last minutes, numbered from 0 since the process began.

    Args:
        read: returns the counters as they are now.
        clock: seconds, which never go back.
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
        """Take a sample: how fast the totals grew since the last one, and the levels."""
        now, reading = self._clock(), self._read()
        spent = max(now - self._at, 0.001)
        grown = {
            name: round((total - self._last.totals.get(name, 0)) / spent, 1)
            for name, total in reading.totals.items()
        }
        self._samples.append({**grown, **reading.levels})
        self._last, self._at, self.next = reading, now, self.next + 1

    def since(self, number: int) -> list[dict[str, Any]]:
        """Return the samples from a number on, as far as they are kept."""
        kept = list(self._samples)
        return kept[max(0, number - (self.next - len(kept))) :]
