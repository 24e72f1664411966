"""Websessions in Starlette, FastAPI, Flask and plain WSGI."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import flask
import httpx
import msgspec
import pytest
from browser import Site
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from mangonel.websessions import WebSession, WebSessions
from mangonel.websessions.errors import UsageError
from mangonel.websessions.frameworks import flask as flask_sessions
from mangonel.websessions.frameworks.asgi import SessionMiddleware, check_csrf
from mangonel.websessions.frameworks.wsgi import WSGISessions
from mangonel.websessions.stores.memory import BlockingMemoryStore


async def count(request: Request) -> Response:
    request.session["n"] = request.session.get("n", 0) + 1
    return JSONResponse(dict(request.session), headers={"Cache-Control": "public"})


async def show(request: Request) -> Response:
    return JSONResponse(dict(request.session))


async def login(request: Request) -> Response:
    request.session.login("ada", keep=("n",))
    response = PlainTextResponse("in")
    response.set_cookie("theirs", "1")
    return response


async def logout(request: Request) -> Response:
    request.session.destroy()
    return PlainTextResponse("out")


async def fail(request: Request) -> Response:
    request.session["n"] = 99
    return PlainTextResponse("no", int(request.query_params["status"]))


async def stream(request: Request) -> Response:
    request.session["early"] = 1

    async def body() -> Any:
        yield b"one"
        request.session["late"] = 1
        yield b"two"

    return StreamingResponse(body())


async def guarded(request: Request) -> Response:
    if request.method == "GET":
        return PlainTextResponse(request.session.csrf_token())
    check_csrf(request)
    return PlainTextResponse("done")


async def socket(websocket: WebSocket) -> None:
    session: WebSession[Any] = websocket.scope["session"]
    await websocket.accept()
    session["ws"] = await websocket.receive_text()
    await session.save()
    await websocket.send_text(str(session.user))
    await websocket.close()


ROUTES = [
    Route("/count", count),
    Route("/show", show),
    Route("/login", login, methods=["POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/fail", fail),
    Route("/stream", stream),
    Route("/guarded", guarded, methods=["GET", "POST"]),
    WebSocketRoute("/ws", socket),
]


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def client(site: Site) -> Iterator[TestClient]:
    app = Starlette(
        routes=ROUTES, middleware=[Middleware(SessionMiddleware, sessions=site.sessions, exclude=["/none"])]
    )
    with TestClient(app, base_url="https://testserver", raise_server_exceptions=False) as client:
        yield client


def test_starlette_keeps_values_and_says_so_once(client: TestClient) -> None:
    first = client.get("/count")
    assert first.json() == {"n": 1}
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["vary"] == "Cookie"
    second = client.get("/count")
    assert second.json() == {"n": 2}
    assert "set-cookie" not in second.headers
    assert second.headers["cache-control"] == "public"


def test_starlette_login_keeps_the_applications_cookies_and_logout_ends(
    client: TestClient, site: Site
) -> None:
    client.get("/count")
    before = client.cookies["__Host-sid"]
    answer = client.post("/login")
    names = sorted(value.partition("=")[0] for value in answer.headers.get_list("set-cookie"))
    assert names == ["__Host-sid", "theirs"]
    assert client.cookies["__Host-sid"] != before
    assert client.get("/show").json() == {"n": 1}
    client.post("/logout")
    assert "__Host-sid" not in client.cookies
    assert site.live() == []


def test_starlette_server_errors_keep_nothing(client: TestClient) -> None:
    client.get("/count")
    client.get("/fail?status=500")
    assert client.get("/show").json() == {"n": 1}
    client.get("/fail?status=404")
    assert client.get("/show").json() == {"n": 99}


def test_starlette_streams_may_still_change_a_stored_session(client: TestClient) -> None:
    assert client.get("/stream").text == "onetwo"
    assert client.get("/show").json() == {"early": 1, "late": 1}


def test_starlette_forged_requests_are_403(client: TestClient) -> None:
    token = client.get("/guarded").text
    assert client.post("/guarded").status_code == 403
    assert client.post("/guarded", headers={"X-CSRF-Token": token}).text == "done"
    assert (
        client.post("/guarded", headers={"X-CSRF-Token": token, "Sec-Fetch-Site": "cross-site"}).status_code
        == 403
    )


def test_starlette_answers_an_outage_with_503_and_no_cookie(client: TestClient, site: Site) -> None:
    """Requirement 41."""
    client.get("/count")
    for calls in (0, 1):
        site.memory.disturb(fail_after=calls)
        answer = client.get("/count")
        assert answer.status_code == 503
        assert "set-cookie" not in answer.headers
    site.memory.disturb()
    assert client.get("/count").json() == {"n": 2}


def test_starlette_websockets_have_the_session_and_save(client: TestClient) -> None:
    client.post("/login")
    with client.websocket_connect("wss://testserver/ws") as websocket:
        websocket.send_text("hello")
        assert websocket.receive_text() == "ada"
    assert client.get("/show").json() == {"ws": "hello"}


@pytest.mark.parametrize("fails", [False, True])
def test_starlette_websockets_end_what_was_ended_without_a_save(site: Site, fails: bool) -> None:
    async def leave(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.receive_text()
        websocket.session.destroy()
        if fails:
            raise RuntimeError("the socket fails")
        await websocket.close()

    app = Starlette(
        routes=[*ROUTES, WebSocketRoute("/leave", leave)],
        middleware=[Middleware(SessionMiddleware, sessions=site.sessions)],
    )
    with TestClient(app, base_url="https://testserver", raise_server_exceptions=False) as client:
        client.post("/login")
        with (
            contextlib.suppress(RuntimeError),
            client.websocket_connect("wss://testserver/leave") as websocket,
        ):
            websocket.send_text("bye")
    assert site.live() == []


class Shop(msgspec.Struct):
    cart: list[str] = []
    theme: str = "light"


@pytest.mark.parametrize("codec", ["msgpack", "json", "bson"])
def test_fastapi_has_typed_data_whose_nested_changes_are_noticed(codec: str) -> None:
    sessions = WebSessions("memory:fastapi-" + codec, model=Shop, codec=codec)
    app = FastAPI()
    app.add_middleware(SessionMiddleware, sessions=sessions)
    web = Annotated[WebSession[Shop], Depends(sessions.current)]

    async def add(sku: str, web: Any) -> list[str]:
        web.data.cart.append(sku)
        cart: list[str] = web.data.cart
        return cart

    async def read(web: Any) -> str:
        return f"{web.data.cart} {web.data.theme} {web.csrf_token() != ''}"

    add.__annotations__.update(sku=str, web=web)
    read.__annotations__.update(web=web)
    app.post("/cart/{sku}")(add)
    app.get("/")(read)
    with TestClient(app, base_url="https://testserver") as client:
        assert client.post("/cart/apple").json() == ["apple"]
        assert client.post("/cart/pear").json() == ["apple", "pear"]
        assert client.get("/").json() == "['apple', 'pear'] light True"
        assert client.get("/").json() == "['apple', 'pear'] light True"


async def test_typed_data_that_no_longer_fits_is_discarded() -> None:
    site = Site()
    browser = site.browser()
    await browser.store(cart="not a list")
    typed = Site(model=Shop, store=site.meter, clock=site.clock)
    browser.sessions = typed.sessions
    session = await browser.begin()
    assert session.data == Shop()
    assert typed.events.kinds() == ["rejected(corrupt)"]


async def test_plain_values_beside_a_model_are_refused() -> None:
    site = Site(model=Shop)
    browser = site.browser()
    session = await browser.begin()
    session["theme"] = "dark"
    with pytest.raises(UsageError, match=r"session\.data, a Shop, got plain ones .* 'theme'"):
        await browser.end(session)


async def test_typed_data_at_its_defaults_is_not_stored() -> None:
    site = Site(model=Shop)
    browser = site.browser()
    session = await browser.begin()
    assert session.data.theme == "light"
    assert await browser.end(session) == [("Vary", "Cookie")]
    one, other = await browser.begin(), None
    one.data.cart.append("apple")
    await browser.end(one)
    one, other = await browser.begin(), await browser.begin()
    one.data.theme = "dark"
    other.data.cart.append("pear")
    await browser.end(one)
    await browser.end(other)
    assert (await browser.begin()).data == Shop(["apple", "pear"], "dark")


@pytest.fixture
def flask_app() -> flask.Flask:
    return flask.Flask("tests", root_path="/")


@pytest.fixture
def make_flask_client(flask_app: flask.Flask) -> Callable[..., Any]:
    def make(sessions: WebSessions[Any]) -> Any:
        sessions.init_flask(flask_app)
        app = flask_app

        @app.get("/count")
        def count() -> Any:
            flask.session["n"] = flask.session.get("n", 0) + 1
            flask.flash(f"number {flask.session['n']}")
            return {"n": flask.session["n"]}

        @app.get("/show")
        def show() -> Any:
            messages = flask.get_flashed_messages()
            return {"messages": messages, **flask.session}

        @app.post("/login")
        def login() -> Any:
            flask.session.login("ada", keep=("n",))  # type: ignore[attr-defined]
            answer = flask.make_response("in")
            answer.set_cookie("theirs", "1")
            return answer

        @app.post("/logout")
        def logout() -> str:
            flask.session.destroy()  # type: ignore[attr-defined]
            return "out"

        @app.get("/fail")
        def fail() -> Any:
            flask.session["n"] = 99
            return "no", int(flask.request.args["status"])

        @app.route("/guarded", methods=["GET", "POST"])
        def guarded() -> str:
            if flask.request.method == "GET":
                return str(flask.session.csrf_token())  # type: ignore[attr-defined]
            flask_sessions.check_csrf()
            return "done"

        return httpx.Client(transport=httpx.WSGITransport(app), base_url="https://testserver")

    return make


class Unreliable(BlockingMemoryStore):
    """Fails after this many calls."""

    fail_after: int | None = None

    def _call(self) -> None:
        if self.fail_after is not None:
            if self.fail_after <= 0:
                raise ConnectionError("told to fail")
            self.fail_after -= 1

    def get(self, key: bytes) -> Any:
        self._call()
        return super().get(key)

    def put(self, record: Any, expected: int) -> bool:
        self._call()
        return super().put(record, expected)


def test_flask_keeps_values_and_messages(make_flask_client: Callable[..., Any]) -> None:
    client = make_flask_client(WebSessions("memory:flask"))
    first = client.get("/count")
    assert first.json() == {"n": 1}
    assert first.headers["cache-control"] == "no-store"
    assert client.get("/show").json() == {"messages": ["number 1"], "n": 1}
    assert client.get("/show").json() == {"messages": [], "n": 1}
    assert "set-cookie" not in client.get("/show").headers
    before = client.cookies["__Host-sid"]
    answer = client.post("/login")
    assert sorted(value.partition("=")[0] for value in answer.headers.get_list("set-cookie")) == [
        "__Host-sid",
        "theirs",
    ]
    assert client.cookies["__Host-sid"] != before
    client.get("/fail?status=500")
    assert client.get("/show").json()["n"] == 1
    client.post("/logout")
    assert "__Host-sid" not in client.cookies


def test_flask_refuses_forged_requests(make_flask_client: Callable[..., Any]) -> None:
    client = make_flask_client(WebSessions("memory:flask-csrf"))
    token = client.get("/guarded").text
    assert client.post("/guarded").status_code == 403
    assert client.post("/guarded", data={"_csrf": token}).text == "done"


def test_flask_answers_an_outage_with_503_and_no_cookie(make_flask_client: Callable[..., Any]) -> None:
    """Requirement 41."""
    store = Unreliable()
    client = make_flask_client(WebSessions(store))
    client.get("/count")
    for calls in (0, 1):
        store.fail_after = calls
        answer = client.get("/count")
        assert answer.status_code == 503
        assert "set-cookie" not in answer.headers
    store.fail_after = None
    assert client.get("/count").json() == {"n": 2}


def test_wsgi_applications_find_it_in_the_environment() -> None:
    store = Unreliable()
    sessions: WebSessions[Any] = WebSessions(store)

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        session = environ["mangonel.session"]
        if environ["PATH_INFO"] == "/end":
            session.destroy()
        else:
            session["n"] = session.get("n", 0) + 1
        headers = [("Content-Type", "text/plain"), ("Set-Cookie", "theirs=1"), ("Cache-Control", "public")]
        start_response("200 OK", headers)

        def body() -> Iterator[bytes]:
            yield str(session.get("n")).encode()
            if environ["PATH_INFO"] == "/late":
                session["late"] = True

        return body()

    client = httpx.Client(
        transport=httpx.WSGITransport(WSGISessions(app, sessions)), base_url="https://testserver"
    )
    answer = client.get("/")
    assert answer.text == "1"
    assert len(answer.headers.get_list("set-cookie")) == 2
    assert answer.headers["cache-control"] == "no-store"
    assert client.get("/late").text == "2"
    (record,) = store.records.values()
    assert sessions.codec.decode(record.data) == {"n": 2, "late": True}
    for calls in (0, 1):
        store.fail_after = calls
        assert client.get("/").status_code == 503
    store.fail_after = None
    client.get("/end")
    assert store.records == {}
