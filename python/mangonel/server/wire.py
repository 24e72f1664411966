"""One command over one short connection, with just enough OP_MSG and BSON to start a server.

Not a client: no authentication (the localhost exception is enough), no pool, no retry, and few types.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

from mangonel.server.errors import ServerError

__all__ = ["CommandError", "run_command"]

OP_MSG = 2013
HEADER = struct.Struct("<iiii")
# Types of fixed size that a reply may hold and this module skips.
SKIPPED = {0x07: 12, 0x09: 8, 0x11: 8, 0x13: 16, 0x06: 0, 0x0A: 0, 0xFF: 0, 0x7F: 0}


class CommandError(ServerError):
    """The server refused a command."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def run_command(
    port: int, command: dict[str, Any], *, timeout: float = 5.0, tls: ssl.SSLContext | None = None
) -> dict[str, Any]:
    """Run a command on a loopback server and return its reply. The database is `admin`, or the command's `$db`.

    Raises:
        OSError: connecting failed, or the connection broke.
        CommandError: the server refused the command.
    """
    body = struct.pack("<iB", 0, 0) + _encode(command if "$db" in command else {**command, "$db": "admin"})
    request = HEADER.pack(16 + len(body), 1, 0, OP_MSG) + body
    with socket.create_connection(("127.0.0.1", port), timeout) as plain:
        line = tls.wrap_socket(plain, server_hostname="127.0.0.1") if tls else plain
        with line:
            line.sendall(request)
            length, _, _, _ = HEADER.unpack(_receive(line, 16))
            reply = _decode(_receive(line, length - 16)[5:])
    if not reply.get("ok"):
        raise CommandError(f"{next(iter(command))}: {reply.get('errmsg')}", int(reply.get("code", 0)))
    return reply


def _receive(line: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = line.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        received += part
    return bytes(received)


def _encode(document: dict[str, Any]) -> bytes:
    body = b"".join(_element(name, value) for name, value in document.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _element(name: str, value: Any) -> bytes:
    key = name.encode() + b"\0"
    match value:
        case bool():
            return b"\x08" + key + bytes([value])
        case int() if -(2**31) <= value < 2**31:
            return b"\x10" + key + struct.pack("<i", value)
        case int():
            return b"\x12" + key + struct.pack("<q", value)
        case float():
            return b"\x01" + key + struct.pack("<d", value)
        case str():
            text = value.encode() + b"\0"
            return b"\x02" + key + struct.pack("<i", len(text)) + text
        case dict():
            return b"\x03" + key + _encode(value)
        case list():
            return b"\x04" + key + _encode({str(index): item for index, item in enumerate(value)})
    raise TypeError(f"cannot encode {type(value).__name__} at {name}")


def _decode(data: bytes) -> dict[str, Any]:
    document: dict[str, Any] = {}
    at, end = 4, struct.unpack_from("<i", data)[0] - 1
    while at < end:
        code = data[at]
        stop = data.index(b"\0", at + 1)
        name, at = data[at + 1 : stop].decode(), stop + 1
        if code == 0x01:
            document[name], size = struct.unpack_from("<d", data, at)[0], 8
        elif code == 0x02:
            size = 4 + struct.unpack_from("<i", data, at)[0]
            document[name] = data[at + 4 : at + size - 1].decode()
        elif code in (0x03, 0x04):
            size = struct.unpack_from("<i", data, at)[0]
            inner = _decode(data[at : at + size])
            document[name] = inner if code == 0x03 else list(inner.values())
        elif code == 0x05:
            size = 5 + struct.unpack_from("<i", data, at)[0]
        elif code == 0x08:
            document[name], size = bool(data[at]), 1
        elif code == 0x10:
            document[name], size = struct.unpack_from("<i", data, at)[0], 4
        elif code == 0x12:
            document[name], size = struct.unpack_from("<q", data, at)[0], 8
        else:
            size = SKIPPED[code]
        at += size
    return document
