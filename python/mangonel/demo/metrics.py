"""Counters and histograms fed by the driver's listeners; they are cheap, and their memory does not grow."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel import monitoring

if TYPE_CHECKING:
    from mangonel.websessions.events import Event

STEPS = 8
"""Buckets for each doubling: a quantile is at most nine percent too high."""
BUCKETS = 30 * STEPS


class Histogram:
    """Durations in buckets of doubling size, from a microsecond to a quarter of an hour."""

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self.count = 0

    def add(self, micros: float) -> None:
        """Count a duration in microseconds."""
        bucket = math.ceil(math.log2(micros) * STEPS) if micros > 1 else 0
        self._counts[min(bucket, BUCKETS - 1)] += 1
        self.count += 1

    def quantile(self, share: float) -> float:
        """Return the duration in microseconds that this share of all durations did not exceed; 0 without any."""
        left = share * self.count
        for bucket, count in enumerate(self._counts):
            left -= count
            if count and left <= 0:
                return float(2 ** (bucket / STEPS))
        return 0.0

    def summary(self) -> dict[str, float]:
        """Return count, median and 99th percentile, in milliseconds."""
        return {
            "count": self.count,
            "median_ms": round(self.quantile(0.5) / 1000, 3),
            "p99_ms": round(self.quantile(0.99) / 1000, 3),
        }


class Commands(monitoring.CommandListener):
    """Statistics by command name: count, duration, failures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[str, Histogram] = {}
        self._failures: Counter[str] = Counter()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Ignore the event: the end of a command has all data."""

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Count a successful command."""
        self._count(event.command_name, event.duration_micros)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Count a failed command."""
        with self._lock:
            self._failures[event.command_name] += 1
        self._count(event.command_name, event.duration_micros)

    def _count(self, name: str, micros: int) -> None:
        # Tasks, hashing threads and monitoring threads may all call this at once.
        with self._lock:
            durations = self._durations.get(name)
            if durations is None:
                durations = self._durations[name] = Histogram()
            durations.add(micros)

    @property
    def count(self) -> int:
        """How many commands have ended."""
        with self._lock:
            return sum(durations.count for durations in self._durations.values())

    def summary(self) -> list[dict[str, Any]]:
        """Return a row for each command, the most frequent first."""
        with self._lock:
            return [
                {"name": name, "failed": self._failures[name], **durations.summary()}
                for name, durations in sorted(self._durations.items(), key=lambda item: -item[1].count)
            ]


class Pools(monitoring.ConnectionPoolListener):
    """Statistics by server: open and used connections, waits of check-outs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._cleared: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._waits = Histogram()

    def _add(self, counter: Counter[str], event: Any, number: int) -> None:
        host, port = event.address
        with self._lock:
            counter[f"{host}:{port}"] += number

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        """Add the server's row."""
        self._add(self._open, event, 0)

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Ignore the event."""

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Count the clearing: the server was lost."""
        self._add(self._cleared, event, 1)

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Ignore the event: each connection has its own."""

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        """Count an opened connection."""
        self._add(self._open, event, 1)

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Ignore the event."""

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        """Count a closed connection."""
        self._add(self._open, event, -1)

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Ignore the event: the end of a check-out has all data."""

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Count a failed check-out."""
        self._add(self._failed, event, 1)

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Count a check-out and its wait."""
        self._add(self._used, event, 1)
        with self._lock:
            self._waits.add((event.duration or 0.0) * 1e6)

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        """Count a check-in."""
        self._add(self._used, event, -1)

    def summary(self) -> dict[str, Any]:
        """Return a row for each server, and the waits of all check-outs."""
        with self._lock:
            servers = {
                address: {
                    "open": self._open[address],
                    "used": self._used[address],
                    "cleared": self._cleared[address],
                    "failed": self._failed[address],
                }
                for address in self._open
            }
            return {"servers": servers, "check_out": self._waits.summary()}


class Requests:
    """HTTP requests: durations, and counts by class of status. For `Application(log_function=…)`."""

    def __init__(self) -> None:
        self._durations = Histogram()
        self._statuses: Counter[str] = Counter()

    def __call__(self, handler: Any) -> None:
        """Count an answered request. WebSockets are left out: they last as long as their page."""
        if handler.get_status() == 101:
            return
        self._durations.add(handler.request.request_time() * 1e6)
        self._statuses[f"{handler.get_status() // 100}xx"] += 1

    @property
    def count(self) -> int:
        """How many requests were answered."""
        return self._durations.count

    def summary(self) -> dict[str, Any]:
        """Return the counts and durations."""
        return {**self._durations.summary(), "statuses": dict(sorted(self._statuses.items()))}


class Events:
    """Counts of websession events by kind. For `WebSessions(events=…)`."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Count an event."""
        self._kinds[event.kind] += 1

    def summary(self) -> Mapping[str, int]:
        """Return the counts, the most frequent first."""
        return dict(self._kinds.most_common())
