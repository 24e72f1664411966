"""What the driver's listeners see, kept as counters and histograms that cost little and take no memory over time."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel import monitoring

if TYPE_CHECKING:
    from mangonel.websessions.events import Event

__all__ = ["Commands", "Events", "Histogram", "Pools", "Requests"]

STEPS = 8
"""Buckets for each doubling: a quantile is at most nine percent too high."""
BUCKETS = 30 * STEPS


class Histogram:
    """Durations in buckets that double; from a microsecond to a quarter of an hour."""

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
        """Return the duration in microseconds that this share of all did not exceed; 0 when there are none."""
        left = share * self.count
        for bucket, count in enumerate(self._counts):
            left -= count
            if count and left <= 0:
                return float(2 ** (bucket / STEPS))
        return 0.0

    def summary(self) -> dict[str, float]:
        """Return count, median and 99th percentile; durations in milliseconds."""
        return {
            "count": self.count,
            "median_ms": round(self.quantile(0.5) / 1000, 3),
            "p99_ms": round(self.quantile(0.99) / 1000, 3),
        }


class Commands(monitoring.CommandListener):
    """Commands by name: how many, how long, how many failed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[str, Histogram] = {}
        self._failures: Counter[str] = Counter()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Take no notice: the end of a command tells everything."""

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Count it."""
        self._count(event.command_name, event.duration_micros)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Count it, and that it failed."""
        with self._lock:
            self._failures[event.command_name] += 1
        self._count(event.command_name, event.duration_micros)

    def _count(self, name: str, micros: int) -> None:
        # Tasks, and the threads that hash passwords or watch servers, may all be in here.
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
    """Connections by server: open, in use, and what check-outs waited."""

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
        """Name the pool, though it is empty."""
        self._add(self._open, event, 0)

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Take no notice."""

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Count it: the server was lost."""
        self._add(self._cleared, event, 1)

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Take no notice: its connections are told one by one."""

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        """Count it."""
        self._add(self._open, event, 1)

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Take no notice."""

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        """Count it out."""
        self._add(self._open, event, -1)

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Take no notice: the end of a check-out tells everything."""

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Count it."""
        self._add(self._failed, event, 1)

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Count it, and how long it took."""
        self._add(self._used, event, 1)
        with self._lock:
            self._waits.add((event.duration or 0.0) * 1e6)

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        """Count it back."""
        self._add(self._used, event, -1)

    def summary(self) -> dict[str, Any]:
        """Return a row for each server, and the waits of all."""
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
    """HTTP requests: how long, and how many of each kind of status. For `Application(log_function=…)`."""

    def __init__(self) -> None:
        self._durations = Histogram()
        self._statuses: Counter[str] = Counter()

    def __call__(self, handler: Any) -> None:
        """Count a request that was answered. A WebSocket's lasts as long as its page, and says nothing."""
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
    """Events of websessions by kind. For `WebSessions(events=…)`."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Count an event."""
        self._kinds[event.kind] += 1

    def summary(self) -> Mapping[str, int]:
        """Return the counts, the most frequent first."""
        return dict(self._kinds.most_common())
