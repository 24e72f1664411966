"""An HTTP proxy on loopback, which answers CONNECT as a test says and carries bytes."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

# The answer to a request, given its head: None connects, bytes are sent instead.
Plan = Callable[[bytes], bytes | None]


class HttpProxy:
    """`heads` has the heads of all requests, `is_open` whether a connection is being carried."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.heads: list[bytes] = []
        self.plan: Plan = lambda head: None
        self.carried = 0
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a connection through the proxy was never closed"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(30)
            self._threads.append(threading.Thread(target=self._serve, args=(sock,), daemon=True))
            self._threads[-1].start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            made = sock if self._context is None else self._context.wrap_socket(sock, server_side=True)
            with made:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    byte = made.recv(1)
                    if not byte:
                        return
                    head += byte
                self.heads.append(head)
                answer = self.plan(head)
                if answer is not None:
                    made.sendall(answer)
                    return
                host, _, port = head.split()[1].decode().rpartition(":")
                with socket.create_connection((host, int(port)), 30) as target:
                    made.sendall(b"HTTP/1.1 200 Connection established\r\nVia: a test\r\n\r\n")
                    self.carried += 1
                    _carry(made, target)


def _carry(one: socket.socket, other: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select(30):
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(65536)
                if not data:
                    return
                key.data.sendall(data)
                while isinstance(key.fileobj, ssl.SSLSocket) and key.fileobj.pending():
                    key.data.sendall(key.fileobj.recv(65536))


@contextlib.contextmanager
def http_proxy(context: ssl.SSLContext | None = None) -> Iterator[HttpProxy]:
    """Run a proxy during a block; `context`: speak TLS with its clients."""
    made = HttpProxy(context)
    try:
        yield made
    finally:
        made.close()
