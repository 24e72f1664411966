"""A forged request from another site changes nothing, and a protected form stores no record for a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from applications import CHECKING, FRAMEWORKS, HOST, Send, served
from browser import Browser
from store_names import STORES

from mangonel.websessions import MemoryStore, UsageError, WebSessions
from mangonel.websessions.csrf import token_in_form
from mangonel.websessions.errors import CSRFError

BOUNDARY = "multipart/form-data; boundary=xyz"


def memory(store: MemoryStore | None = None, **settings: Any) -> WebSessions[Any]:
    return WebSessions(store or MemoryStore(), events=lambda event: None, **settings)


def own(framework: str) -> str:
    # The origin of a real server has another port each time; its requests carry its own Host.
    return "https://127.0.0.1:1" if framework == "tornado" else HOST


@pytest.fixture(params=CHECKING)
def guarded(request: pytest.FixtureRequest) -> Iterator[tuple[str, Send]]:
    with served(request.param, memory(trusted_origins=["https://admin.example"]), checks=True) as send:
        yield own(request.param), send


def host_of(origin: str) -> dict[str, str]:
    return {"Host": origin.partition("//")[2]}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_token_for_an_anonymous_reader_makes_no_record_and_holds_until_the_login(framework: str) -> None:
    store = MemoryStore()
    with served(framework, memory(store)) as send:
        page = send("do=token")
        assert [each.partition("=")[0] for each in page.set_cookies] == ["__Host-sid-csrf"]
        assert page.headers["cache-control"] == "no-store"
        assert not store.records
        # A second form of the same reader uses the same secret.
        assert send("do=token", page.cookie).set_cookies == []
        inside = send("do=login,token", page.cookie)
        assert "__Host-sid-csrf" not in (inside.cookie or "")
        assert len([record for record in store.records.values() if record.is_live]) == 1


def test_what_a_page_of_ours_sends_passes(guarded: tuple[str, Send]) -> None:
    origin, send = guarded
    for login in ("", ",login"):
        page = send(f"do=nothing{login}")
        page = send("do=token", page.cookie)
        headers = {"X-CSRF-Token": page.found["token"], **host_of(origin)}
        for said in (
            {"Origin": origin, "Sec-Fetch-Site": "same-origin"},
            {"Origin": origin},
            {"Referer": f"{origin}/form"},
            {},
            {"Origin": "https://admin.example", "Sec-Fetch-Site": "cross-site"},
            {"Origin": "HTTPS://Admin.Example:443"},
        ):
            answer = send("do=write&k=a&v=1", page.cookie, "POST", **headers, **said)
            assert answer.status == 200, said


def test_what_another_site_sends_is_refused_although_it_has_the_token(guarded: tuple[str, Send]) -> None:
    origin, send = guarded
    page = send("do=token", send("do=login").cookie)
    headers = {"X-CSRF-Token": page.found["token"], **host_of(origin)}
    for said in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "https://other.shop.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": origin.replace("https", "http")},
        {"Origin": f"{origin}0"},
        {"Origin": "https://admin.example.evil.example"},
        {"Referer": "https://evil.example/page"},
        {"Referer": f"https://evil.example/{origin}"},
    ):
        answer = send("do=write&k=a&v=1", page.cookie, "POST", **headers, **said)
        assert answer.status == 403, said
    assert send("", page.cookie).found["values"] == {}


def test_a_token_that_is_missing_or_somebody_else_s_is_refused(guarded: tuple[str, Send]) -> None:
    _, send = guarded
    reader, member = send("do=token"), send("do=token", send("do=login").cookie)
    for token, cookie in (
        (None, None),
        (None, member.cookie),
        (reader.found["token"], None),
        (reader.found["token"], member.cookie),
        (member.found["token"], reader.cookie),
        (send("do=token").found["token"], reader.cookie),
        # From before the login.
        (reader.found["token"], send("do=login", reader.cookie).cookie),
        ("!" * 43, member.cookie),
        ("A" * 43, member.cookie),
    ):
        headers = {"X-CSRF-Token": token} if token else {}
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert send("do=write&k=a&v=1", cookie, method, **headers).status in (403, 405), token
        assert send("do=write&k=a&v=1", cookie, "POST", **headers).status == 403


def test_a_form_carries_the_token_as_a_field(guarded: tuple[str, Send]) -> None:
    _, send = guarded
    page = send("do=token")
    token = page.found["token"]
    parts = f'--xyz\r\nContent-Disposition: form-data; name="_csrf"\r\n\r\n{token}\r\n--xyz--\r\n'
    for kind, body in (
        ("application/x-www-form-urlencoded", f"a=1&_csrf={token}&b=2"),
        (BOUNDARY, parts),
    ):
        sent = {"Content-Type": kind}
        assert send("do=nothing", page.cookie, "POST", body.encode(), **sent).status == 200, kind
        assert (
            send("do=nothing", page.cookie, "POST", body.replace(token, "x").encode(), **sent).status == 403
        )


@pytest.mark.parametrize(
    ("kind", "body", "token"),
    [
        ("application/x-www-form-urlencoded", b"_csrf=t&_csrf=u", "u"),
        ("application/x-www-form-urlencoded", b"\xff=%ff&_csrf=%20", " "),
        ("text/plain", b"_csrf=t", None),
        (BOUNDARY, b'--xyz\r\nContent-Disposition: form-data; name="_csrf"\r\n\r\nhal', None),
        (BOUNDARY, b'--xyz\r\nx: name="_csrf"\r\n\r\nt\r\n--xyz\r\nhal', "t"),
        ("multipart/form-data", b"--\r\n", None),
        ("", b"", None),
    ],
)
def test_a_token_is_read_from_whatever_a_stranger_sends(kind: str, body: bytes, token: str | None) -> None:
    assert token_in_form(kind, body) == token


async def test_the_application_gets_the_whole_form_however_it_arrives() -> None:
    from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware

    chunks = [b"a" * 40_000, b"b" * 40_000, b"c" * 10]
    sent: list[Any] = []
    heard = b""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal heard
        more = True
        while more:
            message = await receive()
            heard += message["body"]
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sessions = memory()
    browser = Browser(sessions)
    session = await browser.begin()
    token = session.csrf_token()
    await browser.end(session)
    first = f'--xyz\r\nContent-Disposition: form-data; name="_csrf"\r\n\r\n{token}\r\n--xyz\r\n'.encode()
    for parts in ([first, *chunks], [first[:50], first[50:], *chunks]):
        messages = [
            {"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts
        ]
        heard = b""

        async def receive(messages: Any = messages) -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"cookie", (browser.cookie or "").encode()), (b"content-type", BOUNDARY.encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "scheme": "https", "headers": headers}
        await SessionMiddleware(CSRFMiddleware(app), sessions)(scope, receive, send)
        assert heard == b"".join(parts)
        assert sent[-2]["status"] == 200


async def test_a_form_in_very_small_pieces_is_looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    from mangonel.websessions.frameworks import asgi

    looks = 0

    def counted(kind: str, body: bytes) -> str | None:
        nonlocal looks
        looks += 1
        return token_in_form(kind, body)

    monkeypatch.setattr(asgi, "token_in_form", counted)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x", "more_body": True}

    token, _ = await asgi._form_token(BOUNDARY, receive)
    assert token is None
    assert looks < 40


async def test_a_socket_that_another_site_opens_is_refused() -> None:
    from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    for origin, kind in ((b"https://shop.example", "accept"), (b"https://evil.example", "close")):
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        headers = [(b"host", b"shop.example"), (b"origin", origin)]
        scope = {"type": "websocket", "path": "/", "scheme": "wss", "headers": headers}
        await SessionMiddleware(CSRFMiddleware(app), memory())(scope, send, send)  # type: ignore[arg-type]
        assert sent[0]["type"] == f"websocket.{kind}"


def test_paths_and_views_that_other_servers_call_are_left_out() -> None:
    import flask
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route
    from starlette.testclient import TestClient

    from mangonel.websessions.frameworks.asgi import CSRFMiddleware, SessionMiddleware
    from mangonel.websessions.frameworks.flask import csrf_exempt

    async def page(request: Any) -> Any:
        return PlainTextResponse("done")

    checking = [
        Middleware(SessionMiddleware, sessions=memory()),
        Middleware(CSRFMiddleware, exclude=["/hook/"]),
    ]
    routes = [Route(path, page, methods=["POST"]) for path in ("/hook/x", "/other")]
    with TestClient(Starlette(routes=routes, middleware=checking), base_url=HOST) as client:
        assert [client.post(path).status_code for path in ("/hook/x", "/other")] == [200, 403]
    # A server's prefix is a part of the path, or was removed by the proxy.
    whole = TestClient(Starlette(routes=routes, middleware=checking), base_url=HOST, root_path="/shop")
    for path, status in (("/shop/hook/x", 200), ("/hook/x", 200), ("/shop/other", 403), ("/shophook/x", 403)):
        assert whole.post(path).status_code == status, path
    app = flask.Flask("tests", root_path="/")
    memory().init_flask(app, csrf=True)
    app.post("/hook")(csrf_exempt(lambda: "done"))
    app.post("/other", endpoint="other")(lambda: "done")
    answers = [app.test_client().post(path, base_url=HOST).status_code for path in ("/hook", "/other", "/no")]
    assert answers == [200, 403, 403]


@pytest.mark.parametrize("name", STORES)
async def test_a_token_belongs_to_the_websession_of_a_user_on_every_store(
    name: str, store_url: Callable[[str], str]
) -> None:
    sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None)
    browser, other = Browser(sessions), Browser(sessions)
    for each in (browser, other):
        await each.login("ada")
    session = await browser.begin()
    token = session.csrf_token()
    await browser.end(session)
    (await browser.begin()).check_csrf(token)
    for change in ("rotate", "destroy"):
        session = await browser.begin()
        getattr(session, change)()
        with pytest.raises(CSRFError):
            session.check_csrf(token)
    with pytest.raises(CSRFError):
        (await other.begin()).check_csrf(token)
    await sessions.aclose()


@pytest.mark.parametrize("framework", CHECKING)
def test_the_host_is_one_of_those_that_the_proxies_give(framework: str) -> None:
    with served(framework, memory(trust_forwarded=True), checks=True) as send:
        page = send("do=token")
        for hosts, origin, status in (
            ("shop.example", "https://shop.example", 200),
            ("shop.example, inner.example:8000", "https://shop.example", 200),
            ("inner.example,SHOP.example:443", "https://shop.example", 200),
            ("[::1]:8443, inner.example", "https://[::1]:8443", 200),
            ("shop.example, inner.example", "https://evil.example", 403),
            ("shop.example, inner.example", "https://127.0.0.1:1", 403),
            ("not:a:host", "null", 403),
        ):
            headers = {
                "X-CSRF-Token": page.found["token"],
                "Host": "127.0.0.1:1",
                "X-Forwarded-Host": hosts,
                "Origin": origin,
            }
            assert send("do=nothing", page.cookie, "POST", **headers).status == status, (hosts, origin)


@pytest.mark.parametrize(
    "origins",
    [
        "https://a.example",
        ["a.example"],
        ["https://a.example/path"],
        ["https://a.example?b"],
        ["https://*.example"],
        ["https://b\xfccher.example"],
        ["https://ada@a.example"],
        [7],
    ],
)
def test_origins_that_cannot_be_meant_are_refused_at_the_start(origins: Any) -> None:
    with pytest.raises(UsageError, match="expected trusted_origins"):
        memory(trusted_origins=origins)


@pytest.mark.parametrize(
    "origin",
    ["https://a.example", "HTTP://A.Example:8080/", "https://[::1]:8443", "https://xn--bcher-kva.example."],
)
def test_origins_that_browsers_send_may_be_trusted(origin: str) -> None:
    assert len(memory(trusted_origins=[origin]).trusted_origins) == 1
