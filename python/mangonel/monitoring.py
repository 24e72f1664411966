"""Listeners for a client's events: commands, connections and pools, servers and the topology.

Pass a listener to one client with `MongoClient(event_listeners=[...])`, or to every later client with `register`. The
thread or task that caused an event calls the listener's method, after the driver has released its locks. So a slow
listener slows that operation down, and a listener may use the driver. An exception in a listener is printed to stderr
and otherwise ignored.

Spec: command-logging-and-monitoring, connection-monitoring-and-pooling,
server-discovery-and-monitoring-logging-and-monitoring.
"""

from __future__ import annotations

from mangonel._observe.command_events import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent
from mangonel._observe.deployment_events import (
    ServerClosedEvent,
    ServerDescriptionChangedEvent,
    ServerHeartbeatFailedEvent,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
    ServerOpeningEvent,
    TopologyClosedEvent,
    TopologyDescriptionChangedEvent,
    TopologyEvent,
    TopologyOpenedEvent,
)
from mangonel._observe.pool_events import (
    ConnectionCheckedInEvent,
    ConnectionCheckedOutEvent,
    ConnectionCheckOutFailedEvent,
    ConnectionCheckOutFailedReason,
    ConnectionCheckOutStartedEvent,
    ConnectionClosedEvent,
    ConnectionClosedReason,
    ConnectionCreatedEvent,
    ConnectionReadyEvent,
    PoolClearedEvent,
    PoolClosedEvent,
    PoolCreatedEvent,
    PoolReadyEvent,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CommandFailedEvent",
    "CommandListener",
    "CommandStartedEvent",
    "CommandSucceededEvent",
    "ConnectionCheckOutFailedEvent",
    "ConnectionCheckOutFailedReason",
    "ConnectionCheckOutStartedEvent",
    "ConnectionCheckedInEvent",
    "ConnectionCheckedOutEvent",
    "ConnectionClosedEvent",
    "ConnectionClosedReason",
    "ConnectionCreatedEvent",
    "ConnectionPoolListener",
    "ConnectionReadyEvent",
    "PoolClearedEvent",
    "PoolClosedEvent",
    "PoolCreatedEvent",
    "PoolReadyEvent",
    "ServerClosedEvent",
    "ServerDescriptionChangedEvent",
    "ServerHeartbeatFailedEvent",
    "ServerHeartbeatListener",
    "ServerHeartbeatStartedEvent",
    "ServerHeartbeatSucceededEvent",
    "ServerListener",
    "ServerOpeningEvent",
    "TopologyClosedEvent",
    "TopologyDescriptionChangedEvent",
    "TopologyEvent",
    "TopologyListener",
    "TopologyOpenedEvent",
    "register",
]


class _EventListener:
    """Base of every kind of listener. One class may inherit from several kinds."""


class CommandListener(_EventListener):
    """Receives an event for every command, except those of handshakes and heartbeats.

    An exception is printed to stderr and otherwise ignored. A method that is not overridden raises NotImplementedError.

    Example:
        >>> class Slow(CommandListener):
        ...     def started(self, event): pass
        ...     def failed(self, event): pass
        ...     def succeeded(self, event):
        ...         if event.duration_micros > 100_000:
        ...             print(event)
        >>> client = MongoClient(event_listeners=[Slow()])
    """

    def started(self, event: CommandStartedEvent) -> None:
        """Called before a command is sent."""
        raise NotImplementedError

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Called when a server has answered a command with `ok: 1`."""
        raise NotImplementedError

    def failed(self, event: CommandFailedEvent) -> None:
        """Called when a server has refused a command or the connection failed."""
        raise NotImplementedError


class ConnectionPoolListener(_EventListener):
    """Receives the events of pools, connections and check-outs.

    An exception is printed to stderr and otherwise ignored. A method that is not overridden raises NotImplementedError.

    Example:
        >>> class Opened(ConnectionPoolListener):
        ...     def connection_ready(self, event):
        ...         print(event.address, event.connection_id, event.duration)
        ...     def _nothing(self, event): pass
        ...     pool_created = pool_ready = pool_cleared = pool_closed = connection_created = _nothing
        ...     connection_closed = connection_check_out_started = connection_check_out_failed = _nothing
        ...     connection_checked_out = connection_checked_in = _nothing
        >>> client = MongoClient(event_listeners=[Opened()])
    """

    def pool_created(self, event: PoolCreatedEvent) -> None:
        """Called when the pool of a server is created."""
        raise NotImplementedError

    def pool_ready(self, event: PoolReadyEvent) -> None:
        """Called when a pool becomes ready to hand out connections."""
        raise NotImplementedError

    def pool_cleared(self, event: PoolClearedEvent) -> None:
        """Called when a pool is cleared: its connections will not be used again."""
        raise NotImplementedError

    def pool_closed(self, event: PoolClosedEvent) -> None:
        """Called when a pool is closed."""
        raise NotImplementedError

    def connection_created(self, event: ConnectionCreatedEvent) -> None:
        """Called before a connection is opened."""
        raise NotImplementedError

    def connection_ready(self, event: ConnectionReadyEvent) -> None:
        """Called when a connection has completed its handshake."""
        raise NotImplementedError

    def connection_closed(self, event: ConnectionClosedEvent) -> None:
        """Called when a connection is closed."""
        raise NotImplementedError

    def connection_check_out_started(self, event: ConnectionCheckOutStartedEvent) -> None:
        """Called when an operation starts to check out a connection."""
        raise NotImplementedError

    def connection_check_out_failed(self, event: ConnectionCheckOutFailedEvent) -> None:
        """Called when a check-out fails."""
        raise NotImplementedError

    def connection_checked_out(self, event: ConnectionCheckedOutEvent) -> None:
        """Called when a connection is checked out."""
        raise NotImplementedError

    def connection_checked_in(self, event: ConnectionCheckedInEvent) -> None:
        """Called when a connection is checked in."""
        raise NotImplementedError


class ServerHeartbeatListener(_EventListener):
    """Receives the heartbeats of servers. The monitoring threads call its methods.

    An exception is printed to stderr and otherwise ignored. A method that is not overridden raises NotImplementedError.

    Example:
        >>> class Beats(ServerHeartbeatListener):
        ...     def started(self, event): pass
        ...     def succeeded(self, event): pass
        ...     def failed(self, event):
        ...         print(event.connection_id, event.reply)
        >>> client = MongoClient(event_listeners=[Beats()])
    """

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """Called when a heartbeat starts."""
        raise NotImplementedError

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        """Called when a server has answered a heartbeat."""
        raise NotImplementedError

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """Called when a heartbeat fails."""
        raise NotImplementedError


class TopologyListener(_EventListener):
    """Receives the events of the topology as a whole.

    An exception is printed to stderr and otherwise ignored. A method that is not overridden raises NotImplementedError.

    Example:
        >>> class Deployment(TopologyListener):
        ...     def opened(self, event): pass
        ...     def closed(self, event): pass
        ...     def description_changed(self, event):
        ...         print(event.new_description.topology_type_name)
        >>> client = MongoClient(event_listeners=[Deployment()])
    """

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Called when a client starts monitoring its topology."""
        raise NotImplementedError

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """Called when the topology's description changes."""
        raise NotImplementedError

    def closed(self, event: TopologyClosedEvent) -> None:
        """Called when the client is closed."""
        raise NotImplementedError


class ServerListener(_EventListener):
    """Receives the events of the servers in the topology.

    An exception is printed to stderr and otherwise ignored. A method that is not overridden raises NotImplementedError.

    Example:
        >>> class Servers(ServerListener):
        ...     def opened(self, event): pass
        ...     def closed(self, event): pass
        ...     def description_changed(self, event):
        ...         print(event.server_address, event.new_description.server_type_name)
        >>> client = MongoClient(event_listeners=[Servers()])
    """

    def opened(self, event: ServerOpeningEvent) -> None:
        """Called when a server is added to the topology."""
        raise NotImplementedError

    def description_changed(self, event: ServerDescriptionChangedEvent) -> None:
        """Called when a server's description changes."""
        raise NotImplementedError

    def closed(self, event: ServerClosedEvent) -> None:
        """Called when a server is removed from the topology."""
        raise NotImplementedError


_KINDS = (
    CommandListener,
    ServerHeartbeatListener,
    ServerListener,
    TopologyListener,
    ConnectionPoolListener,
)
# The other three kinds share their method names, so only the base class distinguishes them.
_KINDS_BY_METHODS = (CommandListener, ConnectionPoolListener)

# The listeners of every client that is made from now on.
_registered: list[Any] = []


def register(listener: Any) -> None:
    """Add `listener` to every client that is made from now on.

    Args:
        listener: an instance of a listener class of this module or of PyMongo's `monitoring`, or an object with all
            methods of a CommandListener or of a ConnectionPoolListener.

    Raises:
        TypeError: the object is not a listener.

    Example:
        >>> monitoring.register(Slow())
    """
    _registered.append(_checked("register", listener))


def check_listeners(option: str, listeners: Any) -> Any:
    """Return `listeners` after checking that each is a listener.

    Raises:
        TypeError: one of them is not a listener.
    """
    for listener in listeners:
        _checked(option, listener)
    return listeners


def kinds_of(listener: Any) -> tuple[type[_EventListener], ...]:
    """Return the listener classes of this module that an object implements; empty if it is not a listener."""
    if isinstance(listener, type):
        return ()
    # PyMongo's classes have the same names and the same methods.
    names = {base.__name__ for base in type(listener).__mro__}
    kinds = tuple(kind for kind in _KINDS if kind.__name__ in names)
    return kinds or tuple(kind for kind in _KINDS_BY_METHODS if _has_methods(listener, kind))


def _has_methods(listener: Any, kind: type[_EventListener]) -> bool:
    return all(callable(getattr(listener, name, None)) for name in vars(kind) if not name.startswith("_"))


def _checked(place: str, listener: Any) -> Any:
    if not kinds_of(listener):
        raise TypeError(
            f"Listeners for {place} must be either a CommandListener, ServerHeartbeatListener, ServerListener, "
            f"TopologyListener, or ConnectionPoolListener, not {type(listener)}; an object of another class needs "
            "every method of a CommandListener or of a ConnectionPoolListener"
        )
    return listener
