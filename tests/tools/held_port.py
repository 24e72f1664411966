"""A loopback port kept for a server: no other program takes it before the server listens or while it is down."""

from __future__ import annotations

import socket

__all__ = ["held_port", "port_of"]


def held_port() -> socket.socket:
    """Return a socket that keeps a free loopback port until it is closed.

    It does not listen, so a server that may reuse addresses (most do) can listen on its port.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    """Return the port that a socket keeps."""
    return int(held.getsockname()[1])
