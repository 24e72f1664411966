"""The description of one server, as listeners and server selectors receive it. The core uses its own copy.

Spec: server-discovery-and-monitoring (ServerDescription).
"""

from __future__ import annotations

import time

from mangonel.common import MAX_BSON_SIZE, MAX_WRITE_BATCH_SIZE
from mangonel.server_type import SERVER_TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mangonel.bson.objectid import ObjectId
    from mangonel.hello import Hello
    from mangonel.typings import _Address

__all__ = ["ServerDescription"]

_WRITABLE = frozenset(
    [SERVER_TYPE.RSPrimary, SERVER_TYPE.Standalone, SERVER_TYPE.Mongos, SERVER_TYPE.LoadBalancer]
)
# Equality compares these fields; times and round trips do not count.
_COMPARED = (
    "address",
    "server_type",
    "min_wire_version",
    "max_wire_version",
    "me",
    "all_hosts",
    "tags",
    "replica_set_name",
    "set_version",
    "election_id",
    "primary",
    "logical_session_timeout_minutes",
)
_UNKNOWN: dict[str, Any] = {
    "server_type": SERVER_TYPE.Unknown,
    "all_hosts": set(),
    "tags": {},
    "replica_set_name": None,
    "primary": None,
    "max_bson_size": MAX_BSON_SIZE,
    "max_message_size": 48_000_000,
    "max_write_batch_size": MAX_WRITE_BATCH_SIZE,
    "min_wire_version": 0,
    "max_wire_version": 0,
    "set_version": None,
    "election_id": None,
    "cluster_time": None,
    "me": None,
    "logical_session_timeout_minutes": None,
    "last_write_date": None,
    "topology_version": None,
}


class ServerDescription:
    """The result of a server's last check. Immutable.

    Args:
        address: host and port.
        hello: the server's reply; None: the server is unknown.
        round_trip_time: the average duration of a check, in seconds.
        error: why the server is unknown.
        min_round_trip_time: the shortest of the last checks, in seconds.
    """

    __slots__ = (
        "_address",
        "_error",
        "_facts",
        "_last_update_time",
        "_min_round_trip_time",
        "_round_trip_time",
    )

    def __init__(
        self,
        address: _Address,
        hello: Hello[Any] | None = None,
        round_trip_time: float | None = None,
        error: Exception | None = None,
        min_round_trip_time: float = 0.0,
    ) -> None:
        self._address = address
        self._error = error
        self._round_trip_time = round_trip_time
        self._min_round_trip_time = min_round_trip_time
        self._last_update_time = time.monotonic()
        self._facts = _UNKNOWN if hello is None else {name: getattr(hello, name) for name in _UNKNOWN}
        written = self._facts["last_write_date"]
        if written is not None:
            from datetime import UTC

            self._facts["last_write_date"] = written.replace(tzinfo=UTC).timestamp()

    @property
    def address(self) -> _Address:
        """Host and port, or the path of a UNIX socket and None."""
        return self._address

    @property
    def server_type(self) -> int:
        """The server's type: one of `SERVER_TYPE`."""
        return self._facts["server_type"]

    @property
    def server_type_name(self) -> str:
        """The specification's name of the server's type."""
        return SERVER_TYPE._fields[self.server_type]

    @property
    def all_hosts(self) -> set[tuple[str, int]]:
        """Every member of the replica set in the server's reply."""
        return set(self._facts["all_hosts"])

    @property
    def tags(self) -> Mapping[str, Any]:
        """The tags of the member."""
        return self._facts["tags"]

    @property
    def replica_set_name(self) -> str | None:
        """The name of its replica set."""
        return self._facts["replica_set_name"]

    @property
    def primary(self) -> tuple[str, int] | None:
        """The primary according to this member."""
        return self._facts["primary"]

    @property
    def max_bson_size(self) -> int:
        """The size of the largest document that the server stores, in bytes."""
        return int(self._facts["max_bson_size"])

    @property
    def max_message_size(self) -> int:
        """The size of the largest message that the server accepts, in bytes."""
        return int(self._facts["max_message_size"])

    @property
    def max_write_batch_size(self) -> int:
        """How many writes one command may hold."""
        return int(self._facts["max_write_batch_size"])

    @property
    def min_wire_version(self) -> int:
        """The oldest wire version that the server supports."""
        return int(self._facts["min_wire_version"])

    @property
    def max_wire_version(self) -> int:
        """The newest wire version that the server supports."""
        return int(self._facts["max_wire_version"])

    @property
    def set_version(self) -> int | None:
        """The version of its replica set's configuration."""
        return self._facts["set_version"]

    @property
    def election_id(self) -> ObjectId | None:
        """The id of the election that made this member the primary."""
        return self._facts["election_id"]

    @property
    def cluster_time(self) -> Mapping[str, Any] | None:
        """The cluster time in its hello reply; the core keeps the deployment's newest elsewhere."""
        return self._facts["cluster_time"]

    @property
    def me(self) -> tuple[str, int] | None:
        """The member's own name for itself."""
        return self._facts["me"]

    @property
    def logical_session_timeout_minutes(self) -> int | None:
        """How many minutes the server keeps idle sessions."""
        return self._facts["logical_session_timeout_minutes"]

    @property
    def last_write_date(self) -> float | None:
        """The time of the server's last write, in seconds since 1970."""
        return self._facts["last_write_date"]

    @property
    def topology_version(self) -> Mapping[str, Any] | None:
        """The version of the server's view of the topology: `processId` and `counter`."""
        return self._facts["topology_version"]

    @property
    def last_update_time(self) -> float:
        """The time of this description, of `time.monotonic()`."""
        return self._last_update_time

    @property
    def round_trip_time(self) -> float | None:
        """The average duration of a check, in seconds; None before the first."""
        return self._round_trip_time

    @property
    def min_round_trip_time(self) -> float:
        """The shortest of the last checks, in seconds; 0 if there are too few."""
        return self._min_round_trip_time

    @property
    def error(self) -> Exception | None:
        """Why the server is unknown, or None."""
        return self._error

    @property
    def is_writable(self) -> bool:
        """Whether the server accepts writes."""
        return self.server_type in _WRITABLE

    @property
    def is_readable(self) -> bool:
        """Whether the server accepts reads."""
        return self.server_type == SERVER_TYPE.RSSecondary or self.is_writable

    @property
    def mongos(self) -> bool:
        """Whether the server is a mongos."""
        return bool(self.server_type == SERVER_TYPE.Mongos)

    @property
    def is_server_type_known(self) -> bool:
        """Whether the last check succeeded."""
        return bool(self.server_type != SERVER_TYPE.Unknown)

    @property
    def retryable_writes_supported(self) -> bool:
        """Whether the server supports retryable writes."""
        return self.server_type in (SERVER_TYPE.Mongos, SERVER_TYPE.RSPrimary, SERVER_TYPE.LoadBalancer)

    @property
    def retryable_reads_supported(self) -> bool:
        """Whether the server supports retryable reads."""
        return self.max_wire_version >= 6

    def to_unknown(self, error: Exception | None = None) -> ServerDescription:
        """Return the description of the same server after a failure.

        Args:
            error: the failure. None: no reason is known.

        Example:
            >>> ServerDescription(("db.example", 27017)).to_unknown().server_type_name
            'Unknown'
        """
        unknown = ServerDescription(self._address, error=error)
        unknown._facts = {**_UNKNOWN, "topology_version": self.topology_version}
        return unknown

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ServerDescription):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED) and str(
            self._error
        ) == str(other._error)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        error = f", error={self._error!r}" if self._error else ""
        return (
            f"<{type(self).__name__} {self._address} server_type: {self.server_type_name}, "
            f"rtt: {self._round_trip_time}{error}>"
        )


def described(
    address: _Address,
    type_name: str,
    round_trip_time: float | None,
    min_round_trip_time: float,
    error: str | None,
    facts: dict[str, Any],
) -> ServerDescription:
    """Return the description for the core's facts, which have the names of the properties above."""
    from mangonel.errors import AutoReconnect

    made = ServerDescription(
        address, None, round_trip_time, AutoReconnect(error) if error else None, min_round_trip_time
    )
    facts["server_type"] = getattr(SERVER_TYPE, type_name)
    facts["all_hosts"] = set(facts["all_hosts"])
    facts["tags"] = dict(facts["tags"])
    made._facts = {**_UNKNOWN, **facts}
    return made
