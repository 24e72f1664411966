"""The page on gevent's own server: a greenlet for each connection, as a program that runs under gevent has it.

Tornado's loop knows nothing of gevent: a patched driver below it still blocks everybody. That combination is the
original's, and `site` has it; this is the one that can help. Imported after patching.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any


def serve(order: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    import os

    socket: Any = importlib.import_module("gevent.socket")
    pywsgi: Any = importlib.import_module("gevent.pywsgi")
    files: Any = importlib.import_module("gevent.os")

    from mangonel.lab.pages.site import BACKLOG, cpu_seconds, places
    from mangonel.lab.pages.stacks import STACKS

    known = places(order)
    opened: dict[str, Any] = {}

    def page(environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path == "/cpu":
            body = json.dumps(cpu_seconds()).encode()
        else:
            if path not in opened:
                opened[path] = STACKS[order["kind"]](known[path])
            body = opened[path]()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    listener = socket.socket()
    # gevent's server sends head and body apart; without this, on a kept connection, the body waits 40 ms for the
    # client's delayed acknowledgement. Accepted connections inherit it; Tornado sets it by itself.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    server = pywsgi.WSGIServer(listener, page, log=None)
    server.start()
    print(listener.getsockname()[1], flush=True)
    os.set_blocking(sys.stdin.fileno(), False)
    files.nb_read(sys.stdin.fileno(), 1)
    server.stop(1)
