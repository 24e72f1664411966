"""A MongoDB server that follows a script: it sends the replies that a test sets, with any fault.

    with ScriptedServer() as server:
        server.on("find", {"ok": 1, "cursor": {"id": 0, "ns": "a.b", "firstBatch": []}})   # every time
        server.once("find", Reply({"ok": 1}, cut=20))                                      # first, one time
        client = MongoClient(server.uri)
        ...
        assert server.received("find")[0].command["filter"] == {}

Runs in threads on loopback. Violations of the wire protocol are kept in `errors` and raised by `stop`.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.messages import HEADER, OP_QUERY, Request, op_msg, op_reply, parse_request, read_exactly

__all__ = ["Action", "Close", "Hang", "Raw", "Reply", "Request", "Script", "ScriptedServer"]


@dataclass(frozen=True)
class Reply:
    """Answer with a document, optionally with a fault."""

    document: Mapping[str, Any] | bytes  # bytes: sent unchanged as the body section
    delay: float = 0.0  # seconds before the first byte
    cut: int | None = None  # send this many bytes of the message, then close
    pieces: int | None = None  # send in pieces of this many bytes, each in its own segment
    response_to: int | None = None  # instead of the request's id
    request_id: int = 1
    length: int | None = None  # instead of the message's length, in the header
    opcode: int | None = None  # instead of OP_MSG, in the header
    flags: int = 0
    compressor: str | None = None  # "zlib" or "noop"
    then_close: bool = False


@dataclass(frozen=True)
class Raw:
    """Answer with these bytes."""

    data: bytes
    delay: float = 0.0
    then_close: bool = False


@dataclass(frozen=True)
class Close:
    """Close the connection instead of answering; `reset` sends RST instead of FIN."""

    delay: float = 0.0
    reset: bool = False


@dataclass(frozen=True)
class Hang:
    """Never reply. The connection stays open and is still read."""


@dataclass(frozen=True)
class Script:
    """Several actions for one request, one after the other, such as the replies of an exhaust cursor."""

    actions: tuple[Any, ...]

    def __init__(self, *actions: Any) -> None:
        object.__setattr__(self, "actions", actions)


# A plain mapping is Reply(mapping); a callable gets the request and returns one of the others.
Action = Mapping[str, Any] | Reply | Raw | Close | Hang | Script | Callable[[Request], Any]


class ScriptedServer:
    """Listens from construction to `stop`.

    Args:
        hello: fields over the default answer to hello (a standalone), such as {"maxWireVersion": 21}.
        ssl_context: speak TLS with it.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        *,
        hello: Mapping[str, Any] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.hello: dict[str, Any] = {
            "ok": 1.0,
            "isWritablePrimary": True,
            "helloOk": True,
            "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30,
            "minWireVersion": 0,
            "maxWireVersion": 17,
            "readOnly": False,
            **(hello or {}),
        }
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        self.torn: list[bytes] = []  # the start of each message that a client began and did not finish
        self._always: dict[str, Action] = {name: {"ok": 1} for name in ("ping", "endSessions", "killCursors")}
        self._once: dict[str, deque[Action]] = {}
        self._on_connect: deque[Action] = deque()
        self._changed = threading.Condition()
        self._open: dict[int, socket.socket] = {}
        # Connections that sent only hello, and got replies: those of a driver's monitors.
        self._watching: set[int] = set()
        self._accepted = 0
        self._stopped = threading.Event()
        self._ssl_context = ssl_context
        self._listener = socket.create_server(("127.0.0.1", port))
        self.host, self.port = self._listener.getsockname()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        """Return a URI for a direct connection, which leaves out discovery of other members."""
        return f"mongodb://{self.address}/?directConnection=true"

    # The script

    def on(self, name: str, action: Action) -> None:
        """Answer this command so, whenever no `once` is left for it."""
        with self._changed:
            self._always[name] = action

    def once(self, name: str, *actions: Action) -> None:
        """Answer the next occurrences of this command with these actions, in their order."""
        with self._changed:
            self._once.setdefault(name, deque()).extend(actions)

    def forget(self, name: str) -> None:
        """Drop the actions of `once` that are left for this command."""
        with self._changed:
            self._once.pop(name, None)

    def on_connect(self, *actions: Action) -> None:
        """Do this with the next accepted connections before reading anything. Takes `Close` and `Raw` only."""
        with self._changed:
            self._on_connect.extend(actions)

    # The record

    def received(self, name: str | None = None) -> list[Request]:
        """Return the messages with this command; without a name, all but handshakes, monitoring and goodbyes."""
        with self._changed:
            hidden = ("hello", "isMaster", "ismaster", "endSessions")
            return [r for r in self.requests if (r.name == name if name else r.name not in hidden)]

    def wait_for(self, name: str, count: int = 1, *, timeout: float = 60.0) -> list[Request]:
        """Return the messages with this command once there are `count`."""
        self._wait(lambda: len(self.received(name)) >= count, timeout, f"{count} of {name}")
        return self.received(name)

    @property
    def accepted(self) -> int:
        """Return how many connections were accepted so far."""
        return self._accepted

    @property
    def open_connections(self) -> int:
        """Return how many connections neither side has closed, monitors left out."""
        return len(self._open.keys() - self._watching)

    def wait_for_open(self, count: int, *, timeout: float = 60.0) -> None:
        """Wait until exactly `count` connections are open, monitors left out."""
        self._wait(lambda: self.open_connections == count, timeout, f"{count} open connections")

    # The server itself

    def close_connections(self, *, reset: bool = False) -> None:
        """Close every open connection."""
        with self._changed:
            for line in list(self._open.values()):
                _close(line, reset=reset)

    def stop(self) -> None:
        """Stop listening, close everything, and raise the first protocol violation of a client."""
        self._stopped.set()
        # A blocked accept does not notice a close; a shutdown wakes it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close_connections()
        with self._changed:
            # The threads may record an error as they end.
            self._changed.wait_for(lambda: not self._open, 10.0)
        if self.errors:
            raise self.errors[0]

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.stop()
        except BaseException:
            # The test's own failure says more.
            if error is None:
                raise

    def _wait(self, predicate: Callable[[], bool], timeout: float, wanted: str) -> None:
        with self._changed:
            if not self._changed.wait_for(predicate, timeout):
                seen = [request.name for request in self.requests]
                raise AssertionError(
                    f"expected {wanted} within {timeout} s; open connections: {self.open_connections}, seen: {seen}"
                )

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                number, self._accepted = self._accepted, self._accepted + 1
                self._open[number] = line
                action = self._on_connect.popleft() if self._on_connect else None
                self._changed.notify_all()
                if self._stopped.is_set():
                    _close(line, reset=False)
            threading.Thread(target=self._serve, args=(number, line, action), daemon=True).start()

    def _serve(self, number: int, line: socket.socket, action: Action | None) -> None:
        try:
            if self._ssl_context is not None:
                line = self._ssl_context.wrap_socket(line, server_side=True)
                with self._changed:
                    self._open[number] = line
            going_on = action is None or self._act(line, None, action)
            while going_on:
                raw = self._read_message(line)
                if raw is None:
                    break
                going_on = self._handle(number, line, raw)
        except OSError:
            pass  # the client disconnected, or the test closed the connection
        except Exception as error:
            self.errors.append(error)
        finally:
            with self._changed:
                self._open.pop(number, None)
                self._changed.notify_all()
            line.close()

    def _read_message(self, line: socket.socket) -> bytes | None:
        header = read_exactly(line, 16)
        if not header:
            return None
        length = struct.unpack_from("<i", header)[0] if len(header) == 16 else 16
        assert 16 <= length <= 48_000_000 + 16_384, f"message length {length} in the header"
        message = header + read_exactly(line, length - 16)
        if len(header) == 16 and len(message) == length:
            return message
        with self._changed:
            self.torn.append(message)
            self._changed.notify_all()
        return None

    def _handle(self, number: int, line: socket.socket, raw: bytes) -> bool:
        request = parse_request(raw, number)
        with self._changed:
            queue = self._once.get(request.name)
            action = queue.popleft() if queue else self._always.get(request.name)
            self.requests.append(request)
            self._changed.notify_all()
        if action is None:
            action = self._default(request)
        if request.is_unacknowledged:
            action = action(request) if callable(action) else action
            if isinstance(action, (Mapping, Reply)):
                return True
        is_hello = request.name in ("hello", "isMaster", "ismaster")
        with self._changed:
            (self._watching.add if is_hello and isinstance(action, Mapping) else self._watching.discard)(
                number
            )
            self._changed.notify_all()
        return self._act(line, request, action)

    def _default(self, request: Request) -> Action:
        if request.name in ("hello", "isMaster", "ismaster"):
            if "maxAwaitTimeMS" in request.command:
                # Nothing changes here, so an awaitable hello waits for its whole limit.
                return Reply(self._hello(request), delay=request.command["maxAwaitTimeMS"] / 1000)
            return self._hello(request)
        return {"ok": 0, "errmsg": f"no such command: '{request.name}'", "code": 59}

    def _hello(self, request: Request) -> dict[str, Any]:
        legacy = {} if request.name == "hello" else {"ismaster": self.hello["isWritablePrimary"]}
        return {**legacy, **self.hello, "connectionId": request.connection + 1}

    def _act(self, line: socket.socket, request: Request | None, action: Any) -> bool:
        """Run the action; return False when it closes the connection."""
        if callable(action):
            assert request is not None, "there is no request yet when a connection opens"
            action = action(request)
        match action:
            case Script():
                return all(self._act(line, request, each) for each in action.actions)
            case Hang():
                return True
            case Close():
                self._stopped.wait(action.delay)
                _close(line, reset=action.reset)
                return False
            case Raw():
                self._stopped.wait(action.delay)
                line.sendall(action.data)
                return not action.then_close
            case Reply():
                assert request is not None, "there is no request yet when a connection opens"
                self._stopped.wait(action.delay)
                _send_reply(line, request, action)
                return not (action.then_close or action.cut is not None)
            case Mapping():
                assert request is not None, "there is no request yet when a connection opens"
                _send_reply(line, request, Reply(action))
                return True
        raise TypeError(f"expected a reply document or an action, got {action!r}")


def _send_reply(line: socket.socket, request: Request, reply: Reply) -> None:
    response_to = request.request_id if reply.response_to is None else reply.response_to
    if request.opcode == OP_QUERY:
        data = op_reply(reply.document, response_to=response_to, request_id=reply.request_id)
    else:
        data = op_msg(
            reply.document,
            response_to=response_to,
            request_id=reply.request_id,
            flags=reply.flags,
            compressor=reply.compressor,
        )
    length, request_id, answered, opcode = HEADER.unpack_from(data)
    length = length if reply.length is None else reply.length
    opcode = opcode if reply.opcode is None else reply.opcode
    data = (HEADER.pack(length, request_id, answered, opcode) + data[16:])[: reply.cut]
    step = reply.pieces or len(data) or 1
    for at in range(0, len(data), step):
        line.sendall(data[at : at + step])
        if reply.pieces:
            time.sleep(0.0005)  # lets the receiver see the pieces separately


def _close(line: socket.socket, *, reset: bool) -> None:
    try:
        if reset:
            # Linger of zero seconds: the close below discards unsent data and sends RST. The reading thread closes,
            # since a close from here would wait for its recv; this wakes it.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line.shutdown(socket.SHUT_RD)
        else:
            line.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
