"""Errors of a local mongod. Knows nothing of the driver and its errors."""

from __future__ import annotations

__all__ = ["MongodNotFound", "ServerError"]


class ServerError(Exception):
    """A mongod did not start, did not reach the requested state, or has exited."""


class MongodNotFound(ServerError):
    """No mongod was found, or the one found lacks a shared library."""
