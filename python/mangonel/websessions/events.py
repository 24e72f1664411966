"""Events of websessions, passed to one callable; adapters for logging, Prometheus and OpenTelemetry.

An event identifies its websession only by `tag`: no token, no key, no data. Knows no store and no framework.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["KINDS", "Event", "all_of", "to_logging", "to_opentelemetry", "to_prometheus"]

KINDS = (
    "created",
    "login",
    "reauthenticated",
    "rotated",
    "renewed",
    "reused",
    "touched",
    "saved",
    "taken_over",
    "remembered",
    "new_device",
    "conflict",
    "gone",
    "expired",
    "destroyed",
    "revoked",
    "evicted",
    "rejected",
    "mismatch",
    "insecure",
    "guessing",
    "clock",
    "store_error",
)

# Kinds that deserve a look; the others are routine.
WARNINGS = frozenset({"mismatch", "reused", "guessing", "store_error", "insecure", "clock"})


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One event.

    Attributes:
        kind: one of `KINDS`.
        tag: id of the websession that is safe for logs; "" without a websession.
        at: seconds since the epoch.
        reason: the reason of `rejected` (malformed, unknown, ended, renewed, expired, corrupt, sealed, revoked,
            signal, remember), `reused` (remember: a remembered login), `store_error` (the exception's type).
        signal: the binding signal of `mismatch`.
        user: the user of login, remembered, new_device, revoked and evicted, and of `reused` by a remembered login.
        network: the visitor's network, for `guessing`.
        bytes: encoded size, for `saved` and `created`.
        seconds: duration of the store's calls, for `saved` and `created`; for `clock`, by how much at least this
            server's clock is behind another's.
        calls: number of store calls of the commit, for `saved` and `created`.
    """

    kind: str
    tag: str = ""
    at: float = 0.0
    reason: str = ""
    signal: str = ""
    user: str | None = None
    network: str = ""
    bytes: int = 0
    seconds: float = 0.0
    calls: int = 0


def to_logging(logger: logging.Logger | None = None, *, everything: bool = True) -> Callable[[Event], None]:
    """Return a callable that logs events: those to look into as warnings, the rest as info.

    Args:
        logger: None: `mangonel.websessions`.
        everything: False: warnings only.

    Example:
        >>> sessions = WebSessions("memory:", events=to_logging())
    """
    log = logger or logging.getLogger("mangonel.websessions")

    def record(event: Event) -> None:
        warns = event.kind in WARNINGS
        if not warns and not everything:
            return
        details = " ".join(
            f"{name}={value!r}"
            for name, value in msgspec.to_builtins(event).items()
            if name not in ("kind", "tag", "at")
        )
        log.log(
            logging.WARNING if warns else logging.INFO, "websession %s %s %s", event.tag, event.kind, details
        )

    return record


def to_prometheus(registry: Any = None) -> Callable[[Event], None]:
    """Return a callable that counts events by kind and reason, and measures the store's writes.

    Args:
        registry: None: the default one.

    Raises:
        ImportError: the package prometheus-client is not installed.

    Example:
        >>> sessions = WebSessions("memory:", events=to_prometheus())
    """
    from prometheus_client import REGISTRY, Counter, Histogram

    registry = registry or REGISTRY
    if not hasattr(registry, "register"):
        raise TypeError(
            f'expected a prometheus_client.CollectorRegistry for "registry", got {type(registry).__name__}'
        )
    counter = Counter(
        "mangonel_websession_events", "Events of websessions", ("kind", "reason"), registry=registry
    )
    seconds = Histogram(
        "mangonel_websession_commit_seconds", "Time of a commit in the store", registry=registry
    )

    def count(event: Event) -> None:
        counter.labels(event.kind, event.reason).inc()
        if event.calls:
            seconds.observe(event.seconds)

    return count


def to_opentelemetry(meter: Any = None) -> Callable[[Event], None]:
    """Return a callable that counts events by kind and reason with an OpenTelemetry meter.

    Args:
        meter: None: that of the global provider.

    Raises:
        ImportError: the package opentelemetry-api is not installed.

    Example:
        >>> sessions = WebSessions("memory:", events=to_opentelemetry())
    """
    if meter is None:
        from opentelemetry import metrics

        meter = metrics.get_meter("mangonel.websessions")
    if not hasattr(meter, "create_counter"):
        raise TypeError(f'expected an OpenTelemetry Meter for "meter", got {type(meter).__name__}')
    counter = meter.create_counter("mangonel.websession.events")
    seconds = meter.create_histogram("mangonel.websession.commit.duration", unit="s")

    def count(event: Event) -> None:
        counter.add(1, {"kind": event.kind, "reason": event.reason})
        if event.calls:
            seconds.record(event.seconds)

    return count


def all_of(*listeners: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a callable that passes events to every listener.

    Args:
        listeners: callables that take an event.

    Example:
        >>> events = RecordingEvents()
        >>> WebSessions("memory:", events=all_of(events, to_logging())).emit("created")
        >>> events.kinds()
        ['created']
    """

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
