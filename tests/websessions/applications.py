"""One small application in every framework, and one way to call it: for rules that hold in every framework.

`served(framework, sessions)` yields a function that sends a request and returns the answer. What a request does with
its websession is in its query: `do=login,write&user=ada&k=1&v=2&fail=raise`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import httpx
from browser import after

from mangonel.websessions import EncodeError, WebSessions, errors

__all__ = ["CHECKING", "FRAMEWORKS", "HOST", "Failure", "Reply", "Send", "listening", "served"]

HOST = "https://shop.example"


class Framework:
    """How to call a framework's application; made by `framework` alone.

    Args:
        make: returns the application.
        on: "asgi", "wsgi", or the framework that listens on a port of its own.
        checks: it refuses what another site may have sent, when it is told to.

    Every `make` takes `fresh=`: how recent a proof of identity the page needs; the framework's own guard checks it.
    """

    def __init__(self, make: Callable[..., Any], on: str, checks: bool) -> None:
        self.make = make
        self.on = on
        self.checks = checks


DEFINED: dict[str, Framework] = {}


def framework(name: str, on: str, *, checks: bool = False) -> Callable[[Any], Any]:
    """Define a framework: a function from websessions to an application, with `checks=` if it can check."""

    def define(make: Callable[..., Any]) -> Callable[..., Any]:
        DEFINED[name] = Framework(make, on, checks)
        return make

    return define


class Reply:
    """A response: its status, its headers, the handler's result, and the browser's cookie afterwards."""

    def __init__(self, response: httpx.Response | None, cookie: str | None) -> None:
        self.status = response.status_code if response is not None else 500
        self.headers = response.headers if response is not None else httpx.Headers()
        self.text = response.text if response is not None else ""
        self.set_cookies = self.headers.get_list("set-cookie")
        self.cookie = after(cookie, self.set_cookies)

    @property
    def found(self) -> dict[str, Any]:
        """What the handler saw: `user` and `values`."""
        found: dict[str, Any] = json.loads(self.text)
        return found


Send = Callable[..., Reply]


class Failure(Exception):
    """Raised by a handler when the query asks for it."""


def act(session: Any, query: str) -> tuple[int, dict[str, Any]]:
    """Do what a query says; return the status and the result. `fail=junk` leaves a value that cannot be stored."""
    wanted = dict(parse_qsl(query))
    before = {"user": session.user, "values": dict(session)} if wanted.get("do") != "nothing" else {}
    for each in wanted.get("do", "").split(","):
        if each == "write":
            session[wanted["k"]] = wanted["v"]
        elif each == "login":
            session.login(
                wanted.get("user", "ada"),
                keep=tuple(filter(None, wanted.get("keep", "").split(","))),
                remember=wanted.get("remember", False),
                fingerprint=wanted.get("print"),
            )
        elif each == "check":
            before["same"] = session.check_fingerprint(wanted["print"])
        elif each == "increment":
            before["n"] = session.increment("n")
        elif each == "label":
            session.label = json.loads(wanted["label"])
        elif each == "permanent":
            session.permanent = True
        elif each == "token":
            before["token"] = session.csrf_token()
        elif each == "fresh":
            before["fresh"] = session.fresh(wanted["within"])
        elif each == "check_fresh":
            session.check_fresh(wanted["within"])
        elif each in ("destroy", "rotate", "reauthenticated"):
            getattr(session, each)()
    if wanted.get("fail") == "raise":
        raise Failure("the handler fails")
    if wanted.get("fail") == "junk":
        session["junk"] = object()
        return 200, before
    if wanted.get("fail", "").isidentifier():
        raise getattr(errors, wanted["fail"])("the handler lets an error of the package pass")
    return int(wanted.get("fail", 200)), before


def guarded(view: Any, require_fresh: Callable[[str], Any], fresh: str | None) -> Any:
    """Return a view behind the framework's guard, or the view itself."""
    return view if fresh is None else require_fresh(fresh)(view)


@framework("asgi", "asgi", checks=True)
def _asgi(sessions: WebSessions[Any], checks: bool = False, fresh: str | None = None) -> Any:
    from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if fresh is not None:
            scope["session"].check_fresh(fresh)
        status, found = act(scope["session"], scope["query_string"].decode())
        body = json.dumps(found).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return SessionMiddleware(CSRFMiddleware(app) if checks else app, sessions)


@framework("starlette", "asgi", checks=True)
def _starlette(sessions: WebSessions[Any], checks: bool = False, fresh: str | None = None) -> Any:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware, require_fresh

    async def page(request: Request) -> JSONResponse:
        status, found = act(request.session, request.url.query)
        return JSONResponse(found, status)

    checking = [Middleware(CSRFMiddleware)] if checks else []
    return Starlette(
        routes=[Route("/", guarded(page, require_fresh, fresh), methods=["GET", "POST"])],
        middleware=[Middleware(SessionMiddleware, sessions=sessions), *checking],
    )


@framework("fastapi", "asgi", checks=True)
def _fastapi(sessions: WebSessions[Any], checks: bool = False, fresh: str | None = None) -> Any:
    from fastapi import Depends, FastAPI
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware

    app = FastAPI()
    if checks:
        app.add_middleware(CSRFMiddleware)
    app.add_middleware(SessionMiddleware, sessions=sessions)

    def page(request: Any) -> JSONResponse:
        status, found = act(request.session, request.url.query)
        return JSONResponse(found, status)

    page.__annotations__["request"] = Request
    needed = [Depends(sessions.fresh(fresh))] if fresh is not None else []
    app.api_route("/", methods=["GET", "POST"], response_model=None, dependencies=needed)(page)
    return app


@framework("wsgi", "wsgi")
def _wsgi(sessions: WebSessions[Any], fresh: str | None = None) -> Any:
    from mangonel.websessions.frameworks.wsgi import WSGISessions, require_fresh

    def app(environ: Any, start_response: Any) -> Any:
        status, found = act(environ["mangonel.session"], environ["QUERY_STRING"])
        start_response(f"{status} Whatever", [("Content-Type", "application/json")])
        return [json.dumps(found).encode()]

    return WSGISessions(guarded(app, require_fresh, fresh), sessions)


@framework("wsgi-generator", "wsgi")
def _wsgi_generator(sessions: WebSessions[Any], fresh: str | None = None) -> Any:
    from mangonel.websessions.frameworks.wsgi import WSGISessions, require_fresh

    def app(environ: Any, start_response: Any) -> Any:
        status, found = act(environ["mangonel.session"], environ["QUERY_STRING"])
        start_response(f"{status} Whatever", [("Content-Type", "application/json")])
        yield json.dumps(found).encode()

    return WSGISessions(guarded(app, require_fresh, fresh), sessions)


@framework("flask", "wsgi", checks=True)
def _flask(
    sessions: WebSessions[Any], checks: bool = False, propagates: bool = False, fresh: str | None = None
) -> Any:
    import flask

    from mangonel.websessions.frameworks.flask import require_fresh

    app = flask.Flask("tests", root_path="/")
    app.config["PROPAGATE_EXCEPTIONS"] = propagates
    app.logger.disabled = True
    sessions.init_flask(app, csrf=checks)

    def page() -> Any:
        status, found = act(flask.session, flask.request.query_string.decode())
        return flask.jsonify(found), status

    app.add_url_rule("/", None, guarded(page, require_fresh, fresh), methods=["GET", "POST"])

    return app


@framework("flask-debug", "wsgi")
def _flask_debug(sessions: WebSessions[Any], fresh: str | None = None) -> Any:
    return _flask(sessions, propagates=True, fresh=fresh)


@framework("django", "wsgi")
def _django(sessions: WebSessions[Any], fresh: str | None = None) -> Any:
    from django.http import HttpRequest, JsonResponse
    from django_site import configure, handler

    # The module needs a configured Django.
    configure()
    from mangonel.websessions.frameworks.django import require_fresh

    def page(request: HttpRequest) -> JsonResponse:
        status, found = act(request.session, request.META["QUERY_STRING"])
        return JsonResponse(found, status=status)

    return handler(sessions, guarded(page, require_fresh, fresh))


@framework("django-asgi", "asgi")
def _django_asgi(sessions: WebSessions[Any], fresh: str | None = None) -> Any:
    from django.http import HttpRequest, JsonResponse
    from django_site import configure, handler

    # The module needs a configured Django.
    configure()
    from mangonel.websessions.frameworks.django import require_fresh

    async def page(request: HttpRequest) -> JsonResponse:
        status, found = act(request.session, request.META["QUERY_STRING"])
        return JsonResponse(found, status=status)

    return handler(sessions, guarded(page, require_fresh, fresh), is_async=True)


@framework("litestar", "asgi", checks=True)
def _litestar(sessions: WebSessions[Any], checks: bool = False, fresh: str | None = None) -> Any:
    from litestar import Litestar, Request, Response
    from litestar.handlers import HTTPRouteHandler

    from mangonel.websessions.frameworks.litestar import SessionPlugin, require_fresh

    async def page(request: Any) -> Any:
        status, found = act(request.session, request.url.query)
        return Response(found, status_code=status)

    page.__annotations__.update(request=Request, **{"return": Response})
    guards = [require_fresh(fresh)] if fresh is not None else None
    route = HTTPRouteHandler("/", http_method=["GET", "POST"], guards=guards)(page)
    # Describing itself takes an application ten times as long as the rest.
    plugins = [SessionPlugin(sessions, csrf=checks)]
    return Litestar([route], plugins=plugins, logging_config=None, openapi_config=None)


@framework("aiohttp", "aiohttp", checks=True)
def _aiohttp(sessions: WebSessions[Any], checks: bool = False, fresh: str | None = None) -> Any:
    from aiohttp import web

    from mangonel.websessions.frameworks.aiohttp import current_session, require_fresh, setup

    async def page(request: web.Request) -> web.Response:
        status, found = act(current_session(request), request.query_string)
        return web.json_response(found, status=status)

    app = web.Application(middlewares=[behind_tls])
    setup(app, sessions, csrf=checks)
    app.router.add_route("*", "/", guarded(page, require_fresh, fresh))
    return app


@framework("tornado", "tornado", checks=True)
def _tornado(sessions: WebSessions[Any], checks: bool = False, fresh: str | None = None) -> Any:
    from tornado.web import Application, RequestHandler

    from mangonel.websessions.frameworks.tornado import SessionMixin, require_fresh

    class Page(SessionMixin, RequestHandler):
        check_csrf = checks

        async def page(self) -> None:
            status, found = act(self.session, self.request.query)
            self.set_status(status)
            self.write(found)

        get = post = guarded(page, require_fresh, fresh)

        def log_exception(self, *arguments: Any) -> None:
            pass

    return Application([("/", Page)], sessions=sessions, log_function=lambda handler: None)


def with_lines(
    headers: dict[str, str], forwarded_for: Iterable[str], forwarded_proto: Iterable[str]
) -> list[tuple[str, str]]:
    """Return headers of which those of proxies may come more than once."""
    lines = (("X-Forwarded-For", forwarded_for), ("X-Forwarded-Proto", forwarded_proto))
    return [*headers.items(), *((name, each) for name, values in lines for each in values)]


@contextlib.contextmanager
def _on_a_loop() -> Iterator[Callable[[Any], Any]]:
    """Yield a function that runs a coroutine on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def served(
    framework: str, sessions: WebSessions[Any], *, checks: bool = False, fresh: str | None = None
) -> Iterator[Send]:
    """Yield `send(query, cookie, **headers)` for the application in a framework.

    `forwarded_for` and `forwarded_proto` are lists of header lines.

    Args:
        checks: it refuses what another site may have sent; for those in CHECKING.
        fresh: how recent a proof of identity its page needs. None: none.
    """
    defined = DEFINED[framework]
    made = defined.make(sessions, checks=True) if checks else defined.make(sessions, fresh=fresh)
    if defined.on == "wsgi":
        transport = httpx.WSGITransport(made, raise_app_exceptions=True)
        with httpx.Client(transport=transport, base_url=HOST) as client:

            def send(
                query: str = "",
                cookie: str | None = None,
                method: str = "GET",
                body: bytes | None = None,
                forwarded_for: Iterable[str] = (),
                forwarded_proto: Iterable[str] = (),
                **headers: str,
            ) -> Reply:
                if cookie:
                    headers["Cookie"] = cookie
                try:
                    lines = with_lines(headers, forwarded_for, forwarded_proto)
                    answer = client.request(method, f"/?{query}", headers=lines, content=body)
                except (Failure, EncodeError):
                    return Reply(None, cookie)
                finally:
                    client.cookies.clear()
                return Reply(answer, cookie)

            yield send
        sessions.blocking.close()
        return
    with _on_a_loop() as run:
        if defined.on == "asgi":
            url, transport, stop = HOST, httpx.ASGITransport(made, raise_app_exceptions=False), None
        else:
            url, transport, stop = run(LISTENING[defined.on](made))

        async def request(
            query: str, cookie: str | None, method: str, body: bytes | None, headers: list[tuple[str, str]]
        ) -> httpx.Response:
            if cookie:
                headers.append(("Cookie", cookie))
            # Without TLS: reading the certificate authorities takes a hundred times as long as the rest.
            async with httpx.AsyncClient(
                transport=transport, base_url=url, timeout=60, verify=False
            ) as client:
                return await client.request(method, f"/?{query}", headers=headers, content=body)

        def send(
            query: str = "",
            cookie: str | None = None,
            method: str = "GET",
            body: bytes | None = None,
            forwarded_for: Iterable[str] = (),
            forwarded_proto: Iterable[str] = (),
            **headers: str,
        ) -> Reply:
            lines = with_lines(headers, forwarded_for, forwarded_proto)
            return Reply(run(request(query, cookie, method, body, lines)), cookie)

        try:
            yield send
        finally:
            if stop is not None:
                run(stop())
            run(sessions.aclose())


async def listening(
    application: Any, *, protocol: str | None = "https", xheaders: bool = True
) -> tuple[str, Any, Callable[[], Any]]:
    """Serve an application of Tornado's as if behind a proxy that ended TLS."""
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    socket, port = bind_unused_port()
    server = HTTPServer(application, xheaders=xheaders, protocol=protocol)
    server.add_socket(socket)

    async def stop() -> None:
        server.stop()
        await server.close_all_connections()

    return f"http://127.0.0.1:{port}", None, stop


async def behind_tls(request: Any, handler: Any) -> Any:
    """A middleware of aiohttp that acts as if a proxy had ended TLS, as aiohttp-remotes does."""
    return await handler(request.clone(scheme="https", remote=forwarded_by(request)))


def forwarded_by(request: Any) -> str:
    """Return the address that Tornado's `xheaders` would believe."""
    lines = request.headers.getall("X-Forwarded-For", ())
    return ",".join(lines).rpartition(",")[2].strip() or "127.0.0.1"


behind_tls.__middleware_version__ = 1  # type: ignore[attr-defined]  # what `web.middleware` sets


async def listening_aiohttp(application: Any) -> tuple[str, Any, Callable[[], Any]]:
    """Serve an application of aiohttp's."""
    from aiohttp import web

    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    return f"http://127.0.0.1:{port}", None, runner.cleanup


LISTENING = {"tornado": listening, "aiohttp": listening_aiohttp}

FRAMEWORKS = tuple(DEFINED)
# Frameworks that can be told to refuse requests from other sites.
CHECKING = tuple(name for name, each in DEFINED.items() if each.checks)
