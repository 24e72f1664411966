"""From the core's events to those who hear of them. Holds no client: the core holds this.

Nothing here is loaded while nobody listens. Spec: command-logging-and-monitoring and the other monitoring ones.
"""

from __future__ import annotations

import sys

from mangonel import _core, monitoring
from mangonel._observe import command_events as commands
from mangonel.bson.objectid import ObjectId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mangonel._observe.command_events import Facts
    from mangonel._observe.tracing import Tracer
    from mangonel.typings import _Address

# The core's bits.
COMMANDS = 1
POOLS = 2
TOPOLOGY = 4
SELECTION = 8
OPERATIONS = 16


class Publisher:
    """The listeners of one client; the core calls a method for each event, in order.

    Addresses are pairs of host and port, durations seconds unless they are named micros, documents bytes.

    Args:
        listeners: whoever hears; one may be of several kinds.
        pool_options: what PoolCreatedEvent tells.
        components: what is written to the structured log.
        tracer: what makes spans, or None.
    """

    def __init__(
        self,
        listeners: Sequence[Any],
        pool_options: dict[str, Any],
        components: Sequence[str] = (),
        tracer: Tracer | None = None,
    ) -> None:
        self.listeners = listeners
        self._tracer = tracer
        self._pool_options = pool_options
        self.topology_id = ObjectId()
        self.log(components)

    def log(self, components: Sequence[str]) -> None:
        """Write these components to the structured log from now on, and no others."""
        listeners: list[Any] = list(self.listeners)
        self._selections: list[Any] = []
        if components:
            from mangonel._observe import log

            wanted = {
                "command": (log.CommandLog,),
                "connection": (log.ConnectionLog,),
                "topology": (log.TopologyLog, log.ServerLog, log.HeartbeatLog),
            }
            for component in components:
                listeners += [made(self.topology_id) for made in wanted.get(component, ())]
            if "serverSelection" in components:
                self._selections.append(log.SelectionLog(self.topology_id))

        def of_kind(kind: type[Any]) -> list[Any]:
            return [heard for heard in listeners if isinstance(heard, kind)]

        self._commands = of_kind(monitoring.CommandListener)
        self._pools = of_kind(monitoring.ConnectionPoolListener)
        self._servers = of_kind(monitoring.ServerListener)
        self._heartbeats = of_kind(monitoring.ServerHeartbeatListener)
        self._topologies = of_kind(monitoring.TopologyListener)

    @property
    def interests(self) -> int:
        """The kinds of events that somebody wants, as bits."""
        return (
            (COMMANDS if self._commands or self._tracer else 0)
            | (POOLS if self._pools else 0)
            | (TOPOLOGY if self._servers or self._heartbeats or self._topologies else 0)
            | (SELECTION if self._selections else 0)
            | (OPERATIONS if self._tracer else 0)
        )

    def command_started(self, facts: Facts, command: bytes) -> None:
        """Tell that a command is about to be sent."""
        if self._tracer is not None:
            self._tracer.command_started(facts, command)
        event = commands.started(facts, command)
        for listener in self._commands:
            _tell(listener.started, event)

    def command_succeeded(self, facts: Facts, micros: int, reply: bytes) -> None:
        """Tell that a command was answered."""
        if self._tracer is not None:
            self._tracer.command_succeeded(facts, reply)
        event = commands.succeeded(facts, micros, reply)
        for listener in self._commands:
            _tell(listener.succeeded, event)

    def command_failed(self, facts: Facts, micros: int, failure: bytes | tuple[str, str]) -> None:
        """Tell that a command was refused or not answered."""
        if self._tracer is not None:
            self._tracer.command_failed(facts, failure)
        event = commands.failed(facts, micros, failure)
        for listener in self._commands:
            _tell(listener.failed, event)

    def operation_started(
        self, operation_id: int, name: str, database: str, target: str | None, session: int | None
    ) -> None:
        """Tell that an operation begins."""
        if self._tracer is not None:
            self._tracer.operation_started(operation_id, name, database, target, session)

    def operation_ended(self, operation_id: int, failure: tuple[str, str] | None) -> None:
        """Tell that an operation is over."""
        if self._tracer is not None:
            self._tracer.operation_ended(operation_id, failure)

    def pool_created(self, address: _Address) -> None:
        """Tell that the pool of a server was made."""
        event = monitoring.PoolCreatedEvent(address, self._pool_options)
        for listener in self._pools:
            _tell(listener.pool_created, event)

    def pool_ready(self, address: _Address) -> None:
        """Tell that a pool hands out connections from now on."""
        event = monitoring.PoolReadyEvent(address)
        for listener in self._pools:
            _tell(listener.pool_ready, event)

    def pool_cleared(self, address: _Address, service_id: ObjectId | None, is_interrupting: bool) -> None:
        """Tell that the connections of a pool are not to be used again."""
        event = monitoring.PoolClearedEvent(address, service_id, is_interrupting)
        for listener in self._pools:
            _tell(listener.pool_cleared, event)

    def pool_closed(self, address: _Address) -> None:
        """Tell that a pool is gone."""
        event = monitoring.PoolClosedEvent(address)
        for listener in self._pools:
            _tell(listener.pool_closed, event)

    def connection_created(self, address: _Address, connection: int) -> None:
        """Tell that a connection is about to be opened."""
        event = monitoring.ConnectionCreatedEvent(address, connection)
        for listener in self._pools:
            _tell(listener.connection_created, event)

    def connection_ready(self, address: _Address, connection: int, duration: float) -> None:
        """Tell that a connection has done its handshake."""
        event = monitoring.ConnectionReadyEvent(address, connection, duration)
        for listener in self._pools:
            _tell(listener.connection_ready, event)

    def connection_closed(self, address: _Address, connection: int, reason: str) -> None:
        """Tell that a connection was closed."""
        event = monitoring.ConnectionClosedEvent(address, connection, reason)
        for listener in self._pools:
            _tell(listener.connection_closed, event)

    def connection_check_out_started(self, address: _Address) -> None:
        """Tell that an operation asks for a connection."""
        event = monitoring.ConnectionCheckOutStartedEvent(address)
        for listener in self._pools:
            _tell(listener.connection_check_out_started, event)

    def connection_check_out_failed(
        self, address: _Address, reason: str, error: str | None, duration: float
    ) -> None:
        """Tell that an operation gets no connection."""
        event = monitoring.ConnectionCheckOutFailedEvent(address, reason, duration)
        event._error = error
        for listener in self._pools:
            _tell(listener.connection_check_out_failed, event)

    def connection_checked_out(self, address: _Address, connection: int, duration: float) -> None:
        """Tell that an operation got a connection."""
        event = monitoring.ConnectionCheckedOutEvent(address, connection, duration)
        for listener in self._pools:
            _tell(listener.connection_checked_out, event)

    def connection_checked_in(self, address: _Address, connection: int) -> None:
        """Tell that an operation gave its connection back."""
        event = monitoring.ConnectionCheckedInEvent(address, connection)
        for listener in self._pools:
            _tell(listener.connection_checked_in, event)

    def selection(
        self, how: str, operation: str, operation_id: int, selector: str, description: str, detail: Any
    ) -> None:
        """Tell how far the choice of a server has come."""
        for log in self._selections:
            log.selection(how, operation, operation_id, selector, description, detail)

    def topology_opened(self) -> None:
        """Tell that the client looks at its deployment."""
        event = monitoring.TopologyOpenedEvent(self.topology_id)
        for listener in self._topologies:
            _tell(listener.opened, event)

    def topology_description_changed(self, previous: tuple[Any, ...], new: tuple[Any, ...]) -> None:
        """Tell that what is known of the deployment changed."""
        if not self._topologies:
            return
        from mangonel.topology_description import topology_described

        event = monitoring.TopologyDescriptionChangedEvent(
            topology_described(previous, self.topology_id),
            topology_described(new, self.topology_id),
            self.topology_id,
        )
        for listener in self._topologies:
            _tell(listener.description_changed, event)

    def topology_closed(self) -> None:
        """Tell that the client was closed."""
        event = monitoring.TopologyClosedEvent(self.topology_id)
        for listener in self._topologies:
            _tell(listener.closed, event)

    def server_opened(self, address: _Address) -> None:
        """Tell that a server came into the topology."""
        event = monitoring.ServerOpeningEvent(address, self.topology_id)
        for listener in self._servers:
            _tell(listener.opened, event)

    def server_description_changed(
        self, address: _Address, previous: tuple[Any, ...], new: tuple[Any, ...]
    ) -> None:
        """Tell that what is known of a server changed."""
        if not self._servers:
            return
        from mangonel.server_description import described

        event = monitoring.ServerDescriptionChangedEvent(
            described(*previous), described(*new), address, self.topology_id
        )
        for listener in self._servers:
            _tell(listener.description_changed, event)

    def server_closed(self, address: _Address) -> None:
        """Tell that a server left the topology."""
        event = monitoring.ServerClosedEvent(address, self.topology_id)
        for listener in self._servers:
            _tell(listener.closed, event)

    def heartbeat_started(self, address: _Address, is_awaited: bool) -> None:
        """Tell that a check of a server began."""
        event = monitoring.ServerHeartbeatStartedEvent(address, is_awaited)
        for listener in self._heartbeats:
            _tell(listener.started, event)

    def heartbeat_succeeded(self, address: _Address, duration: float, reply: bytes, is_awaited: bool) -> None:
        """Tell that a server answered to a check."""
        if not self._heartbeats:
            return
        from mangonel.hello import Hello

        hello: Hello[Any] = Hello(_core.decode(reply, commands.SHOWN_AS), is_awaited)
        event = monitoring.ServerHeartbeatSucceededEvent(duration, hello, address, is_awaited)
        event._bson = reply
        for listener in self._heartbeats:
            _tell(listener.succeeded, event)

    def heartbeat_failed(self, address: _Address, duration: float, error: str, is_awaited: bool) -> None:
        """Tell that a check of a server failed."""
        if not self._heartbeats:
            return
        from mangonel.errors import AutoReconnect

        event = monitoring.ServerHeartbeatFailedEvent(duration, AutoReconnect(error), address, is_awaited)
        for listener in self._heartbeats:
            _tell(listener.failed, event)


def _tell(method: Callable[[Any], None], event: Any) -> None:
    try:
        method(event)
    except Exception:
        if sys.stderr is not None:
            import traceback

            traceback.print_exc()
    except KeyboardInterrupt:
        # Raised from here it would be lost in the core; so the operation is interrupted a moment later.
        import _thread

        _thread.interrupt_main()


def publisher_for(options: Any, components: Sequence[str], tracer: Tracer | None) -> Publisher | None:
    """Return the publisher of a client with these options; None when nobody wants to hear of it."""
    listeners = [*monitoring._registered, *options.event_listeners]
    publisher = Publisher(listeners, options.pool_options.non_default_options, components, tracer)
    return publisher if publisher.interests else None
