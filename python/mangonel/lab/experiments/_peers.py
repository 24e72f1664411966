"""The task of the peers' parts: other packages' web sessions in their frameworks, and this package's in the same ones.

A site is one application without a server around it, called in the worker's process, one request after the other. So
the client's processor time covers the framework, the sessions and the store's client, but no HTTP server. Each package
is set up as its documentation says, with its defaults: Flask-Session and starsessions store a websession at each
request that has one, Django's cached_db writes to its database and to its cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from typing import Any, TypeAlias

from mangonel.lab.digest import digest
from mangonel.lab.environment import Layout, environment_for
from mangonel.lab.experiment import Bench, Part, Task, expect
from mangonel.lab.experiments._in_process import HOST, Answer, call_asgi, call_wsgi

# Takes a path with a query, and the Cookie header; returns the body and the cookies that were set.
Send: TypeAlias = Callable[[str, str], Awaitable[tuple[bytes, list[str]]]]

PAYLOAD = "x" * 100
VISITORS = 50


class PeerTask(Task):
    """New visitors who write, or known ones who read or write; the contender's name states the sessions and the store.

    For example "flask-session-mongodb": in Flask, Flask-Session, in MongoDB; "flask-none" has no sessions.
    """

    def __init__(self, part: Part, bench: Bench) -> None:
        from mangonel._core import run_now

        self._part = part
        framework, what, *store = bench.name.split("-")
        self._what = what
        url = ""
        if store:
            # A PyMongo client refuses options that only this driver has.
            layout = "pymongo" if (what, *store) == ("session", "mongodb") else store[0]
            url = environment_for(Layout(layout), bench.target).url.removeprefix("pymongo+")
        self._send: Send = SITES[framework](what, url)
        # Django refuses its database to code that runs on an event loop.
        self._run: Callable[[Any], Any] = bench.run if framework == "starlette" else run_now
        self._cookies: list[str] = []
        self._turn = 0

    def verify(self) -> str:
        """Make the known visitors; each must see its own value."""
        self._run(self._begin())
        return digest("visited")

    async def _begin(self) -> None:
        for number in range(VISITORS):
            value = f"{number}".ljust(len(PAYLOAD), "x")
            _, cookies = await self._send(f"/?v={value}", "")
            self._cookies.append("; ".join(each.partition(";")[0] for each in cookies))
            shown, _ = await self._send("/read", self._cookies[-1])
            expect("the visitor's value", shown, value.encode() if self._what != "none" else b"None")

    def warm_up(self) -> None:
        self.act()

    def act(self) -> int:
        self._turn += 1
        self._run(self._visits(self._part.id.rpartition("-")[2]))
        return self._part.operations

    async def _visits(self, kind: str) -> None:
        send, turn = self._send, self._turn
        for number, cookie in enumerate(islice(cycle(self._cookies), self._part.operations)):
            if kind == "new":
                await send(f"/?v={PAYLOAD}", "")
            elif kind == "reads":
                await send("/read", cookie)
            else:
                # Never the stored value.
                await send(f"/?v={turn}-{number}", cookie)


def _ours(url: str) -> Any:
    from mangonel.websessions import WebSessions

    sessions: Any = WebSessions(url)
    sessions.blocking.setup()
    return sessions


def _flask(what: str, url: str) -> Send:
    import flask

    app = flask.Flask("lab", root_path="/")
    if what == "mangonel":
        _ours(url).init_flask(app)
    elif what == "session":
        from flask_session import Session

        if url.startswith("mongodb:"):
            from pymongo import MongoClient

            client: Any = MongoClient(url)
            name = client.get_default_database().name
            app.config.update(SESSION_TYPE="mongodb", SESSION_MONGODB=client, SESSION_MONGODB_DB=name)
        else:
            from redis import Redis

            app.config.update(SESSION_TYPE="redis", SESSION_REDIS=Redis.from_url(url))
        Session(app)
    session: Any = {} if what == "none" else flask.session

    def write() -> str:
        value = flask.request.args["v"]
        if what != "none":
            session["v"] = value
        return value

    app.add_url_rule("/", "write", write)
    app.add_url_rule("/read", "read", lambda: str(session.get("v")))
    return _by_wsgi(app)


def _starlette(what: str, url: str) -> Send:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    middleware: list[Any] = []
    if what == "mangonel":
        from mangonel.websessions.frameworks.asgi import SessionMiddleware

        middleware = [Middleware(SessionMiddleware, sessions=_ours(url))]
    elif what == "starsessions":
        import starsessions
        from redis.asyncio import Redis
        from starsessions.stores.redis import RedisStore

        store: Any = RedisStore(connection=Redis.from_url(url))
        middleware = [
            Middleware(starsessions.SessionMiddleware, store=store, lifetime=43_200),
            Middleware(starsessions.SessionAutoloadMiddleware),
        ]

    async def write(request: Request) -> PlainTextResponse:
        value = request.query_params["v"]
        if what != "none":
            request.session["v"] = value
        return PlainTextResponse(value)

    async def read(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(request.session.get("v") if what != "none" else None))

    return _by_asgi(Starlette(routes=[Route("/", write), Route("/read", read)], middleware=middleware))


def _django(what: str, url: str) -> Send:
    from django.conf import settings

    if settings.configured:
        # One process has one Django; the parts of a worker share it.
        return _by_wsgi(settings.LAB_APPLICATION)
    import django
    from django.core.management import call_command
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.urls import path

    folder = tempfile.TemporaryDirectory(prefix="mangonel-web-")
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder.name}/app.db"}
    values: dict[str, Any] = {"ALLOWED_HOSTS": [HOST], "SECRET_KEY": "s" * 50, "LOGGING_CONFIG": None}
    if what == "mangonel":
        engine = "mangonel.websessions.frameworks.django"
        values |= {"SESSION_ENGINE": engine, "MIDDLEWARE": [f"{engine}.SessionMiddleware"]}
        values["WEBSESSIONS"] = _ours(url)
    elif what == "cached_db":
        cache = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": url}
        values |= {"CACHES": {"default": cache}, "DATABASES": {"default": database}}
        values |= {"SESSION_ENGINE": "django.contrib.sessions.backends.cached_db"}
        values |= {"MIDDLEWARE": ["django.contrib.sessions.middleware.SessionMiddleware"]}
        values |= {"INSTALLED_APPS": ["django.contrib.sessions"]}

    def write(request: HttpRequest) -> HttpResponse:
        value = request.GET["v"]
        if what != "none":
            request.session["v"] = value
        return HttpResponse(value)

    def read(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(request.session.get("v") if what != "none" else None))

    class Urls:
        urlpatterns = (path("", write), path("read", read))

    settings.configure(ROOT_URLCONF=Urls, LAB_FOLDER=folder, **values)
    django.setup()
    if what == "cached_db":
        call_command("migrate", verbosity=0)
    settings.LAB_APPLICATION = get_wsgi_application()
    return _by_wsgi(settings.LAB_APPLICATION)


SITES = {"flask": _flask, "starlette": _starlette, "django": _django}


def _by_wsgi(app: Any) -> Send:
    """Return a function that calls a WSGI application in the calling thread."""

    async def send(target: str, cookie: str) -> tuple[bytes, list[str]]:
        return _checked(call_wsgi(app, target, cookie))

    return send


def _by_asgi(app: Any) -> Send:
    """Return a function that calls an ASGI application."""

    async def send(target: str, cookie: str) -> tuple[bytes, list[str]]:
        return _checked(await call_asgi(app, target, cookie))

    return send


def _checked(answer: Answer) -> tuple[bytes, list[str]]:
    expect("the status", answer.status, 200)
    return answer.body, answer.cookies
