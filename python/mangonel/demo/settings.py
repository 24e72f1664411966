"""What can be set from outside, with the bounds that keep the application within its memory. Reads nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_RATE", "MAX_UPLOAD", "Settings"]

MAX_UPLOAD = 256 << 20
"""Bytes of the largest file that is taken."""


MAX_RATE = 1000
"""Customers a second that the shop writes at most."""


@dataclass(frozen=True)
class Settings:
    """The settings of one web process.

    Attributes:
        uri: of the deployment; it must be a replica set or a sharded cluster, for change streams and snapshots.
        database: everything is in this one.
        host: address to listen on.
        port: to listen on; 0: a free one.
        password: of the demo users.
        rate: customers that the simulated shop writes in a second; 0: nobody writes.
        is_behind_tls: a proxy in front ends TLS: cookies are Secure, its X-Forwarded headers are believed.
        ring: events that are kept for browsers that come back or are slow.
    """

    uri: str
    database: str = "mangonel_demo"
    host: str = "127.0.0.1"
    port: int = 8000
    password: str = "mangonel"
    rate: float = 5.0
    is_behind_tls: bool = False
    ring: int = 8192
