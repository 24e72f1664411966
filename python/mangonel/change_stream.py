"""Blocking change streams, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel.api import (
    ChangeStream,
    ClusterChangeStream,
    CollectionChangeStream,
    DatabaseChangeStream,
)

__all__ = ["ChangeStream", "ClusterChangeStream", "CollectionChangeStream", "DatabaseChangeStream"]
