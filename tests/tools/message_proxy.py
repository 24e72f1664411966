"""A proxy that counts the client's commands and breaks the connection at one: before it, or in its answer.

    with MessageProxy(server.port) as proxy:
        proxy.break_at("lost", 3)    # the third command from now is done, and its answer is lost
        proxy.hold("update")         # the next update reaches the server when `deliver` sends it, however late

Heartbeats, handshakes, and what a client cleans up in the background are not counted, so the n-th command of a program
is the same one in every run. For commands, `LineProxy` knows only bytes.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

from tools.messages import HEADER, Request, op_msg, parse_request, read_exactly

__all__ = ["BREAKS", "MessageProxy", "read_message", "refusal"]

# "unsent": the server does not get the command. "lost": it does, and the connection breaks before its reply. "torn":
# half of the reply arrives. "refused": the server does not get it, and the proxy replies with an error.
BREAKS = ("unsent", "lost", "torn", "refused")

# A server may delay its replies to these.
AWAITED = frozenset(["hello", "ismaster", "isMaster"])
UNCOUNTED = AWAITED | {"ping", "endSessions", "killSessions"}
EXCEEDED_TIME_LIMIT = 262


class MessageProxy:
    """Listens from construction to the end of the block.

    Attributes:
        commands: the names of the commands counted since the last `break_at`.
        broken: the name of the command at which the connection broke, or None.
        held: the messages that the server did not get.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._kind, self._at = "", 0
        self._held_name, self._left, self._skipped = "", 0, 0
        self.held: list[bytes] = []
        self.commands: list[str] = []
        self.broken: str | None = None
        self._lines: set[_Line] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def break_at(self, kind: str, at: int) -> None:
        """Restart the count, and break the connection at command `at`; 0 breaks nothing."""
        with self._lock:
            self._kind, self._at = kind, at
            self.commands, self.broken = [], None

    def hold(self, name: str, count: int = 1, *, skip: int = 0) -> None:
        """Keep the next commands of this name, after the first `skip`, in `held`, and their connections open."""
        with self._lock:
            self._held_name, self._left, self._skipped = name, count, skip
            self.held = []

    def deliver(self, message: bytes) -> dict[str, Any]:
        """Send a held message after all, and return the server's reply, which reaches no client."""
        with socket.create_connection(self._target, 60.0) as server:
            server.sendall(message)
            return parse_request(read_message(server), 0).command

    def cut(self) -> None:
        """Break all connections."""
        for line in list(self._lines):
            line.close()

    def meet(self, request: Request) -> str:
        """Count a request; return how to break the connection at it, or "held"; "" to deliver it."""
        if request.name in UNCOUNTED:
            return ""
        with self._lock:
            is_held = self._left and request.name == self._held_name
            if is_held and self._skipped:
                self._skipped -= 1
            elif is_held:
                self._left -= 1
                self.held.append(request.raw)
                return "held"
            self.commands.append(request.name)
            if len(self.commands) != self._at:
                return ""
            self.broken = request.name
            return self._kind

    def is_quiet(self) -> bool:
        """Return whether the server is through with each command sent to it, also on connections that clients closed.

        Heartbeats and handshakes do not count.
        """
        return not any(line.is_busy() for line in list(self._lines))

    def __enter__(self) -> MessageProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            line = _Line(self, client, socket.create_connection(self._target))
            self._lines.add(line)
            for work in (line.carry_up, line.carry_down):
                threading.Thread(target=self._carry, args=(line, work), daemon=True).start()

    def _carry(self, line: _Line, work: Any) -> None:
        try:
            work()
        except OSError:
            pass
        finally:
            line.close()
            self._lines.discard(line)


class _Line:
    def __init__(self, proxy: MessageProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        # The command whose reply breaks the connection, and how.
        self._doomed = (0, "")
        # Held from a command's first byte until the server has it.
        self._lock = threading.Lock()
        self._unanswered: set[int] = set()
        self._is_down = threading.Event()
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def is_busy(self) -> bool:
        with self._lock:
            if self._unanswered:
                return not self._is_down.is_set()
            try:
                arrived = select.poll()
                arrived.register(self._client.fileno(), select.POLLIN)
                return bool(arrived.poll(0)) and self._client.recv(1, socket.MSG_PEEK) != b""
            except (OSError, ValueError):
                # The connection was closed.
                return False

    def carry_up(self) -> None:
        while self._client.recv(1, socket.MSG_PEEK):
            with self._lock:
                raw = read_message(self._client)
                if not raw or not self._pass_on(raw):
                    return
        if self._unanswered:
            # As on a direct connection: the server sees the client disconnect, and may still run its command.
            self._server.shutdown(socket.SHUT_WR)
            self._is_down.wait()

    def _pass_on(self, raw: bytes) -> bool:
        """Return whether the connection continues."""
        request = parse_request(raw, 0)
        kind = self._proxy.meet(request)
        if kind == "unsent":
            return False
        if kind == "held":
            return True
        if kind == "refused":
            self._client.sendall(op_msg(refusal(request), response_to=request.request_id))
            return True
        if kind:
            self._doomed = (request.request_id, kind)
        if request.name not in AWAITED:
            self._unanswered.add(request.request_id)
        self._server.sendall(raw)
        return True

    def carry_down(self) -> None:
        try:
            while raw := read_message(self._server):
                answered = HEADER.unpack_from(raw)[2]
                doomed, kind = self._doomed
                if doomed and answered == doomed:
                    if kind == "torn":
                        self._client.sendall(raw[: len(raw) // 2])
                    return
                try:
                    self._client.sendall(raw)
                finally:
                    self._unanswered.discard(answered)
        finally:
            self._is_down.set()

    def close(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def read_message(line: socket.socket) -> bytes:
    """Return the next whole message; b"" at the end of the connection."""
    head = read_exactly(line, HEADER.size)
    if len(head) < HEADER.size:
        return b""
    missing = HEADER.unpack(head)[0] - HEADER.size
    rest = read_exactly(line, missing)
    return head + rest if len(rest) == missing else b""


def refusal(request: Request) -> dict[str, Any]:
    """Return the error of an overloaded server, with the labels for such a command."""
    if "autocommit" in request.command and request.name not in ("commitTransaction", "abortTransaction"):
        label = "TransientTransactionError"
    elif request.name in ("getMore", "aggregate"):
        label = "ResumableChangeStreamError"
    else:
        label = "RetryableWriteError"
    return {"ok": 0.0, "code": EXCEEDED_TIME_LIMIT, "errmsg": "not now", "errorLabels": [label]}
