"""Actions too late for a response's headers: reads of a stream, and changes after the response, in every framework."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from applications import DEFINED, HOST, LISTENING, Failure, behind_tls, listening
from browser import Browser

from mangonel.websessions import MemoryStore, UsageError, WebSession, WebSessions
from mangonel.websessions.late import Left

# The handler's actions on the websession before its headers, between two parts of its body, and after the response.
Part = Callable[[Any], object]


def nothing(session: Any) -> None:
    """Leave the websession alone."""


class Handler:
    """The handler of each framework's application, with the exceptions that it met."""

    def __init__(
        self,
        first: Part = nothing,
        middle: Part = nothing,
        last: Part = nothing,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.first, self.middle, self.last = first, middle, last
        self.headers = headers or {}
        self.raised: list[BaseException] = []
        self.session: Any = None
        self.was_last = asyncio.Event()

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            self.raised.append(error)

    def run_middle(self, session: Any) -> None:
        with self.noting():
            self.middle(session)

    def run_last(self, session: Any) -> None:
        with self.noting():
            self.last(session)
        self.was_last.set()


def asgi(handler: Handler, sessions: WebSessions[Any]) -> Any:
    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    async def app(scope: Any, receive: Any, send: Any) -> None:
        session = handler.session = scope["session"]
        handler.first(session)
        headers = [(name.encode(), value.encode()) for name, value in handler.headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        handler.run_middle(session)
        await send({"type": "http.response.body", "body": b"two"})
        handler.run_last(session)

    return SessionMiddleware(app, sessions)


def starlette(handler: Handler, sessions: WebSessions[Any], fastapi: bool = False) -> Any:
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    async def page(request: Any) -> StreamingResponse:
        session = handler.session = request.scope["session"]  # `request.session` is to read it
        handler.first(session)

        async def parts() -> AsyncIterator[bytes]:
            yield b"one"
            handler.run_middle(session)
            yield b"two"

        task = BackgroundTask(handler.run_last, session)
        return StreamingResponse(parts(), headers=handler.headers, background=task)

    page.__annotations__["request"] = Request
    if fastapi:
        from fastapi import FastAPI

        app: Any = FastAPI()
        app.get("/", response_model=None)(page)
    else:
        app = Starlette()
        app.add_route("/", page)
    app.add_middleware(SessionMiddleware, sessions=sessions)
    return app


def wsgi(handler: Handler, sessions: WebSessions[Any]) -> Any:
    from mangonel.websessions.frameworks.wsgi import WSGISessions

    class Body:
        def __init__(self, session: Any) -> None:
            self.session = session

        def __iter__(self) -> Iterator[bytes]:
            yield b"one"
            handler.run_middle(self.session)
            yield b"two"

        def close(self) -> None:
            handler.run_last(self.session)

    def app(environ: Any, start_response: Any) -> Any:
        session = handler.session = environ["mangonel.session"]
        handler.first(session)
        start_response("200 OK", list(handler.headers.items()))
        return Body(session)

    return WSGISessions(app, sessions)


def flask_app(handler: Handler, sessions: WebSessions[Any]) -> Any:
    import flask

    app = flask.Flask("tests", root_path="/")
    sessions.init_flask(app)

    @app.get("/")
    def page() -> Any:
        context: Any = flask.globals.request_ctx
        session = handler.session = context._session  # `flask.session` is to read it
        handler.first(session)

        def parts() -> Iterator[bytes]:
            yield b"one"
            handler.run_middle(session)
            yield b"two"

        answer = flask.Response(parts(), headers=handler.headers)
        answer.call_on_close(lambda: handler.run_last(session))
        return answer

    return app


def tornado_app(handler: Handler, sessions: WebSessions[Any]) -> Any:
    from tornado.web import Application, RequestHandler

    from mangonel.websessions.frameworks.tornado import SessionMixin

    class Page(SessionMixin, RequestHandler):
        async def get(self) -> None:
            if handler.first is not nothing:
                handler.first(self.session)
            for name, value in handler.headers.items():
                self.set_header(name, value)
            self.write("one")
            await self.flush()
            with handler.noting():
                if handler.middle is not nothing:
                    handler.middle(self.session)
            self.write("two")
            await self.finish()
            with handler.noting():
                if handler.last is not nothing:
                    handler.last(self.session)
            handler.session = self._websession
            handler.was_last.set()

    return Application([("/", Page)], sessions=sessions, log_function=lambda request: None)


def django_app(handler: Handler, sessions: WebSessions[Any], is_async: bool = False) -> Any:
    import django_site
    from django.http import HttpRequest, StreamingHttpResponse

    def page(request: HttpRequest) -> StreamingHttpResponse:
        store: Any = request.session
        session = handler.session = store
        handler.first(session)

        def parts() -> Iterator[bytes]:
            yield b"one"
            handler.run_middle(session)
            yield b"two"

        async def aparts() -> AsyncIterator[bytes]:
            for part in parts():
                yield part

        answer = StreamingHttpResponse(aparts() if is_async else parts(), headers=handler.headers)
        close = answer.close

        def close_and_go_on() -> None:
            close()
            handler.run_last(session)

        answer.close = close_and_go_on  # type: ignore[method-assign]
        return answer

    return django_site.handler(sessions, page, is_async=is_async)


def litestar_app(handler: Handler, sessions: WebSessions[Any]) -> Any:
    from litestar import Litestar, Request
    from litestar.background_tasks import BackgroundTask
    from litestar.handlers import HTTPRouteHandler
    from litestar.response import Stream

    from mangonel.websessions.frameworks.litestar import SessionPlugin

    async def page(request: Any) -> Any:
        session = handler.session = request.scope["session"]
        handler.first(session)

        async def parts() -> AsyncIterator[bytes]:
            yield b"one"
            handler.run_middle(session)
            yield b"two"

        async def last() -> None:
            handler.run_last(session)

        return Stream(parts(), headers=handler.headers, background=BackgroundTask(last))

    page.__annotations__.update(request=Request, **{"return": Stream})
    route = HTTPRouteHandler("/", http_method="GET")(page)
    return Litestar([route], plugins=[SessionPlugin(sessions)], logging_config=None, openapi_config=None)


def aiohttp_app(handler: Handler, sessions: WebSessions[Any]) -> Any:
    from aiohttp import web

    from mangonel.websessions.frameworks.aiohttp import KEY, setup

    async def page(request: web.Request) -> web.StreamResponse:
        session = handler.session = request[KEY]  # `current_session` is to read it
        handler.first(session)
        answer = web.StreamResponse(headers=handler.headers)
        await answer.prepare(request)
        await answer.write(b"one")
        handler.run_middle(session)
        await answer.write(b"two")
        await answer.write_eof()
        handler.run_last(session)
        return answer

    raised = handler.raised

    async def outermost(request: web.Request, handler: Any) -> Any:
        try:
            return await handler(request)
        except UsageError as error:
            raised.append(error)
            raise

    app = web.Application(middlewares=[web.middleware(outermost), behind_tls])
    setup(app, sessions)
    app.router.add_get("/", page)
    return app


MADE: dict[str, Callable[[Handler, WebSessions[Any]], Any]] = {
    "asgi": asgi,
    "starlette": starlette,
    "fastapi": lambda handler, sessions: starlette(handler, sessions, fastapi=True),
    "wsgi": wsgi,
    "flask": flask_app,
    "django": django_app,
    "django-asgi": lambda handler, sessions: django_app(handler, sessions, is_async=True),
    "litestar": litestar_app,
    "aiohttp": aiohttp_app,
    "tornado": tornado_app,
}
# The other definitions test a response's content, not the time at which it leaves.
FRAMEWORKS = tuple(name for name in DEFINED if name not in ("flask-debug", "wsgi-generator"))
frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)
BLOCKING = tuple(name for name in FRAMEWORKS if DEFINED[name].on == "wsgi")


async def fetched(
    framework: str, handler: Handler, sessions: WebSessions[Any], cookie: str | None
) -> httpx.Response:
    """Answer a request; `handler.raised` holds an application's exception after its response."""
    app = MADE[framework](handler, sessions)
    headers = {"Cookie": cookie} if cookie else {}
    if framework in BLOCKING:

        def ask() -> httpx.Response:
            with httpx.Client(transport=httpx.WSGITransport(app), base_url=HOST) as client:
                return client.get("/", headers=headers)

        return await asyncio.to_thread(ask)
    if DEFINED[framework].on != "asgi":
        url, _, stop = await LISTENING[framework](app)
        try:
            async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
                answer = await client.get("/", headers=headers)
            await asyncio.wait_for(handler.was_last.wait(), 60)
        finally:
            await stop()
        return answer
    kept: list[httpx.Response] = []

    async def passed(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except Exception as error:
            # Litestar wraps exceptions that come after the start of a response.
            cause = error if isinstance(error, UsageError) else error.__cause__
            if not isinstance(cause, UsageError):
                raise
            handler.raised.append(cause)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(passed), base_url=HOST) as client:
        kept.append(await client.get("/", headers=headers))
    return kept[0]


Ask = Callable[[Handler], Awaitable[httpx.Response]]


async def a_visitor(framework: str, user: str | None = "ada") -> tuple[WebSessions[Any], Browser]:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    browser = Browser(sessions)
    if user is not None:
        await browser.login(user)
    return sessions, browser


def user_of(session: Any) -> object:
    return session.user


@frameworks
@pytest.mark.parametrize("user", ["ada", None])
async def test_a_stream_that_may_read_the_websession_is_no_page_for_shared_caches(
    framework: str, user: str | None
) -> None:
    sessions, browser = await a_visitor(framework, user)
    for first in (nothing, user_of):
        handler = Handler(first=first, middle=user_of)
        answer = await fetched(framework, handler, sessions, browser.cookie)
        assert answer.text == "onetwo"
        assert answer.headers["cache-control"] == "private"
        assert answer.headers["vary"] == "Cookie"
        assert handler.raised == []


@frameworks
@pytest.mark.parametrize("user", ["ada", None])
async def test_a_read_after_headers_that_let_caches_share_the_answer_raises(
    framework: str, user: str | None
) -> None:
    sessions, browser = await a_visitor(framework, user)
    handler = Handler(middle=user_of, headers={"Cache-Control": "public, max-age=60"})
    answer = await fetched(framework, handler, sessions, browser.cookie)
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert "vary" not in answer.headers
    (error,) = handler.raised
    assert "expected the websession to be read before the headers leave" in str(error)
    # An application that marks its responses private may read late; Vary covers earlier reads.
    for first, control in ((nothing, "private, max-age=60"), (nothing, "no-store"), (user_of, "public")):
        handler = Handler(first=first, middle=user_of, headers={"Cache-Control": control})
        answer = await fetched(framework, handler, sessions, browser.cookie)
        assert (answer.headers["cache-control"], answer.headers["vary"]) == (control, "Cookie")
        assert handler.raised == []


@frameworks
async def test_a_page_that_caches_share_and_that_reads_nothing_stays_as_it_is(framework: str) -> None:
    sessions, browser = await a_visitor(framework)
    handler = Handler(headers={"Cache-Control": "public"})
    answer = await fetched(framework, handler, sessions, browser.cookie)
    assert (answer.headers["cache-control"], answer.headers.get("vary")) == ("public", None)


@frameworks
async def test_a_vary_header_of_the_application_is_extended(framework: str) -> None:
    sessions, browser = await a_visitor(framework)
    for given, sent in (("Accept-Language", "Accept-Language, Cookie"), ("Cookie,Origin", "Cookie, Origin")):
        handler = Handler(first=user_of, headers={"Vary": given})
        answer = await fetched(framework, handler, sessions, browser.cookie)
        # nginx before 1.23 heeds only the last of several lines.
        assert [line.replace(",O", ", O") for line in answer.headers.get_list("vary")] == [sent]


def changed(session: Any) -> None:
    session["late"] = 1


@frameworks
async def test_a_change_after_the_answer_is_stored_or_raises(framework: str) -> None:
    sessions, browser = await a_visitor(framework)
    handler = Handler(last=changed)
    assert (await fetched(framework, handler, sessions, browser.cookie)).status_code == 200
    stored = dict(await browser.begin())
    assert stored == {"late": 1} or len(handler.raised) == 1
    # Tornado has no hook after a request's response.
    assert bool(handler.raised) == (framework == "tornado")


@frameworks
async def test_a_new_websession_after_the_answer_raises_since_no_cookie_can_leave(framework: str) -> None:
    sessions, _ = await a_visitor(framework, None)
    for part in ("middle", "last"):
        for control in ({}, {"Cache-Control": "public"}):
            handler = Handler(**{part: changed}, headers=control)
            assert (await fetched(framework, handler, sessions, None)).text == "onetwo"
            (error,) = handler.raised
            said = (
                "needs a cookie",
                "no change of the websession after the answer",
                "to be read before the headers",
            )
            assert any(each in str(error) for each in said)


INNER: dict[str, Callable[[Any], object]] = {
    "append": lambda session: session["cart"].append(2),
    "inner append": lambda session: session["deep"]["a"].append(2),
    "setitem": lambda session: session.get("deep").__setitem__("b", 2),
    "extend": lambda session: session["cart"].__iadd__([2]),
    "update": lambda session: next(iter(session.items()))[1].append(2),
    "pop": lambda session: list(session.values())[1].pop("a"),
    "delitem": lambda session: dict(session)["cart"].__delitem__(0),
    "copy": lambda session: session.copy()["cart"].sort(),
}


@frameworks
async def test_a_change_inside_of_a_list_after_the_request_raises(framework: str) -> None:
    sessions, browser = await a_visitor(framework)
    stored = {"cart": [1], "deep": {"a": [1]}}
    await browser.store(**stored)
    handler = Handler(first=user_of)
    await fetched(framework, handler, sessions, browser.cookie)
    session = getattr(handler.session, "websession", handler.session)
    for name, change in INNER.items():
        with pytest.raises(UsageError, match="no change of the websession after the answer"):
            change(session)
        assert dict(session) == stored, name


class Item(msgspec.Struct):
    name: str = ""


class Shop(msgspec.Struct):
    cart: list[Item] = []
    theme: str = "light"

    def change(self) -> None:
        self.theme = "dark"


TYPED: dict[str, Callable[[Any], object]] = {
    "append": lambda data: data.cart.append(Item()),
    "set": lambda data: setattr(data, "theme", "dark"),
    "inner": lambda data: setattr(data.cart[0], "name", "pear"),
    "method": lambda data: data.change(),
}


async def test_a_change_inside_of_a_model_after_the_request_raises() -> None:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), model=Shop, events=lambda event: None)
    browser = Browser(sessions)
    session = await browser.begin()
    session.data.cart.append(Item("apple"))
    await browser.end(session)
    handler = Handler(first=user_of)
    await fetched("asgi", handler, sessions, browser.cookie)
    data = handler.session.data
    for name, change in TYPED.items():
        with pytest.raises(UsageError, match="no change of the websession after the answer"):
            change(data)
        assert data == Shop([Item("apple")]), name
    assert isinstance(data, Shop)
    assert (data.cart[0].name, data.theme) == ("apple", "light")


CHANGES: dict[str, Callable[[Any], object]] = {
    "setitem": changed,
    "delitem": lambda session: session.__delitem__("n"),
    "or": lambda session: session.__ior__({"n": 2}),
    "update": lambda session: session.update(n=2),
    "clear": lambda session: session.clear(),
    "pop": lambda session: session.pop("n"),
    "popitem": lambda session: session.popitem(),
    "setdefault": lambda session: session.setdefault("m", 1),
    "increment": lambda session: session.increment("n"),
    "flash": lambda session: session.flash("saved"),
    "label": lambda session: setattr(session, "label", "x"),
    "data": lambda session: setattr(session, "data", {}),
    "login": lambda session: session.login("bob"),
    "rotate": lambda session: session.rotate(),
    "refresh": lambda session: session.refresh("1h"),
}


@frameworks
async def test_when_a_request_is_over_a_change_raises_until_the_websession_is_taken_up_again(
    framework: str,
) -> None:
    sessions, browser = await a_visitor(framework)
    await browser.store(n=1)
    handler = Handler(first=user_of)
    await fetched(framework, handler, sessions, browser.cookie)
    # Django's session lacks some names of a dict.
    session = getattr(handler.session, "websession", handler.session)
    assert isinstance(session, Left)
    assert (session.user, session["n"], session.get("m")) == ("ada", 1, None)
    for name, change in CHANGES.items():
        with pytest.raises(UsageError):
            change(session)
        assert dict(session) == {"n": 1}, name
    if framework in BLOCKING:
        with session.lock():
            session["n"] += 1
        session.reload()
        session["m"] = 1
        session.save()
    else:
        async with session.lock():
            session["n"] += 1
        await session.reload()
        session["m"] = 1
        await session.save()
    assert await browser.read() == {"n": 2, "m": 1}


@frameworks
async def test_an_end_after_the_request_is_over_ends(framework: str) -> None:
    sessions, browser = await a_visitor(framework)
    handler = Handler(first=user_of)
    await fetched(framework, handler, sessions, browser.cookie)
    session: WebSession[Any] = handler.session
    session.destroy()
    async with asyncio.timeout(60):
        while (await browser.begin()).user is not None:
            await asyncio.sleep(0.01)


async def test_what_comes_while_tornado_stores_raises_and_an_end_ends() -> None:
    from tornado.web import Application, RequestHandler

    from mangonel.websessions.frameworks.tornado import SessionMixin

    store = MemoryStore()
    sessions: WebSessions[Any] = WebSessions(store, events=lambda event: None)
    raised: list[UsageError] = []

    class Page(SessionMixin, RequestHandler):
        async def get(self) -> None:
            self.session["n"] = 1
            self.redirect("/")
            try:
                self.session["lost"] = 1
            except UsageError as error:
                raised.append(error)
            if self.get_query_argument("end", ""):
                self.session.destroy()

    browser = Browser(sessions)
    await browser.login("ada")
    url, _, stop = await listening(Application([("/", Page)], sessions=sessions))
    store.disturb(delay=0.01)
    async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        headers = {"Cookie": browser.cookie or ""}
        assert (await client.get("/", headers=headers)).status_code == 302
        assert len(raised) == 1
        assert await browser.read() == {"n": 1}
        assert (await client.get("/?end=1", headers=headers)).status_code == 302
    async with asyncio.timeout(60):
        while (await browser.begin()).user is not None:
            await asyncio.sleep(0.01)
    await stop()


@frameworks
@pytest.mark.parametrize(("part", "does_end"), [("middle", False), ("middle", True), ("last", True)])
async def test_a_body_that_fails_stores_no_values_but_an_end(
    framework: str, part: str, does_end: bool
) -> None:
    sessions, browser = await a_visitor(framework)

    def fail(session: Any) -> None:
        if does_end:
            session.destroy()
        else:
            session["k"] = 1
        handler.was_last.set()
        raise Failure

    handler = Handler(first=user_of, **{part: fail})
    with contextlib.suppress(Exception):
        await fetched(framework, handler, sessions, browser.cookie)
    assert handler.was_last.is_set()
    found = await browser.begin()
    assert (found.user, dict(found)) == (None if does_end else "ada", {})


@frameworks
async def test_a_login_while_a_body_is_sent_raises_at_once(framework: str) -> None:
    sessions, browser = await a_visitor(framework)
    handler = Handler(first=user_of, middle=lambda session: session.login("eve"))
    assert (await fetched(framework, handler, sessions, browser.cookie)).text == "onetwo"
    assert ["login() needs a new cookie" in str(each) for each in handler.raised] == [True]
    assert (await browser.begin()).user == "ada"
