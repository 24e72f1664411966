"""The facts that the check-up collects about one server: each step adds some, later steps read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Sight:
    """One server as seen from this machine.

    Args:
        host: name, IP address or path of a socket.
        port: None for the path of a socket.
        named_by: the server that named it as a member; empty for a seed.
    """

    host: str
    port: int | None
    named_by: str = ""
    addresses: list[str] = field(default_factory=list)
    # The step that failed, its error, and the other program that listens there.
    failed_at: str | None = None
    error: BaseException | None = None
    peer: str | None = None
    connect_seconds: float = 0.0
    refused: list[str] = field(default_factory=list)  # IP addresses to which no connection could be made
    tls: dict[str, Any] = field(default_factory=dict)
    # As `ssl.getpeercert` returns them, leaf first.
    certificates: list[dict[str, Any]] = field(default_factory=list)
    hello: dict[str, Any] = field(default_factory=dict)
    pings: list[float] = field(default_factory=list)  # seconds of each hello
    clock_skew: float | None = None  # seconds by which the server's clock is ahead
    build: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)  # `connections` of serverStatus
    defaults: dict[str, Any] = field(default_factory=dict)  # getDefaultRWConcern

    @property
    def name(self) -> str:
        """The server's name as in a connection string."""
        if self.port is None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_reached(self) -> bool:
        """Whether the server answered hello."""
        return bool(self.hello)

    @property
    def kind(self) -> str:
        """The specification's name of the server's type."""
        hello = self.hello
        if not hello:
            return "Unknown"
        if hello.get("msg") == "isdbgrid":
            return "Mongos"
        if hello.get("isreplicaset"):
            return "RSGhost"
        if "setName" not in hello:
            return "Standalone"
        if hello.get("hidden"):
            return "RSOther"
        if hello.get("isWritablePrimary") or hello.get("ismaster"):
            return "RSPrimary"
        if hello.get("secondary"):
            return "RSSecondary"
        return "RSArbiter" if hello.get("arbiterOnly") else "RSOther"

    @property
    def set_name(self) -> str | None:
        """The name of its replica set."""
        return self.hello.get("setName")
