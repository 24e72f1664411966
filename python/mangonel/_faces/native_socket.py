"""The native half of `socket.socket`, closed without a word when it is dropped. Knows no MongoDB."""

from __future__ import annotations

from _socket import socket


class NativeSocket(socket):
    """A socket whose finalizer runs no Python code, no warning and no signal handler.

    A socket that a signal handler's exception meets before it is in anybody's hands is dropped unclosed. CPython
    would describe it in a warning, look for signals on the way, and lose what their handlers raise.
    """

    __slots__ = ()
    __del__ = socket.close
