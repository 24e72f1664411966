"""Elastic APM: a span for each command, with its shape and none of its values.

Needs `elastic-apm`. Its OpenTelemetry bridge fails on spans that are started below another span inside a transaction.
"""

from __future__ import annotations

from typing import Any

from mangonel import monitoring
from mangonel._observe.statements import statement_of
from mangonel.contrib._hearing import hear_every_client

__all__ = ["instrument"]


def instrument() -> None:
    """Make every client create spans inside Elastic's transactions. A second call does nothing.

    Raises:
        ImportError: `elastic-apm` is not installed.

    Example:
        >>> client = elasticapm.Client(service_name="shop")
        >>> instrument()
    """
    try:
        from elasticapm.traces import execution_context  # type: ignore[import-not-found,unused-ignore]  # untyped
    except ImportError as error:
        raise ImportError("mangonel.contrib.elastic needs elastic-apm: pip install elastic-apm") from error

    if not any(type(listener) is _Spans for listener in monitoring._registered):
        hear_every_client(_Spans(execution_context))


class _Spans(monitoring.CommandListener):
    """Makes spans inside Elastic's transactions."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._spans: dict[int, Any] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Begin a span below the current one."""
        transaction = self._context.get_transaction()
        if transaction is None or not transaction.is_sampled:
            return
        host, port = event.connection_id
        collection = event.command.get(event.command_name)
        place = event.database_name
        if isinstance(collection, str):
            place += f".{collection}"
        self._spans[event.request_id] = transaction.begin_span(
            f"{place}.{event.command_name}",
            "db",
            context={
                "db": {
                    "type": "mongodb",
                    "instance": event.database_name,
                    "statement": statement_of(event),
                },
                "destination": {"address": host, **({} if port is None else {"port": port})},
            },
            span_subtype="mongodb",
            span_action=event.command_name,
            # Other tasks may begin spans meanwhile.
            auto_activate=False,
        )

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """End the span."""
        self._end(event.request_id, "success")

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """End the span as failed."""
        self._end(event.request_id, "failure")

    def _end(self, request_id: int, outcome: str) -> None:
        span = self._spans.pop(request_id, None)
        if span is not None:
            span.outcome = outcome
            span.end()
