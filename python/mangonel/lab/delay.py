"""A line with latency: a proxy in a process of its own that holds every byte for some milliseconds, each way.

Started as `python -m mangonel.lab.delay PORT MS`; says its own port on standard output and ends when standard input
does. It limits nothing else: any number of bytes may be under way. Knows nothing of MongoDB.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections import deque

PIECE = 512 * 1024
HELD_BYTES = 64 << 20  # per direction; beyond it the sender feels that nobody reads


class Delay:
    """A proxy process in front of a local port, for as long as the object is open.

    Args:
        port: of the server behind it.
        delay_ms: milliseconds each way.
    """

    def __init__(self, port: int, delay_ms: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mangonel.lab.delay", str(port), str(delay_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

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
    """One direction of one connection: pieces received, each with the time at which it is due."""

    def __init__(self, source: socket.socket, sink: socket.socket, spare: list[bytearray]) -> None:
        self.source, self.sink = source, sink
        self.pieces: deque[tuple[float, bytearray, memoryview]] = deque()
        self.held = 0
        self.has_ended = False
        self.is_blocked = False
        self._spare = spare

    def receive(self, delay: float) -> None:
        """Take what is there; nothing is the end."""
        buffer = self._spare.pop() if self._spare else bytearray(PIECE)
        try:
            count = self.source.recv_into(buffer)
        except BlockingIOError:
            self._spare.append(buffer)
            return
        except OSError:
            count = 0
        if not count:
            self.has_ended = True
            return
        self.held += count
        self.pieces.append((time.monotonic() + delay, buffer, memoryview(buffer)[:count]))

    def send(self, now: float) -> None:
        """Deliver what is due, as far as the receiver takes it."""
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


def main() -> int:
    """Serve until standard input ends; return the exit status."""
    target, delay = int(sys.argv[1]), float(sys.argv[2]) / 1000
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    ways: list[_Way] = []
    spare: list[bytearray] = []
    while True:
        now = time.monotonic()
        for way in ways:
            way.send(now)
        for way in [way for way in ways if way.has_ended and not way.pieces]:
            # The other direction may have something to say still, but nobody is left to hear the answer.
            way.source.close()
            way.sink.close()
        ways = [way for way in ways if way.source.fileno() >= 0]
        reading = [way for way in ways if way.held < HELD_BYTES and not way.has_ended]
        blocked = [way for way in ways if way.is_blocked]
        due = [way.pieces[0][0] for way in ways if way.pieces and not way.is_blocked]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        readable, _, _ = select.select(
            [sys.stdin, listener, *(way.source for way in reading)],
            [way.sink for way in blocked],
            [],
            timeout,
        )
        if sys.stdin in readable:
            return 0
        if listener in readable:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", target))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.setblocking(False)
            ways += [_Way(client, server, spare), _Way(server, client, spare)]
        for way in reading:
            if way.source in readable:
                way.receive(delay)


if __name__ == "__main__":
    sys.exit(main())
