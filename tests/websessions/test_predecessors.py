"""Migration: sessions made by the real Flask-Session, Starlette and Django continue, here and in a browser."""

from __future__ import annotations

import asyncio
import threading
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import flask
import httpx
import pytest
from browser import after
from itsdangerous import TimestampSigner

from mangonel._core import run_now
from mangonel.websessions import MemoryStore, RequestView, UsageError, WebSessions, new_key
from mangonel.websessions.answer import take_headers
from mangonel.websessions.predecessors import (
    DjangoSessions,
    FlaskSession,
    Predecessor,
    StarletteSessions,
)
from mangonel.websessions.testing import FakeClock

SECRET = "s" * 40
LATER = datetime.now(UTC) + timedelta(days=30)
BACKENDS = "django.contrib.sessions.backends"

App = Callable[[Any, Any], Any]
Values = dict[str, Any]


def as_wsgi(app: Any) -> App:
    """Let an ASGI application answer WSGI requests, one at a time."""

    async def ask(environ: Any) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=f"{environ['wsgi.url_scheme']}://shop.example"
        ) as client:
            headers = {"Cookie": environ["HTTP_COOKIE"]} if environ.get("HTTP_COOKIE") else {}
            return await client.get(environ["PATH_INFO"], headers=headers)

    def answer(environ: Any, start: Any) -> Any:
        found = asyncio.run(ask(environ))
        start(
            f"{found.status_code} OK",
            [(k, v) for k, v in found.headers.multi_items() if k != "content-length"],
        )
        return [found.content]

    return answer


class Move:
    """An old application, and the new one on websessions. `/in` logs in, `/` shows, `/out` logs out."""

    def __init__(
        self, old: App, new: Callable[[WebSessions[Any]], App], reader: Any, **settings: Any
    ) -> None:
        self.old = old
        self.clock = FakeClock(datetime.now(UTC).timestamp())
        self.sessions: WebSessions[Any] = WebSessions(
            MemoryStore(self.clock), secure=False, predecessors=[reader], clock=self.clock, **settings
        )
        self.new = new(self.sessions)
        self.cookie: str | None = None

    def get(self, app: App, path: str = "/", cookie: str | None = None) -> httpx.Response:
        sent = cookie or self.cookie
        with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://shop.example") as client:
            answer = client.get(path, headers={"Cookie": sent} if sent else {})
        assert answer.status_code == 200, answer.text
        if cookie is None:
            self.cookie = after(self.cookie, [each.strip() for each in answer.headers.get_list("set-cookie")])
        return answer


def flask_page(app: flask.Flask, user: str = "_user_id") -> flask.Flask:
    @app.get("/in")
    def go_in() -> str:
        flask.session[user] = "7"
        flask.session["cart"] = ["tea", {"n": 2}]
        return "in"

    @app.get("/out")
    def go_out() -> str:
        flask.session.destroy()  # type: ignore[attr-defined]
        return "out"

    @app.get("/")
    def show() -> str:
        return f"{getattr(flask.session, 'user', None)} {flask.session.get('cart')}"

    return app


def new_flask(sessions: WebSessions[Any]) -> App:
    app = flask.Flask("new", root_path="/")
    sessions.init_flask(app)
    return flask_page(app)


def flask_session(kind: str, is_signed: bool, store_url: Any, request: pytest.FixtureRequest) -> Move:
    import flask_session as package
    import pymongo
    import redis

    app = flask.Flask("old", root_path="/")
    app.secret_key = SECRET
    app.config.update(SESSION_TYPE=kind, SESSION_USE_SIGNER=is_signed)
    prefix = f"s{uuid.uuid4().hex}:"
    app.config["SESSION_KEY_PREFIX"] = prefix
    if kind == "redis":
        url = request.getfixturevalue("engine")("redis").url
        app.config["SESSION_REDIS"] = redis.Redis.from_url(url)
    else:
        url = request.getfixturevalue("server").uri
        app.config["SESSION_MONGODB"] = pymongo.MongoClient(url)
        app.config["SESSION_SERIALIZATION_FORMAT"] = "json"
    package.Session(app)
    reader = FlaskSession(url, until=LATER, prefix=prefix, secret=SECRET if is_signed else None)
    return Move(flask_page(app), new_flask, reader)


def starlette_pages(user: str) -> list[Any]:
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def go_in(request: Request) -> PlainTextResponse:
        request.session.update({user: "7", "cart": ["tea", {"n": 2}]})
        return PlainTextResponse("in")

    async def go_out(request: Request) -> PlainTextResponse:
        request.session.destroy()  # type: ignore[attr-defined]
        return PlainTextResponse("out")

    async def show(request: Request) -> PlainTextResponse:
        session = request.session
        return PlainTextResponse(f"{getattr(session, 'user', None)} {session.get('cart')}")

    return [Route("/in", go_in), Route("/out", go_out), Route("/", show)]


def starlette() -> Move:
    from starlette.applications import Starlette
    from starlette.middleware.sessions import SessionMiddleware as Old

    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    old = Starlette(routes=starlette_pages("who"))
    old.add_middleware(Old, secret_key=SECRET)

    def new(sessions: WebSessions[Any]) -> App:
        app = Starlette(routes=starlette_pages("who"))
        return as_wsgi(SessionMiddleware(app, sessions))

    return Move(as_wsgi(old), new, StarletteSessions(SECRET, until=LATER, user="who"))


def django(engine: str) -> Move:
    import django_site

    django_site.configure()
    from django.conf import settings
    from django.contrib.auth import login, logout
    from django.contrib.auth.models import AnonymousUser, User
    from django.core.management import call_command
    from django.http import HttpRequest, HttpResponse
    from django.test import override_settings
    from django.urls import path

    # Django refuses database calls in a thread with a running loop, and Playwright's loop runs in this one.
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        call_command("migrate", verbosity=0)
    user = User(pk=7, username="ada", password="hash")

    def go_in(request: HttpRequest) -> HttpResponse:
        request.user = AnonymousUser()
        login(request, user, "django.contrib.auth.backends.ModelBackend")
        request.session["cart"] = ["tea", {"n": 2}]
        return HttpResponse("in")

    def go_out(request: HttpRequest) -> HttpResponse:
        request.user = AnonymousUser()
        logout(request)
        return HttpResponse("out")

    def show(request: HttpRequest) -> HttpResponse:
        session = request.session
        return HttpResponse(f"{getattr(session, 'user', None)} {session.get('cart')}")

    routes = [path("in", go_in), path("out", go_out), path("", show)]
    stock = "django.contrib.sessions.middleware.SessionMiddleware"
    theirs = {
        "SESSION_ENGINE": f"{BACKENDS}.{engine}",
        "MIDDLEWARE": [stock],
        "SESSION_COOKIE_NAME": "sessionid",
    }

    def old(environ: Any, start: Any) -> Any:
        with override_settings(**theirs):
            return django_site.handler(settings.WEBSESSIONS, routes=routes)(environ, start)

    def new(sessions: WebSessions[Any]) -> App:
        return lambda environ, start: django_site.handler(sessions, routes=routes)(environ, start)

    settings.WEBSESSIONS = WebSessions("memory:")
    return Move(old, new, DjangoSessions(f"{BACKENDS}.{engine}", until=LATER))


MOVES: dict[str, Callable[..., Move]] = {
    "flask-session redis": lambda *having: flask_session("redis", False, *having),
    "flask-session redis signed": lambda *having: flask_session("redis", True, *having),
    "flask-session mongodb": lambda *having: flask_session("mongodb", False, *having),
    "starlette": lambda *having: starlette(),
    "django db": lambda *having: django("db"),
    "django cache": lambda *having: django("cache"),
    "django cached_db": lambda *having: django("cached_db"),
    "django signed_cookies": lambda *having: django("signed_cookies"),
}

SHOWN = "7 ['tea', {'n': 2}]"
ANONYMOUS = "None None"


@pytest.fixture(params=MOVES)
def move(request: pytest.FixtureRequest, store_url: Any) -> Move:
    return MOVES[request.param](store_url, request)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_visitor_moves_in_and_stays_logged_in(move: Move) -> None:
    move.get(move.old, "/in")
    old = move.cookie
    assert old is not None
    first = move.get(move.new)
    assert first.text == SHOWN
    assert first.headers["cache-control"] == "no-store"
    # The old cookie is gone, and the new one is accepted.
    assert move.cookie is not None
    assert move.cookie.startswith("sid=")
    assert ";" not in move.cookie
    # A concurrent request, which still has the old cookie, joins the same websession.
    beside = move.get(move.new, cookie=old)
    assert beside.text == SHOWN
    assert "set-cookie" not in beside.headers
    assert move.get(move.new).text == SHOWN
    (handle,) = move.sessions.blocking.of("7")
    assert handle.user == "7"
    # Once the new cookie was seen, the old one is refused, also after a logout.
    assert move.get(move.new, cookie=old).text == ANONYMOUS
    move.get(move.new, "/out")
    assert move.cookie is None
    assert move.get(move.new, cookie=old).text == ANONYMOUS
    assert move.sessions.blocking.of("7") == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lost_answer_is_made_good_and_a_late_copy_ends_the_websession(move: Move) -> None:
    move.get(move.old, "/in")
    old = move.cookie
    move.get(move.new, cookie=old)  # whose response is lost
    move.clock.advance(60)
    assert move.get(move.new).text == SHOWN
    assert move.get(move.new).text == SHOWN
    move.clock.advance(60)
    assert move.get(move.new, cookie=old).text == ANONYMOUS
    assert move.get(move.new).text == ANONYMOUS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_cookie_is_refused_when_forged_revoked_or_too_old(move: Move) -> None:
    assert move.get(move.new).text == ANONYMOUS
    move.get(move.old, "/in")
    old = move.cookie
    assert old is not None
    name, _, value = old.partition("=")
    # The third character from the end: some bits of a signature's last one may be unused.
    changed = f"{value[:-3]}{'y' if value[-3] == 'x' else 'x'}{value[-2:]}"
    for forged in (f"{name}={changed}", f"{name}=", f"{name}=x", f"{name}={'x' * 70}", f"{name}=a.b.c"):
        assert move.get(move.new, cookie=forged).text == ANONYMOUS
    move.sessions.blocking.revoke_user("7")
    assert move.get(move.new, cookie=old).text == ANONYMOUS
    move.get(move.old, "/in")
    move.clock.advance(31 * 86_400)
    assert move.get(move.new).text == ANONYMOUS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_event_loop_reads_the_old_sessions_too(move: Move) -> None:
    move.get(move.old, "/in")

    async def visit() -> tuple[Any, Any]:
        session = await move.sessions.asynchronous.load(RequestView(move.cookie))
        return session.user, session["cart"]

    # Runs in a thread of its own, since a browser's loop may run in this one.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: asyncio.run(visit())).result(60) == ("7", ["tea", {"n": 2}])
    assert move.get(move.new).text == SHOWN


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def address(move: Move) -> Iterator[tuple[str, dict[str, App]]]:
    """A port whose application is replaced while browsers use it."""
    running: dict[str, App] = {"app": move.old}
    server = make_server(
        "127.0.0.1", 0, lambda environ, start: running["app"](environ, start), handler_class=Quiet
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", running
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_browser_moves_in(chromium: Any, move: Move, address: tuple[str, dict[str, App]]) -> None:
    url, running = address
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{url}/in")
    (old,) = context.cookies()
    running["app"] = move.new
    for _ in range(2):
        page.goto(url)
        assert page.inner_text("body") == SHOWN
        (cookie,) = context.cookies()
        assert cookie["name"] == "sid"
        assert cookie["httpOnly"]
    page.goto(f"{url}/out")
    page.goto(url)
    assert page.inner_text("body") == ANONYMOUS
    context.add_cookies([old])
    page.goto(url)
    assert page.inner_text("body") == ANONYMOUS
    context.close()


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match="expected until as a datetime with a zone"):
        Predecessor(until=datetime.now(), cookie="session")
    with pytest.raises(UsageError, match="a token of RFC 6265"):
        Predecessor(until=LATER, cookie="a b")
    with pytest.raises(UsageError, match="expected a URL of redis: or mongodb:"):
        FlaskSession("mysql://localhost", until=LATER)
    with pytest.raises(UsageError, match="predecessors= needs a store"):
        WebSessions("cookie:", seal=new_key(), predecessors=[StarletteSessions("s", until=LATER)])


class Own(Predecessor):
    """A reader of an application's own."""

    async def read_flow(self, value: str, waits: bool) -> Values | None:
        return {"name": value, "bad": object()} if value != "unknown" else None


def test_a_reader_of_your_own_converts_and_values_that_cannot_be_stored_are_told() -> None:
    for convert, expected in (
        (None, {}),
        (lambda values: {"name": values["name"].upper()}, {"name": "ADA"}),
    ):
        reader = Own(until=LATER, cookie="old", user="name", convert=convert)
        sessions: WebSessions[Any] = WebSessions("memory:" + uuid.uuid4().hex, predecessors=[reader])
        session = sessions.blocking.load(RequestView("old=ada"))
        assert (dict(session), session.user) == (expected, "ada" if expected else None)
        headers = take_headers(session)
        assert ("old=; Path=/; Max-Age=0" in str(headers)) == bool(expected)


def test_requests_side_by_side_take_one_session_over_once() -> None:
    async def visits() -> None:
        store = MemoryStore()
        reader = Own(until=LATER, cookie="old", user="name", convert=lambda values: {"name": values["name"]})
        sessions: WebSessions[Any] = WebSessions(store, predecessors=[reader], events=lambda event: None)
        store.disturb(delay=0.001)
        found = await asyncio.gather(*(sessions.asynchronous.load(RequestView("old=ada")) for _ in range(20)))
        assert {session.user for session in found} == {"ada"}
        assert len({session.tag for session in found}) == 1
        assert len(await sessions.of("ada")) == 1
        assert sum(session.state.cookie is not None for session in found) == 1

    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(visits())).result(60)


def test_a_signed_cookie_that_is_nested_too_deeply_is_no_session() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    value = TimestampSigner("s").sign(b64encode(deep)).decode()
    assert run_now(StarletteSessions("s", until=LATER).read_flow(value, waits=False)) is None
