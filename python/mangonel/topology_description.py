"""The description of a deployment, as listeners receive it. The core uses its own copy.

Spec: server-discovery-and-monitoring (TopologyDescription).
"""

from __future__ import annotations

from collections import namedtuple

from mangonel.read_preferences import ReadPreference, _ServerMode
from mangonel.server_description import ServerDescription, described
from mangonel.server_type import SERVER_TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.typings import _Address

__all__ = ["TOPOLOGY_TYPE", "TopologyDescription"]

_TopologyType = namedtuple(
    "_TopologyType", "Single ReplicaSetNoPrimary ReplicaSetWithPrimary Sharded Unknown LoadBalanced"
)

TOPOLOGY_TYPE = _TopologyType(*range(6))


class TopologyDescription:
    """The state of the topology after the checks of all servers. Immutable.

    Args:
        topology_type: one of `TOPOLOGY_TYPE`.
        server_descriptions: the server descriptions by address.
        replica_set_name: the name of the replica set, or None.
        max_set_version: the greatest set version that a primary reported, or None.
        max_election_id: the greatest election id that a primary reported, or None.
        topology_id: the id in the events of this topology.
    """

    def __init__(
        self,
        topology_type: int,
        server_descriptions: dict[_Address, ServerDescription],
        replica_set_name: str | None,
        max_set_version: int | None,
        max_election_id: ObjectId | None,
        topology_id: ObjectId | None = None,
    ) -> None:
        self._topology_type = topology_type
        self._servers = server_descriptions
        self._replica_set_name = replica_set_name
        self._max_set_version = max_set_version
        self._max_election_id = max_election_id
        self._topology_id = topology_id

    @property
    def topology_type(self) -> int:
        """The topology's type: one of `TOPOLOGY_TYPE`."""
        return self._topology_type

    @property
    def topology_type_name(self) -> str:
        """The specification's name of the topology's type."""
        return TOPOLOGY_TYPE._fields[self._topology_type]

    @property
    def replica_set_name(self) -> str | None:
        """The name of the replica set, or None."""
        return self._replica_set_name

    @property
    def max_set_version(self) -> int | None:
        """The greatest set version that a primary reported."""
        return self._max_set_version

    @property
    def max_election_id(self) -> ObjectId | None:
        """The greatest election id that a primary reported."""
        return self._max_election_id

    @property
    def logical_session_timeout_minutes(self) -> int | None:
        """The smallest value of all readable servers; None if one of them reports none, or if there are none."""
        minutes = [server.logical_session_timeout_minutes for server in self.readable_servers]
        known = [number for number in minutes if number is not None]
        return min(known) if known and len(known) == len(minutes) else None

    @property
    def known_servers(self) -> list[ServerDescription]:
        """The servers whose last check succeeded."""
        return [server for server in self._servers.values() if server.is_server_type_known]

    @property
    def has_known_servers(self) -> bool:
        """Whether the last check of any server succeeded."""
        return bool(self.known_servers)

    @property
    def readable_servers(self) -> list[ServerDescription]:
        """The servers that accept reads."""
        return [server for server in self._servers.values() if server.is_readable]

    @property
    def common_wire_version(self) -> int | None:
        """The newest wire version that all known servers support."""
        return min((server.max_wire_version for server in self.known_servers), default=None)

    def server_descriptions(self) -> dict[_Address, ServerDescription]:
        """Return the server descriptions by address."""
        return self._servers.copy()

    def has_server(self, address: _Address) -> bool:
        """Return whether the topology has a server with this address.

        Args:
            address: host and port.

        Example:
            >>> client.topology_description.has_server(("nowhere.example", 27017))
            False
        """
        return address in self._servers

    def has_readable_server(self, read_preference: _ServerMode = ReadPreference.PRIMARY) -> bool:
        """Return whether a server matches this read preference, by mode and tags.

        Args:
            read_preference: which members may be read from.

        Raises:
            TypeError: `read_preference` is not a read preference.

        Example:
            >>> client.admin.command("ping")["ok"], client.topology_description.has_readable_server()
            (1.0, True)
        """
        if not isinstance(read_preference, _ServerMode):
            raise TypeError(f"{read_preference!r} is not a read preference; use one of ReadPreference")
        known = self.known_servers
        if self._topology_type in (TOPOLOGY_TYPE.Single, TOPOLOGY_TYPE.Sharded, TOPOLOGY_TYPE.LoadBalanced):
            return bool(known)
        primaries = [server for server in known if server.server_type == SERVER_TYPE.RSPrimary]
        secondaries = [server for server in known if server.server_type == SERVER_TYPE.RSSecondary]
        mode, tag_sets = read_preference.mongos_mode, read_preference.tag_sets
        if mode == "primary":
            return bool(primaries)
        if mode == "nearest":
            return _any_tagged(primaries + secondaries, tag_sets)
        if mode != "secondary" and primaries:
            return True
        return _any_tagged(secondaries, tag_sets)

    def has_writable_server(self) -> bool:
        """Return whether a server accepts writes."""
        return self.has_readable_server(ReadPreference.PRIMARY)

    def __repr__(self) -> str:
        servers = [self._servers[address] for address in sorted(self._servers, key=str)]
        return (
            f"<{type(self).__name__} id: {self._topology_id}, "
            f"topology_type: {self.topology_type_name}, servers: {servers!r}>"
        )


def _any_tagged(servers: list[ServerDescription], tag_sets: Iterable[Any]) -> bool:
    return any(tags.items() <= server.tags.items() for tags in tag_sets for server in servers)


def topology_described(known: tuple[Any, ...], topology_id: ObjectId) -> TopologyDescription:
    """Return the description for the core's facts; servers as `server_description.described` takes them."""
    type_name, set_name, max_set_version, max_election_id, servers = known
    made = [described(*facts) for facts in servers]
    return TopologyDescription(
        getattr(TOPOLOGY_TYPE, type_name),
        {server.address: server for server in made},
        set_name,
        max_set_version,
        max_election_id,
        topology_id,
    )
