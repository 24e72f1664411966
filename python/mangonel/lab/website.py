"""The web site of the experiment `websessions`: one Tornado process, one store, the handler of the original benchmark.

Run as `python -m mangonel.lab.website STORE_URL`; "none" is the same site without sessions. Prints its port. `/calls`
tells the store's calls and the processor time since it was asked before, which is how the experiment voids wrong runs.
`/count` marks, for callgrind, where counting instructions begins and ends.
`/populate` puts websessions into the store by its own interface, `/visitors` names some of them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from typing import Any

__all__ = ["main"]

WRITERS = 50  # that populate the store at once
VISITORS = 1000  # of the population whose cookies are kept
HOUR = 3600.0


def main() -> int:
    """Serve until the parent goes away."""
    url = sys.argv[1]
    asyncio.run(_serve(url))
    return 0


async def _serve(url: str) -> None:
    import tornado.web
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    meter, settings, mixin = await _sessions(url)
    before = [_cpu()]
    visitors: list[str] = []

    class Calls(tornado.web.RequestHandler):
        def get(self) -> None:
            now = _cpu()
            self.write(json.dumps({"calls": dict(meter.by_name), "cpu": now - before[0]}))
            before[0] = now
            meter.by_name.clear()

    class Populate(tornado.web.RequestHandler):
        async def get(self) -> None:
            count, size = int(self.get_argument("count")), int(self.get_argument("size", "100"))
            visitors.extend(await _populate(meter.store, count, size))
            self.write(str(len(visitors)))

    class Visitors(tornado.web.RequestHandler):
        def get(self) -> None:
            self.write(json.dumps(visitors[-VISITORS:]))

    class Count(tornado.web.RequestHandler):
        def get(self) -> None:
            # Calls that nobody else makes: callgrind is told to begin at one and to end at the other.
            if self.get_argument("what") == "begin":
                gc.collect()  # so that no count has one more of these than another
                os.getppid()
            else:
                os.getsid(0)
            self.write("counted")

    own = [("/calls", Calls), ("/populate", Populate), ("/visitors", Visitors), ("/count", Count)]
    application = tornado.web.Application(
        [*_handlers(mixin), *own], log_function=lambda handler: None, **settings
    )
    # A backlog for the load's 300 connections, which arrive at once.
    sock, port = bind_unused_port()
    sock.listen(1024)
    server = HTTPServer(application)
    server.add_socket(sock)
    print(port, flush=True)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    # A client with a thread of its own would keep the process.
    if hasattr(meter.store, "aclose"):
        await meter.store.aclose()


def _handlers(mixin: Any) -> list[Any]:
    import tornado.web

    if mixin is None:

        class Write(tornado.web.RequestHandler):
            async def get(self) -> None:
                self.write(self.get_argument("v"))

        class Read(tornado.web.RequestHandler):
            async def get(self) -> None:
                self.write("reader")

        return [("/", Write), ("/read", Read), ("/anonymous", Read), ("/health", Read)]

    class WriteStored(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        async def get(self) -> None:
            # The original handler: a parameter of the request is stored.
            self.session["v"] = value = self.get_argument("v")
            self.write(value)

    class ReadStored(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        async def get(self) -> None:
            self.session.get("v")
            self.write("reader")

    class Add(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        async def get(self) -> None:
            self.session[self.get_argument("key")] = 1
            self.write("added")

    class Keys(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        async def get(self) -> None:
            self.write(str(len(self.session)))

    class Login(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        async def get(self) -> None:
            self.session.login(self.get_argument("user"))
            self.redirect("/page")

    class Page(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        async def get(self) -> None:
            self.write(self.session.user or "nobody")

    class Health(mixin, tornado.web.RequestHandler):  # type: ignore[misc]
        use_session = False

        def get(self) -> None:
            self.write("reader")

    return [
        ("/", WriteStored),
        ("/read", ReadStored),
        ("/anonymous", ReadStored),
        ("/add", Add),
        ("/keys", Keys),
        ("/login", Login),
        ("/page", Page),
        ("/health", Health),
    ]


async def _populate(store: Any, count: int, size: int) -> list[str]:
    """Put so many websessions, and return the cookies of some, evenly spread."""
    from mangonel.websessions.codecs import codec_named
    from mangonel.websessions.cookies import CookiePolicy, new_token
    from mangonel.websessions.record import Record
    from mangonel.websessions.settings import Cookie

    cookie = CookiePolicy(Cookie(secure=False))
    data = codec_named("msgpack").encode({"v": "x" * size})
    now = int(time.time() * 1000) / 1000
    step = max(1, count // VISITORS)
    kept: list[str] = []
    numbers = iter(range(count))

    async def fill() -> None:
        for number in numbers:
            token = new_token()
            key = cookie.key_of(token)
            # Neither a touch nor a renewal comes due in a run, so the store's calls can be foretold.
            record = Record(
                key, data, 1, now, now + 6 * HOUR, now + 12 * HOUR, issued=now + HOUR, sid=key[:8]
            )
            if not await store.put(record, 0):
                raise RuntimeError("the store refused a new websession")
            if number % step == 0:
                kept.append(f"sid={token}")

    await asyncio.gather(*(fill() for _ in range(WRITERS)))
    return kept


async def _sessions(url: str) -> tuple[Any, dict[str, Any], Any]:
    from mangonel.websessions.stores.meter import Meter

    if url == "none":
        return Meter(None), {}, None
    from mangonel.websessions import WebSessions
    from mangonel.websessions.cookies import new_token
    from mangonel.websessions.frameworks.tornado import SessionMixin
    from mangonel.websessions.stores.urls import open_store

    store = _pymongo_store(url) if url.startswith("pymongo+") else open_store(url)
    if hasattr(store, "setup"):
        await store.setup()
    meter = Meter(store)
    seal = new_token() if url.startswith("cookie:") else None
    sessions: Any = WebSessions(url if seal else meter, secure=False, seal=seal)
    return meter, {"sessions": sessions}, SessionMixin


def _pymongo_store(url: str) -> Any:
    from pymongo import AsyncMongoClient

    from mangonel.websessions.stores.mongodb import MongoStore

    client: Any = AsyncMongoClient(url.removeprefix("pymongo+"))
    return MongoStore(client.get_default_database().websessions)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
