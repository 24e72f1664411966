"""Listeners for what a client does: commands, connections and their pools, servers and the whole deployment.

A listener is given to one client with `MongoClient(event_listeners=[...])`, or to every client made later with
`register`. Its methods are called in the thread or task that caused the event, after the driver has let go of its
locks: a slow listener slows that operation down, and a listener may use the driver itself. What it raises is printed
to stderr and harms nothing.

Spec: command-logging-and-monitoring, connection-monitoring-and-pooling,
server-discovery-and-monitoring-logging-and-monitoring.
"""

from __future__ import annotations

from mangonel._command_events import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CommandFailedEvent",
    "CommandListener",
    "CommandStartedEvent",
    "CommandSucceededEvent",
    "register",
]


class _EventListener:
    """Base of every kind of listener; one class may inherit from several kinds."""


class CommandListener(_EventListener):
    """Hears of every command that is sent, but for those that open a connection or watch a server.

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


# The listeners of every client that is made from now on.
_registered: list[_EventListener] = []


def register(listener: _EventListener) -> None:
    """Give `listener` to every client that is made from now on.

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


def _checked(place: str, listener: Any) -> _EventListener:
    if not isinstance(listener, _EventListener):
        raise TypeError(
            f"Listeners for {place} must be either a CommandListener, ServerHeartbeatListener, ServerListener, "
            f"TopologyListener, or ConnectionPoolListener, not {type(listener)}"
        )
    return listener
