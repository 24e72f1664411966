"""The types of servers in a topology, under PyMongo's names.

Spec: server-discovery-and-monitoring (server types).
"""

from __future__ import annotations

from collections import namedtuple

__all__ = ["SERVER_TYPE"]

_ServerType = namedtuple(
    "_ServerType",
    "Unknown Mongos RSPrimary RSSecondary RSArbiter RSOther RSGhost Standalone LoadBalancer",
)

SERVER_TYPE = _ServerType(*range(9))
