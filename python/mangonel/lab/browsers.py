"""Simulated browsers for the experiment `live`: WebSockets in one process that record when each frame arrives.

Run as `python -m mangonel.lab.browsers HOST PORT COOKIE COUNT`. It prints 0 once all of them have a state. It answers
each line on standard input with a JSON object: the key is the customer numbers of a frame, joined with commas; the
value is the monotonic times in ns at which such frames arrived. It exits when its input ends.

It shares the machine with the site, so it does little: frames with the same bytes are parsed once.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import re
import secrets
import sys
import time
from collections import defaultdict

NUMBER = re.compile(rb'"name":"n(\d{7})"')
PING, PONG, CLOSE = 9, 10, 8
# Frames between two grants of credit, as in the page's own script.
GRANT = 8


@functools.lru_cache(64)
def numbers_in(payload: bytes) -> str:
    """Return the customer numbers of a frame as text, which is parsed only on demand: millions of objects otherwise."""
    return b",".join(NUMBER.findall(payload)).decode()


class Browser(asyncio.Protocol):
    """One WebSocket: reads frames, grants as many more, and records when they arrived."""

    def __init__(self, host: str, port: int, cookie: str, seen: dict[str, list[int]]) -> None:
        self._request = (
            f"GET /live HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\nCookie: {cookie}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(secrets.token_bytes(16)).decode()}\r\n\r\n"
        )
        self._seen = seen
        self._buffer = bytearray()
        self._is_open = False
        self._taken = 0
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request.encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        buffer = self._buffer
        buffer += data
        if not self._is_open:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if not buffer.startswith(b"HTTP/1.1 101"):
                self._fail(bytes(buffer[:60]))
                return
            del buffer[: end + 4]
            self._is_open = True
            self._send(b'{"after":null}')
        while (frame := self._next()) is not None:
            opcode, payload = frame
            if opcode == PING:
                self._send(payload, PONG)
            elif opcode == CLOSE:
                self._fail(payload)
            else:
                self._take(payload, now)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(b"the connection was closed")

    def _fail(self, why: bytes) -> None:
        if not self.ready.done():
            self.ready.set_exception(RuntimeError(f"expected a stream, got {why!r}"))

    def _take(self, payload: bytes, now: int) -> None:
        self._taken += 1
        if self._taken % GRANT == 0:
            self._send(b'{"credit":%d}' % GRANT)
        if not self.ready.done():
            self.ready.set_result(None)
        else:
            self._seen[numbers_in(payload)].append(now)

    def _next(self) -> tuple[int, bytes] | None:
        """Return opcode and payload of the next frame; a server's frames have no mask."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length = buffer[1] & 0x7F
        # Longer lengths are in separate fields.
        width = {126: 2, 127: 8}.get(length, 0)
        start = 2 + width
        if width:
            if len(buffer) < start:
                return None
            length = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + length:
            return None
        frame = buffer[0] & 0x0F, bytes(buffer[start : start + length])
        del buffer[: start + length]
        return frame

    def _send(self, payload: bytes, opcode: int = 1) -> None:
        # A mask of zeros leaves the payload unchanged; these payloads are short.
        self._transport.write(bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload)


async def _run(host: str, port: int, cookie: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    seen: dict[str, list[int]] = defaultdict(list)
    browsers = []
    for _ in range(count):
        _, browser = await loop.create_connection(lambda: Browser(host, port, cookie, seen), host, port)
        browsers.append(browser)
    await asyncio.gather(*(browser.ready for browser in browsers))
    print(0, flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        print(json.dumps(seen), flush=True)
        seen.clear()


def main() -> int:
    host, port, cookie, count = sys.argv[1:]
    asyncio.run(_run(host, int(port), cookie, int(count)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
