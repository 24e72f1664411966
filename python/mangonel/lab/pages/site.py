"""The site of the experiment `web`: one process with one stack, on Tornado or gevent's own server.

Run as `python -m mangonel.lab.pages.site` with its order as JSON on the command line: `kind`, `original`, `uri`,
`delayed` (a second URI, or ""), `database`, `collection`. It prints its port and serves until standard input ends.

`/` is the page, `/delayed` the same over the second URI, `/newest` the last posts by an index, and `/cpu` returns the
processor seconds of this process, which the experiment compares.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any


def main() -> int:
    """Serve until the parent exits."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    if order["kind"].endswith("-gevent"):
        # Before any other import, as gevent requires.
        monkey: Any = importlib.import_module("gevent.monkey")
        monkey.patch_all()
        if not order["original"]:
            _serve_greenlets(order)
            return 0
    import asyncio

    from mangonel.lab.site_process import cpu_seconds, handler, serve

    settings: dict[str, Any] = {"log_function": lambda handler: None}
    if order["original"]:
        # As printed: with reloading on changes, and a log line for each request.
        import logging

        logging.basicConfig(level=logging.DEBUG)
        settings = {"debug": True}
    rules = [(path, _handler(order, opened)) for path, opened in _openers(order).items()]
    asyncio.run(serve([*rules, ("/cpu", handler(lambda page: json.dumps(cpu_seconds())))], settings))
    return 0


def _openers(order: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    from mangonel.lab.pages.stacks import ORIGINALS, STACKS, Place

    where = order["database"], order["collection"]
    places = {
        "/": Place(order["uri"], *where),
        "/newest": Place(order["uri"], *where, "newest", newest=True),
        "/delayed": Place(order["delayed"], *where, "delayed"),
    }
    stacks = ORIGINALS if order["original"] else STACKS
    return {path: partial(stacks[order["kind"]], place) for path, place in places.items() if place.uri}


def _handler(order: dict[str, Any], opened: Callable[[], Any]) -> Any:
    """Return a handler that opens its stack at the first request; blocking drivers block the loop."""
    import asyncio

    import tornado.web

    read: Any = None
    is_async = False

    class Page(tornado.web.RequestHandler):
        async def get(self) -> None:
            nonlocal read, is_async
            if read is None:
                read = opened()
                found = read()
                is_async = asyncio.iscoroutine(found) or asyncio.isfuture(found)
            else:
                found = read()
            body = await found if is_async else found
            self.set_header("Content-Type", "application/json")
            self.finish(body)

    class Blocks(tornado.web.RequestHandler):
        def get(self) -> None:
            nonlocal read
            read = read or opened()
            self.write(read())

    class Waits(tornado.web.RequestHandler):
        async def get(self) -> None:
            nonlocal read
            read = read or opened()
            self.write(await read())

    if not order["original"]:
        return Page
    # The handlers of 2015.
    return Waits if order["kind"] == "motor" else Blocks


def _serve_greenlets(order: dict[str, Any]) -> None:
    """Serve on gevent's own server: a greenlet for each connection, as in a program that runs under gevent.

    Tornado's loop knows nothing of gevent: a patched driver below it still blocks all requests. That combination is the
    original's; this is the one that can help.
    """
    import os

    socket: Any = importlib.import_module("gevent.socket")
    pywsgi: Any = importlib.import_module("gevent.pywsgi")
    files: Any = importlib.import_module("gevent.os")

    from mangonel.lab.site_process import BACKLOG, cpu_seconds

    known = _openers(order)
    opened: dict[str, Any] = {"/cpu": lambda: json.dumps(cpu_seconds()).encode()}

    def page(environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path not in opened:
            opened[path] = known[path]()
        body = opened[path]()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    listener = socket.socket()
    # gevent's server sends head and body separately. Without this, on a kept connection, the body waits 40 ms for the
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


if __name__ == "__main__":
    sys.exit(main())
