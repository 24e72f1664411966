"""The metrics as OpenTelemetry and Prometheus name them, made from clients' counts. Knows neither package.

Names that begin with `db.client` are OpenTelemetry's conventions for databases; the others are ours.
"""

from __future__ import annotations

import os
import weakref
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from mangonel import _core, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mangonel.metrics import ClientMetrics, Histogram

    # Names of attributes with their values, in the order of the names.
    Attributes = tuple[tuple[str, str], ...]
    Series = Iterator[tuple[Attributes, int | Histogram]]

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Instrument(NamedTuple):
    """One metric.

    Args:
        name: its name, with dots.
        kind: COUNTER (only grows), GAUGE or HISTOGRAM.
        unit: its unit, in UCUM's notation.
        description: what it counts.
        read: returns its values from one client's counts.
        labels: the names of its attributes.
    """

    name: str
    kind: str
    unit: str
    description: str
    read: Callable[[ClientMetrics], Series]
    labels: tuple[str, ...] = ()


_POOL = "db.client.connection.pool.name"
_STATE = "db.client.connection.state"
_OPERATION = (
    "db.collection.name",
    "db.namespace",
    "db.operation.name",
    "db.response.status_code",
    "db.system.name",
    "error.type",
)


def _operations(counted: ClientMetrics) -> Series:
    for each in counted.operations:
        values = (
            each.collection or "",
            each.database,
            each.name,
            "" if each.code is None else str(each.code),
            "mongodb",
            each.error or "",
        )
        yield (
            tuple((name, value) for name, value in zip(_OPERATION, values, strict=True) if value),
            each.duration,
        )


def _of_pools(
    read: Callable[[metrics.PoolMetrics], int | Histogram],
) -> Callable[[ClientMetrics], Series]:
    return lambda counted: (((_named(pool),), read(pool)) for pool in counted.pools)


def _by_reason(
    label: str, read: Callable[[metrics.PoolMetrics], dict[str, int]]
) -> Callable[[ClientMetrics], Series]:
    return lambda counted: (
        ((_named(pool), (label, reason)), count)
        for pool in counted.pools
        for reason, count in read(pool).items()
    )


def _connections(counted: ClientMetrics) -> Series:
    for pool in counted.pools:
        yield (_named(pool), (_STATE, "idle")), pool.idle
        yield (_named(pool), (_STATE, "used")), pool.in_use


def _bytes(counted: ClientMetrics) -> Series:
    yield (("network.io.direction", "transmit"),), counted.bytes_sent
    yield (("network.io.direction", "receive"),), counted.bytes_received


def _single(name: str) -> Callable[[ClientMetrics], Series]:
    return lambda counted: iter([((), getattr(counted, name))])


def _named(pool: metrics.PoolMetrics) -> tuple[str, str]:
    host, port = pool.address
    return _POOL, host if port is None else f"{host}:{port}"


_REASON = "mongodb.client.connection.reason"

INSTRUMENTS = (
    Instrument(
        "db.client.operation.duration",
        HISTOGRAM,
        "s",
        "Duration of operations with all their attempts",
        _operations,
        _OPERATION,
    ),
    Instrument(
        "db.client.connection.count",
        GAUGE,
        "{connection}",
        "Connections, by whether they are in use",
        _connections,
        (_POOL, _STATE),
    ),
    Instrument(
        "db.client.connection.pending_requests",
        GAUGE,
        "{request}",
        "Operations that wait for a connection",
        _of_pools(lambda pool: pool.waiting),
        (_POOL,),
    ),
    Instrument(
        "db.client.connection.timeouts",
        COUNTER,
        "{timeout}",
        "Operations that got no connection within waitQueueTimeoutMS",
        _of_pools(lambda pool: pool.check_outs_failed["timeout"]),
        (_POOL,),
    ),
    Instrument(
        "db.client.connection.wait_time",
        HISTOGRAM,
        "s",
        "Time from requesting a connection to receiving it",
        _of_pools(lambda pool: pool.wait_time),
        (_POOL,),
    ),
    Instrument(
        "db.client.connection.create_time",
        HISTOGRAM,
        "s",
        "Time to open a connection, its handshake included",
        _of_pools(lambda pool: pool.create_time),
        (_POOL,),
    ),
    Instrument(
        "mongodb.client.connection.opening",
        GAUGE,
        "{connection}",
        "Connections being opened",
        _of_pools(lambda pool: pool.pending),
        (_POOL,),
    ),
    Instrument(
        "mongodb.client.connection.created",
        COUNTER,
        "{connection}",
        "Attempts to open a connection",
        _of_pools(lambda pool: pool.created),
        (_POOL,),
    ),
    Instrument(
        "mongodb.client.connection.closed",
        COUNTER,
        "{connection}",
        "Connections closed, by reason",
        _by_reason(_REASON, lambda pool: pool.closed),
        (_POOL, _REASON),
    ),
    Instrument(
        "mongodb.client.connection.failures",
        COUNTER,
        "{request}",
        "Operations that got no connection, by reason",
        _by_reason(_REASON, lambda pool: pool.check_outs_failed),
        (_POOL, _REASON),
    ),
    Instrument(
        "mongodb.client.io",
        COUNTER,
        "By",
        "Messages of operations, in bytes on the wire",
        _bytes,
        ("network.io.direction",),
    ),
    Instrument("mongodb.client.retries", COUNTER, "{retry}", "Commands sent once more", _single("retries")),
    Instrument(
        "mongodb.client.server_selection.duration",
        HISTOGRAM,
        "s",
        "Time from the start of server selection to its result",
        _single("selection_time"),
    ),
    Instrument(
        "mongodb.client.server_selection.timeouts",
        COUNTER,
        "{timeout}",
        "Operations that found no server in time",
        _single("selection_timeouts"),
    ),
    Instrument(
        "mongodb.client.cursors.open",
        GAUGE,
        "{cursor}",
        "Cursors that servers have open for this program",
        _single("open_cursors"),
    ),
    Instrument(
        "mongodb.client.topology.changes",
        COUNTER,
        "{change}",
        "Changes in what is known of the deployment",
        _single("topology_changes"),
    ),
)


def core_of(client: Any, name: str = "client") -> _core.Core:
    """Return the core of `client`; `name` is the argument's name in errors.

    Raises:
        TypeError: `client` is not a client.
    """
    core = getattr(client, "_core", None)
    if not isinstance(core, _core.Core):
        raise TypeError(
            f'expected a MongoClient or an AsyncMongoClient for "{name}", got {type(client).__name__}; '
            "make one with MongoClient(uri), or take a database's .client"
        )
    return core


class Clients:
    """The clients whose counts are exported together. Counts of freed clients are kept, so no counter shrinks.

    Attributes:
        forks: how many forks lie between the first process and this one. A forked child counts from zero.
    """

    def __init__(self) -> None:
        self.forks = 0
        # The id of a core -> a weak reference to the core, and its last counts.
        self._known: dict[int, tuple[weakref.ref[_core.Core], _Totals]] = {}
        self._gone: _Totals = {}
        # A finalizer acquires it too, perhaps in the thread that holds it.
        self._lock = RLock()
        _all.add(self)

    def add(self, core: _core.Core) -> None:
        """Export this client's counts, from now on until the program ends."""
        core.count()
        _follow_forks()
        number, mine = id(core), weakref.ref(self)

        def forget(dropped: weakref.ref[_core.Core]) -> None:
            clients = mine()
            if clients is not None:
                clients._forget(number, dropped)

        with self._lock:
            earlier = self._known.get(number)
            if earlier is not None and earlier[0]() is core:
                return
            if earlier is not None:
                # The earlier core's finalizer waits for the lock.
                self._forget(number, earlier[0])
            self._known[number] = weakref.ref(core, forget), {}
        self._look_at_end_of(core)

    def _look_at_end_of(self, core: _core.Core) -> None:
        """Read a client's counts again when it is closed: it may be freed before the next collection."""
        number, known, mine = id(core), weakref.ref(core), weakref.ref(self)

        def look() -> None:
            core, clients = known(), mine()
            if core is not None and clients is not None:
                with clients._lock:
                    if (entry := clients._known.get(number)) is not None:
                        _read(core, entry[1])

        core.on_end(look)

    def _forget(self, number: int, dropped: weakref.ref[_core.Core]) -> None:
        """Keep the counts of a client that was freed."""
        with self._lock:
            known = self._known.get(number)
            if known is not None and known[0] is dropped:
                del self._known[number]
                _merge(self._gone, _growing(known[1]))

    def _start_over(self) -> None:
        """Forget the parent's counts: the parent exports them."""
        self.forks += 1
        # Another thread of the parent may have held the lock.
        self._lock = RLock()
        self._gone.clear()
        for known, last in list(self._known.values()):
            last.clear()
            core = known()
            if core is not None:
                # In a child, clients forget the functions that they call when they are closed.
                self._look_at_end_of(core)

    def totals(self) -> _Totals:
        """Return the sums over all clients, by the name of the instrument and its attributes."""
        totals: _Totals = {}
        with self._lock:
            # A copy, since a finalizer may run meanwhile; strong references, so that none of these cores is freed.
            held = [
                (core, last) for known, last in list(self._known.values()) if (core := known()) is not None
            ]
            for core, last in held:
                _read(core, last)
                _merge(totals, last)
            # Freed cores whose finalizer, in another thread, waits for the lock.
            for known, last in list(self._known.values()):
                if known() is None:
                    _merge(totals, _growing(last))
            _merge(totals, dict(self._gone))
        return totals


def _read(core: _core.Core, last: _Totals) -> None:
    """Replace a client's last counts by its present ones."""
    counted = metrics.snapshot(core)
    last.clear()
    # A client that was added always counts.
    assert counted is not None
    for instrument in INSTRUMENTS:
        found = {(instrument.name, attributes): value for attributes, value in instrument.read(counted)}
        _merge(last, found)


def _growing(totals: _Totals) -> _Totals:
    return {key: value for key, value in totals.items() if key[0] in _GROWING}


_all: weakref.WeakSet[Clients] = weakref.WeakSet()


def _start_over() -> None:
    for clients in tuple(_all):
        clients._start_over()


@cache
def _follow_forks() -> None:
    """Start over in every forked child, after its clients have: they register for forks first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_start_over)


if TYPE_CHECKING:
    _Totals = dict[tuple[str, Attributes], int | Histogram]

_GROWING = frozenset(instrument.name for instrument in INSTRUMENTS if instrument.kind != GAUGE)


def _merge(totals: _Totals, more: _Totals) -> None:
    for key, value in more.items():
        known = totals.get(key)
        totals[key] = value if known is None else _sum(known, value)


def _sum(first: int | Histogram, second: int | Histogram) -> int | Histogram:
    if isinstance(first, int) or isinstance(second, int):
        assert isinstance(first, int)
        assert isinstance(second, int)
        return first + second
    return metrics.Histogram(
        tuple(map(int.__add__, first.counts, second.counts)),
        tuple(map(float.__add__, first.sums, second.sums)),
    )
