"""What can go wrong with a local mongod. Knows nothing of the driver and its errors."""

from __future__ import annotations

__all__ = ["MongodNotFound", "ServerError"]


class ServerError(Exception):
    """A mongod did not start, did not become what was asked for, or is gone."""


class MongodNotFound(ServerError):
    """There is no mongod to run, or the one found lacks a shared library."""
