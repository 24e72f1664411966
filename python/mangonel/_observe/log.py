"""The structured log: listeners that write each event as a debug message of its component. Holds no client.

Spec: logging; the messages are those of command-logging-and-monitoring, connection-monitoring-and-pooling,
server-selection and server-discovery-and-monitoring.
"""

from __future__ import annotations

import logging

from mangonel import monitoring
from mangonel._observe.logger_names import logger_name
from mangonel.bson import encode
from mangonel.logger import LogMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.typings import _Address

_CLOSED_BECAUSE = {
    "stale": "Connection became stale because the pool was cleared",
    "idle": "Connection has been available but unused for longer than the configured max idle time",
    "error": "An error occurred while using the connection",
    "poolClosed": "Connection pool was closed",
}
_NOT_CHECKED_OUT_BECAUSE = {
    "timeout": "Wait queue timeout elapsed without a connection becoming available",
    "connectionError": "An error occurred while trying to establish a new connection",
    "poolClosed": "Connection pool was closed",
}


class _Component:
    """One logger, and the fields that all its messages have."""

    name: str

    def __init__(self, topology_id: ObjectId) -> None:
        self._logger = logging.getLogger(logger_name(self.name))
        self._topology_id = topology_id

    def _write(self, message: str, level: int = logging.DEBUG, **fields: Any) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, LogMessage(message, clientId=self._topology_id, **fields))


def _document(body: Any) -> bytes:
    """Return a document's bytes: a listener may have had it decoded, and what is redacted is an empty dict."""
    return body if isinstance(body, bytes) else encode(body)


# What is tried again as a write; everything else is a read.
_WRITES = frozenset(
    [
        "insert",
        "update",
        "delete",
        "findAndModify",
        "bulkWrite",
        "commitTransaction",
        "abortTransaction",
    ]
)
# Operations that failed and may be tried again: many more than are under way at once.
_MOST_FAILED = 10_000


class CommandLog(_Component, monitoring.CommandListener):
    """Messages of commands."""

    name = "command"

    def __init__(self, topology_id: ObjectId) -> None:
        super().__init__(topology_id)
        # By the number that the attempts of an operation share: how many have failed.
        self._failed: dict[tuple[int, str], int] = {}

    def _about(self, message: str, event: Any, **fields: Any) -> None:
        _, _, _, _, (host, port), _, service_id, connection, *_ = event._facts
        self._write(
            message,
            commandName=event.command_name,
            databaseName=event.database_name,
            requestId=event.request_id,
            operationId=event.operation_id,
            driverConnectionId=connection,
            serverConnectionId=event.server_connection_id,
            serverHost=host,
            serverPort=port,
            serviceId=None if service_id is None else str(service_id),
            **fields,
        )

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Write what is about to be sent, and before it that it is sent once more."""
        operation = (event.operation_id or 0, event.command_name)
        attempt = self._failed.get(operation)
        if attempt is not None:
            kind = "write" if event.command_name in _WRITES else "read"
            self._write(
                f"Retrying {kind} attempt number {attempt}",
                commandName=event.command_name,
                operationId=event.operation_id,
            )
        self._about("Command started", event, command=_document(event._body))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Write what came back."""
        self._failed.pop((event.operation_id or 0, event.command_name), None)
        self._about(
            "Command succeeded", event, durationMS=event.duration_micros / 1000, reply=_document(event._body)
        )

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Write why there is no good reply."""
        operation = (event.operation_id or 0, event.command_name)
        if len(self._failed) >= _MOST_FAILED:
            self._failed.clear()
        self._failed[operation] = self._failed.get(operation, 0) + 1
        failure = event._body
        is_ours = isinstance(failure, dict) and "errtype" in failure
        failure = failure["errmsg"] if is_ours else _document(failure)
        self._about("Command failed", event, durationMS=event.duration_micros / 1000, failure=failure)


class ConnectionLog(_Component, monitoring.ConnectionPoolListener):
    """Messages of pools and connections."""

    name = "connection"

    def _about(self, message: str, event: Any, **fields: Any) -> None:
        host, port = event.address
        self._write(message, serverHost=host, serverPort=port, **fields)

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        """Write with which options a pool was made."""
        self._about("Connection pool created", event, **event.options)

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Write that a pool is ready."""
        self._about("Connection pool ready", event)

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Write that a pool was cleared."""
        service_id = None if event.service_id is None else str(event.service_id)
        self._about("Connection pool cleared", event, serviceId=service_id)

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Write that a pool is gone."""
        self._about("Connection pool closed", event)

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        """Write that a connection is about to be opened."""
        self._about("Connection created", event, driverConnectionId=event.connection_id)

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Write that a connection is usable."""
        self._about(
            "Connection ready",
            event,
            driverConnectionId=event.connection_id,
            durationMS=_milliseconds(event.duration),
        )

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        """Write why a connection was closed."""
        reason = _CLOSED_BECAUSE.get(event.reason, event.reason)
        error = event.reason if event.reason == monitoring.ConnectionClosedReason.ERROR else None
        self._about(
            "Connection closed", event, driverConnectionId=event.connection_id, reason=reason, error=error
        )

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Write that a connection is asked for."""
        self._about("Connection checkout started", event)

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Write why there is no connection."""
        self._about(
            "Connection checkout failed",
            event,
            reason=_NOT_CHECKED_OUT_BECAUSE.get(event.reason, event.reason),
            error=event._error,
            durationMS=_milliseconds(event.duration),
        )

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Write that a connection was got."""
        self._about(
            "Connection checked out",
            event,
            driverConnectionId=event.connection_id,
            durationMS=_milliseconds(event.duration),
        )

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        """Write that a connection was given back."""
        self._about("Connection checked in", event, driverConnectionId=event.connection_id)


class _TopologyComponent(_Component):
    name = "topology"

    def _about_server(self, message: str, address: _Address, **fields: Any) -> None:
        host, port = address
        self._write(message, topologyId=self._topology_id, serverHost=host, serverPort=port, **fields)


class TopologyLog(_TopologyComponent, monitoring.TopologyListener):
    """Messages of the deployment."""

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        """Write that the client looks at its deployment."""
        self._write("Starting topology monitoring", topologyId=self._topology_id)

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Write what the deployment has become."""
        self._write(
            "Topology description changed",
            topologyId=self._topology_id,
            previousDescription=repr(event.previous_description),
            newDescription=repr(event.new_description),
        )

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        """Write that the client was closed."""
        self._write("Stopped topology monitoring", topologyId=self._topology_id)


class ServerLog(_TopologyComponent, monitoring.ServerListener):
    """Messages of servers that come and go."""

    def opened(self, event: monitoring.ServerOpeningEvent) -> None:
        """Write that a server came."""
        self._about_server("Starting server monitoring", event.server_address)

    def description_changed(self, event: monitoring.ServerDescriptionChangedEvent) -> None:
        """Write nothing: the topology's own message tells."""

    def closed(self, event: monitoring.ServerClosedEvent) -> None:
        """Write that a server went."""
        self._about_server("Stopped server monitoring", event.server_address)


class HeartbeatLog(_TopologyComponent, monitoring.ServerHeartbeatListener):
    """Messages of checks. A monitor's connections are counted for each server: the first is 1."""

    def __init__(self, topology_id: ObjectId) -> None:
        super().__init__(topology_id)
        # Address -> the number of its monitor's connection, and what the server calls it.
        self._lines: dict[_Address, tuple[int, int | None]] = {}

    def _about(self, message: str, event: Any, **fields: Any) -> None:
        number, server_id = self._lines.setdefault(event.connection_id, (1, None))
        self._about_server(
            message,
            event.connection_id,
            driverConnectionId=number,
            serverConnectionId=server_id,
            awaited=event.awaited,
            **fields,
        )

    def started(self, event: monitoring.ServerHeartbeatStartedEvent) -> None:
        """Write that a check began."""
        self._about("Server heartbeat started", event)

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        """Write what the server said."""
        number, server_id = self._lines.get(event.connection_id, (1, None))
        self._lines[event.connection_id] = (number, event.reply.connection_id or server_id)
        self._about(
            "Server heartbeat succeeded",
            event,
            durationMS=_milliseconds(event.duration),
            reply=event._bson,
        )

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        """Write why a check failed."""
        self._about(
            "Server heartbeat failed",
            event,
            durationMS=_milliseconds(event.duration),
            failure=repr(event.reply),
        )
        self._lines[event.connection_id] = (self._lines[event.connection_id][0] + 1, None)


class SelectionLog(_Component):
    """Messages of operations that look for a server."""

    name = "serverSelection"

    def selection(
        self, how: str, operation: str, operation_id: int, selector: str, description: str, detail: Any
    ) -> None:
        """Write how far the choice has come; `detail` depends on `how`."""
        message, fields = "Server selection started", {}
        if how == "waiting":
            message = "Waiting for suitable server to become available"
            fields = {"remainingTimeMS": int(detail * 1000)}
        elif how == "succeeded":
            message, fields = "Server selection succeeded", {"serverHost": detail[0], "serverPort": detail[1]}
        elif how == "failed":
            message, fields = "Server selection failed", {"failure": detail}
        self._write(
            message,
            # That an operation has to wait is worth knowing at any time.
            logging.INFO if how == "waiting" else logging.DEBUG,
            selector=selector,
            operation=operation,
            operationId=operation_id,
            topologyDescription=description,
            **fields,
        )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
