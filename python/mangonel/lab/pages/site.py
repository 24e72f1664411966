"""The site of the experiment `web`: one process, one way to read the page, Tornado or gevent's own server.

Run as `python -m mangonel.lab.pages.site` with its order as JSON on the command line: `kind`, `original`, `uri`,
`delayed` (a second URI, or ""), `database`, `collection`. Prints its port and serves until standard input ends.

`/` is the page, `/delayed` the same over the second URI, `/newest` the last posts by an index, and `/cpu` tells the
processor seconds of this process, which is what the experiment compares.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from typing import Any

__all__ = ["main"]

BACKLOG = 1024  # the load's connections arrive at once


def main() -> int:
    """Serve until the parent goes away."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    if order["kind"].endswith("-gevent"):
        # Before anything else is imported, as gevent asks.
        monkey: Any = importlib.import_module("gevent.monkey")
        monkey.patch_all()
        if not order["original"]:
            from mangonel.lab.pages.greenlets import serve

            serve(order)
            return 0
    import asyncio

    asyncio.run(_serve(order))
    return 0


def places(order: dict[str, Any]) -> dict[str, Any]:
    """Return the paths that are served and where each one's posts are."""
    from mangonel.lab.pages.stacks import Place

    database, collection = order["database"], order["collection"]
    found = {
        "/": Place(order["uri"], database, collection),
        "/newest": Place(order["uri"], database, collection, "newest", newest=True),
    }
    if order["delayed"]:
        found["/delayed"] = Place(order["delayed"], database, collection, "delayed")
    return found


def cpu_seconds() -> float:
    """Return the processor time of this process, all its threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _serve(order: dict[str, Any]) -> None:
    import asyncio

    import tornado.web
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    class Cpu(tornado.web.RequestHandler):
        def get(self) -> None:
            self.write(json.dumps(cpu_seconds()))

    page = _original_page if order["original"] else _page
    rules = [(path, page(order, place)) for path, place in places(order).items()]
    settings: dict[str, Any]
    if order["original"]:
        # As printed: reloading on changes, and a line of log for each request.
        import logging

        logging.basicConfig(level=logging.DEBUG)
        settings = {"debug": True}
    else:
        settings = {"log_function": lambda handler: None}
    application = tornado.web.Application([*rules, ("/cpu", Cpu)], **settings)
    sock, port = bind_unused_port()
    sock.listen(BACKLOG)
    server = HTTPServer(application)
    server.add_socket(sock)
    print(port, flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def _page(order: dict[str, Any], place: Any) -> Any:
    """Return a handler that opens its stack with the first request and gives bytes to Tornado."""
    import asyncio

    import tornado.web

    from mangonel.lab.pages.stacks import STACKS

    opened: list[Any] = []
    is_async = [False]

    class Page(tornado.web.RequestHandler):
        async def get(self) -> None:
            if not opened:
                opened.append(STACKS[order["kind"]](place))
                found = opened[0]()
                is_async[0] = asyncio.iscoroutine(found) or asyncio.isfuture(found)
            else:
                found = opened[0]()
            body = await found if is_async[0] else found
            self.set_header("Content-Type", "application/json")
            self.finish(body)

    return Page


def _original_page(order: dict[str, Any], place: Any) -> Any:
    """Return the handler of 2015: blocking drivers block the loop."""
    import tornado.web

    from mangonel.lab.pages.stacks import ORIGINALS

    opened: list[Any] = []

    if order["kind"] == "motor":

        class Waits(tornado.web.RequestHandler):
            async def get(self) -> None:
                if not opened:
                    opened.append(ORIGINALS["motor"](place))
                self.write(await opened[0]())

        return Waits

    class Blocks(tornado.web.RequestHandler):
        def get(self) -> None:
            if not opened:
                opened.append(ORIGINALS[order["kind"]](place))
            self.write(opened[0]())

    return Blocks


if __name__ == "__main__":
    sys.exit(main())
