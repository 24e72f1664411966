"""Latencies as HdrHistograms, and calls at a constant rate whose latency counts from their due times.

A generator that waits for a slow response before the next request omits the requests that would have waited. Here
latency counts from the due time, so nothing is omitted. Knows no driver and no server.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

LOWEST_NS = 100
HIGHEST_NS = 120_000_000_000
DIGITS = 3
PERCENTILES = (50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0)
# Sleeping wakes late: by about 60 us in a thread, and by a whole millisecond on epoll's clock. The rest is spun.
THREAD_SPIN_S = 0.0003
LOOP_SPIN_S = 0.002


class Latencies:
    """Durations in ns, from 100 ns to two minutes with three digits; longer ones count as two minutes."""

    def __init__(self, encoded: Iterable[str] = ()) -> None:
        """Start empty, or with the contents of other histograms, as encoded by `encode`."""
        from hdrh.histogram import HdrHistogram

        self._kept: Any = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
        for text in encoded:
            self._kept.add(HdrHistogram.decode(text))

    def __len__(self) -> int:
        return int(self._kept.total_count)

    def record(self, ns: int) -> None:
        self._kept.record_value(min(max(ns, 0), HIGHEST_NS))

    def at(self, percentile: float) -> float:
        """Return the duration in µs that this percentage does not exceed; 0 without any."""
        return float(self._kept.get_value_at_percentile(percentile)) / 1000 if len(self) else 0.0

    def encode(self) -> str:
        """Return the histogram in HdrHistogram's V2 format, base64, which every implementation reads."""
        return bytes(self._kept.encode()).decode()


@dataclass
class Paced:
    """The results of calls at a constant rate."""

    rate: float
    # From a call's due time to its result, as a user experiences it.
    response: Latencies = field(default_factory=Latencies)
    # From a call's start to its result, as a closed loop reports it.
    service: Latencies = field(default_factory=Latencies)
    # The generator's own lateness while nothing delayed it; not the contender's fault.
    lag: Latencies = field(default_factory=Latencies)
    backlog_s: float = 0.0  # seconds from the last call's due time to the last answer

    def histograms(self) -> dict[str, str]:
        """Return the histograms for the result file."""
        return {
            "response": self.response.encode(),
            "service": self.service.encode(),
            "lag": self.lag.encode(),
        }

    def extras(self) -> dict[str, float]:
        """Return the figures for tables, in µs."""
        names = {f"p{p:g}": self.response.at(p) for p in PERCENTILES[:-1]}
        return {
            **names,
            "max": self.response.at(100),
            "lag_p99": self.lag.at(99),
            "saturated": float(self.backlog_s > 1.0),
            "rate": self.rate,
        }


def in_threads(play: Callable[[int], Any], count: int) -> None:
    """Run `play` in `count` threads, each with its number; in this thread if one suffices. Raises the first error."""
    if count == 1:
        play(0)
        return
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            play(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def at_rate(call: Callable[[Any], Any], arguments: Sequence[Any], rate: float, in_flight: int = 1) -> Paced:
    """Call once for each argument, `rate` times a second, from `in_flight` threads."""
    paced = Paced(rate)
    period = 1e9 / rate
    turns = itertools.count()
    start = time.perf_counter_ns() + 5_000_000
    kept: list[list[tuple[int, int, int]]] = []

    def play(number: int) -> None:
        mine: list[tuple[int, int, int]] = []
        kept.append(mine)
        clock, spin = time.perf_counter_ns, int(THREAD_SPIN_S * 1e9)
        while (turn := next(turns)) < len(arguments):
            due = start + int(turn * period)
            free = clock()
            if due - free > spin:
                time.sleep((due - free - spin) / 1e9)
            while (begun := clock()) < due:
                pass
            call(arguments[turn])
            # Lateness caused by a slow earlier call is the contender's, not the generator's.
            mine.append((clock() - due, begun - due if free <= due else -1, clock() - begun))

    in_threads(play, in_flight)
    return _sum_up(paced, [entry for mine in kept for entry in mine], start, period, len(arguments))


async def at_rate_async(
    call: Callable[[Any], Awaitable[Any]], arguments: Sequence[Any], rate: float
) -> Paced:
    """Start a task for each argument, `rate` a second, regardless of unfinished ones."""
    paced = Paced(rate)
    period = 1e9 / rate
    clock = time.perf_counter_ns
    start = clock() + 5_000_000
    spin = int(LOOP_SPIN_S * 1e9)
    kept: list[tuple[int, int, int]] = []

    async def play(argument: Any, due: int) -> None:
        begun = clock()
        await call(argument)
        kept.append((clock() - due, begun - due, clock() - begun))

    async with asyncio.TaskGroup() as group:
        for turn, argument in enumerate(arguments):
            due = start + int(turn * period)
            if (left := due - clock()) > spin:
                await asyncio.sleep((left - spin) / 1e9)
            while clock() < due:
                await asyncio.sleep(0)
            group.create_task(play(argument, due))
            await asyncio.sleep(0)
    return _sum_up(paced, kept, start, period, len(arguments))


def _sum_up(paced: Paced, kept: list[tuple[int, int, int]], start: int, period: float, count: int) -> Paced:
    for response, lag, service in kept:
        paced.response.record(response)
        paced.service.record(service)
        if lag >= 0:
            paced.lag.record(lag)
    paced.backlog_s = max(0.0, (time.perf_counter_ns() - start - (count - 1) * period) / 1e9)
    return paced
