"""Wire messages read and written with PyMongo's bson, so that a test has an oracle of its own."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import bson

HEADER = struct.Struct("<iiii")
OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG = 1, 2004, 2012, 2013
CHECKSUM_PRESENT, MORE_TO_COME, EXHAUST_ALLOWED = 1 << 0, 1 << 1, 1 << 16
COMPRESSORS = {0: "noop", 1: "snappy", 2: "zlib", 3: "zstd"}


@dataclass
class Request:
    """One message as a client sent it."""

    connection: int  # 0 for the first accepted, and so on
    raw: bytes  # the whole message, including its header
    length: int
    request_id: int
    response_to: int
    opcode: int  # OP_COMPRESSED is unwrapped; then `compressor` names what it was wrapped with
    flags: int = 0
    command: dict[str, Any] = field(default_factory=dict)
    sequences: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    compressor: str | None = None
    namespace: str | None = None  # of OP_QUERY

    @property
    def name(self) -> str:
        """The command's name: its first key."""
        return next(iter(self.command), "")

    @property
    def documents(self) -> list[dict[str, Any]]:
        """All documents of all document sequences."""
        return [document for documents in self.sequences.values() for document in documents]

    @property
    def is_unacknowledged(self) -> bool:
        """Return whether the client announced that it reads no reply."""
        return self.opcode == OP_MSG and bool(self.flags & MORE_TO_COME)


def parse_request(raw: bytes, connection: int) -> Request:
    """Parse one whole message; AssertionError or ValueError when it breaks the wire protocol."""
    length, request_id, response_to, opcode = HEADER.unpack_from(raw)
    assert length == len(raw), f"header says {length} bytes, message has {len(raw)}"
    body, compressor = raw[16:], None
    if opcode == OP_COMPRESSED:
        opcode, size, code = struct.unpack_from("<iiB", body)
        compressor = COMPRESSORS[code]
        body = _decompress(compressor, body[9:])
        assert len(body) == size, f"OP_COMPRESSED says {size} bytes, got {len(body)}"
    request = Request(connection, raw, length, request_id, response_to, opcode, compressor=compressor)
    if opcode == OP_MSG:
        _parse_msg(request, body)
    elif opcode == OP_QUERY:
        _parse_query(request, body)
    else:
        raise ValueError(f"expected OP_MSG or OP_QUERY, got opcode {opcode}")
    return request


def _parse_msg(request: Request, body: bytes) -> None:
    (request.flags,) = struct.unpack_from("<I", body)
    at, end, bodies = 4, len(body) - (4 if request.flags & CHECKSUM_PRESENT else 0), 0
    while at < end:
        kind, (size,) = body[at], struct.unpack_from("<i", body, at + 1)
        section = body[at + 1 : at + 1 + size]
        assert len(section) == size <= end - at - 1, f"section at {at} runs past the message"
        if kind == 0:
            request.command = bson.decode(section)
            bodies += 1
        else:
            assert kind == 1, f"unknown section kind {kind}"
            stop = section.index(b"\0", 4)
            name = section[4:stop].decode()
            assert name not in request.sequences, f"two document sequences named {name}"
            request.sequences[name] = bson.decode_all(section[stop + 1 :])
        at += 1 + size
    assert bodies == 1, f"expected one body section, got {bodies}"


def _parse_query(request: Request, body: bytes) -> None:
    (request.flags,) = struct.unpack_from("<i", body)
    stop = body.index(b"\0", 4)
    request.namespace = body[4:stop].decode()
    document = bson.decode(body[stop + 9 :])
    request.command = document.get("$query") or document.get("query") or document


def op_msg(
    document: Mapping[str, Any] | bytes,
    *,
    response_to: int,
    request_id: int = 1,
    flags: int = 0,
    compressor: str | None = None,
) -> bytes:
    """Build a reply; `document` may be raw bytes, valid or not."""
    encoded = document if isinstance(document, bytes) else bson.encode(document)
    body, opcode = struct.pack("<IB", flags, 0) + encoded, OP_MSG
    if compressor is not None:
        code = {name: code for code, name in COMPRESSORS.items()}[compressor]
        packed = zlib.compress(body) if compressor == "zlib" else body
        assert compressor in ("zlib", "noop"), f"no {compressor} here"
        body, opcode = struct.pack("<iiB", OP_MSG, len(body), code) + packed, OP_COMPRESSED
    return HEADER.pack(16 + len(body), request_id, response_to, opcode) + body


def op_reply(document: Mapping[str, Any] | bytes, *, response_to: int, request_id: int = 1) -> bytes:
    """Build the reply to a legacy OP_QUERY."""
    encoded = document if isinstance(document, bytes) else bson.encode(document)
    body = struct.pack("<iqii", 8, 0, 0, 1) + encoded
    return HEADER.pack(16 + len(body), request_id, response_to, OP_REPLY) + body


def read_exactly(line: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes, or fewer when the connection ends or breaks before; a timeout is raised.

    Not MSG_WAITALL, which does nothing on a socket with a timeout.
    """
    parts = bytearray()
    while len(parts) < size:
        try:
            part = line.recv(min(size - len(parts), 1 << 20))
        except TimeoutError:
            raise
        except OSError:
            break
        if not part:
            break
        parts += part
    return bytes(parts)


def _decompress(compressor: str, data: bytes) -> bytes:
    if compressor == "zlib":
        return zlib.decompress(data)
    assert compressor == "noop", f"the scripted server knows noop and zlib, got {compressor}"
    return data
