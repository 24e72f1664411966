"""The faces of the driver's own tests, for sessions."""

from __future__ import annotations

from driver.conftest import client, collection, face, oracle

__all__ = ["client", "collection", "face", "oracle"]
