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
    """One logger, and the fields of all its messages."""

    name: str

    def __init__(self, topology_id: ObjectId) -> None:
        self._logger = logging.getLogger(logger_name(self.name))
        self._topology_id = topology_id

    def _write(self, message: str, level: int = logging.DEBUG, **fields: Any) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, LogMessage(message, clientId=self._topology_id, **fields))


def _document(body: Any) -> bytes:
    """Return a document's bytes: a listener may have decoded it, and a redacted one is an empty dict."""
    return body if isinstance(body, bytes) else encode(body)


# Commands that are retried as writes; all others are reads.
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
# The most failed operations to remember: far more than are in flight at once.
_MOST_FAILED = 10_000


class CommandLog(_Component, monitoring.CommandListener):
    """Messages about commands."""

    name = "command"

    def __init__(self, topology_id: ObjectId) -> None:
        super().__init__(topology_id)
        # The number of failures, by the number that the attempts of an operation share.
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
        """Log that a command is about to be sent; first, if it is a retry, log that."""
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
        """Log the reply."""
        self._failed.pop((event.operation_id or 0, event.command_name), None)
        self._about(
            "Command succeeded", event, durationMS=event.duration_micros / 1000, reply=_document(event._body)
        )

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Log the failure."""
        operation = (event.operation_id or 0, event.command_name)
        if len(self._failed) >= _MOST_FAILED:
            self._failed.clear()
        self._failed[operation] = self._failed.get(operation, 0) + 1
        failure = event._body
        is_ours = isinstance(failure, dict) and "errtype" in failure
        failure = failure["errmsg"] if is_ours else _document(failure)
        self._about("Command failed", event, durationMS=event.duration_micros / 1000, failure=failure)


class ConnectionLog(_Component, monitoring.ConnectionPoolListener):
    """Messages about pools and connections."""

    name = "connection"

    def _about(self, message: str, event: Any, **fields: Any) -> None:
        host, port = event.address
        self._write(message, serverHost=host, serverPort=port, **fields)

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        """Log a new pool with its options."""
        self._about("Connection pool created", event, **event.options)

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Log that a pool is ready."""
        self._about("Connection pool ready", event)

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Log that a pool was cleared."""
        service_id = None if event.service_id is None else str(event.service_id)
        self._about("Connection pool cleared", event, serviceId=service_id)

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Log that a pool was closed."""
        self._about("Connection pool closed", event)

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        """Log that a connection is about to be opened."""
        self._about("Connection created", event, driverConnectionId=event.connection_id)

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Log that a connection is usable."""
        self._about(
            "Connection ready",
            event,
            driverConnectionId=event.connection_id,
            durationMS=_milliseconds(event.duration),
        )

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        """Log why a connection was closed."""
        reason = _CLOSED_BECAUSE.get(event.reason, event.reason)
        error = event.reason if event.reason == monitoring.ConnectionClosedReason.ERROR else None
        self._about(
            "Connection closed", event, driverConnectionId=event.connection_id, reason=reason, error=error
        )

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Log that a check-out started."""
        self._about("Connection checkout started", event)

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Log why a check-out failed."""
        self._about(
            "Connection checkout failed",
            event,
            reason=_NOT_CHECKED_OUT_BECAUSE.get(event.reason, event.reason),
            error=event._error,
            durationMS=_milliseconds(event.duration),
        )

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Log that a connection was checked out."""
        self._about(
            "Connection checked out",
            event,
            driverConnectionId=event.connection_id,
            durationMS=_milliseconds(event.duration),
        )

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        """Log that a connection was checked in."""
        self._about("Connection checked in", event, driverConnectionId=event.connection_id)


class _TopologyComponent(_Component):
    name = "topology"

    def _about_server(self, message: str, address: _Address, **fields: Any) -> None:
        host, port = address
        self._write(message, topologyId=self._topology_id, serverHost=host, serverPort=port, **fields)


class TopologyLog(_TopologyComponent, monitoring.TopologyListener):
    """Messages about the topology."""

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        """Log that the client started monitoring."""
        self._write("Starting topology monitoring", topologyId=self._topology_id)

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Log the new description of the topology."""
        self._write(
            "Topology description changed",
            topologyId=self._topology_id,
            previousDescription=repr(event.previous_description),
            newDescription=repr(event.new_description),
        )

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        """Log that the client was closed."""
        self._write("Stopped topology monitoring", topologyId=self._topology_id)


class ServerLog(_TopologyComponent, monitoring.ServerListener):
    """Messages about servers that are added or removed."""

    def opened(self, event: monitoring.ServerOpeningEvent) -> None:
        """Log that a server was added."""
        self._about_server("Starting server monitoring", event.server_address)

    def description_changed(self, event: monitoring.ServerDescriptionChangedEvent) -> None:
        """Log nothing: the topology's own message has the change."""

    def closed(self, event: monitoring.ServerClosedEvent) -> None:
        """Log that a server was removed."""
        self._about_server("Stopped server monitoring", event.server_address)


class HeartbeatLog(_TopologyComponent, monitoring.ServerHeartbeatListener):
    """Messages about heartbeats. A monitor's connections are numbered for each server, from 1."""

    def __init__(self, topology_id: ObjectId) -> None:
        super().__init__(topology_id)
        # Address -> the number of its monitor's connection, and the server's number for it.
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
        """Log that a heartbeat started."""
        self._about("Server heartbeat started", event)

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        """Log the server's reply."""
        number, server_id = self._lines.get(event.connection_id, (1, None))
        self._lines[event.connection_id] = (number, event.reply.connection_id or server_id)
        self._about(
            "Server heartbeat succeeded",
            event,
            durationMS=_milliseconds(event.duration),
            reply=event._bson,
        )

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        """Log why a heartbeat failed."""
        self._about(
            "Server heartbeat failed",
            event,
            durationMS=_milliseconds(event.duration),
            failure=repr(event.reply),
        )
        self._lines[event.connection_id] = (self._lines[event.connection_id][0] + 1, None)


class SelectionLog(_Component):
    """Messages about server selection."""

    name = "serverSelection"

    def selection(
        self, how: str, operation: str, operation_id: int, selector: str, description: str, detail: Any
    ) -> None:
        """Log the progress of a selection; `detail` depends on `how`."""
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
            # A wait during selection is logged at level info, since it always matters.
            logging.INFO if how == "waiting" else logging.DEBUG,
            selector=selector,
            operation=operation,
            operationId=operation_id,
            topologyDescription=description,
            **fields,
        )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
