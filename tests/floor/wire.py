"""The simulated network between a client and a mongod; the mongod's work takes no virtual time.

Each message takes a while, and the server runs a command when it arrives: two programs interleave as their messages
do. A command can be lost in the ways of `tools.message_proxy`, and in one more that needs the virtual clock.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import bson

from tools.message_proxy import AWAITED, BREAKS, UNCOUNTED, read_message, refusal
from tools.messages import HEADER, MORE_TO_COME, OP_MSG, Request, op_msg, op_reply, parse_request

if TYPE_CHECKING:
    from floor.world import World

# "silent": the server runs the command, but the connection stays open without a reply.
VIRTUAL_BREAKS = (*BREAKS, "silent")
# Seconds that a message takes; chance multiplies them by up to this factor.
_WAY_S = 0.001
_SPREAD = 20
_BUFFER = 1 << 20
_REAL_SECONDS = 60.0


class Wire:
    """Connections to one server.

    Args:
        world: whose time messages take.
        port: the server's.
        is_even: each message takes as long as each other.

    Attributes:
        commands: the names of the commands counted since the last `break_at`.
        broken: the name of the command that was lost, or None; `broken_in` is its database.
        history: what arrived at the server when, and on which connection.
    """

    def __init__(self, world: World, port: int, is_even: bool = True) -> None:
        self.world, self.port, self._is_even = world, port, is_even
        self._kind, self._at = "", 0
        self.commands: list[str] = []
        self.broken: str | None = None
        self.broken_in = ""
        self.history: list[tuple[float, int, str]] = []
        self.under_way = 0
        self._lines: list[_Line] = []

    def break_at(self, kind: str, at: int) -> None:
        """Restart the count of commands, and lose command `at`; 0 loses none."""
        self._kind, self._at = kind, at
        self.commands, self.broken, self.broken_in = [], None, ""

    def meet(self, request: Request, line: int) -> str:
        """Count a request; return how to lose it, or "" to deliver it."""
        self.history.append((self.world.monotonic(), line, request.name))
        if request.name in UNCOUNTED:
            return ""
        self.commands.append(request.name)
        if len(self.commands) != self._at:
            return ""
        self.broken, self.broken_in = request.name, request.command["$db"]
        return self._kind

    def is_quiet(self) -> bool:
        """Return whether the server has run each command and each reply has arrived."""
        return not self.under_way and not self.world.is_busy()

    def connect(self) -> socket.socket:
        """Return the client's end of a new connection."""
        near, far = socket.socketpair()
        near.setblocking(False)
        self._lines.append(_Line(self, len(self._lines), far))
        return near

    def way(self) -> float:
        return _WAY_S * (1.0 if self._is_even else self.world.chance.uniform(0.1, _SPREAD))

    def close(self) -> None:
        for line in self._lines:
            line.end()


class _Line:
    def __init__(self, wire: Wire, number: int, far: socket.socket) -> None:
        self._wire, self._number, self._far = wire, number, far
        self._server = socket.create_connection(("127.0.0.1", wire.port), timeout=_REAL_SECONDS)
        self._server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far.setblocking(False)
        self._received = bytearray()
        # Earliest next arrival in each direction: messages do not overtake each other.
        self._earliest = [0.0, 0.0]
        self._is_silent = False
        self._under_way = 0
        wire.world.watch(far.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._far.recv(_BUFFER)
        except OSError:
            data = b""
        if not data:
            self._leave()
            return
        self._received += data
        while len(self._received) >= HEADER.size:
            (size,) = struct.unpack_from("<i", self._received)
            if len(self._received) < size:
                break
            raw, self._received = bytes(self._received[:size]), self._received[size:]
            self._send(0, partial(self._arrive, raw))

    def _send(self, direction: int, arrive: Any) -> None:
        world = self._wire.world
        now = world.monotonic()
        when = max(now + self._wire.way(), self._earliest[direction])
        self._earliest[direction] = when
        self._wire.under_way += 1
        self._under_way += 1

        def done() -> None:
            try:
                arrive()
            finally:
                self._wire.under_way -= 1
                self._under_way -= 1
                if self._far.fileno() < 0 and not self._under_way:
                    self._server.close()

        world.call_after(when - now, done)

    def _arrive(self, raw: bytes) -> None:
        request = parse_request(raw, self._number)
        kind = self._wire.meet(request, self._number)
        if kind == "unsent":
            self._leave()
            return
        if kind == "refused":
            answer = op_msg(refusal(request), response_to=request.request_id)
            self._send(1, partial(self._answer, answer, ""))
            return
        self._is_silent |= kind == "silent"
        with self._wire.world.outside():
            self._server.sendall(raw)
            is_over = request.is_unacknowledged
            while not is_over:
                answer = read_message(self._server)
                assert answer, f"mongod closed the connection at {request.name}"
                is_over = not _has_more(answer)
                if request.name in AWAITED:
                    answer = _plain_hello(answer)
                self._send(1, partial(self._answer, answer, kind))

    def _answer(self, answer: bytes, kind: str) -> None:
        if self._far.fileno() < 0 or self._is_silent:
            return
        if kind == "lost":
            self._leave()
            return
        part = answer[: len(answer) // 2] if kind == "torn" else answer
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sent = self._far.send(part)
            assert sent == len(part), f"{len(part)} bytes fill the socket"
        if kind == "torn":
            self._leave()

    def _leave(self) -> None:
        """Close the connection; messages on their way to the server still arrive."""
        if self._far.fileno() >= 0:
            self._wire.world.forget(self._far.fileno())
            self._far.close()
            if not self._under_way:
                self._server.close()

    def end(self) -> None:
        self._leave()
        self._server.close()


def _has_more(answer: bytes) -> bool:
    opcode, flags = HEADER.unpack_from(answer)[3], struct.unpack_from("<I", answer, HEADER.size)[0]
    return opcode == OP_MSG and bool(flags & MORE_TO_COME)


def _plain_hello(answer: bytes) -> bytes:
    """Return the reply without the flag that makes the client prefetch: no real time passes here."""
    _, request_id, response_to, opcode = HEADER.unpack_from(answer)
    is_msg = opcode == OP_MSG
    document: dict[str, Any] = bson.decode(answer[HEADER.size + (5 if is_msg else 20) :])
    document.pop("topologyVersion", None)
    return (op_msg if is_msg else op_reply)(document, response_to=response_to, request_id=request_id)
