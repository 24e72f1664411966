"""OpenTelemetry's instrumentor: auto-instrumentation finds it by its entry point and lets every client make spans.

Needs `opentelemetry-instrumentation`. Without it, `MongoClient(tracing=True)` does the same for one client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # untyped

from mangonel._observe import listeners

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["MangonelInstrumentor"]


class MangonelInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # untyped
    """Lets the clients that are made from then on make spans, unless their own `tracing=` says otherwise.

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
            query_text_max_length: how many bytes of a command a span shows; 0: none.
        """
        settings: dict[str, Any] = {"enabled": True}
        for name in ("tracer_provider", "query_text_max_length"):
            if name in kwargs:
                settings[name] = kwargs[name]
        listeners.trace_every_client(settings)

    def _uninstrument(self, **kwargs: Any) -> None:
        """Let later clients make no spans; those that exist go on."""
        listeners.trace_every_client({})
