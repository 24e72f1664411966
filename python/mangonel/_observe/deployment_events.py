"""The events of servers, heartbeats and the topology, as listeners receive them.

Users find the classes in `monitoring`. Spec: server-discovery-and-monitoring-logging-and-monitoring.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.hello import Hello
    from mangonel.server_description import ServerDescription
    from mangonel.topology_description import TopologyDescription
    from mangonel.typings import _Address


class _ServerEvent:
    """Base of the server events.

    Args:
        server_address: host and port of the server.
        topology_id: id of the server's topology.
    """

    __slots__ = ("_server_address", "_topology_id")

    def __init__(self, server_address: _Address, topology_id: ObjectId) -> None:
        self._server_address = server_address
        self._topology_id = topology_id

    @property
    def server_address(self) -> _Address:
        """Host and port of the server."""
        return self._server_address

    @property
    def topology_id(self) -> ObjectId:
        """The id of the server's topology; each client has its own."""
        return self._topology_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._server_address} topology_id: {self._topology_id}>"


class ServerOpeningEvent(_ServerEvent):
    """A server was added to the topology."""

    __slots__ = ()


class ServerClosedEvent(_ServerEvent):
    """A server was removed from the topology."""

    __slots__ = ()


class ServerDescriptionChangedEvent(_ServerEvent):
    """A server's description changed.

    Args:
        previous_description, new_description: before and after.
        args: the server's address and its topology's id.
    """

    __slots__ = ("_new", "_previous")

    def __init__(
        self, previous_description: ServerDescription, new_description: ServerDescription, *args: Any
    ) -> None:
        super().__init__(*args)
        self._previous = previous_description
        self._new = new_description

    @property
    def previous_description(self) -> ServerDescription:
        """The description before the change."""
        return self._previous

    @property
    def new_description(self) -> ServerDescription:
        """The description after the change."""
        return self._new

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self._server_address} changed from: {self._previous}, to: {self._new}>"
        )


class TopologyEvent:
    """Base of the topology events.

    Args:
        topology_id: id of the topology.
    """

    __slots__ = ("_topology_id",)

    def __init__(self, topology_id: ObjectId) -> None:
        self._topology_id = topology_id

    @property
    def topology_id(self) -> ObjectId:
        """The id of the topology; each client has its own."""
        return self._topology_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} topology_id: {self._topology_id}>"


class TopologyOpenedEvent(TopologyEvent):
    """A client started monitoring its topology."""

    __slots__ = ()


class TopologyClosedEvent(TopologyEvent):
    """A client was closed."""

    __slots__ = ()


class TopologyDescriptionChangedEvent(TopologyEvent):
    """The topology's description changed.

    Args:
        previous_description, new_description: before and after.
        args: the topology's id.
    """

    __slots__ = ("_new", "_previous")

    def __init__(
        self, previous_description: TopologyDescription, new_description: TopologyDescription, *args: Any
    ) -> None:
        super().__init__(*args)
        self._previous = previous_description
        self._new = new_description

    @property
    def previous_description(self) -> TopologyDescription:
        """The description before the change."""
        return self._previous

    @property
    def new_description(self) -> TopologyDescription:
        """The description after the change."""
        return self._new

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} topology_id: {self._topology_id} "
            f"changed from: {self._previous}, to: {self._new}>"
        )


class _ServerHeartbeatEvent:
    """Base of the heartbeat events.

    Args:
        connection_id: host and port of the server.
        awaited: whether the server may delay its reply until something changes.
    """

    __slots__ = ("_awaited", "_connection_id")

    def __init__(self, connection_id: _Address, awaited: bool = False) -> None:
        self._connection_id = connection_id
        self._awaited = awaited

    @property
    def connection_id(self) -> _Address:
        """Host and port of the server."""
        return self._connection_id

    @property
    def awaited(self) -> bool:
        """Whether the server may delay its reply until something changes."""
        return self._awaited

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connection_id} awaited: {self._awaited}>"


class ServerHeartbeatStartedEvent(_ServerHeartbeatEvent):
    """A heartbeat started."""

    __slots__ = ()


class ServerHeartbeatSucceededEvent(_ServerHeartbeatEvent):
    """A server answered a heartbeat.

    Args:
        duration: seconds.
        reply: the server's reply.
        connection_id: host and port of the server.
        awaited: whether the server could delay its reply.
    """

    __slots__ = ("_bson", "_duration", "_reply")

    # For the log: the reply as received.
    _bson: bytes | None

    def __init__(
        self, duration: float, reply: Hello[Any], connection_id: _Address, awaited: bool = False
    ) -> None:
        super().__init__(connection_id, awaited)
        self._duration = duration
        self._reply = reply
        self._bson = None

    @property
    def duration(self) -> float:
        """The duration of the check, in seconds."""
        return self._duration

    @property
    def reply(self) -> Hello[Any]:
        """The server's reply; `reply.document` is the whole document."""
        return self._reply

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self._connection_id} duration: {self._duration}, "
            f"awaited: {self._awaited}, reply: {self._reply}>"
        )


class ServerHeartbeatFailedEvent(_ServerHeartbeatEvent):
    """A heartbeat failed.

    Args:
        duration: seconds.
        reply: the error.
        connection_id: host and port of the server.
        awaited: whether the server could delay its reply.
    """

    __slots__ = ("_duration", "_reply")

    def __init__(
        self, duration: float, reply: Exception, connection_id: _Address, awaited: bool = False
    ) -> None:
        super().__init__(connection_id, awaited)
        self._duration = duration
        self._reply = reply

    @property
    def duration(self) -> float:
        """The duration of the check, in seconds."""
        return self._duration

    @property
    def reply(self) -> Exception:
        """The error."""
        return self._reply

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self._connection_id} duration: {self._duration}, "
            f"awaited: {self._awaited}, reply: {self._reply!r}>"
        )
