"""The proxy cuts, delays and holds connections on request, and is invisible otherwise."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tools.messages import read_exactly
from tools.proxy import LineProxy


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that echoes its input."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(line: socket.socket) -> None:
        with line:
            try:
                while data := line.recv(65_536):
                    line.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(line,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def proxy(echo_port: int) -> Iterator[LineProxy]:
    with LineProxy(echo_port) as proxy:
        yield proxy


def connect(proxy: LineProxy) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", proxy.port), 60.0)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def read_to_end(line: socket.socket) -> bytes:
    return b"".join(iter(lambda: line.recv(65_536), b""))


def test_bytes_pass_unchanged_and_are_counted(proxy: LineProxy) -> None:
    data = bytes(range(256)) * 8_000
    with connect(proxy) as line:
        sender = threading.Thread(target=line.sendall, args=(data,))
        sender.start()
        assert read_exactly(line, len(data)) == data
        sender.join()
    assert (proxy.bytes_up, proxy.bytes_down, proxy.accepted) == (len(data), len(data), 1)
    proxy.wait_for_open(0)


def test_end_of_stream_passes_one_way_only(proxy: LineProxy) -> None:
    with connect(proxy) as line:
        line.sendall(b"last")
        line.shutdown(socket.SHUT_WR)
        assert read_exactly(line, 100) == b"last"


@pytest.mark.parametrize("direction", ["up", "down"])
def test_line_is_cut_after_exactly_so_many_bytes(proxy: LineProxy, direction: str) -> None:
    proxy.cut(**{direction: 10})
    with connect(proxy) as line:
        line.sendall(b"x" * 25)
        received = read_exactly(line, 100)
    passed = proxy.bytes_up if direction == "up" else proxy.bytes_down
    assert passed == 10
    # After a cut of the upstream direction, the echo of the ten bytes may no longer arrive.
    assert len(received) == 10 if direction == "down" else len(received) <= 10
    with connect(proxy) as line:
        line.sendall(b"x" * 25)
        assert len(read_exactly(line, 25)) == 25


def test_cut_without_a_number_breaks_every_line_now(proxy: LineProxy) -> None:
    with connect(proxy) as one, connect(proxy) as two:
        proxy.wait_for_open(2)
        proxy.cut()
        assert (one.recv(1), two.recv(1)) == (b"", b"")
    proxy.wait_for_open(0)


@pytest.mark.parametrize("budget", [None, 5])
def test_cut_with_reset_is_a_reset(proxy: LineProxy, budget: int | None) -> None:
    with connect(proxy) as line:
        proxy.wait_for_open(1)
        proxy.cut(up=budget, reset=True)
        if budget:
            line.sendall(b"x" * 9)
        # The echo of the bytes that passed may come first.
        with pytest.raises(ConnectionResetError):
            read_to_end(line)


def test_delay_holds_each_way_and_does_not_limit_bandwidth(echo_port: int) -> None:
    with LineProxy(echo_port, delay_ms=500) as proxy, connect(proxy) as line:
        start = time.monotonic()
        for _ in range(50):
            line.sendall(b"x" * 1_000)
        assert len(read_exactly(line, 50_000)) == 50_000
        elapsed = time.monotonic() - start
    # One after another it would be fifty seconds.
    assert 1 <= elapsed < 30


def test_delay_can_differ_by_direction(echo_port: int) -> None:
    with LineProxy(echo_port) as proxy, connect(proxy) as line:
        proxy.delay_down_ms = 50
        start = time.monotonic()
        line.sendall(b"x")
        line.recv(1)
        assert time.monotonic() - start >= 0.050
        assert proxy.delay_up_ms == 0


def test_paused_line_delivers_nothing_until_resumed(proxy: LineProxy) -> None:
    with connect(proxy) as line:
        proxy.pause()
        line.sendall(b"held")
        line.settimeout(0.1)
        with pytest.raises(TimeoutError):
            line.recv(1)
        proxy.resume()
        line.settimeout(60)
        assert read_exactly(line, 4) == b"held"


def test_refused_connections_are_accepted_again_on_the_same_port(proxy: LineProxy) -> None:
    with connect(proxy) as before:
        proxy.wait_for_open(1)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.listen()
        for line in (before, connect(proxy)):
            with line:
                line.sendall(b"x")
                assert line.recv(1) == b"x"


def test_line_closes_when_the_server_is_gone(nowhere: str) -> None:
    with LineProxy(int(nowhere.rpartition(":")[2])) as proxy, connect(proxy) as line:
        assert line.recv(1) == b""
