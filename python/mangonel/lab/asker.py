"""Somebody who asks a site for the same page at a steady rate, in a process of his own that does nothing else.

Run as `python -m mangonel.lab.asker HOST PORT COOKIE PATH RATE`. Prints 0 when it is connected; on a line of
standard input it begins, on the next it stops and answers with a JSON array: the ns that each request took. One that
was due while the one before was under way counts from when it was due. Ends with its input.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time

__all__ = ["main"]

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
PATIENCE_S = 30.0


class Line:
    """A connection that is kept."""

    def __init__(self, host: str, port: int, cookie: str, path: str) -> None:
        self._socket = socket.create_connection((host, port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n".encode()

    def ask(self) -> None:
        """Send the request and read its answer."""
        self._socket.sendall(self._request)
        answer, wanted = b"", None
        while wanted is None or len(answer) < wanted:
            piece = self._socket.recv(65536)
            if not piece:
                raise RuntimeError("the site closed the connection")
            answer += piece
            end = answer.find(b"\r\n\r\n")
            if wanted is None and end >= 0:
                length = LENGTH.search(answer, 0, end)
                if length is None or not answer.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"expected a page, got {answer[:60]!r}")
                wanted = end + 4 + int(length[1])


def _ask_until_told(line: Line, rate: float) -> list[int]:
    period = int(1e9 / rate)
    due = time.monotonic_ns()
    took: list[int] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        if (wait := due - time.monotonic_ns()) > 0:
            time.sleep(wait / 1e9)
            # Waking late is our own fault, not the site's.
            begun = time.monotonic_ns()
        else:
            begun = due
        line.ask()
        now = time.monotonic_ns()
        took.append(now - begun)
        # Where several turns went by, one is made up for: the rest would tell of this queue, not of the site.
        due = max(due + period, now - period)
    return took


def main() -> int:
    """Ask until the input ends."""
    host, port, cookie, path, rate = sys.argv[1:]
    line = Line(host, int(port), cookie, path)
    print(0, flush=True)
    while sys.stdin.readline():
        print(json.dumps(_ask_until_told(line, float(rate))), flush=True)
        sys.stdin.readline()
    return 0


if __name__ == "__main__":
    sys.exit(main())
