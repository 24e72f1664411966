"""Opening plain sockets, the same way for every face. Knows no MongoDB."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from types import ModuleType
    from typing import Any

    from mangonel._faces.port import Address

_KEEPALIVE_IDLE_S = 120
_KEEPALIVE_INTERVAL_S = 10
_KEEPALIVE_PROBES = 9


def _socket_module() -> ModuleType:
    """Return the native half of `socket`, which is imported quicker, or what somebody made of `socket`."""
    socket = sys.modules.get("socket")
    # Another thread may be in the middle of its import. gevent and those who redirect connections put theirs there.
    for name in ("socket", "getaddrinfo"):
        if getattr(getattr(socket, name, None), "__module__", "socket") != "socket":
            return socket  # type: ignore[return-value]  # it has the names, so it is a module
    import _socket

    return _socket


def resolve(address: Address) -> list[tuple[int, Any]]:
    """Return the families and socket addresses that `address` stands for. Blocks while names are looked up."""
    socket = _socket_module()
    host, port = address
    if port is None:
        return [(socket.AF_UNIX, host)]
    # mongod listens on 127.0.0.1 alone by default, while "localhost" may resolve to ::1 first.
    family = socket.AF_INET if host == "localhost" else socket.AF_UNSPEC
    # As bytes, since a str is put through the IDNA codec, whose import takes milliseconds.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, family, socket.SOCK_STREAM)
    return [(entry[0], entry[4]) for entry in found]


def tune(sock: socket) -> None:
    """Set what every connection wants: no delay of small messages, and probes on a connection that is idle for long."""
    socket = _socket_module()
    if sock.family == getattr(socket, "AF_UNIX", None):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def open_socket(address: Address, timeout: float | None) -> socket:
    """Return a connected socket in blocking mode. `timeout`: seconds for each address that the name stands for.

    Raises:
        OSError: no address could be connected to; the last one's failure. `TimeoutError` when it took too long.
    """
    module = _socket_module()
    make = module.socket
    if module.__name__ == "_socket":
        from mangonel._faces.native_socket import NativeSocket

        make = NativeSocket
    failure: OSError = OSError(f"expected {address[0]!r} to resolve to an address, found none")
    for family, target in resolve(address):
        sock: socket = make(family, module.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(target)
            tune(sock)
            sock.settimeout(None)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def is_patched_by_gevent() -> bool:
    """Return whether sockets are cooperative in this process, so that nobody may block behind their back."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("socket"))
