"""Listeners for what a client does: commands, connections and their pools, servers and the whole deployment.

A listener is given to one client with `MongoClient(event_listeners=[...])`, or to every client made later with
`register`. Its methods are called in the thread or task that caused the event, after the driver has let go of its
locks: a slow listener slows that operation down, and a listener may use the driver itself. What it raises is printed
to stderr and harms nothing.

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
    """Base of every kind of listener; one class may inherit from several kinds."""


class CommandListener(_EventListener):
    """Hears of every command that is sent, but for those that open a connection or watch a server.

    What a method raises is printed to stderr and harms nothing; one that is not written raises NotImplementedError.

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
        """Hear that a command is about to be sent."""
        raise NotImplementedError

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Hear that a command was answered with `ok: 1`."""
        raise NotImplementedError

    def failed(self, event: CommandFailedEvent) -> None:
        """Hear that a command was refused or not answered."""
        raise NotImplementedError


class ConnectionPoolListener(_EventListener):
    """Hears of pools, of their connections, and of operations that ask for one.

    What a method raises is printed to stderr and harms nothing; one that is not written raises NotImplementedError.

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
        """Hear that the pool of a server was made."""
        raise NotImplementedError

    def pool_ready(self, event: PoolReadyEvent) -> None:
        """Hear that a pool hands out connections from now on."""
        raise NotImplementedError

    def pool_cleared(self, event: PoolClearedEvent) -> None:
        """Hear that the connections of a pool are not to be used again."""
        raise NotImplementedError

    def pool_closed(self, event: PoolClosedEvent) -> None:
        """Hear that a pool is gone."""
        raise NotImplementedError

    def connection_created(self, event: ConnectionCreatedEvent) -> None:
        """Hear that a connection is about to be opened."""
        raise NotImplementedError

    def connection_ready(self, event: ConnectionReadyEvent) -> None:
        """Hear that a connection has done its handshake."""
        raise NotImplementedError

    def connection_closed(self, event: ConnectionClosedEvent) -> None:
        """Hear that a connection was closed."""
        raise NotImplementedError

    def connection_check_out_started(self, event: ConnectionCheckOutStartedEvent) -> None:
        """Hear that an operation asks for a connection."""
        raise NotImplementedError

    def connection_check_out_failed(self, event: ConnectionCheckOutFailedEvent) -> None:
        """Hear that an operation gets no connection."""
        raise NotImplementedError

    def connection_checked_out(self, event: ConnectionCheckedOutEvent) -> None:
        """Hear that an operation got a connection."""
        raise NotImplementedError

    def connection_checked_in(self, event: ConnectionCheckedInEvent) -> None:
        """Hear that an operation gave its connection back."""
        raise NotImplementedError


class ServerHeartbeatListener(_EventListener):
    """Hears of the checks of servers; its methods are called in the threads that watch them.

    What a method raises is printed to stderr and harms nothing; one that is not written raises NotImplementedError.

    Example:
        >>> class Beats(ServerHeartbeatListener):
        ...     def started(self, event): pass
        ...     def succeeded(self, event): pass
        ...     def failed(self, event):
        ...         print(event.connection_id, event.reply)
        >>> client = MongoClient(event_listeners=[Beats()])
    """

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """Hear that a check began."""
        raise NotImplementedError

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        """Hear that a server answered to a check."""
        raise NotImplementedError

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """Hear that a check failed."""
        raise NotImplementedError


class TopologyListener(_EventListener):
    """Hears of the deployment as a whole.

    What a method raises is printed to stderr and harms nothing; one that is not written raises NotImplementedError.

    Example:
        >>> class Deployment(TopologyListener):
        ...     def opened(self, event): pass
        ...     def closed(self, event): pass
        ...     def description_changed(self, event):
        ...         print(event.new_description.topology_type_name)
        >>> client = MongoClient(event_listeners=[Deployment()])
    """

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Hear that a client began to look at its deployment."""
        raise NotImplementedError

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """Hear that what is known of the deployment changed."""
        raise NotImplementedError

    def closed(self, event: TopologyClosedEvent) -> None:
        """Hear that a client was closed."""
        raise NotImplementedError


class ServerListener(_EventListener):
    """Hears of the servers of the deployment.

    What a method raises is printed to stderr and harms nothing; one that is not written raises NotImplementedError.

    Example:
        >>> class Servers(ServerListener):
        ...     def opened(self, event): pass
        ...     def closed(self, event): pass
        ...     def description_changed(self, event):
        ...         print(event.server_address, event.new_description.server_type_name)
        >>> client = MongoClient(event_listeners=[Servers()])
    """

    def opened(self, event: ServerOpeningEvent) -> None:
        """Hear that a server came into the topology."""
        raise NotImplementedError

    def description_changed(self, event: ServerDescriptionChangedEvent) -> None:
        """Hear that what is known of a server changed."""
        raise NotImplementedError

    def closed(self, event: ServerClosedEvent) -> None:
        """Hear that a server left the topology."""
        raise NotImplementedError


_KINDS = (
    CommandListener,
    ServerHeartbeatListener,
    ServerListener,
    TopologyListener,
    ConnectionPoolListener,
)
# The methods of the other three are those of a second kind, too, so that only a base class tells them apart.
_KINDS_BY_METHODS = (CommandListener, ConnectionPoolListener)

# The listeners of every client that is made from now on.
_registered: list[Any] = []


def register(listener: Any) -> None:
    """Give `listener` to every client that is made from now on.

    Args:
        listener: an object of a listener class of this module or of PyMongo's `monitoring`; or one with all methods
            of a CommandListener or of a ConnectionPoolListener.

    Raises:
        TypeError: it is no listener.

    Example:
        >>> monitoring.register(Slow())
    """
    _registered.append(_checked("register", listener))


def check_listeners(option: str, listeners: Any) -> Any:
    """Return the sequence `listeners`, of which each must be a listener.

    Raises:
        TypeError: one is not.
    """
    for listener in listeners:
        _checked(option, listener)
    return listeners


def kinds_of(listener: Any) -> tuple[type[_EventListener], ...]:
    """Return the kinds of listener that an object is, as classes of this module; none for what is no listener."""
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
