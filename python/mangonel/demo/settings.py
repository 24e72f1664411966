"""The settings of the demo, with bounds that limit its memory. Reads nothing itself."""

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
        uri: URI of the deployment; it must be a replica set or a sharded cluster, for change streams and snapshots.
        database: the database for everything.
        host: address to listen on.
        port: port to listen on; 0: a free one.
        password: password of the demo users.
        rate: customers that the simulated shop writes in a second; 0: the shop is closed.
        is_behind_tls: a proxy in front terminates TLS: cookies are Secure, and its X-Forwarded headers are trusted.
        ring: events to keep for browsers that reconnect or are slow.
    """

    uri: str
    database: str = "mangonel_demo"
    host: str = "127.0.0.1"
    port: int = 8000
    password: str = "mangonel"
    rate: float = 5.0
    is_behind_tls: bool = False
    ring: int = 8192
