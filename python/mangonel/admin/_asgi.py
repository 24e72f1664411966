"""The admin as an ASGI application, for Starlette, FastAPI and every ASGI server. Imports no framework."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mangonel.admin._body import FormReader
from mangonel.admin._port import LOOP
from mangonel.admin._request import Refused, Request, Response, query_of
from mangonel.admin._routes import answer_flow, static
from mangonel.websessions.frameworks._shared import watch
from mangonel.websessions.frameworks.asgi import SessionMiddleware
from mangonel.websessions.session import WebSession

if TYPE_CHECKING:
    from mangonel.admin._files import Download
    from mangonel.admin._live import Live
    from mangonel.admin._site import Admin

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Seconds between two checks whether the websession of an event stream has ended.
REVALIDATE = 10


class AsgiAdmin:
    """The ASGI application of an admin."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._alone = SessionMiddleware(self._answer, admin.sessions)
        # Servers look for a coroutine function here; without one they assume another kind of application.
        vars(self)["__call__"] = self._serve

    def __call__(self, scope: Scope, receive: Receive, *send: Send) -> Awaitable[None]:
        """Answer one request."""
        if len(send) != 1:
            raise TypeError("expected an ASGI server, got a WSGI one; mount admin.wsgi()")
        return self._serve(scope, receive, *send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif (file := static(_below(scope))) is not None:
            await _send(send, file)
        elif isinstance(scope.get("session"), WebSession):
            await self._answer(scope, receive, send)
        else:
            # A copy: the application may have a session of another kind, which its middleware stores later.
            await self._alone({**scope}, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        request = Request(
            scope["method"],
            scope.get("root_path", "").rstrip("/"),
            _below(scope),
            query_of(scope.get("query_string", b"").decode("latin-1")),
            scope["session"],
            lambda name: headers.get(name.lower()),
        )
        kind, read_flow = headers.get("content-type", ""), partial(_read_flow, receive)
        response = await answer_flow(self._admin, LOOP, request, kind, read_flow)
        if response.stream is None:
            await _send(send, response, with_body=request.method != "HEAD")
        else:
            await _stream(receive, send, response, response.stream, scope["session"])


def _below(scope: Scope) -> str:
    """Return the path below the place where the application is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    # Starlette leaves the path whole; other servers and frameworks remove the root.
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path


async def _read_flow(receive: Receive, reader: FormReader) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the form did not arrive as a whole")
        reader.feed(message.get("body", b""))
        if not message.get("more_body", False):
            return


def _start(response: Response) -> Message:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.all_headers()
    ]
    return {"type": "http.response.start", "status": response.status, "headers": headers}


async def _send(send: Send, response: Response, *, with_body: bool = True) -> None:
    await send(_start(response))
    await send({"type": "http.response.body", "body": response.body if with_body else b""})


async def _stream(
    receive: Receive, send: Send, response: Response, stream: Live | Download, session: WebSession[Any]
) -> None:
    """Send the parts of a stream until it ends, the browser leaves or its websession ends."""

    async def parts() -> None:
        while (part := await stream.part_flow(LOOP)) is not None:
            await send({"type": "http.response.body", "body": part, "more_body": True})

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    await send(_start(response))
    tasks = [asyncio.ensure_future(parts()), asyncio.ensure_future(left())]
    if stream.is_endless:
        # Not the middleware's, which may be the application's and check nothing.
        tasks.append(asyncio.ensure_future(watch(session, REVALIDATE, _nothing)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await stream.close_flow(LOOP)
    if isinstance(results[0], Exception) and not isinstance(results[0], OSError):
        raise results[0]
    with contextlib.suppress(OSError):
        await send({"type": "http.response.body", "body": b""})


async def _nothing() -> None:
    """The end of a websession needs no more than the end of its stream."""


async def _live(receive: Receive, send: Send) -> None:
    """Answer the server's lifespan messages: there is nothing to start or stop."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
