"""OpenTelemetry's instrumentor, which auto-instrumentation finds by its entry point, and metrics of single clients.

Needs `opentelemetry-instrumentation`. Without it, `MongoClient(tracing=True)` makes the same spans for one client.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # untyped
    from opentelemetry.metrics import MeterProvider
except ModuleNotFoundError as error:
    # Auto-instrumentation recognises a missing package by this exception class, and skips the entry point.
    raise ModuleNotFoundError(
        "mangonel.contrib.opentelemetry needs opentelemetry-instrumentation: pip install opentelemetry-instrumentation",
        name=error.name,
    ) from error

from mangonel._observe import listeners
from mangonel._observe.instruments import core_of
from mangonel._observe.meter import Meter
from mangonel._options.checks import tracing
from mangonel._shared.client.fork_and_exit import living

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["MangonelInstrumentor", "measure"]

log = logging.getLogger("mangonel.contrib.opentelemetry")

_TRACING = ("tracer_provider", "query_text_max_length", "query_text_values")

# By provider; None: the global one.
_meters: dict[MeterProvider | None, Meter] = {}


def measure(client: Any, meter_provider: MeterProvider | None = None) -> None:
    """Export a client's counts; it counts from now on, with or without `metrics=True`.

    Args:
        client: a MongoClient or an AsyncMongoClient.
        meter_provider: the provider of the meter; the counts of its clients are added up. None: the global one.

    Raises:
        TypeError: `client` is no client, or `meter_provider` no MeterProvider.

    Example:
        >>> measure(client)
    """
    core = core_of(client)
    _meter_of(meter_provider).add(core)


def _meter_of(provider: MeterProvider | None) -> Meter:
    if provider is not None and not isinstance(provider, MeterProvider):
        raise TypeError(
            f'expected an OpenTelemetry MeterProvider for "meter_provider", got {type(provider).__name__}'
        )
    if provider not in _meters:
        _meters[provider] = Meter(provider)
    return _meters[provider]


class MangonelInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # untyped
    """Makes clients that are created afterwards emit spans and count, unless their own `tracing=` says otherwise.

    Example:
        >>> MangonelInstrumentor().instrument(tracer_provider=provider)
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the packages to install: none beside this one."""
        return []

    def _instrument(self, **kwargs: Any) -> None:
        """Start to instrument new clients.

        Args:
            tracer_provider: provides the clients' tracer. None: the global one.
            meter_provider: provides the clients' meter. None: the global one.
            query_text_max_length: how many bytes of a command a span shows; 0: none.
            query_text_values: whether that text has the values of the command, or "?" in their place.

        Raises:
            TypeError, ValueError: an argument has a wrong type or is out of range. No client is instrumented.
        """
        given = {name: kwargs[name] for name in _TRACING if name in kwargs}
        settings: dict[str, Any] = {"enabled": True, **given}
        if unknown := kwargs.keys() - {*_TRACING, "meter_provider"}:
            # No error: programs pass the same arguments to many instrumentors.
            log.warning(
                "instrument() knows %s and meter_provider, and ignores %s",
                ", ".join(_TRACING),
                ", ".join(sorted(unknown)),
            )
        # Checked before a meter is made, since a meter is kept.
        asked = tracing("instrument()", settings)
        meter = _meter_of(kwargs.get("meter_provider"))
        if earlier := sum(client._tracer is None for client in living()):
            log.warning(
                "clients that were made before instrument() make no spans, and there are %d; "
                "instrument first, or pass tracing=True",
                earlier,
            )
        listeners.trace_every_client(asked)
        listeners.measure_every_client(meter.add)

    def _uninstrument(self, **kwargs: Any) -> None:
        """Stop: later clients emit no spans and count nothing; existing clients continue."""
        listeners.trace_every_client({})
        listeners.measure_every_client(None)
