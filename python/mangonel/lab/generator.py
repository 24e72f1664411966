"""An HTTP load generator in a separate process: closed loops and constant rates, with every response checked.

Started as `python -m mangonel.lab.generator`, with its order as JSON on standard input; it prints its figures as JSON.
`webload.generate` does that. It has one thread, plain sockets and epoll, since an event loop's scheduling would be
measured along with the site. Knows nothing of databases.

Latency at a constant rate counts from the scheduled moment, not from sending, so a site that stalls is charged for
every request that it delayed. The generator's own lateness is reported separately: if it lagged, the run says nothing
about the site. It replaces `ab`, `wrk` and oha because it does that, checks bodies and sends cookies in turn. Its
closed loop is used if none of them is installed, or if cookies or bodies matter.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from typing import Any

RECEIVE = 1 << 18
TIMEOUT = 60.0  # seconds without any answer until the run is abandoned
START = 0.02  # seconds between opening the connections and the first intended moment

clock = time.perf_counter


class WrongAnswer(Exception):
    """A response differs from the order's expectation, or did not come."""


class Connection:
    """One connection and the request in flight on it."""

    __slots__ = ("answer", "body_at", "intended", "is_idle", "sent", "socket", "total")

    def __init__(self, address: tuple[str, int]) -> None:
        # Not `create_connection`, which calls the resolver: on few cores, the generator takes time from the site.
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.is_idle = True
        self.intended = self.sent = 0.0
        self.answer = b""
        self.body_at = self.total = 0

    def send(self, request: bytes, intended: float) -> None:
        """Send a request that was due at `intended`."""
        self.is_idle = False
        self.intended = intended
        self.answer = b""
        self.body_at = self.total = 0
        self.sent = clock()
        if self.socket.send(request) != len(request):
            raise WrongAnswer("a request did not fit into the socket's buffer")

    def receive(self) -> bytes | None:
        """Return the body of a complete response, otherwise None; WrongAnswer if it is not 200, or ended early."""
        try:
            data = self.socket.recv(RECEIVE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise WrongAnswer(f"the connection broke: {error}") from None
        if not data:
            raise WrongAnswer(f"the connection ended after {len(self.answer)} bytes of an answer")
        self.answer = answer = self.answer + data if self.answer else data
        if not self.total and not self._measure(answer):
            return None
        if len(answer) < self.total:
            return None
        if len(answer) > self.total:
            raise WrongAnswer("more bytes came than the answer's length")
        self.is_idle = True
        return answer[self.body_at :]

    def ended(self) -> bool:
        """Return whether the site closed an idle connection, as HTTP without keep-alive does."""
        try:
            if self.socket.recv(1):
                raise WrongAnswer("bytes came without a request")
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True

    def _measure(self, answer: bytes) -> bool:
        end = answer.find(b"\r\n\r\n")
        if end < 0:
            return False
        if answer[:7] != b"HTTP/1." or answer[8:12] != b" 200":
            raise WrongAnswer(f"expected HTTP/1.x 200, got {answer[:60]!r}")
        lowered = answer[:end].lower()
        at = lowered.find(b"\r\ncontent-length:")
        if at < 0:
            raise WrongAnswer("expected a Content-Length in every answer, got none")
        line_end = lowered.find(b"\r\n", at + 2)
        length = int(lowered[at + 17 : line_end if line_end > 0 else end])
        self.body_at = end + 4
        self.total = self.body_at + length
        return True


class Load:
    """One order: a number of requests to one local port.

    Args:
        order: `port`; `targets`, pairs of path and cookie, used in turn; `requests`, the total number; `at_once`, the
            number of connections; `rate`, requests per second, 0 for a closed loop; `keep_alive`; `expected`, the body
            that every response must have, or None to check only the status; `seconds`, the longest duration of a run.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._address = ("127.0.0.1", int(order["port"]))
        self._keep_alive = bool(order["keep_alive"])
        self._requests = [self._request(path, cookie) for path, cookie in order["targets"]]
        self._count = int(order["requests"])
        self._at_once = min(int(order["at_once"]), self._count)
        self._rate = float(order["rate"])
        self._limit = float(order["seconds"])
        expected = order.get("expected")
        self._expected = None if expected is None else expected.encode()
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._latencies: list[int] = []
        self._services: list[int] = []
        self._lags: list[int] = []
        self._sent = 0
        self._deepest = 0

    def run(self) -> dict[str, Any]:
        """Send all requests and return the figures in µs; WrongAnswer for a wrong status or body, or none."""
        if self._rate and not self._keep_alive:
            raise ValueError(
                "a constant rate needs connections that stay: the time to open one is not the site's"
            )
        cpu = time.process_time()
        try:
            seconds = self._play()
        finally:
            for connection in self._connections.values():
                connection.socket.close()
            self._epoll.close()
        return {
            "seconds": seconds,
            "latencies_us": self._latencies,
            "services_us": self._services,
            "lags_us": self._lags,
            "waiting": self._deepest,
            "cpu_s": time.process_time() - cpu,
        }

    def _play(self) -> float:
        """Send each request at its due time over any free connection; without a rate, as soon as one is free."""
        begun = clock()
        slots = [self._open() if self._keep_alive else None for _ in range(self._at_once)]
        if self._keep_alive:
            begun = clock() + (START if self._rate else 0.0)
        for slot in () if self._rate else slots:
            self._send(slot)
        free = deque(slots if self._rate else ())
        late: deque[float] = deque()
        due = 0 if self._rate else self._count
        while len(self._latencies) < self._count:
            while due < self._count and (intended := begun + due / self._rate) <= clock():
                due += 1
                if free:
                    sent = self._send(free.pop(), intended)
                    # Counts only the generator's own delay: a request that waits for a free connection waits for the
                    # site.
                    self._lags.append(round((sent - intended) * 1e6))
                else:
                    late.append(intended)
            self._deepest = max(self._deepest, len(late))
            pause = begun + due / self._rate - clock() if due < self._count else TIMEOUT
            for number, _ in self._poll(max(0.0, pause), begun):
                connection: Connection | None = self._connections[number]
                if not self._received(number):
                    continue
                if not self._keep_alive:
                    connection = None
                if late:
                    self._send(connection, late.popleft())
                elif not self._rate and self._sent < self._count:
                    self._send(connection)
                else:
                    free.append(connection)
        return clock() - begun

    def _received(self, number: int) -> bool:
        """Return whether a connection's response is complete; close the connection if the site has."""
        connection = self._connections[number]
        body = None if connection.is_idle else connection.receive()
        if body is not None:
            self._answered(connection, body)
        if connection.is_idle and (body is None or not self._keep_alive) and connection.ended():
            if self._rate:
                raise WrongAnswer("the site closed a connection that was to stay")
            del self._connections[number]
            self._epoll.unregister(number)
            connection.socket.close()
        return body is not None

    def _send(self, connection: Connection | None, intended: float | None = None) -> float:
        """Send the next request over a connection, or a new one, at its due time or now; return that time."""
        connection = connection or self._open()
        request = self._requests[self._sent % len(self._requests)]
        connection.send(request, clock() if intended is None else intended)
        self._sent += 1
        return connection.sent

    def _answered(self, connection: Connection, body: bytes) -> None:
        now = clock()
        self._latencies.append(round((now - connection.intended) * 1e6))
        self._services.append(round((now - connection.sent) * 1e6))
        if self._expected is not None and body != self._expected:
            raise WrongAnswer(f"expected {self._expected[:60]!r}..., got {body[:60]!r}...")

    def _open(self) -> Connection:
        connection = Connection(self._address)
        self._connections[connection.socket.fileno()] = connection
        self._epoll.register(connection.socket.fileno(), select.EPOLLIN)
        return connection

    def _poll(self, seconds: float, begun: float) -> list[tuple[int, int]]:
        # epoll waits in whole milliseconds, select in microseconds.
        if clock() - begun > self._limit:
            answered = len(self._latencies)
            raise WrongAnswer(f"{answered} of {self._count} requests were answered within {self._limit:g} s")
        ready, _, _ = select.select([self._epoll.fileno()], [], [], min(seconds, TIMEOUT))
        if not ready and seconds >= TIMEOUT:
            raise WrongAnswer(f"no answer for {TIMEOUT:g} s")
        return self._epoll.poll(0) if ready else []

    def _request(self, path: str, cookie: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1"]
        if cookie:
            lines.append(f"Cookie: {cookie}")
        if not self._keep_alive:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def main() -> int:
    import gc

    order = json.load(sys.stdin)
    # A garbage collection in between would be the generator's own stall.
    gc.disable()
    try:
        told = Load(order).run()
    except (WrongAnswer, OSError) as error:
        told = {"error": str(error) or type(error).__name__}
    json.dump(told, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
