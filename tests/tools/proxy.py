"""A TCP proxy that cuts, delays and holds connections on request.

    with LineProxy(server.port, delay_ms=2.5) as proxy:
        client = MongoClient(f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true")
        proxy.cut(down=100)      # 100 bytes more reach the client, then its line breaks

"up" is from the client to the server, "down" is back. A delay holds each byte that long and limits nothing else: any
number of bytes may be in transit. Knows nothing of MongoDB.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
from collections import deque
from typing import Literal

__all__ = ["LineProxy"]

Direction = Literal["up", "down"]
HELD_BYTES = 64 << 20  # per direction; beyond it the sender is blocked


class LineProxy:
    """Listens from construction to `stop`.

    Args:
        port: of the server behind it.
        delay_ms: milliseconds each way; `delay_up_ms` and `delay_down_ms` may be changed at any time.
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1", delay_ms: float = 0.0) -> None:
        self.target = (host, port)
        self.delay_up_ms = self.delay_down_ms = delay_ms
        self.bytes_up = self.bytes_down = 0
        self.accepted = 0
        self._changed = threading.Condition()
        self._budget: dict[Direction, int | None] = {"up": None, "down": None}
        self._reset = False
        self._is_paused = False
        self._lines: set[_Line] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.listen()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """The connections that are still open in at least one direction."""
        return len(self._lines)

    def cut(self, *, up: int | None = None, down: int | None = None, reset: bool = False) -> None:
        """Break the connection after this many more bytes; later connections are intact.

        The bytes are counted over all connections; the one that carries the last byte is cut on both sides. `cut()`
        breaks every connection now.
        """
        with self._changed:
            self._reset = reset
            self._budget = {"up": up, "down": down}
            lines = list(self._lines) if up is None and down is None else []
        for line in lines:
            line.close(reset=reset)

    def pause(self) -> None:
        """Deliver nothing, in either direction, until `resume`; connections stay open."""
        with self._changed:
            self._is_paused = True

    def resume(self) -> None:
        """Deliver the held bytes and continue."""
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def refuse(self) -> None:
        """Refuse new connections until `listen`; open connections stay."""
        if self._listener is not None:
            # A blocked accept does not notice a close; a shutdown wakes it. On Windows it is the other way round.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def listen(self) -> None:
        """Accept connections (again), on the same port."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self.port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def wait_for_open(self, count: int, *, timeout: float = 60.0) -> None:
        """Wait until exactly `count` connections are open."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._lines) == count, timeout):
                raise AssertionError(f"expected {count} open lines in {timeout} s, got {len(self._lines)}")

    def stop(self) -> None:
        """Refuse new connections and break the open ones."""
        self.refuse()
        self.resume()
        self.cut()

    def __enter__(self) -> LineProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(self.target, 60.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            line = _Line(self, client, server)
            with self._changed:
                self._lines.add(line)
                self._changed.notify_all()
            line.start()

    def _delay(self, direction: Direction) -> float:
        return (self.delay_up_ms if direction == "up" else self.delay_down_ms) / 1000

    def _take(self, direction: Direction, size: int) -> tuple[int, bool]:
        """Wait while paused, then return how many of `size` bytes may pass and whether the connection breaks."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_paused)
            budget = self._budget[direction]
            allowed = size if budget is None else min(size, budget)
            is_cut = budget is not None and size >= budget
            if budget is not None:
                self._budget[direction] = None if is_cut else budget - allowed
            if direction == "up":
                self.bytes_up += allowed
            else:
                self.bytes_down += allowed
            return allowed, is_cut

    def _forget(self, line: _Line) -> None:
        with self._changed:
            self._lines.discard(line)
            self._changed.notify_all()


class _Line:
    """One client's connection and ours to the server; two threads in each direction."""

    def __init__(self, proxy: LineProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.directions_left = 2
        self.is_cut = False
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        up = _Queue(self, "up", self.client, self.server)
        down = _Queue(self, "down", self.server, self.client)
        for work in (up.read, up.write, down.read, down.write):
            threading.Thread(target=work, daemon=True).start()

    def end_direction(self) -> None:
        with self.proxy._changed:
            self.directions_left -= 1
            is_over = self.directions_left == 0
        if is_over:
            self.client.close()
            self.server.close()
            self.proxy._forget(self)

    def close(self, *, reset: bool) -> None:
        self.is_cut = True
        for end in (self.client, self.server):
            try:
                if reset:
                    # Linger of zero seconds: the close below sends RST.
                    layout = "hh" if sys.platform == "win32" else "ii"
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(layout, 1, 0))
                    if sys.platform == "win32":
                        end.close()
                    else:
                        end.shutdown(socket.SHUT_RD)
                else:
                    end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class _Queue:
    """Bytes in transit in one direction, each piece with its due time."""

    def __init__(self, line: _Line, direction: Direction, source: socket.socket, sink: socket.socket) -> None:
        self.line, self.direction, self.source, self.sink = line, direction, source, sink
        self.pieces: deque[tuple[float, bytes]] = deque()
        self.held = 0
        self.is_broken = False
        self.changed = threading.Condition()

    def read(self) -> None:
        data = b"start"
        while data:
            try:
                data = self.source.recv(1 << 18)
            except OSError:
                data = b""
            due = time.monotonic() + self.line.proxy._delay(self.direction)
            with self.changed:
                self.pieces.append((due, data))  # an empty piece marks the end
                self.held += len(data)
                self.changed.notify()
                self.changed.wait_for(lambda: self.held < HELD_BYTES or self.is_broken)
                if self.is_broken:
                    return

    def write(self) -> None:
        proxy = self.line.proxy
        try:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self.pieces)
                    due, data = self.pieces.popleft()
                    self.held -= len(data)
                    self.changed.notify()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    if self.line.is_cut:
                        return  # a FIN now would arrive before the RST
                    self.sink.shutdown(socket.SHUT_WR)
                    return
                allowed, is_cut = proxy._take(self.direction, len(data))
                self.sink.sendall(data[:allowed])
                if is_cut:
                    self.line.close(reset=proxy._reset)
                    return
        except OSError:
            # The receiver has gone; the sender must learn it as it would without a proxy.
            self.line.close(reset=False)
        finally:
            with self.changed:
                self.is_broken = True
                self.changed.notify()
            self.line.end_direction()
