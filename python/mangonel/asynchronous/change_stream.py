"""asyncio's change streams, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel.api import (
    AsyncChangeStream,
    AsyncClusterChangeStream,
    AsyncCollectionChangeStream,
    AsyncDatabaseChangeStream,
)

__all__ = [
    "AsyncChangeStream",
    "AsyncClusterChangeStream",
    "AsyncCollectionChangeStream",
    "AsyncDatabaseChangeStream",
]
