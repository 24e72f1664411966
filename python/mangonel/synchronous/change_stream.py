"""Blocking change streams, under the name of the module where PyMongo has them for this face."""

from __future__ import annotations

from mangonel.change_stream import (
    ChangeStream,
    ClusterChangeStream,
    CollectionChangeStream,
    DatabaseChangeStream,
)

__all__ = ["ChangeStream", "ClusterChangeStream", "CollectionChangeStream", "DatabaseChangeStream"]
