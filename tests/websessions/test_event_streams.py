"""An event stream ends once its websession has ended, in every framework; in threads at its next event."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
from applications import LISTENING, behind_tls
from browser import Browser
from store_names import sampled

from mangonel.websessions import MemoryStore, RequestView, UsageError, WebSessions

EVERY = 0.02
EVENT = b"data: 1\n\n"


async def events(seen: list[str]) -> AsyncIterator[bytes]:
    try:
        for _ in range(1500):
            yield EVENT
            await asyncio.sleep(0.02)
        seen.append("to the end")
    finally:
        seen.append("over")


def starlette(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    async def stream(request: Any) -> StreamingResponse:
        return StreamingResponse(events(seen), media_type="text/event-stream")

    return SessionMiddleware(Starlette(routes=[Route("/", stream)]), sessions=sessions, revalidate=every)


def litestar(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from litestar import Litestar
    from litestar.handlers import HTTPRouteHandler
    from litestar.response import Stream

    from mangonel.websessions.frameworks.litestar import SessionPlugin

    async def stream() -> Any:
        return Stream(events(seen), media_type="text/event-stream")

    stream.__annotations__["return"] = Stream
    plugin = SessionPlugin(sessions, revalidate=every)
    return Litestar([HTTPRouteHandler("/", http_method="GET")(stream)], plugins=[plugin], logging_config=None)


def aiohttp_app(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from aiohttp import web

    from mangonel.websessions.frameworks.aiohttp import setup

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async with contextlib.aclosing(events(seen)) as found:
            async for event in found:
                await response.write(event)
        return response

    app = web.Application(middlewares=[behind_tls])
    setup(app, sessions, revalidate=every)
    app.router.add_get("/", stream)
    return app


def tornado(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from tornado.iostream import StreamClosedError
    from tornado.web import Application, RequestHandler

    from mangonel.websessions.frameworks.tornado import SessionMixin

    class Stream(SessionMixin, RequestHandler):
        session_revalidate = every

        async def get(self) -> None:
            self.set_header("Content-Type", "text/event-stream")
            async with contextlib.aclosing(events(seen)) as found:
                with contextlib.suppress(StreamClosedError):
                    async for event in found:
                        self.write(event)
                        await self.flush()

    return Application([("/", Stream)], sessions=sessions, log_function=lambda handler: None)


async def silence(seen: list[str]) -> AsyncIterator[bytes]:
    yield EVENT
    try:
        await asyncio.sleep(60)
    finally:
        seen.append("over")


def django_asgi(
    sessions: WebSessions[Any], seen: list[str], every: Any, made: Callable[..., Any] = events
) -> Any:
    from django.http import HttpRequest, StreamingHttpResponse
    from django_site import handler

    async def stream(request: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(made(seen), content_type="text/event-stream")

    return handler(sessions, stream, is_async=True, revalidate=every)


MADE = {
    "starlette": starlette,
    "litestar": litestar,
    "aiohttp": aiohttp_app,
    "tornado": tornado,
    "django-asgi": django_asgi,
}


@contextlib.asynccontextmanager
async def listened(app: Any, framework: str, cookie: str) -> AsyncIterator[asyncio.Queue[bytes | None]]:
    """Yield a queue of received events; None is the end of the stream."""
    found: asyncio.Queue[bytes | None] = asyncio.Queue()
    if framework in LISTENING:
        url, _, stop = await LISTENING[framework](app)
        async with aiohttp.ClientSession() as client, client.get(url, headers={"Cookie": cookie}) as answer:

            async def read() -> None:
                with contextlib.suppress(aiohttp.ClientError):
                    async for part in answer.content.iter_any():
                        found.put_nowait(part)
                found.put_nowait(None)

            task = asyncio.ensure_future(read())
            yield found
            answer.close()
            await task
        await stop()
        return
    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1"}
    scope |= {
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "scheme": "https",
        "root_path": "",
    }
    scope |= {
        "headers": [(b"cookie", cookie.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("shop", 443),
        "state": {},
    }
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return asked.pop() if asked else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            found.put_nowait(message["body"] if message.get("more_body") else None)

    task = asyncio.ensure_future(app(scope, receive, send))
    yield found
    if not task.done():
        await asyncio.wait([task], timeout=1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=not task.done())


@pytest.mark.parametrize("framework", sampled(MADE, "starlette", "aiohttp"))
@pytest.mark.parametrize("every", [EVERY, None])
async def test_an_event_stream_ends_once_its_websession_has_ended(
    framework: str, every: float | None
) -> None:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    seen: list[str] = []
    async with listened(MADE[framework](sessions, seen, every), framework, browser.cookie or "") as found:
        assert EVENT in (await asyncio.wait_for(found.get(), 60) or b"")
        await asyncio.sleep(3 * EVERY)
        assert not seen  # while it lasts, it goes on
        await sessions.revoke_user("ada")
        if every is None:
            while not found.empty():
                found.get_nowait()
            assert EVENT in (await asyncio.wait_for(found.get(), 60) or b"")
            return
        async with asyncio.timeout(60):
            while await found.get() is not None:
                pass
            while not seen:
                gc.collect()  # Starlette and Litestar leave this to the generator.
                await asyncio.sleep(0.01)
    assert seen == ["over"]


async def test_a_silent_stream_of_django_on_a_loop_ends_too() -> None:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    browser = Browser(sessions)
    await browser.login("ada")
    seen: list[str] = []
    app = django_asgi(sessions, seen, EVERY, silence)
    async with listened(app, "django-asgi", browser.cookie or "") as found:
        assert await asyncio.wait_for(found.get(), 60) == EVENT
        await sessions.revoke_user("ada")
        assert await asyncio.wait_for(found.get(), 60) is None
    assert seen == ["over"]


def events_of_a_thread(seen: list[str]) -> Iterator[bytes]:
    try:
        while True:
            yield EVENT
            time.sleep(EVERY)
    finally:
        seen.append("over")


def wsgi(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from mangonel.websessions.frameworks.wsgi import WSGISessions

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return events_of_a_thread(seen)

    return WSGISessions(app, sessions, revalidate=every)


def wsgi_generator(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from mangonel.websessions.frameworks.wsgi import WSGISessions

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/event-stream; charset=utf-8")])
        yield from events_of_a_thread(seen)

    return WSGISessions(app, sessions, revalidate=every)


def flask_app(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    import flask

    app = flask.Flask("tests", root_path="/")
    sessions.init_flask(app, revalidate=every)

    @app.get("/")
    def stream() -> Any:
        return flask.Response(events_of_a_thread(seen), mimetype="text/event-stream")

    return app


def django(sessions: WebSessions[Any], seen: list[str], every: Any) -> Any:
    from django.http import HttpRequest, StreamingHttpResponse
    from django_site import handler

    def stream(request: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(events_of_a_thread(seen), content_type="text/event-stream")

    return handler(sessions, stream, revalidate=every)


IN_THREADS = {"wsgi": wsgi, "wsgi-generator": wsgi_generator, "flask": flask_app, "django": django}


@pytest.mark.parametrize("framework", IN_THREADS)
@pytest.mark.parametrize("every", [EVERY, None])
def test_an_event_stream_of_a_thread_ends_at_its_next_event(framework: str, every: float | None) -> None:
    sessions: WebSessions[Any] = WebSessions(f"memory:{uuid.uuid4().hex}", events=lambda event: None)
    face = sessions.blocking
    session = face.load(RequestView())
    session.login("ada")
    face.commit(session)
    environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "SERVER_NAME": "shop.example"}
    environ |= {"SERVER_PORT": "443", "wsgi.url_scheme": "https", "wsgi.input": io.BytesIO()}
    environ |= {"wsgi.errors": io.StringIO(), "SCRIPT_NAME": "", "QUERY_STRING": ""}
    environ["HTTP_COOKIE"] = (session.state.cookie or "").partition(";")[0]
    seen: list[str] = []
    body = IN_THREADS[framework](sessions, seen, every)(environ, lambda status, headers, error=None: None)
    parts = iter(body)
    for _ in range(5):
        assert next(parts) == EVENT
        time.sleep(EVERY)
    face.revoke_user("ada")
    time.sleep(EVERY)
    if every is None:
        assert next(parts) == EVENT
    else:
        assert list(parts) == []
    body.close()
    assert seen == ["over"]


def test_how_often_to_look_is_a_duration() -> None:
    for make in IN_THREADS.values():
        with pytest.raises(UsageError, match=r"REVALIDATE|revalidate"):
            make(WebSessions("memory:"), [], "often")
