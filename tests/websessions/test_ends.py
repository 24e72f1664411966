"""A requested end takes place in every framework and on every store, even when the handler fails afterwards."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from applications import FRAMEWORKS, HOST, Failure, listening, served
from browser import Browser
from store_names import STORES

from mangonel.websessions import MemoryStore, RequestView, WebSessions
from mangonel.websessions.testing import FakeClock

pytestmark = pytest.mark.each_once("framework", "name")
frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)
stores = pytest.mark.parametrize("name", STORES)
# The handler raises, answers with an error, or leaves a value that cannot be stored.
FAILURES = ("raise", "500", "junk")


def opened(store_url: Callable[[str], str], name: str, **settings: Any) -> WebSessions[Any]:
    sessions: WebSessions[Any] = WebSessions(store_url(name), events=lambda event: None, **settings)
    sessions.blocking.setup()
    return sessions


@frameworks
@stores
def test_an_end_is_an_end_although_the_handler_fails(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    with served(framework, opened(store_url, name)) as send:
        for fail in FAILURES:
            for do in ("destroy", "destroy,login", "login,destroy", "destroy,write"):
                old = send("do=login,write&user=ada&k=a&v=1").cookie
                answer = send(f"do={do}&user=bob&k=b&v=2&fail={fail}", old)
                assert answer.status == 500
                found = send("", old).found
                assert found == {"user": None, "values": {}}, (do, fail, found)
                if answer.cookie != old and answer.cookie is not None:
                    assert send("", answer.cookie).found["user"] is None


@frameworks
@stores
def test_an_id_that_was_given_up_is_dead_although_the_handler_fails(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    with served(framework, opened(store_url, name)) as send:
        for fail in FAILURES:
            for do in ("login", "rotate", "reauthenticated"):
                old = send("do=login,write&user=ada&k=a&v=1").cookie
                answer = send(f"do=write,{do},write&user=bob&k=b&v=2&fail={fail}", old)
                assert answer.status == 500
                assert send("", old).found == {"user": None, "values": {}}, (do, fail)
                if framework == "flask-debug" and fail != "500":
                    continue  # the debugger answers, and no cookie can reach the browser
                # A request that failed logs no user in, and loses no values.
                assert send("", answer.cookie).found == {"user": "ada", "values": {"a": "1"}}, (do, fail)


@frameworks
@stores
def test_what_is_left_after_an_end_goes_into_a_websession_of_its_own(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    with served(framework, opened(store_url, name)) as send:
        old = send("do=login&user=ada").cookie
        farewell = send("do=destroy,write&k=farewell&v=bye", old).cookie
        assert send("", old).found == {"user": None, "values": {}}
        assert send("", farewell).found == {"user": None, "values": {"farewell": "bye"}}


@frameworks
def test_a_login_in_an_answer_that_failed_logs_nobody_in(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        for fail in FAILURES:
            answer = send(f"do=login&user=ada&fail={fail}")
            assert (answer.status, answer.cookie) == (500, None)


@frameworks
def test_the_cookie_of_a_renewal_reaches_the_browser_with_a_failure_too(framework: str) -> None:
    clock = FakeClock()
    sessions: WebSessions[Any] = WebSessions(
        MemoryStore(clock), clock=clock, renew="1m", events=lambda event: None
    )
    with served(framework, sessions) as send:
        for fail in FAILURES:
            if framework == "flask-debug" and fail != "500":
                continue
            old = send("do=login,write&user=ada&k=a&v=1").cookie
            clock.advance(61)
            answer = send(f"fail={fail}", old)
            assert answer.status == 500
            assert answer.cookie != old
            assert send("", answer.cookie).found["user"] == "ada"


@frameworks
def test_a_login_beyond_the_limit_is_a_conflict_and_changes_nothing(framework: str) -> None:
    sessions: WebSessions[Any] = WebSessions(
        MemoryStore(), max_per_user=1, over_limit="refuse", events=lambda event: None
    )
    with served(framework, sessions) as send:
        first = send("do=login&user=ada").cookie
        other = send("do=write&k=a&v=1").cookie
        answer = send("do=login&user=ada", other)
        assert (answer.status, answer.set_cookies) == (409, [])
        assert send("", first).found["user"] == "ada"
        assert send("", other).found == {"user": None, "values": {"a": "1"}}


@frameworks
def test_an_error_of_the_package_that_a_handler_lets_pass_is_answered_with_its_status(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        for name, status in (
            ("CSRFError", 403),
            ("TooManySessions", 409),
            ("LockTimeout", 503),
            ("StoreError", 503),
        ):
            old = send("do=login&user=ada").cookie
            assert send(f"do=destroy&fail={name}", old).status == status
            assert send("", old).found["user"] is None, name


@frameworks
def test_what_permanent_would_have_prolonged_stays_as_it_was_when_the_handler_fails(framework: str) -> None:
    with served(framework, WebSessions(MemoryStore(), events=lambda event: None)) as send:
        cookie = send("do=login&user=ada").cookie
        for fail in ("raise", "500"):
            assert send(f"do=permanent&fail={fail}", cookie).set_cookies == []
        assert "Max-Age" in send("do=permanent", cookie).set_cookies[0]


@stores
@pytest.mark.parametrize("framework", ["starlette", "flask"])
def test_the_limit_of_logins_holds_on_every_store(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    sessions = opened(store_url, name, max_per_user=1, over_limit="refuse")
    with served(framework, sessions) as send:
        if name in ("memcached", "directory"):
            # These cannot list a user's websessions, so a login beyond the limit is refused.
            assert send("do=login&user=ada").status == 500
            return
        first = send("do=login&user=ada").cookie
        answer = send("do=login&user=ada")
        assert (answer.status, answer.set_cookies) == (409, [])
        assert send("do=destroy", first).status == 200
        assert send("do=login&user=ada").status == 200


@frameworks
def test_an_end_or_a_login_that_could_not_be_stored_is_an_error_under_every_policy(framework: str) -> None:
    store = MemoryStore()
    sessions: WebSessions[Any] = WebSessions(
        Both(store), on_store_error="anonymous", events=lambda event: None
    )
    with served(framework, sessions) as send:
        cookie = send("do=login&user=ada").cookie
        for do in ("destroy", "login", "rotate"):
            for calls in (0, 1):  # at the beginning, at the end
                store.blocking.fail_after = calls  # type: ignore[attr-defined]
                answer = send(f"do={do}&user=bob", cookie)
                assert (answer.status, answer.set_cookies) == (503, []), (do, calls)
        store.blocking.fail_after = 0  # type: ignore[attr-defined]
        assert send("", cookie).found == {"user": None, "values": {}}
        store.blocking.fail_after = None  # type: ignore[attr-defined]
        assert send("", cookie).found["user"] == "ada"


class Both:
    """A memory store whose two sides fail after this many calls."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store.blocking
        self.blocking = _Failing(store.blocking)
        store.blocking = self.blocking  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.blocking, name)

        async def call(*arguments: Any) -> Any:
            return method(*arguments)

        return call


class _Failing:
    def __init__(self, store: Any) -> None:
        self._store = store
        self.fail_after: int | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any) -> Any:
            if self.fail_after is not None:
                if self.fail_after <= 0:
                    raise ConnectionError("told to fail")
                self.fail_after -= 1
            return method(*arguments)

        return call


class Counted:
    """A memory store that cancels its n-th caller, after or before the write is stored."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.until: int | None = None
        self.arrives = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)

        async def call(*arguments: Any) -> Any:
            await asyncio.sleep(0)
            if self.until is not None:
                self.until -= 1
                if self.until == 0:
                    self.until = None
                    if self.arrives:
                        await method(*arguments)
                    raise asyncio.CancelledError
            return await method(*arguments)

        return call


@pytest.mark.parametrize("framework", ["asgi", "starlette"])
def test_an_id_that_was_given_up_is_dead_although_the_client_went_away_at_any_moment(framework: str) -> None:
    store = Counted()
    sessions: WebSessions[Any] = WebSessions(store, events=lambda event: None)
    with served(framework, sessions) as send:
        for do in ("destroy", "rotate", "login", "reauthenticated"):
            for arrives in (False, True):
                for calls in range(2, 7):  # the first one loads
                    old = send("do=login&user=ada").cookie
                    store.until, store.arrives = calls, arrives
                    with contextlib.suppress(asyncio.CancelledError, concurrent.futures.CancelledError):
                        send(f"do={do}&user=bob", old)
                    store.until = None
                    assert send("", old).found["user"] is None, (do, calls, arrives)


def late_in_asgi() -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})
        scope["session"].destroy()

    return app


@pytest.mark.parametrize("framework", ["asgi", "tornado", "tornado-cancelled"])
async def test_an_end_that_is_asked_for_after_the_answer_or_without_one_is_an_end(framework: str) -> None:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    if framework == "asgi":
        from mangonel.websessions.frameworks.asgi import SessionMiddleware

        transport = httpx.ASGITransport(SessionMiddleware(late_in_asgi(), sessions))
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
            assert (await client.get("/", headers={"Cookie": browser.cookie or ""})).text == "done"
    else:
        from tornado.web import Application, RequestHandler

        from mangonel.websessions.frameworks.tornado import SessionMixin

        reached = asyncio.Event()

        class Late(SessionMixin, RequestHandler):
            async def get(self) -> None:
                if framework == "tornado":
                    self.finish("done")
                self.session.destroy()
                reached.set()
                if framework == "tornado-cancelled":
                    raise asyncio.CancelledError

        url, _, stop = await listening(Application([("/", Late)], sessions=sessions))
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
            asked = asyncio.ensure_future(client.get("/", headers={"Cookie": browser.cookie or ""}))
            await asyncio.wait_for(reached.wait(), 60)
            if framework == "tornado-cancelled":
                asked.cancel()  # no response will come, and the browser leaves
            with contextlib.suppress(httpx.HTTPError, asyncio.CancelledError):
                await asked
        async with asyncio.timeout(60):
            while (await browser.begin()).user is not None:
                await asyncio.sleep(0.01)
        await stop()
    assert (await browser.begin()).user is None


async def streams(
    framework: str, sessions: WebSessions[Any], cookie: str | None, status: int, fails: bool
) -> None:
    """Start a streamed response, write a value, and perhaps let the handler fail."""
    headers = {"Cookie": cookie or ""}
    if framework == "wsgi":
        from mangonel.websessions.frameworks.wsgi import WSGISessions

        def app(environ: Any, start_response: Any) -> Any:
            start_response(f"{status} Whatever", [])
            yield b"one"
            environ["mangonel.session"]["late"] = 1
            if fails:
                raise Failure

        with (
            httpx.Client(transport=httpx.WSGITransport(WSGISessions(app, sessions)), base_url=HOST) as client,
            contextlib.suppress(Failure),
        ):
            client.get("/", headers=headers)
    elif framework == "asgi":
        from mangonel.websessions.frameworks.asgi import SessionMiddleware

        async def asgi(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            scope["session"]["late"] = 1
            if fails:
                raise Failure
            await send({"type": "http.response.body", "body": b""})

        transport = httpx.ASGITransport(SessionMiddleware(asgi, sessions))
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as other:
            with contextlib.suppress(Failure):
                await other.get("/", headers=headers)
    else:
        from tornado.web import Application, RequestHandler

        from mangonel.websessions.frameworks.tornado import SessionMixin

        class Chunks(SessionMixin, RequestHandler):
            async def get(self) -> None:
                self.set_status(status)
                self.write("one")
                await self.flush()
                self.session["late"] = 1
                if fails:
                    raise Failure

            def log_exception(self, *arguments: Any) -> None:
                pass

        url, _, stop = await listening(Application([("/", Chunks)], sessions=sessions))
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as other:
            with contextlib.suppress(httpx.HTTPError):
                await other.get("/", headers=headers)
        await stop()


@pytest.mark.parametrize("framework", ["asgi", "wsgi", "tornado"])
async def test_a_streamed_answer_that_fails_keeps_nothing_of_what_came_after_its_start(
    framework: str,
) -> None:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    if framework == "wsgi":
        sessions = WebSessions("memory:streams", events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    for status, fails, kept in ((200, True, {}), (500, False, {}), (200, False, {"late": 1})):
        await streams(framework, sessions, browser.cookie, status, fails)
        assert dict(await browser.begin()) == kept, (status, fails)


def test_a_server_that_stops_its_worker_finds_an_end_ended() -> None:
    from mangonel.websessions.frameworks.wsgi import WSGISessions

    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    session = sessions.blocking.load(RequestView())
    session.login("ada")
    sessions.blocking.commit(session)
    cookie = (session.state.cookie or "").partition(";")[0]

    def app(environ: Any, start_response: Any) -> Any:
        environ["mangonel.session"].destroy()
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        WSGISessions(app, sessions)(
            {"HTTP_COOKIE": cookie, "wsgi.url_scheme": "https"}, lambda *arguments: None
        )
    assert sessions.blocking.load(RequestView(cookie)).user is None
