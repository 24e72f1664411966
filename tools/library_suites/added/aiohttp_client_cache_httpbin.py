"""Serves httpbin at the port where aiohttp-client-cache's tests expect it."""

import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from httpbin import app

PORT = 8080


class Threaded(ThreadingMixIn, WSGIServer):
    """Serves each connection in a thread."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="session", autouse=True)
def httpbin_server() -> Iterator[None]:
    """Answer requests until the last test ends."""
    with make_server("127.0.0.1", PORT, app, Threaded, Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()
