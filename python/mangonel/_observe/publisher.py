"""Passes the core's events to listeners. Holds no client: the core holds this.

Loaded only if there is a listener. Spec: command-logging-and-monitoring and the other monitoring specifications.
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
    from mangonel.typings import _Address

# The core's bits.
COMMANDS = 1
POOLS = 2
TOPOLOGY = 4
SELECTION = 8


def _dealt_with(error: BaseException) -> None:
    """Report a listener's exception; the operation continues."""
    if isinstance(error, KeyboardInterrupt):
        # The core would drop an exception raised here, so the operation is interrupted a moment later.
        import _thread

        _thread.interrupt_main()
    elif sys.stderr is not None:
        import traceback

        traceback.print_exception(error)


def _teller(kind: str, method: str, make: Callable[..., Any]) -> Callable[..., None]:
    # Makes a method of the publisher for the core: it creates the event only if a listener receives it.
    def told(self: Publisher, *said: Any) -> None:
        listeners = getattr(self, kind)
        if listeners:
            event = make(self, *said)
            for listener in listeners:
                try:
                    getattr(listener, method)(event)
                except (Exception, KeyboardInterrupt) as error:
                    _dealt_with(error)

    return told


def _plain(event: type[Any]) -> Callable[..., Any]:
    return lambda _, *said: event(*said)


def _of_topology(event: type[Any]) -> Callable[..., Any]:
    return lambda publisher, *said: event(*said, publisher.topology_id)


def _created_pool(publisher: Publisher, address: _Address) -> Any:
    return monitoring.PoolCreatedEvent(address, publisher.pool_options)


def _failed_check_out(
    _: Publisher, address: _Address, reason: str, error: str | None, duration: float
) -> Any:
    event = monitoring.ConnectionCheckOutFailedEvent(address, reason, duration)
    event._error = error
    return event


def _changed_topology(publisher: Publisher, previous: tuple[Any, ...], new: tuple[Any, ...]) -> Any:
    from mangonel.topology_description import topology_described

    topology_id = publisher.topology_id
    return monitoring.TopologyDescriptionChangedEvent(
        topology_described(previous, topology_id), topology_described(new, topology_id), topology_id
    )


def _changed_server(
    publisher: Publisher, address: _Address, previous: tuple[Any, ...], new: tuple[Any, ...]
) -> Any:
    from mangonel.server_description import described

    return monitoring.ServerDescriptionChangedEvent(
        described(*previous), described(*new), address, publisher.topology_id
    )


def _succeeded_heartbeat(
    _: Publisher, address: _Address, duration: float, reply: bytes, is_awaited: bool
) -> Any:
    from mangonel.hello import Hello

    hello: Hello[Any] = Hello(_core.decode(reply, commands.SHOWN_AS), is_awaited)
    event = monitoring.ServerHeartbeatSucceededEvent(duration, hello, address, is_awaited)
    event._bson = reply
    return event


def _failed_heartbeat(_: Publisher, address: _Address, duration: float, error: str, is_awaited: bool) -> Any:
    from mangonel.errors import AutoReconnect

    return monitoring.ServerHeartbeatFailedEvent(duration, AutoReconnect(error), address, is_awaited)


class Publisher:
    """The listeners of one client; the core calls a method for each event, in order.

    Addresses are pairs of host and port; durations are in seconds unless named micros; documents are bytes.

    Args:
        listeners: the listeners; each may be of several kinds.
        pool_options: the options in PoolCreatedEvent.
        components: the components of the structured log to write.
    """

    def __init__(
        self,
        listeners: Sequence[Any],
        pool_options: dict[str, Any],
        components: Sequence[str] = (),
    ) -> None:
        self.listeners = listeners
        self.pool_options = pool_options
        self.topology_id = ObjectId()
        self.log(components)

    def log(self, components: Sequence[str]) -> None:
        """Write exactly these components to the structured log from now on."""
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
            return [heard for heard in listeners if kind in monitoring.kinds_of(heard)]

        self._commands = of_kind(monitoring.CommandListener)
        self._pools = of_kind(monitoring.ConnectionPoolListener)
        self._servers = of_kind(monitoring.ServerListener)
        self._heartbeats = of_kind(monitoring.ServerHeartbeatListener)
        self._topologies = of_kind(monitoring.TopologyListener)

    @property
    def interests(self) -> int:
        """The kinds of events that any listener needs, as bits."""
        return (
            (COMMANDS if self._commands else 0)
            | (POOLS if self._pools else 0)
            | (TOPOLOGY if self._servers or self._heartbeats or self._topologies else 0)
            | (SELECTION if self._selections else 0)
        )

    # Every operation has command events, so their methods are written out.

    def command_started(self, facts: Facts, command: bytes) -> None:
        """Report that a command is about to be sent."""
        if listeners := self._commands:
            event = commands.started(facts, command)
            for listener in listeners:
                try:
                    listener.started(event)
                except (Exception, KeyboardInterrupt) as error:
                    _dealt_with(error)

    def command_succeeded(self, facts: Facts, micros: int, reply: bytes) -> None:
        """Report that a command was answered."""
        if listeners := self._commands:
            event = commands.succeeded(facts, micros, reply)
            for listener in listeners:
                try:
                    listener.succeeded(event)
                except (Exception, KeyboardInterrupt) as error:
                    _dealt_with(error)

    def command_failed(self, facts: Facts, micros: int, failure: bytes | tuple[str, str]) -> None:
        """Report that a command failed."""
        if listeners := self._commands:
            event = commands.failed(facts, micros, failure)
            for listener in listeners:
                try:
                    listener.failed(event)
                except (Exception, KeyboardInterrupt) as error:
                    _dealt_with(error)

    def selection(
        self, how: str, operation: str, operation_id: int, selector: str, description: str, detail: Any
    ) -> None:
        """Report the progress of a server selection."""
        for log in self._selections:
            log.selection(how, operation, operation_id, selector, description, detail)

    # For each event: the kind of listener, its method, and the event made from the core's facts.
    pool_created = _teller("_pools", "pool_created", _created_pool)
    pool_ready = _teller("_pools", "pool_ready", _plain(monitoring.PoolReadyEvent))
    pool_cleared = _teller("_pools", "pool_cleared", _plain(monitoring.PoolClearedEvent))
    pool_closed = _teller("_pools", "pool_closed", _plain(monitoring.PoolClosedEvent))
    connection_created = _teller("_pools", "connection_created", _plain(monitoring.ConnectionCreatedEvent))
    connection_ready = _teller("_pools", "connection_ready", _plain(monitoring.ConnectionReadyEvent))
    connection_closed = _teller("_pools", "connection_closed", _plain(monitoring.ConnectionClosedEvent))
    connection_check_out_started = _teller(
        "_pools", "connection_check_out_started", _plain(monitoring.ConnectionCheckOutStartedEvent)
    )
    connection_check_out_failed = _teller("_pools", "connection_check_out_failed", _failed_check_out)
    connection_checked_out = _teller(
        "_pools", "connection_checked_out", _plain(monitoring.ConnectionCheckedOutEvent)
    )
    connection_checked_in = _teller(
        "_pools", "connection_checked_in", _plain(monitoring.ConnectionCheckedInEvent)
    )

    topology_opened = _teller("_topologies", "opened", _of_topology(monitoring.TopologyOpenedEvent))
    topology_description_changed = _teller("_topologies", "description_changed", _changed_topology)
    topology_closed = _teller("_topologies", "closed", _of_topology(monitoring.TopologyClosedEvent))
    server_opened = _teller("_servers", "opened", _of_topology(monitoring.ServerOpeningEvent))
    server_description_changed = _teller("_servers", "description_changed", _changed_server)
    server_closed = _teller("_servers", "closed", _of_topology(monitoring.ServerClosedEvent))

    heartbeat_started = _teller("_heartbeats", "started", _plain(monitoring.ServerHeartbeatStartedEvent))
    heartbeat_succeeded = _teller("_heartbeats", "succeeded", _succeeded_heartbeat)
    heartbeat_failed = _teller("_heartbeats", "failed", _failed_heartbeat)


def publisher_for(options: Any, components: Sequence[str]) -> Publisher | None:
    """Return the publisher of a client with these options, or None if there is no listener."""
    listeners = [*monitoring._registered, *options.event_listeners]
    publisher = Publisher(listeners, options.pool_options.non_default_options, components)
    return publisher if publisher.interests else None
