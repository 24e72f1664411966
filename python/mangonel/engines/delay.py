"""A proxy with latency: a process that delays every byte by some milliseconds, each way.

Started as `python -m mangonel.engines.delay PORT MS`. It prints its own port to standard output and exits when its
standard input ends. Bandwidth is unlimited: any number of bytes may be in flight. Knows nothing of MongoDB.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import time
from collections import deque

PIECE = 512 * 1024
HELD_BYTES = 64 << 20  # bytes per direction; beyond that, the sender must wait for the reader


class Delay:
    """A proxy process in front of a local port; it runs as long as the object is open.

    Args:
        port: the port of the server behind it.
        delay_ms: milliseconds each way.
    """

    def __init__(self, port: int, delay_ms: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mangonel.engines.delay", str(port), str(delay_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.pid = self._process.pid

    def close(self) -> None:
        """End the process."""
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Way:
    """One direction of one connection: received pieces, each with the time when it is due."""

    def __init__(self, source: socket.socket, sink: socket.socket, spare: list[bytearray]) -> None:
        self.source, self.sink = source, sink
        self.pieces: deque[tuple[float, bytearray, memoryview]] = deque()
        self.held = 0
        self.has_ended = False
        self.is_blocked = False
        self.is_paused = False
        self._spare = spare

    def receive(self, due: float) -> bool:
        """Receive available bytes; return False at the end of the stream."""
        buffer = self._spare.pop() if self._spare else bytearray(PIECE)
        try:
            count = self.source.recv_into(buffer)
        except BlockingIOError:
            self._spare.append(buffer)
            return False
        except OSError:
            count = 0
        if not count:
            self._spare.append(buffer)
            self.has_ended = True
            return False
        self.held += count
        self.pieces.append((due, buffer, memoryview(buffer)[:count]))
        return True

    def send(self, now: float) -> None:
        """Deliver the pieces that are due, as far as the receiver accepts them."""
        self.is_blocked = False
        while self.pieces and self.pieces[0][0] <= now:
            due, buffer, left = self.pieces[0]
            try:
                count = self.sink.send(left)
            except BlockingIOError:
                self.is_blocked = True
                return
            except OSError:
                self.has_ended = True
                self.pieces.clear()
                return
            self.held -= count
            if count == len(left):
                self.pieces.popleft()
                left.release()
                self._spare.append(buffer)
            else:
                self.pieces[0] = (due, buffer, left[count:])


class _Proxy:
    """All connections. The proxy takes CPU time from client and server, so it does nothing for an idle connection."""

    def __init__(self, target: int, delay: float) -> None:
        self._target, self._delay = target, delay
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        # Directions by the descriptor that they read, and by the one that they write.
        self._sources: dict[int, _Way] = {}
        self._sinks: dict[int, _Way] = {}
        # All have the same delay, so pieces are due in the order of their arrival.
        self._due: deque[tuple[float, _Way]] = deque()
        self._spare: list[bytearray] = []

    def serve(self) -> None:
        """Forward bytes until standard input ends."""
        while True:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                self._send(self._due.popleft()[1], now)
            timeout = self._due[0][0] - now if self._due else None
            # epoll waits in whole milliseconds, select in microseconds.
            ready, _, _ = select.select([sys.stdin, self._epoll.fileno()], [], [], timeout)
            if sys.stdin in ready:
                return
            for number, events in self._epoll.poll(0) if ready else ():
                if number == self._listener.fileno():
                    self._accept()
                    continue
                if events & select.EPOLLOUT and number in self._sinks:
                    self._send(self._sinks[number], time.monotonic())
                if events & ~select.EPOLLOUT and number in self._sources:
                    self._receive(self._sources[number])

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._target))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setblocking(False)
            self._epoll.register(end.fileno(), select.EPOLLIN)
        for source, sink in ((client, server), (server, client)):
            way = _Way(source, sink, self._spare)
            self._sources[source.fileno()] = self._sinks[sink.fileno()] = way

    def _receive(self, way: _Way) -> None:
        due = time.monotonic() + self._delay
        if way.receive(due):
            self._due.append((due, way))
            if way.held >= HELD_BYTES:
                way.is_paused = True
                self._watch(way.source)
        elif way.has_ended:
            if way.pieces:
                self._watch(way.source)
            else:
                self._close(way)

    def _send(self, way: _Way, now: float) -> None:
        if way.sink.fileno() < 0:
            return
        was_blocked = way.is_blocked
        way.send(now)
        if way.has_ended and not way.pieces:
            # The other direction may still have bytes, but their receiver is gone.
            self._close(way)
            return
        if way.is_blocked != was_blocked:
            self._watch(way.sink)
        if way.is_paused and way.held < HELD_BYTES:
            way.is_paused = False
            self._watch(way.source)

    def _watch(self, end: socket.socket) -> None:
        """Register only the events that are needed; a closed end would otherwise be reported for ever."""
        number = end.fileno()
        reads, writes = self._sources[number], self._sinks[number]
        wanted = 0 if reads.is_paused or reads.has_ended else select.EPOLLIN
        wanted |= select.EPOLLOUT if writes.is_blocked else 0
        with contextlib.suppress(FileNotFoundError):
            self._epoll.unregister(number)
        if wanted:
            self._epoll.register(number, wanted)

    def _close(self, way: _Way) -> None:
        for end in (way.source, way.sink):
            number = end.fileno()
            del self._sources[number], self._sinks[number]
            end.close()


def main() -> int:
    """Run until standard input ends; return the exit status."""
    proxy = _Proxy(int(sys.argv[1]), float(sys.argv[2]) / 1000)
    print(proxy.port, flush=True)
    proxy.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
