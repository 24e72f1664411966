"""The events of pools and connections, as listeners receive them. Users find the classes in `monitoring`.

Spec: connection-monitoring-and-pooling.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.typings import _Address


class ConnectionClosedReason:
    """Why a connection was closed."""

    STALE = "stale"
    """The pool was cleared since the connection was opened."""
    IDLE = "idle"
    """The connection was idle for longer than maxIdleTimeMS."""
    ERROR = "error"
    """The connection broke, or could not be opened."""
    POOL_CLOSED = "poolClosed"
    """The pool was closed."""


class ConnectionCheckOutFailedReason:
    """Why a check-out failed."""

    TIMEOUT = "timeout"
    """No connection became free within waitQueueTimeoutMS."""
    POOL_CLOSED = "poolClosed"
    """The pool was closed."""
    CONN_ERROR = "connectionError"
    """A new connection could not be opened, or the pool was cleared meanwhile."""


class _AddressEvent:
    """Base of the events of pools and connections.

    Args:
        address: host and port of the server.
    """

    __slots__ = ("_address",)

    def __init__(self, address: _Address) -> None:
        self._address = address

    @property
    def address(self) -> _Address:
        """Host and port of the server."""
        return self._address

    def _values(self) -> tuple[Any, ...]:
        return (self._address,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._values()))})"


class PoolCreatedEvent(_AddressEvent):
    """The pool of a server was created; it hands out no connections yet.

    Args:
        address: host and port of the server.
        options: the pool options that differ from the defaults, by URI name.
    """

    __slots__ = ("_options",)

    def __init__(self, address: _Address, options: dict[str, Any]) -> None:
        super().__init__(address)
        self._options = options

    @property
    def options(self) -> dict[str, Any]:
        """The pool options that differ from the defaults, by URI name."""
        return self._options

    def _values(self) -> tuple[Any, ...]:
        return self._address, self._options


class PoolReadyEvent(_AddressEvent):
    """The pool is ready to hand out connections."""

    __slots__ = ()


class PoolClearedEvent(_AddressEvent):
    """The pool was cleared: its connections will not be used again.

    Args:
        address: host and port of the server.
        service_id: behind a load balancer, only connections of this service are affected.
        interrupt_connections: whether connections in use are closed at once.
    """

    __slots__ = ("_interrupts", "_service_id")

    def __init__(
        self, address: _Address, service_id: ObjectId | None = None, interrupt_connections: bool = False
    ) -> None:
        super().__init__(address)
        self._service_id = service_id
        self._interrupts = interrupt_connections

    @property
    def service_id(self) -> ObjectId | None:
        """The affected service behind a load balancer, otherwise None."""
        return self._service_id

    @property
    def interrupt_connections(self) -> bool:
        """Whether connections in use are closed at once."""
        return self._interrupts

    def _values(self) -> tuple[Any, ...]:
        return self._address, self._service_id, self._interrupts


class PoolClosedEvent(_AddressEvent):
    """The pool was closed."""

    __slots__ = ()


class _ConnectionEvent(_AddressEvent):
    """Base of the events of one connection.

    Args:
        address: host and port of the server.
        connection_id: the driver's number for the connection, unique in its client.
    """

    __slots__ = ("_connection_id",)

    def __init__(self, address: _Address, connection_id: int) -> None:
        super().__init__(address)
        self._connection_id = connection_id

    @property
    def connection_id(self) -> int:
        """The driver's number for the connection."""
        return self._connection_id

    def _values(self) -> tuple[Any, ...]:
        return self._address, self._connection_id


class _TimedEvent(_ConnectionEvent):
    """Base of the events of one connection that have a duration.

    Args:
        address: host and port of the server.
        connection_id: the driver's number for the connection.
        duration: seconds.
    """

    __slots__ = ("_duration",)

    def __init__(self, address: _Address, connection_id: int, duration: float | None) -> None:
        super().__init__(address, connection_id)
        self._duration = duration

    @property
    def duration(self) -> float | None:
        """The duration in seconds."""
        return self._duration

    def _values(self) -> tuple[Any, ...]:
        return self._address, self._connection_id, self._duration


class ConnectionCreatedEvent(_ConnectionEvent):
    """A connection is about to be opened."""

    __slots__ = ()


class ConnectionReadyEvent(_TimedEvent):
    """A connection has completed its handshake; `duration` counts from its creation."""

    __slots__ = ()


class ConnectionClosedEvent(_ConnectionEvent):
    """A connection was closed.

    Args:
        address: host and port of the server.
        connection_id: the driver's number for the connection.
        reason: one of `ConnectionClosedReason`.
    """

    __slots__ = ("_reason",)

    def __init__(self, address: _Address, connection_id: int, reason: str) -> None:
        super().__init__(address, connection_id)
        self._reason = reason

    @property
    def reason(self) -> str:
        """One of `ConnectionClosedReason`."""
        return self._reason

    def _values(self) -> tuple[Any, ...]:
        return self._address, self._connection_id, self._reason


class ConnectionCheckOutStartedEvent(_AddressEvent):
    """An operation started to check out a connection."""

    __slots__ = ()


class ConnectionCheckOutFailedEvent(_TimedEvent):
    """A check-out failed; `duration` counts from its start.

    Args:
        address: host and port of the server.
        reason: one of `ConnectionCheckOutFailedReason`.
        duration: seconds.
    """

    __slots__ = ("_error", "_reason")

    # For the log: the connection's error.
    _error: str | None

    def __init__(self, address: _Address, reason: str, duration: float | None) -> None:
        super().__init__(address, 0, duration)
        self._reason = reason
        self._error = None

    @property
    def reason(self) -> str:
        """One of `ConnectionCheckOutFailedReason`."""
        return self._reason

    def _values(self) -> tuple[Any, ...]:
        return self._address, self._reason, self._duration


class ConnectionCheckedOutEvent(_TimedEvent):
    """A connection was checked out; `duration` counts from the start of the check-out."""

    __slots__ = ()


class ConnectionCheckedInEvent(_ConnectionEvent):
    """A connection was checked in."""

    __slots__ = ()
