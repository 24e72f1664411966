"""Sentry's integration: a span and a breadcrumb for each command, with its shape and none of its values.

Needs `sentry-sdk`.
"""

from __future__ import annotations

from typing import Any

try:
    import sentry_sdk
    from sentry_sdk.integrations import Integration
    from sentry_sdk.utils import capture_internal_exceptions
except ImportError as error:
    raise ImportError("mangonel.contrib.sentry needs sentry-sdk: pip install sentry-sdk") from error

from mangonel import monitoring
from mangonel._observe.statements import statement_of
from mangonel.contrib._hearing import hear_every_client

__all__ = ["MangonelIntegration"]


class _Kind(type(Integration)):  # type: ignore[misc]
    """The metaclass of the integration: if Sentry gets the class, `type(integration).setup_once()` calls this one."""

    @staticmethod
    def setup_once() -> None:
        raise TypeError(
            "expected an instance in integrations=, got the class MangonelIntegration; "
            "write integrations=[MangonelIntegration()]"
        )


class MangonelIntegration(Integration, metaclass=_Kind):
    """Makes the spans of every client, those made before `sentry_sdk.init` included.

    Example:
        >>> sentry_sdk.init(dsn, traces_sample_rate=1.0, integrations=[MangonelIntegration()])
    """

    identifier = "mangonel"
    origin = "auto.db.mangonel"

    @staticmethod
    def setup_once() -> None:
        """Listen to the commands of all clients; Sentry calls this once."""
        hear_every_client(_Tracer())


class _Tracer(monitoring.CommandListener):
    """Makes the spans while the integration is on."""

    def __init__(self) -> None:
        self._spans: dict[int, Any] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Begin a span below the current one, and leave a breadcrumb."""
        if sentry_sdk.get_client().get_integration(MangonelIntegration) is None:
            return
        with capture_internal_exceptions():
            statement = statement_of(event)
            facts: dict[str, Any] = {
                "db.system": "mongodb",
                "db.name": event.database_name,
                "db.operation": event.command_name,
                "server.address": event.connection_id[0],
            }
            if event.connection_id[1] is not None:
                facts["server.port"] = event.connection_id[1]
            collection = event.command.get(event.command_name)
            if isinstance(collection, str):
                facts["db.mongodb.collection"] = collection
            sentry_sdk.add_breadcrumb(message=statement, category="query", type="query", data=facts)
            span = sentry_sdk.start_span(op="db", name=statement, origin=MangonelIntegration.origin)
            for name, value in facts.items():
                span.set_data(name, value)
            self._spans[event.request_id] = span

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """End the span."""
        self._end(event.request_id, "ok")

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """End the span with an error."""
        self._end(event.request_id, "internal_error")

    def _end(self, request_id: int, status: str) -> None:
        span = self._spans.pop(request_id, None)
        if span is not None:
            with capture_internal_exceptions():
                span.set_status(status)
                span.finish()
