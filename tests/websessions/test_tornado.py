"""Websessions in Tornado: saved before the response leaves, whichever way a handler ends."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
import tornado.web
import tornado.websocket
from browser import Site, after
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port

from mangonel.websessions.frameworks.tornado import SessionMixin


class Base(SessionMixin, tornado.web.RequestHandler):
    """The base class of the applications."""


class Counter(Base):
    async def get(self) -> None:
        self.session["n"] = self.session.get("n", 0) + 1
        self.write(str(self.session["n"]))


class Show(Base):
    def get(self) -> None:
        self.write({"user": self.session.user, **self.session})


class Login(Base):
    async def post(self) -> None:
        self.session.login(self.get_argument("user"), keep=("n",))
        self.session.flash("Welcome back")
        self.redirect("/welcome")


class Welcome(Base):
    def get(self) -> None:
        self.write({"user": self.session.user, "flashes": [flash.text for flash in self.session.flashes()]})


class Logout(Base):
    async def post(self) -> None:
        self.session.destroy()
        self.finish("bye")


class Guard(Base):
    ran = False

    async def prepare(self) -> None:
        await super().prepare()
        if self.session.user is None:
            self.session["next"] = self.request.path
            self.redirect("/show")

    async def get(self) -> None:
        Guard.ran = True
        self.write("secret")


class Fails(Base):
    async def get(self) -> None:
        self.session["n"] = 99
        kind = self.get_argument("kind")
        if kind == "error":
            raise RuntimeError("a bug in a handler")
        if kind == "logout":
            self.session.destroy()
            raise RuntimeError("after a logout")
        raise tornado.web.HTTPError(int(kind))


class Chunks(Base):
    async def get(self) -> None:
        if self.get_argument("when") == "before":
            self.session["n"] = 5
        self.write("one")
        await self.flush()
        if self.get_argument("when") == "after":
            self.session["n"] = 6
        if self.get_argument("when") == "login":
            with pytest.raises(ValueError, match="headers"):
                self.session.login("alice")
        self.write("two")


class Health(Base):
    use_session = False

    def get(self) -> None:
        self.write("ok")


class Forgetful(Base):
    async def prepare(self) -> None:
        super().prepare()

    async def get(self) -> None:
        self.write(str(self.session))


class Twice(Base):
    errors: ClassVar[list[str]] = []

    async def get(self) -> None:
        self.session["n"] = 7
        self.finish("first")
        try:
            self.finish("second")
        except RuntimeError as error:
            Twice.errors.append(str(error))


class Form(Base):
    check_csrf = True

    async def get(self) -> None:
        self.write(self.session.csrf_token())

    async def post(self) -> None:
        self.write("done")


class OwnCookie(Base):
    async def get(self) -> None:
        self.set_cookie("theirs", "1")
        self.set_header("Vary", "Accept")
        self.session["n"] = 1


class Socket(SessionMixin, tornado.websocket.WebSocketHandler):
    session_revalidate = "20ms"

    async def on_message(self, message: Any) -> None:
        if message == "save":
            self.session["ws"] = True
            await self.session.save()
        await self.write_message(str(self.session.user))


ROUTES = [
    ("/", Counter),
    ("/show", Show),
    ("/login", Login),
    ("/welcome", Welcome),
    ("/logout", Logout),
    ("/guard", Guard),
    ("/fails", Fails),
    ("/chunks", Chunks),
    ("/health", Health),
    ("/forgetful", Forgetful),
    ("/twice", Twice),
    ("/form", Form),
    ("/own", OwnCookie),
    ("/ws", Socket),
]


class Client:
    """A browser that talks to a running application."""

    def __init__(self, port: int, http: AsyncHTTPClient) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.http = http
        self.cookie = ""

    async def fetch(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> HTTPResponse:
        if self.cookie:
            headers["Cookie"] = self.cookie
        if method == "POST":
            body = body or ""
        answer = await self.http.fetch(
            HTTPRequest(self.base + path, method, headers=headers, body=body, follow_redirects=False),
            raise_error=False,
        )
        for value in answer.headers.get_list("Set-Cookie"):
            if value.startswith("sid"):
                self.cookie = after(self.cookie, [value]) or ""
        return answer


@asynccontextmanager
async def running(site: Site, **settings: Any) -> AsyncIterator[Client]:
    socket, port = bind_unused_port()
    server = HTTPServer(tornado.web.Application(ROUTES, sessions=site.sessions, **settings))
    server.add_socket(socket)
    http = AsyncHTTPClient(force_instance=True, max_clients=50)
    try:
        yield Client(port, http)
    finally:
        http.close()
        server.stop()
        await server.close_all_connections()


def a_site(**settings: Any) -> Site:
    return Site(secure=False, **settings)


async def test_methods_that_a_library_replaces_afterwards_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()

    def replaced(name: str) -> Any:
        plain = getattr(tornado.web.RequestHandler, name)

        def method(*arguments: Any, **keywords: Any) -> Any:
            called.add(name)
            return plain(*arguments, **keywords)

        return method

    async with running(a_site()) as client:
        for name in ("prepare", "finish", "flush"):
            monkeypatch.setattr(tornado.web.RequestHandler, name, replaced(name))
        assert (await client.fetch("/show")).code == 200
    assert called == {"prepare", "finish", "flush"}


def test_a_class_between_the_mixin_and_the_handler_is_not_passed_over() -> None:
    class Between(tornado.web.RequestHandler):
        def flush(self, include_footers: bool = False) -> Any:
            return super().flush(include_footers)

    class Page(SessionMixin, Between):
        pass

    class Further(Page):
        def finish(self, chunk: Any = None) -> Any:
            return super().finish(chunk)

    for handler in (Page, Further):
        assert handler._websession_flushes is Between
        assert handler._websession_finishes is tornado.web.RequestHandler
        assert handler._websession_prepares is tornado.web.RequestHandler


def test_this_tornado_has_the_private_flag_that_finish_relies_on() -> None:
    source = inspect.getsource(tornado.web.RequestHandler)
    assert "if self._auto_finish and not self._finished:" in source
    assert 'raise RuntimeError("finish() called twice")' in source
    assert "_headers_written" in source


async def test_a_value_is_there_in_the_next_request() -> None:
    async with running(a_site()) as client:
        assert [(await client.fetch("/")).body for _ in range(3)] == [b"1", b"2", b"3"]


async def test_what_was_answered_is_stored_although_the_store_is_slow() -> None:
    site = a_site()
    async with running(site) as client:
        await client.fetch("/")
        site.memory.disturb(delay=0.05)
        answer = await client.fetch("/login", "POST", "user=ada")
        assert (answer.code, answer.headers["Location"]) == (302, "/welcome")
        site.memory.disturb()
        assert (await client.fetch("/welcome")).body == b'{"user": "ada", "flashes": ["Welcome back"]}'
        assert (await client.fetch("/welcome")).body == b'{"user": "ada", "flashes": []}'


async def test_a_redirect_in_prepare_stores_and_does_not_run_the_method() -> None:
    async with running(a_site()) as client:
        Guard.ran = False
        answer = await client.fetch("/guard")
        assert answer.code == 302
        assert Guard.ran is False
        assert (await client.fetch("/show")).body == b'{"user": null, "next": "/guard"}'


async def test_finish_twice_is_still_an_error() -> None:
    async with running(a_site()) as client:
        Twice.errors.clear()
        assert (await client.fetch("/twice")).body == b"first"
        assert Twice.errors == ["finish() called twice"]
        assert (await client.fetch("/")).body == b"8"


async def test_server_errors_keep_nothing_and_client_errors_do() -> None:
    async with running(a_site()) as client:
        await client.fetch("/")
        assert (await client.fetch("/fails?kind=error")).code == 500
        assert (await client.fetch("/fails?kind=503")).code == 503
        assert (await client.fetch("/show")).body == b'{"user": null, "n": 1}'
        assert (await client.fetch("/fails?kind=404")).code == 404
        assert (await client.fetch("/show")).body == b'{"user": null, "n": 99}'
    async with running(a_site(save_on_error=True)) as client:
        assert (await client.fetch("/fails?kind=error")).code == 500
        assert (await client.fetch("/show")).body == b'{"user": null, "n": 99}'


async def test_a_logout_holds_although_the_handler_failed_after_it() -> None:
    site = a_site()
    async with running(site) as client:
        await client.fetch("/")
        assert (await client.fetch("/fails?kind=logout")).code == 500
        assert site.memory.records == {}


async def test_a_streamed_answer_carries_the_cookie_with_its_first_chunk() -> None:
    async with running(a_site()) as client:
        answer = await client.fetch("/chunks?when=before")
        assert answer.body == b"onetwo"
        assert client.cookie.startswith("sid=")
        assert (await client.fetch("/show")).body == b'{"user": null, "n": 5}'
        await client.fetch("/chunks?when=after")
        assert (await client.fetch("/show")).body == b'{"user": null, "n": 6}'
        assert (await client.fetch("/chunks?when=login")).body == b"onetwo"


async def test_a_streamed_answer_cannot_begin_a_session_after_its_headers() -> None:
    site = a_site()
    async with running(site) as client:
        # The change raises.
        assert (await client.fetch("/chunks?when=after")).body == b"one"
        assert client.cookie == ""
        assert site.memory.records == {}


async def test_handlers_without_a_session_ask_no_store() -> None:
    site = a_site()
    async with running(site) as client:
        await client.fetch("/")
        calls = site.meter.calls
        assert (await client.fetch("/health")).body == b"ok"
        assert site.meter.calls == calls


async def test_anonymous_readers_cost_no_store_call_and_get_no_cookie() -> None:
    site = a_site()
    async with running(site) as client:
        answer = await client.fetch("/show")
        assert answer.body == b'{"user": null}'
        assert "Set-Cookie" not in answer.headers
        assert site.meter.calls == 0


async def test_known_readers_cost_one_call_and_writers_two() -> None:
    site = a_site()
    async with running(site) as client:
        await client.fetch("/")
        assert site.meter.by_name == {"put": 1}
        await client.fetch("/show")
        assert site.meter.by_name == {"put": 1, "get": 1}
        await client.fetch("/")
        assert site.meter.by_name == {"put": 2, "get": 2}


async def test_a_prepare_that_was_not_awaited_is_told_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async with running(a_site()) as client:
        await client.fetch("/")
        with caplog.at_level(logging.ERROR), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The expected warning: a coroutine was never awaited.
            assert (await client.fetch("/forgetful")).code == 500
            gc.collect()
    assert "await super().prepare()" in caplog.text


async def test_forged_requests_are_403() -> None:
    """Requirement 34."""
    async with running(a_site()) as client:
        token = (await client.fetch("/form")).body.decode()
        assert (await client.fetch("/form", "POST", f"_csrf={token}")).code == 200
        assert (await client.fetch("/form", "POST", **{"X-CSRF-Token": token})).code == 200
        assert (await client.fetch("/form", "POST")).code == 403
        assert (await client.fetch("/form", "POST", "_csrf=x")).code == 403
        site_header = {"Sec-Fetch-Site": "cross-site"}
        assert (await client.fetch("/form", "POST", f"_csrf={token}", **site_header)).code == 403
        await client.fetch("/login", "POST", "user=ada")
        assert (await client.fetch("/form", "POST", f"_csrf={token}")).code == 403


async def test_the_applications_own_cookies_and_headers_stay() -> None:
    """Requirement 33."""
    async with running(a_site()) as client:
        answer = await client.fetch("/own")
        names = sorted(value.partition("=")[0] for value in answer.headers.get_list("Set-Cookie"))
        assert names == ["sid", "theirs"]
        assert sorted(answer.headers.get_list("Vary")) == ["Accept, Cookie"]
        assert answer.headers["Cache-Control"] == "no-store"


async def test_an_outage_is_503_and_changes_no_cookie() -> None:
    """Requirement 41."""
    site = a_site()
    async with running(site) as client:
        await client.fetch("/login", "POST", "user=ada")
        cookie = client.cookie
        for calls in (0, 1):  # the load fails; the load succeeds and the commit fails
            site.memory.disturb(fail_after=calls)
            answer = await client.fetch("/")
            assert answer.code == 503
            assert "Set-Cookie" not in answer.headers
        site.memory.disturb()
        assert client.cookie == cookie
        assert (await client.fetch("/show")).body == b'{"user": "ada"}'


async def test_logout_takes_the_cookie_back() -> None:
    site = a_site()
    async with running(site) as client:
        await client.fetch("/login", "POST", "user=ada")
        assert (await client.fetch("/logout", "POST")).body == b"bye"
        assert client.cookie == ""
        assert site.memory.records == {}


async def test_a_websocket_has_the_session_saves_and_closes_when_it_ends() -> None:
    site = a_site()
    async with running(site) as client:
        await client.fetch("/login", "POST", "user=ada")
        request = HTTPRequest(client.base.replace("http", "ws") + "/ws", headers={"Cookie": client.cookie})
        socket = await tornado.websocket.websocket_connect(request)
        await socket.write_message("save")
        assert await socket.read_message() == "ada"
        assert (await client.fetch("/show")).body == b'{"user": "ada", "ws": true}'
        await site.sessions.revoke_user("ada")
        assert await asyncio.wait_for(socket.read_message(), 60) is None
        assert socket.close_code == 4401


async def test_a_websocket_renews_the_id_with_its_handshake() -> None:
    site = a_site(renew="15m")
    async with running(site) as client:
        await client.fetch("/login", "POST", "user=ada")
        site.clock.advance(16 * 60)
        request = HTTPRequest(client.base.replace("http", "ws") + "/ws", headers={"Cookie": client.cookie})
        socket = await tornado.websocket.websocket_connect(request)
        assert socket.headers is not None
        cookie = socket.headers["Set-Cookie"].partition(";")[0]
        assert cookie != client.cookie
        client.cookie = cookie
        assert (await client.fetch("/show")).body == b'{"user": "ada"}'
        socket.close()


async def test_proxies_are_believed_only_when_told() -> None:
    for trust in (False, True):
        site = Site(trust_forwarded=trust)
        async with running(site) as client:
            answer = await client.fetch("/", **{"X-Forwarded-Proto": "https"})
            assert ("Set-Cookie" in answer.headers) is trust


async def test_an_application_of_the_fork_starts_unchanged() -> None:
    socket, port = bind_unused_port()
    application = tornado.web.Application(
        ROUTES,
        session_storage="memory:fork",
        session_age=60,
        session_cookie_secure=False,
        cookie_secret="a secret",
    )
    server = HTTPServer(application)
    server.add_socket(socket)
    http = AsyncHTTPClient(force_instance=True)
    try:
        answer = await http.fetch(f"http://127.0.0.1:{port}/")
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert cookie.startswith("session_id=")
        assert (await http.fetch(f"http://127.0.0.1:{port}/", headers={"Cookie": cookie})).body == b"2"
    finally:
        http.close()
        server.stop()
        await server.close_all_connections()


async def test_a_request_leaves_nothing_to_the_garbage_collector() -> None:
    """If a handler and its websession referred to each other, collecting them would cost more than the request."""
    import weakref

    alive: list[weakref.ref[Any]] = []

    class Watched(Base):
        def get(self) -> None:
            self.session.get("n")
            alive.append(weakref.ref(self.session.state.request_view))

    site = a_site()
    socket, port = bind_unused_port()
    server = HTTPServer(tornado.web.Application([("/", Watched)], sessions=site.sessions))
    server.add_socket(socket)
    http = AsyncHTTPClient(force_instance=True)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            await http.fetch(f"http://127.0.0.1:{port}/")
        # The last steps of a request come after its response. With the collector off, only references end it.
        async with asyncio.timeout(60):
            while any(reference() is not None for reference in alive[:2]):
                await asyncio.sleep(0.005)
    finally:
        gc.enable()
        http.close()
        server.stop()
        await server.close_all_connections()
