"""One connection to one server, for inspection: no pool, no retry, no login. Plain sockets and the standard TLS.

Identifies peers that are not mongods. Knows neither the report nor the client. Spec: OP_MSG.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
from typing import Any

from mangonel._faces.sockets import resolve
from mangonel.bson import CodecOptions, decode, encode

_HEADER = struct.Struct("<iiii")
_OP_MSG = 2013
_MOST_BYTES = 48_000_000
# The first bytes of a peer, or its answer to a request that it cannot read -> the kind of program.
_GREETINGS = (
    (b"HTTP/", "an HTTP server"),
    (b"SSH-", "an SSH server"),
    (b"220 ", "an FTP or mail server"),
    (b"-ERR", "a Redis server"),
    (b"-DENIED", "a Redis server"),
    (b"ERROR\r\n", "a memcached server"),
    (b"\x15\x03", "a server that speaks TLS"),
)
_NATIVE_PORT = b"It looks like you are trying to access MongoDB over HTTP"
_CODEC = CodecOptions[dict[str, Any]](tz_aware=True)


class NotMongoDB(Exception):
    """The peer answered, but not as a MongoDB server does; `peer` names what it seems to be."""

    def __init__(self, peer: str) -> None:
        super().__init__(f"expected a MongoDB server, got {peer}")
        self.peer = peer


class Connection:
    """A connection that runs commands one after another; a context manager."""

    _ids = itertools.count(1)

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command on `admin` and return the reply, even if it is an error.

        Raises:
            OSError: the connection broke, or no reply came in time.
            NotMongoDB: another kind of server answered.
        """
        number = next(Connection._ids)
        body = struct.pack("<iB", 0, 0) + encode({**command, "$db": "admin"})
        self.sock.sendall(_HEADER.pack(_HEADER.size + len(body), number, 0, _OP_MSG) + body)
        header = self._receive(_HEADER.size)
        length, _, answers, opcode = _HEADER.unpack(header)
        if opcode != _OP_MSG or answers != number or not _HEADER.size < length <= _MOST_BYTES:
            raise NotMongoDB(_guess(header) or "a server that speaks another protocol")
        return decode(self._receive(length - _HEADER.size)[5:], _CODEC)

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self.sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self.sock.recv(size - len(received))
            if not part:
                if peer := _guess(bytes(received)):
                    raise NotMongoDB(peer)
                raise ConnectionResetError("the server closed the connection")
            received += part
        return bytes(received)


def open_connection(
    host: str, port: int | None, timeout: float, context: ssl.SSLContext | None = None
) -> Connection:
    """Connect, within `timeout` seconds for each address of the host; start TLS if a context is given.

    Raises:
        OSError: connecting failed; ssl.SSLError: TLS failed.
    """
    if port is None:
        ((family, _),) = resolve((host, port))
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        try:
            sock.connect(host)
        except OSError:
            sock.close()
            raise
    else:
        sock = socket.create_connection((host, port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is None:
        return Connection(sock)
    try:
        return Connection(context.wrap_socket(sock, server_hostname=host))
    except OSError:
        sock.close()
        raise


def identify(host: str, port: int | None, timeout: float) -> str | None:
    """Return the kind of server that seems to listen there, or None if it is MongoDB. Blocks up to twice `timeout`."""
    for request in (b"", b"GET / HTTP/1.0\r\n\r\n"):
        with contextlib.suppress(OSError), open_connection(host, port, timeout) as connection:
            if request:
                connection.sock.sendall(request)
            said = connection.sock.recv(400)
            if _NATIVE_PORT in said:
                return None
            if peer := _guess(said):
                return peer
    return None


def _guess(said: bytes) -> str | None:
    for beginning, peer in _GREETINGS:
        if said.startswith(beginning):
            return peer
    if b"mysql_native_password" in said or b"caching_sha2_password" in said:
        return "a MySQL server"
    return None
