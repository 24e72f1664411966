"""WebSockets in every framework that has them: one set of rules, spoken through a real or an in-memory connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from applications import LISTENING, behind_tls
from browser import Browser

from mangonel.websessions import MemoryStore, UsageError, WebSession, WebSessions

EVERY = 0.02

# The handler's action on the websession for a received text; it returns the text to send.
Act = Callable[[WebSession[Any], str], Awaitable[str]]


def starlette(sessions: WebSessions[Any], act: Act) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import WebSocketRoute
    from starlette.websockets import WebSocket

    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        with contextlib.suppress(Exception):
            async for text in websocket.iter_text():
                await websocket.send_text(await act(websocket.scope["session"], text))

    return SessionMiddleware(
        Starlette(routes=[WebSocketRoute("/", socket)]), sessions=sessions, revalidate=EVERY
    )


def litestar(sessions: WebSessions[Any], act: Act) -> Any:
    from litestar import Litestar, WebSocket
    from litestar.handlers import WebsocketRouteHandler

    from mangonel.websessions.frameworks.litestar import SessionPlugin

    async def handler(socket: Any) -> None:
        await socket.accept()
        with contextlib.suppress(Exception):
            while True:
                await socket.send_text(await act(socket.scope["session"], await socket.receive_text()))

    handler.__annotations__.update(socket=WebSocket, **{"return": None})
    plugin = SessionPlugin(sessions, revalidate=EVERY)
    return Litestar([WebsocketRouteHandler("/")(handler)], plugins=[plugin], logging_config=None)


def aiohttp_app(sessions: WebSessions[Any], act: Act) -> Any:
    from aiohttp import web

    from mangonel.websessions.frameworks.aiohttp import current_session, setup

    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with contextlib.suppress(UsageError):
            async for message in socket:
                await socket.send_str(await act(current_session(request), message.data))
        return socket

    app = web.Application(middlewares=[behind_tls])
    setup(app, sessions, revalidate=EVERY)
    app.router.add_get("/", handler)
    return app


def tornado(sessions: WebSessions[Any], act: Act) -> Any:
    from tornado.web import Application
    from tornado.websocket import WebSocketHandler

    from mangonel.websessions.frameworks.tornado import SessionMixin

    class Socket(SessionMixin, WebSocketHandler):
        session_revalidate = EVERY

        async def on_message(self, message: Any) -> None:
            with contextlib.suppress(UsageError):
                await self.write_message(await act(self.session, message))
                return
            self.close()

    return Application([("/", Socket)], sessions=sessions, log_function=lambda handler: None)


MADE = {"starlette": starlette, "litestar": litestar, "aiohttp": aiohttp_app, "tornado": tornado}
frameworks = pytest.mark.parametrize("framework", MADE)


class Connection:
    """The visitor's side: texts in both directions, and the close code."""

    def __init__(self, send: Any, receive: Any, close: Any) -> None:
        self.send, self.receive, self.close = send, receive, close

    async def ask(self, text: str) -> str | int:
        await self.send(text)
        answer: str | int = await asyncio.wait_for(self.receive(), 60)
        return answer


@contextlib.asynccontextmanager
async def connected(app: Any, framework: str, cookie: str | None) -> AsyncIterator[Connection]:
    """Open a WebSocket; `receive` returns a text, or the close code."""
    headers = {"Cookie": cookie} if cookie else {}
    if framework in LISTENING:
        url, _, stop = await LISTENING[framework](app)
        async with aiohttp.ClientSession() as client, client.ws_connect(url, headers=headers) as socket:

            async def receive() -> str | int:
                message = await socket.receive()
                return message.data if message.type == aiohttp.WSMsgType.TEXT else socket.close_code or 0

            yield Connection(socket.send_str, receive, socket.close)
        await stop()
        return
    to_app: asyncio.Queue[Any] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "websocket",
        "path": "/",
        "raw_path": b"/",
        "scheme": "wss",
        "query_string": b"",
        "headers": raw,
    }
    scope |= {
        "client": ("127.0.0.1", 1),
        "server": ("shop.example", 443),
        "subprotocols": [],
        "root_path": "",
    }
    to_app.put_nowait({"type": "websocket.connect"})
    task = asyncio.ensure_future(app(scope, to_app.get, from_app.put))
    assert (await from_app.get())["type"] == "websocket.accept"

    async def send(text: str) -> None:
        to_app.put_nowait({"type": "websocket.receive", "text": text})

    async def receive() -> str | int:
        message = await from_app.get()
        return message["text"] if message["type"] == "websocket.send" else message.get("code", 1000)

    async def close() -> None:
        to_app.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await task

    yield Connection(send, receive, close)
    if not task.done():
        await close()
    await task


async def a_visitor(user: str | None = "ada") -> tuple[WebSessions[Any], Browser]:
    sessions: WebSessions[Any] = WebSessions(MemoryStore(), events=lambda event: None)
    browser = Browser(sessions)
    if user is not None:
        await browser.login(user)
    return sessions, browser


async def act(session: WebSession[Any], text: str) -> str:
    """Run the text's command, and return the user."""
    if text == "end":
        session.destroy()
    elif text == "fail":
        session.destroy()
        raise UsageError("the handler fails")
    elif text.startswith("save "):
        session["text"] = text
        try:
            await session.save()
        except UsageError as error:
            return str(error)
    return str(session.user)


@frameworks
async def test_a_socket_has_the_websession_of_its_handshake_and_saves(framework: str) -> None:
    sessions, browser = await a_visitor()
    async with connected(MADE[framework](sessions, act), framework, browser.cookie) as socket:
        assert await socket.ask("who") == "ada"
        assert await socket.ask("save 1") == "ada"
        assert await browser.read() == {"text": "save 1"}
    async with connected(MADE[framework](sessions, act), framework, None) as socket:
        assert await socket.ask("who") == "None"


@frameworks
@pytest.mark.parametrize("how", ["end", "fail"])
async def test_an_end_in_a_socket_ends_without_a_save(framework: str, how: str) -> None:
    sessions, browser = await a_visitor()
    async with connected(MADE[framework](sessions, act), framework, browser.cookie) as socket:
        await socket.send(how)
        if how == "end":
            assert await socket.receive() == "None"
        await socket.close()
    async with asyncio.timeout(60):
        while (await browser.begin()).user is not None:
            await asyncio.sleep(0.01)


@frameworks
async def test_a_socket_closes_once_its_websession_has_ended(framework: str) -> None:
    sessions, browser = await a_visitor()
    async with connected(MADE[framework](sessions, act), framework, browser.cookie) as socket:
        assert await socket.ask("who") == "ada"
        await sessions.revoke_user("ada")
        assert await asyncio.wait_for(socket.receive(), 60) == 4401


@frameworks
async def test_a_new_websession_in_a_socket_is_refused_since_no_cookie_can_leave(framework: str) -> None:
    sessions, _ = await a_visitor(None)
    async with connected(MADE[framework](sessions, act), framework, None) as socket:
        answer = await socket.ask("save 1")
        assert "a new websession needs a cookie" in str(answer)
