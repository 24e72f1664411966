"""The native half of `socket.socket`, which closes silently when it is dropped. Knows no MongoDB."""

from __future__ import annotations

from _socket import socket


class NativeSocket(socket):
    """A socket whose finalizer runs no Python code, no warning and no signal handler.

    If a signal handler raises before the new socket is assigned, the socket is dropped unclosed. For a `socket.socket`,
    CPython would format a warning, run signal handlers meanwhile, and lose their exceptions.
    """

    __slots__ = ()
    __del__ = socket.close
