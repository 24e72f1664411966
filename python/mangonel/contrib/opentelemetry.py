"""OpenTelemetry's instrumentor, which auto-instrumentation finds by its entry point, and metrics of single clients.

Needs `opentelemetry-instrumentation`. Without it, `MongoClient(tracing=True)` makes the same spans for one client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # untyped

from mangonel._observe import listeners
from mangonel._observe.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Collection

    from opentelemetry.metrics import MeterProvider

__all__ = ["MangonelInstrumentor", "measure"]

# By provider; None: the global one.
_meters: dict[MeterProvider | None, Meter] = {}


def measure(client: Any, meter_provider: MeterProvider | None = None) -> None:
    """Export a client's counts; it counts from now on, with or without `metrics=True`.

    Args:
        client: a MongoClient or an AsyncMongoClient.
        meter_provider: the provider of the meter; the counts of its clients are added up. None: the global one.

    Example:
        >>> measure(client)
    """
    _meter_of(meter_provider).add(client._core)


def _meter_of(provider: MeterProvider | None) -> Meter:
    if provider not in _meters:
        _meters[provider] = Meter(provider)
    return _meters[provider]


class MangonelInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # untyped
    """Lets the clients that are made from then on make spans and count, unless their own `tracing=` says otherwise.

    Example:
        >>> MangonelInstrumentor().instrument(tracer_provider=provider)
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what has to be installed: nothing beside this package."""
        return []

    def _instrument(self, **kwargs: Any) -> None:
        """Begin.

        Args:
            tracer_provider: whose tracer the clients use. None: the global one.
            meter_provider: whose meter the clients use. None: the global one.
            query_text_max_length: how many bytes of a command a span shows; 0: none.
            query_text_values: whether that text has the values of the command, or "?" in their place.
        """
        settings: dict[str, Any] = {"enabled": True}
        for name in ("tracer_provider", "query_text_max_length", "query_text_values"):
            if name in kwargs:
                settings[name] = kwargs[name]
        listeners.trace_every_client(settings)
        listeners.measure_every_client(_meter_of(kwargs.get("meter_provider")).add)

    def _uninstrument(self, **kwargs: Any) -> None:
        """Let later clients make no spans and count nothing; those that exist go on."""
        listeners.trace_every_client({})
        listeners.measure_every_client(None)
