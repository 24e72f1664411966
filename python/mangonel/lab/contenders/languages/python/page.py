"""A page of thirty documents as JSON: `page.py ROW page URI DATABASE COLLECTION` prints its port; ends with its input.

A row is a driver and a framework: `mangonel-tornado`, `mangonel-starlette` (on uvicorn, with uvloop and httptools),
`pymongo-tornado`, `pymongo-starlette`. Each is written as its framework's users write it, with their defaults.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

SHOWN = 30  # documents
Read = Callable[[], Awaitable[bytes]]


def reader(driver: str, uri: str, database: str, collection: str) -> Read:
    """Return the function that reads a page on the running loop."""
    members = importlib.import_module(driver).AsyncMongoClient(uri)[database][collection]

    async def as_text() -> bytes:
        return await members.find({}).limit(SHOWN).to_json("plain")

    async def as_dicts() -> bytes:
        return json.dumps(await members.find({}).limit(SHOWN).to_list(), default=datetime.isoformat).encode()

    return as_text if driver == "mangonel" else as_dicts


async def tornado(opened: Callable[[], Read]) -> None:
    """Serve on Tornado until the input ends."""
    import tornado.web
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    read = opened()

    class Page(tornado.web.RequestHandler):
        async def get(self) -> None:
            self.set_header("Content-Type", "application/json")
            self.finish(await read())

    listener, port = bind_unused_port()
    server = HTTPServer(tornado.web.Application([("/", Page)]))
    server.add_socket(listener)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    tell(port)
    await ended.wait()


async def starlette(opened: Callable[[], Read]) -> None:
    """Serve Starlette on uvicorn until the input ends."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    read = opened()

    async def page(request: Request) -> Response:
        return Response(await read(), media_type="application/json")

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    site = Starlette(routes=[Route("/", page)])
    server = uvicorn.Server(uvicorn.Config(site, access_log=False, log_level="warning"))

    def end() -> None:
        server.should_exit = True

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), end)
    tell(listener.getsockname()[1])
    await server.serve([listener])


def tell(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


def main() -> None:
    """Serve the page of a row."""
    row, _, *where = sys.argv[1:]
    driver, _, framework = row.partition("-")

    def opened() -> Read:
        return reader(driver, *where)

    if framework == "tornado":
        asyncio.run(tornado(opened))
    else:
        uvloop: Any = importlib.import_module("uvloop")
        uvloop.run(starlette(opened))


main()
