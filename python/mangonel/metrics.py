"""The counts of a client, as `client.metrics()` returns them: a copy that does not change.

While the client lives, counts only grow, except those "at this moment". A forked child starts from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mangonel import _core
    from mangonel.typings import _Address

__all__ = ["ClientMetrics", "Histogram", "OperationMetrics", "PoolMetrics"]

# The upper bounds of the core's buckets, in nanoseconds.
_BOUNDS = tuple(bound / 1e9 for bound in (
    100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000,
    250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000,
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations in seconds, counted by their size.

    Args:
        counts: the number of durations in each bucket; there is one bucket more than bounds.
        sums: the sum of durations in each bucket, in seconds.
        bounds: the inclusive upper bound of each bucket except the last, in seconds.

    Example:
        >>> client.metrics().selection_time.count
        12
    """

    counts: tuple[int, ...]
    sums: tuple[float, ...]
    bounds: tuple[float, ...] = _BOUNDS

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    @property
    def sum(self) -> float:
        """The sum of durations in seconds."""
        return sum(self.sums)

    def quantile(self, fraction: float) -> float:
        """Return a quantile in seconds, rounded up to the upper bound of its bucket.

        Args:
            fraction: the fraction of durations at or below the result, from 0 to 1; 0.5 for the median.

        Returns:
            0.0 if nothing was counted; `inf` if the quantile is above the largest bound.

        Raises:
            ValueError: `fraction` is not between 0 and 1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"expected a fraction between 0 and 1, got {fraction!r}")
        wanted, seen = fraction * self.count, 0
        if not self.count:
            return 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen >= wanted and seen:
                return bound
        return float("inf")


@dataclass(frozen=True, slots=True)
class OperationMetrics:
    """Operations with one name, namespace and outcome.

    Args:
        name: the name of their command, such as `"find"`.
        database: their database.
        collection: their collection; None for commands without one.
        error: the name of the error that ended them; None if they succeeded. `"WriteError"`: the server did some of
            the writes, or none.
        code: the server's code for that error, or None.
        duration: how long they took, including all attempts. Each later batch of a cursor is a separate operation.
    """

    name: str
    database: str
    collection: str | None
    error: str | None
    code: int | None
    duration: Histogram


@dataclass(frozen=True, slots=True)
class PoolMetrics:
    """The connections to one server, of all faces and event loops, without those of the monitors.

    Args:
        address: host and port of the server; `("_other", 0)`: beyond 200, the servers that left the deployment.
        idle: connections that are idle, at this moment.
        in_use: connections in use, at this moment.
        pending: connections being opened, at this moment.
        waiting: operations that wait for a connection, at this moment.
        created: attempts to open a connection.
        closed: connections closed, by reason: `"stale"`, `"idle"`, `"error"`, `"poolClosed"`.
        check_outs_failed: failed check-outs, by reason: `"timeout"`, `"poolClosed"`, `"connectionError"`.
        wait_time: from the start of a check-out to its end.
        create_time: from the creation of a connection to the end of its handshake.
    """

    address: _Address
    idle: int
    in_use: int
    pending: int
    waiting: int
    created: int
    closed: dict[str, int]
    check_outs_failed: dict[str, int]
    wait_time: Histogram
    create_time: Histogram


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """The counts of one client.

    Args:
        operations: its operations, by name, namespace and outcome. Beyond 2000 kinds the rest is counted together, as
            `"_OTHER"`.
        pools: its connections, by server; also of servers that have left the deployment.
        selection_time: from the start of server selection to its result, for each attempt of an operation.
        selection_timeouts: operations that found no server in time.
        retries: commands that were retried.
        bytes_sent, bytes_received: the bytes of completely sent and received messages on the wire, before TLS.
            Includes handshakes, but not monitors.
        open_cursors: cursors that servers have open for this client, at this moment, as far as it knows.
        topology_changes: how often the known state of the deployment has changed.

    Example:
        >>> metrics = client.metrics()
        >>> sum(operation.duration.count for operation in metrics.operations if operation.name == "find")
        3
    """

    operations: tuple[OperationMetrics, ...]
    pools: tuple[PoolMetrics, ...]
    selection_time: Histogram
    selection_timeouts: int
    retries: int
    bytes_sent: int
    bytes_received: int
    open_cursors: int
    topology_changes: int


def snapshot(core: _core.Core) -> ClientMetrics | None:
    """Return a client's counts; None if it does not count."""
    copied = core.metrics()
    if copied is None:
        return None
    operations, pools, selections, (timeouts, retries, sent, received, cursors, changes) = copied
    return ClientMetrics(
        operations=tuple(
            OperationMetrics(name, database, collection or None, error, code, _histogram(durations))
            for (name, database, collection, error, code), durations in operations
        ),
        pools=tuple(
            PoolMetrics(
                address,
                idle,
                in_use,
                pending,
                waiting,
                created,
                closed,
                failed,
                _histogram(waits),
                _histogram(openings),
            )
            for address, (idle, in_use, pending, waiting), created, closed, failed, (waits, openings) in pools
        ),
        selection_time=_histogram(selections),
        selection_timeouts=timeouts,
        retries=retries,
        bytes_sent=sent,
        bytes_received=received,
        open_cursors=cursors,
        topology_changes=changes,
    )


def _histogram(copied: tuple[list[int], list[int]]) -> Histogram:
    counts, nanos = copied
    return Histogram(tuple(counts), tuple(each / 1e9 for each in nanos))
