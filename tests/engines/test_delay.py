"""The proxy with latency: every byte arrives in order, and none early."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from mangonel.engines.delay import Delay

DELAY_MS = 20.0


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that echoes its input; its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)

    def talk(line: socket.socket) -> None:
        # A finished test may leave a reply unread.
        with line, contextlib.suppress(ConnectionResetError):
            while data := line.recv(1 << 16):
                line.sendall(data)

    def accept() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(line,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def line(echo) -> Iterator[socket.socket]:
    delay = Delay(echo, DELAY_MS)
    with socket.create_connection(("127.0.0.1", delay.port), 30) as opened:
        opened.settimeout(30)
        yield opened
    delay.close()


def read(line: socket.socket, count: int) -> bytes:
    pieces: list[bytes] = []
    while count:
        pieces.append(line.recv(min(count, 1 << 20)))
        assert pieces[-1], "the line ended early"
        count -= len(pieces[-1])
    return b"".join(pieces)


def test_no_byte_arrives_before_its_time(line):
    for _ in range(5):
        begun = time.monotonic()
        line.sendall(b"ping")
        assert read(line, 4) == b"ping"
        assert time.monotonic() - begun >= 2 * DELAY_MS / 1000


def test_what_is_under_way_together_arrives_together(echo):
    delay = Delay(echo, 500.0)
    with socket.create_connection(("127.0.0.1", delay.port), 60) as line:
        begun = time.monotonic()
        for _ in range(50):
            line.sendall(b"x" * 100)
        read(line, 5000)
        # One after another it would be fifty seconds.
        assert time.monotonic() - begun < 30
    delay.close()


def test_every_byte_arrives_in_order_however_slowly_it_is_read(line):
    data = bytes(range(256)) * (40 << 12)  # 40 MiB
    sender = threading.Thread(target=line.sendall, args=(data,))
    sender.start()
    time.sleep(0.2)
    found = read(line, len(data))
    sender.join()
    assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()


def test_the_end_of_one_side_reaches_the_other_after_what_was_said(echo):
    told: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    delay = Delay(listener.getsockname()[1], DELAY_MS)
    with socket.create_connection(("127.0.0.1", delay.port), 30) as opened:
        server, _ = listener.accept()
        server.settimeout(30)
        opened.sendall(b"last words")
    while data := server.recv(100):
        told.append(data)
    assert b"".join(told) == b"last words"
    server.close()
    listener.close()
    delay.close()


def test_a_closed_connection_leaves_the_others_alone(echo):
    delay = Delay(echo, 1.0)
    lines = [socket.create_connection(("127.0.0.1", delay.port), 30) for _ in range(20)]
    for opened in lines[::2]:
        opened.sendall(b"x")
        opened.close()
    for opened in lines[1::2]:
        opened.sendall(b"still here")
        assert read(opened, 10) == b"still here"
        opened.close()
    delay.close()
