"""A page of thirty documents as JSON on Tornado, for `tools/instructions.py --page`: from `to_json`, or ready bytes.

`COUNTED_PAGE` is `to_json` or `ready`. One process requests the page on a hundred connections at once, and another one
answers the driver's commands. A thousand requests precede the counted ones: by then every connection is open, and the
interpreter has specialised the code. How many requests a turn of the loop serves depends on the machine, so a count
varies by about a hundredth.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import socket
import subprocess
import sys

import everyday

from mangonel import AsyncMongoClient, bson
from mangonel.lab.documents import post

WARMING, COUNTED, AT_ONCE, SHOWN = 1_000, 1_000, 100, 30
REQUEST = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def serve(uri: str, row: str) -> None:
    """Serve the page of a server's documents until the client ends it."""
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port
    from tornado.web import Application, RequestHandler

    posts = AsyncMongoClient(uri)["shop"]["posts"]
    ready = await posts.find({}).limit(SHOWN).to_json("plain")
    ended = asyncio.Event()

    class Ready(RequestHandler):
        async def get(self) -> None:
            self.set_header("Content-Type", "application/json")
            self.finish(ready)

    class Page(RequestHandler):
        async def get(self) -> None:
            self.set_header("Content-Type", "application/json")
            self.finish(await posts.find({}).limit(SHOWN).to_json("plain"))

    class Begin(RequestHandler):
        def get(self) -> None:
            # As in `counted.py`: a collection depends on all earlier allocations.
            gc.disable()
            os.getppid()

    class End(RequestHandler):
        def get(self) -> None:
            os.getsid(0)
            print(row, COUNTED)
            ended.set()

    pages = [("/", Ready if row == "ready" else Page), ("/begin", Begin), ("/end", End)]
    site, port = bind_unused_port()
    HTTPServer(Application(pages)).add_socket(site)
    with subprocess.Popen([sys.executable, __file__, "ask", str(port)]):
        await ended.wait()


async def ask(port: int) -> None:
    """Warm the server up, then request the page as often as it is to be counted."""
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(AT_ONCE)]

    async def one(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REQUEST.format(path).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        if not head.startswith(b"HTTP/1.1 200 ") or length is None:
            raise RuntimeError(f"expected a page of a known length, got {head!r}")
        await reader.readexactly(int(length[1]))

    async def many(times: int) -> None:
        left = iter(range(times))

        async def on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in left:
                await one("/", reader, writer)

        await asyncio.gather(*(on(*each) for each in connections))

    await many(WARMING)
    await one("/begin", *connections[0])
    await many(COUNTED)
    await one("/end", *connections[0])


def main() -> None:
    """Serve, ask or answer."""
    role, *argument = sys.argv[1:] or ["serve"]
    if role == "answer":
        posts = [{**post(number), "_id": bson.ObjectId(f"{number:024x}")} for number in range(SHOWN)]
        everyday.REPLIES["find"] = everyday.cursor(posts)
        everyday.answer(socket.socket(fileno=int(argument[0])))
    elif role == "ask":
        asyncio.run(ask(int(argument[0])))
    else:
        with everyday.serving(__file__, "answer") as uri:
            asyncio.run(serve(uri, os.environ["COUNTED_PAGE"]))


if __name__ == "__main__":
    main()
