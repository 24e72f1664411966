"""The kinds of servers a topology knows, under PyMongo's names.

Spec: server-discovery-and-monitoring (server types).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SERVER_TYPE"]


class _ServerType(NamedTuple):
    Unknown: int = 0
    Mongos: int = 1
    RSPrimary: int = 2
    RSSecondary: int = 3
    RSArbiter: int = 4
    RSOther: int = 5
    RSGhost: int = 6
    Standalone: int = 7
    LoadBalancer: int = 8


SERVER_TYPE = _ServerType()
