"""Listeners that write one line per event to the root logger: examples, and a first look at a client's work.

The driver's own structured log needs none of these; see `mangonel.logger`.
"""

from __future__ import annotations

import logging

from mangonel import monitoring

__all__ = ["CommandLogger", "ConnectionPoolLogger", "HeartbeatLogger", "ServerLogger", "TopologyLogger"]


class CommandLogger(monitoring.CommandListener):
    """Writes a line when a command starts and when it ends.

    Example:
        >>> monitoring.register(CommandLogger())
    """

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Write that a command is about to be sent."""
        logging.info(
            "Command %s with request id %s started on server %s",
            event.command_name,
            event.request_id,
            event.connection_id,
        )

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Write that a command was answered."""
        self._ended(event, "succeeded")

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Write that a command failed or got no reply."""
        self._ended(event, "failed")

    def _ended(
        self, event: monitoring.CommandSucceededEvent | monitoring.CommandFailedEvent, how: str
    ) -> None:
        logging.info(
            "Command %s with request id %s on server %s %s in %s microseconds",
            event.command_name,
            event.request_id,
            event.connection_id,
            how,
            event.duration_micros,
        )


class ServerLogger(monitoring.ServerListener):
    """Writes a line when a server is added, changes its type or is removed.

    Example:
        >>> from mangonel import event_loggers
        >>> client = MongoClient(event_listeners=[event_loggers.ServerLogger()])
    """

    def opened(self, event: monitoring.ServerOpeningEvent) -> None:
        """Write that a server was added."""
        logging.info("Server %s added to topology %s", event.server_address, event.topology_id)

    def description_changed(self, event: monitoring.ServerDescriptionChangedEvent) -> None:
        """Write a server's new type."""
        before, after = event.previous_description, event.new_description
        if after.server_type != before.server_type:
            logging.info(
                "Server %s changed type from %s to %s",
                event.server_address,
                before.server_type_name,
                after.server_type_name,
            )

    def closed(self, event: monitoring.ServerClosedEvent) -> None:
        """Write that a server was removed."""
        logging.warning("Server %s removed from topology %s", event.server_address, event.topology_id)


class HeartbeatLogger(monitoring.ServerHeartbeatListener):
    """Writes a line for each heartbeat and its outcome.

    Example:
        >>> from mangonel import event_loggers
        >>> client = MongoClient(event_listeners=[event_loggers.HeartbeatLogger()])
    """

    def started(self, event: monitoring.ServerHeartbeatStartedEvent) -> None:
        """Write that a heartbeat started."""
        logging.info("Heartbeat sent to server %s", event.connection_id)

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        """Write the server's answer."""
        logging.info(
            "Heartbeat to server %s succeeded with reply %s", event.connection_id, event.reply.document
        )

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        """Write why a heartbeat failed."""
        logging.warning("Heartbeat to server %s failed with error %s", event.connection_id, event.reply)


class TopologyLogger(monitoring.TopologyListener):
    """Writes a line when the topology changes, and warns if no server is writable or readable.

    Example:
        >>> from mangonel import event_loggers
        >>> client = MongoClient(event_listeners=[event_loggers.TopologyLogger()])
    """

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        """Write that a client started monitoring."""
        logging.info("Topology with id %s opened", event.topology_id)

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Write the new type of the topology."""
        logging.info("Topology description updated for topology id %s", event.topology_id)
        before, after = event.previous_description, event.new_description
        if after.topology_type != before.topology_type:
            logging.info(
                "Topology %s changed type from %s to %s",
                event.topology_id,
                before.topology_type_name,
                after.topology_type_name,
            )
        if not after.has_writable_server():
            logging.warning("No writable servers available.")
        if not after.has_readable_server():
            logging.warning("No readable servers available.")

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        """Write that a client was closed."""
        logging.info("Topology with id %s closed", event.topology_id)


class ConnectionPoolLogger(monitoring.ConnectionPoolListener):
    """Writes a line for every event of pools and their connections.

    Example:
        >>> from mangonel import event_loggers
        >>> client = MongoClient(event_listeners=[event_loggers.ConnectionPoolLogger()])
    """

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        """Write that a pool was created."""
        logging.info("[pool %s] pool created", event.address)

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Write that a pool is ready to hand out connections."""
        logging.info("[pool %s] pool ready", event.address)

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Write that a pool was cleared: its connections will not be used again."""
        logging.info("[pool %s] pool cleared", event.address)

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Write that a pool was closed."""
        logging.info("[pool %s] pool closed", event.address)

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        """Write that a connection is about to be opened."""
        logging.info("[pool %s][conn #%s] connection created", event.address, event.connection_id)

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Write that a connection has completed its handshake."""
        logging.info("[pool %s][conn #%s] connection setup succeeded", event.address, event.connection_id)

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        """Write why a connection was closed."""
        logging.info(
            '[pool %s][conn #%s] connection closed, reason: "%s"',
            event.address,
            event.connection_id,
            event.reason,
        )

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Write that a check-out started."""
        logging.info("[pool %s] connection check out started", event.address)

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Write why a check-out failed."""
        logging.info("[pool %s] connection check out failed, reason: %s", event.address, event.reason)

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Write that a connection was checked out."""
        logging.info("[pool %s][conn #%s] connection checked out of pool", event.address, event.connection_id)

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        """Write that a connection was checked in."""
        logging.info("[pool %s][conn #%s] connection checked into pool", event.address, event.connection_id)
