"""Sentry's integration: a span and a breadcrumb for each command, with its shape and none of its values.

Needs `sentry-sdk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sentry_sdk
from sentry_sdk.integrations import Integration
from sentry_sdk.utils import capture_internal_exceptions

from mangonel import monitoring
from mangonel.bson import json_util

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MangonelIntegration"]

# What every command carries and no statement shows.
_NOT_SHOWN = frozenset(["lsid", "$db", "$clusterTime", "$readPreference", "txnNumber", "apiVersion"])
# Their values name things, or are no data of the user.
_SHOWN = frozenset(["limit", "skip", "ordered", "singleBatch", "batchSize", "upsert", "multi"])


class MangonelIntegration(Integration):
    """Makes the spans. Clients that were made before `sentry_sdk.init` make none.

    Example:
        >>> sentry_sdk.init(dsn, traces_sample_rate=1.0, integrations=[MangonelIntegration()])
    """

    identifier = "mangonel"
    origin = "auto.db.mangonel"

    @staticmethod
    def setup_once() -> None:
        """Listen to the commands of all later clients; Sentry calls this once."""
        monitoring.register(_Tracer())


class _Tracer(monitoring.CommandListener):
    """Makes the spans while the integration is on."""

    def __init__(self) -> None:
        self._spans: dict[int, Any] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Begin a span below the current one, and leave a breadcrumb."""
        if sentry_sdk.get_client().get_integration(MangonelIntegration) is None:
            return
        with capture_internal_exceptions():
            statement = json_util.dumps(_shape(event.command_name, event.command))
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


def _shape(name: str, command: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command with the names of its fields, and `?` in place of values."""
    return {
        key: value if key in _SHOWN or (key == name and isinstance(value, str)) else _without_values(value)
        for key, value in command.items()
        if key not in _NOT_SHOWN
    }


def _without_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: found if key in _SHOWN and isinstance(found, (bool, int)) else _without_values(found)
            for key, found in value.items()
        }
    if isinstance(value, list):
        # The documents of a write, or the items of an `$in`, have one shape.
        return [_without_values(value[0])] if value else []
    return "?"
