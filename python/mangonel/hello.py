"""A server's reply to hello, as heartbeat listeners receive it. Decides nothing: the core has its own copy.

Spec: server-discovery-and-monitoring (parsing a hello response).
"""

from __future__ import annotations

from mangonel._light import Generic
from mangonel.common import MAX_BSON_SIZE, MAX_WRITE_BATCH_SIZE
from mangonel.server_type import SERVER_TYPE
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping
    from typing import Any

    from mangonel.bson.objectid import ObjectId

__all__ = ["Hello"]

_WRITABLE = frozenset(
    [SERVER_TYPE.RSPrimary, SERVER_TYPE.Standalone, SERVER_TYPE.Mongos, SERVER_TYPE.LoadBalancer]
)


class Hello(Generic[_DocumentType]):
    """A server's reply to hello.

    Args:
        doc: the reply.
        awaitable: whether the server could delay the reply until something changed.
    """

    __slots__ = ("_awaitable", "_doc", "_server_type")

    def __init__(self, doc: _DocumentType, awaitable: bool = False) -> None:
        self._doc: Any = doc
        self._server_type = _server_type(doc)
        self._awaitable = awaitable

    @property
    def document(self) -> _DocumentType:
        """A copy of the whole reply."""
        import copy

        return copy.copy(self._doc)

    @property
    def server_type(self) -> int:
        """The server's type: one of `SERVER_TYPE`."""
        return self._server_type

    @property
    def all_hosts(self) -> set[tuple[str, int]]:
        """Every member of the replica set in the server's reply: hosts, passives and arbiters."""
        names = [
            *self._doc.get("hosts", ()),
            *self._doc.get("passives", ()),
            *self._doc.get("arbiters", ()),
        ]
        return {_node(name) for name in names}

    @property
    def tags(self) -> Mapping[str, Any]:
        """The tags of the member."""
        return self._doc.get("tags", {})

    @property
    def primary(self) -> tuple[str, int] | None:
        """The primary according to this member."""
        primary = self._doc.get("primary")
        return _node(primary) if primary else None

    @property
    def me(self) -> tuple[str, int] | None:
        """The member's own name for itself."""
        me = self._doc.get("me")
        return _node(me) if me else None

    @property
    def replica_set_name(self) -> str | None:
        """The name of the replica set."""
        return self._doc.get("setName")

    @property
    def max_bson_size(self) -> int:
        """The size of the largest document that the server stores, in bytes."""
        return int(self._doc.get("maxBsonObjectSize", MAX_BSON_SIZE))

    @property
    def max_message_size(self) -> int:
        """The size of the largest message that the server accepts, in bytes."""
        return int(self._doc.get("maxMessageSizeBytes", 48_000_000))

    @property
    def max_write_batch_size(self) -> int:
        """How many writes one command may hold."""
        return int(self._doc.get("maxWriteBatchSize", MAX_WRITE_BATCH_SIZE))

    @property
    def min_wire_version(self) -> int:
        """The oldest wire version that the server supports."""
        return int(self._doc.get("minWireVersion", 0))

    @property
    def max_wire_version(self) -> int:
        """The newest wire version that the server supports."""
        return int(self._doc.get("maxWireVersion", 0))

    @property
    def set_version(self) -> int | None:
        """The version of the replica set's configuration."""
        return self._doc.get("setVersion")

    @property
    def election_id(self) -> ObjectId | None:
        """The id of the election that made this member the primary."""
        return self._doc.get("electionId")

    @property
    def cluster_time(self) -> Mapping[str, Any] | None:
        """The cluster time in the reply."""
        return self._doc.get("$clusterTime")

    @property
    def logical_session_timeout_minutes(self) -> int | None:
        """How many minutes the server keeps idle sessions."""
        return self._doc.get("logicalSessionTimeoutMinutes")

    @property
    def is_writable(self) -> bool:
        """Whether the server accepts writes."""
        return self._server_type in _WRITABLE

    @property
    def is_readable(self) -> bool:
        """Whether the server accepts reads."""
        return self._server_type == SERVER_TYPE.RSSecondary or self.is_writable

    @property
    def last_write_date(self) -> datetime.datetime | None:
        """The time of the server's last write."""
        return self._doc.get("lastWrite", {}).get("lastWriteDate")

    @property
    def compressors(self) -> list[str] | None:
        """The compressors that the server shares with the client."""
        return self._doc.get("compression")

    @property
    def sasl_supported_mechs(self) -> list[str]:
        """The SASL mechanisms that the server supports for the user."""
        return self._doc.get("saslSupportedMechs", [])

    @property
    def topology_version(self) -> Mapping[str, Any] | None:
        """The version of the server's view of the topology."""
        return self._doc.get("topologyVersion")

    @property
    def awaitable(self) -> bool:
        """Whether the server could delay the reply until something changed."""
        return self._awaitable

    @property
    def service_id(self) -> ObjectId | None:
        """The id of the service behind a load balancer."""
        return self._doc.get("serviceId")

    @property
    def hello_ok(self) -> bool:
        """Whether the server supports the command `hello` under that name."""
        return bool(self._doc.get("helloOk", False))

    @property
    def connection_id(self) -> int | None:
        """The server's number for the connection."""
        return self._doc.get("connectionId")


def _node(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host.strip("[]").lower(), int(port)


def _server_type(doc: Mapping[str, Any]) -> int:
    return int(getattr(SERVER_TYPE, _server_type_name(doc)))


def _server_type_name(doc: Mapping[str, Any]) -> str:
    if not doc.get("ok"):
        return "Unknown"
    if doc.get("serviceId"):
        return "LoadBalancer"
    if doc.get("isreplicaset"):
        return "RSGhost"
    if doc.get("setName"):
        if doc.get("hidden"):
            return "RSOther"
        if doc.get("isWritablePrimary") or doc.get("ismaster"):
            return "RSPrimary"
        if doc.get("secondary"):
            return "RSSecondary"
        return "RSArbiter" if doc.get("arbiterOnly") else "RSOther"
    return "Mongos" if doc.get("msg") == "isdbgrid" else "Standalone"
