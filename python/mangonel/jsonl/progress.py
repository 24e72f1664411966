"""A progress line on standard error: share, rate and time left."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_BAR = 24
_INTERVAL = 0.2


class Progress:
    """Drawn five times a second if standard error is a terminal.

    Args:
        name: the collection or file in transfer.
        total: the final count; 0: unknown.
        unit: the unit of the count: bytes or documents.
    """

    def __init__(self, name: str, total: int, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._begun = time.monotonic()
        self._shown = 0.0
        self._first: int | None = None
        self._state = (0, 0)
        self._is_on = sys.stderr.isatty()

    def __call__(self, size: int, count: int) -> None:
        """Show the bytes and documents done so far."""
        self._state = (size, count)
        if self._first is None:
            self._first = self._counted
        now = time.monotonic()
        if self._is_on and now - self._shown > _INTERVAL:
            self._shown = now
            print(f"\r{self.line(now)}\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def _counted(self) -> int:
        return self._state[0] if self._unit == "bytes" else self._state[1]

    def line(self, now: float) -> str:
        """Return the current line."""
        size, count = self._state
        passed = max(now - self._begun, 0.001)
        text = f"{count} documents, {size / 1e6:.1f} MB, {size / 1e6 / passed:.1f} MB/s"
        done = self._counted
        if not self._total:
            return f"{self._name}: {text}"
        share = min(1.0, done / self._total)
        full = int(_BAR * share)
        # The share that an earlier run did says nothing about this run's rate.
        rate = (done - (self._first or 0)) / passed
        left = f", {_clock((self._total - done) / rate)} left" if rate > 0 and share < 1 else ""
        return f"{self._name} [{'#' * full}{'.' * (_BAR - full)}] {100 * share:3.0f} % {text}{left}"

    def end(self) -> None:
        """Leave the final state on its own line."""
        if self._is_on:
            print(f"\r{self.line(time.monotonic())}\x1b[K", file=sys.stderr)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
