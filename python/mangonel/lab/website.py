"""The web site of the experiment `websessions`: one Tornado process, one store, the handler of the original benchmark.

Run as `python -m mangonel.lab.website STORE_URL`; with "none" it is the same site without sessions. It prints its port.
`/calls` returns the store's calls and the processor time since the last request to it; the experiment uses them to void
wrong runs. `/count` marks for callgrind where to start and stop counting instructions. `/populate` puts websessions
into the store through its own interface, `/visitors` returns some of them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from mangonel.lab.site_process import cpu_seconds, handler, serve

WRITERS = 50  # tasks that populate the store concurrently
VISITORS = 1000  # visitors of the population whose cookies are kept
HOUR = 3600.0


def main() -> int:
    asyncio.run(_serve(sys.argv[1]))
    return 0


async def _serve(url: str) -> None:
    meter, settings, mixin = await _sessions(url)
    before = cpu_seconds()
    visitors: list[str] = []

    def calls(handler: Any) -> str:
        nonlocal before
        now, last = cpu_seconds(), before
        before, told = now, json.dumps({"calls": dict(meter.by_name), "cpu": now - last})
        meter.by_name.clear()
        return told

    async def populate(handler: Any) -> str:
        count, size = int(handler.get_argument("count")), int(handler.get_argument("size", "100"))
        visitors.extend(await _populate(meter.store, count, size))
        return str(len(visitors))

    def count(handler: Any) -> str:
        # Functions that are called from nowhere else: callgrind starts at one and stops at the other.
        if handler.get_argument("what") == "begin":
            gc.collect()  # so that every count has the same number of collections
            os.getppid()
        else:
            os.getsid(0)
        return "counted"

    own: dict[str, Callable[[Any], Any]] = {
        "/calls": calls,
        "/populate": populate,
        "/visitors": lambda handler: json.dumps(visitors[-VISITORS:]),
        "/count": count,
        "/health": lambda handler: "reader",
    }
    pages = STORED if mixin else PLAIN
    rules = [(path, handler(answer, mixin)) for path, answer in pages.items()]
    rules += [(path, handler(answer)) for path, answer in own.items()]
    await serve(rules, {"log_function": lambda handler: None, **settings})
    # A client with its own thread would keep the process alive.
    if hasattr(meter.store, "aclose"):
        await meter.store.aclose()


def _write(handler: Any) -> str:
    # The original handler: it stores a parameter of the request.
    handler.session["v"] = value = handler.get_argument("v")
    return str(value)


def _read(handler: Any) -> str:
    handler.session.get("v")
    return "reader"


def _add(handler: Any) -> str:
    handler.session[handler.get_argument("key")] = 1
    return "added"


def _login(handler: Any) -> None:
    handler.session.login(handler.get_argument("user"))
    handler.redirect("/page")


STORED: dict[str, Callable[[Any], Any]] = {
    "/": _write,
    "/read": _read,
    "/anonymous": _read,
    "/add": _add,
    "/keys": lambda handler: str(len(handler.session)),
    "/login": _login,
    "/page": lambda handler: handler.session.user or "nobody",
}
PLAIN: dict[str, Callable[[Any], Any]] = {
    "/": lambda handler: handler.get_argument("v"),
    "/read": lambda handler: "reader",
    "/anonymous": lambda handler: "reader",
}


async def _populate(store: Any, count: int, size: int) -> list[str]:
    """Store `count` websessions, and return the cookies of some, evenly spread."""
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
            # Neither a touch nor a renewal comes due in a run, so the store's calls are predictable.
            times: Any = {"issued": now + HOUR, "sid": key[:8]}
            if not await store.put(Record(key, data, 1, now, now + 6 * HOUR, now + 12 * HOUR, **times), 0):
                raise RuntimeError("the store refused a new websession")
            if number % step == 0:
                kept.append(f"sid={token}")

    await asyncio.gather(*(fill() for _ in range(WRITERS)))
    return kept


async def _sessions(url: str) -> tuple[Any, dict[str, Any], Any]:
    """Return a meter of the store's calls, the application's settings, and the class of handlers with sessions."""
    from mangonel.websessions.stores.meter import Meter

    if url == "none":
        return Meter(None), {}, None
    from mangonel.websessions import WebSessions
    from mangonel.websessions.cookies import new_token
    from mangonel.websessions.frameworks.tornado import SessionMixin
    from mangonel.websessions.stores.mongodb import MongoStore
    from mangonel.websessions.stores.urls import open_store

    if url.startswith("pymongo+"):
        from pymongo import AsyncMongoClient

        client: Any = AsyncMongoClient(url.removeprefix("pymongo+"))
        store: Any = MongoStore(client.get_default_database().websessions)
    else:
        store = open_store(url)
    if hasattr(store, "setup"):
        await store.setup()
    meter = Meter(store)
    seal = new_token() if url.startswith("cookie:") else None
    sessions: Any = WebSessions(url if seal else meter, secure=False, seal=seal)
    return meter, {"sessions": sessions}, SessionMixin


if __name__ == "__main__":
    sys.exit(main())
