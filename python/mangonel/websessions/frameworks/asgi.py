"""Websessions in Starlette, FastAPI and any other ASGI application: one pure ASGI middleware and one dependency.

The start of the response waits until the changes are stored. A WebSocket gets its cookie with the accept.
Knows no store and imports no framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import REASONS, late_plan, one_vary, stream_headers, take_headers
from mangonel.websessions.checked_settings import checked
from mangonel.websessions.csrf import FORM_BYTES, HEADER, SAFE, check_request, token_in_form
from mangonel.websessions.dependency import current_session
from mangonel.websessions.errors import CSRFError, UsageError, WebSessionError
from mangonel.websessions.frameworks._shared import (
    BODILESS,
    ENDED,
    ENDED_CODE,
    Paths,
    View,
    commit,
    commit_failure,
    is_event_stream,
    last_of,
    log,
    outlast,
    requiring_fresh,
    visitor_in,
    watch,
)
from mangonel.websessions.late import leave, let_read
from mangonel.websessions.machine import NOTHING
from mangonel.websessions.session import RequestView, WebSession
from mangonel.websessions.settings import seconds

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions

__all__ = ["CSRFMiddleware", "SessionMiddleware", "check_csrf", "current_session", "require_fresh"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TEXT = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]


class SessionMiddleware:
    """Puts a websession into `scope["session"]`, which is `request.session`.

    Args:
        app: the application.
        sessions: the application's websessions.
        exclude: paths without websessions, such as "/health"; a path that ends in "/" includes everything below it.
        revalidate: how often to check whether the websession of a WebSocket or an event stream has ended, in seconds or
            as "60s"; if it has, close it, a WebSocket with 4401. None: never.
    """

    def __init__(
        self,
        app: Application,
        sessions: WebSessions[Any],
        exclude: Iterable[str] = (),
        revalidate: Any = None,
    ) -> None:
        self.app = app
        self.sessions = checked(sessions, "SessionMiddleware(app, …)")
        self._paths = Paths(exclude)
        self._every = None if revalidate is None else seconds(revalidate, "revalidate")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or WebSocket."""
        if scope["type"] not in ("http", "websocket") or self._paths.hold(
            scope["path"], scope.get("root_path", "")
        ):
            await self.app(scope, receive, send)
            return
        sessions = self.sessions
        is_http = scope["type"] == "http"
        request_view = _request_view(scope, sessions, is_http)
        try:
            if sessions.cookie.is_in(request_view.cookie):
                session = await sessions.asynchronous.load(request_view)
            else:
                session = sessions.asynchronous.anonymous(request_view)
        except WebSessionError as error:
            await _refuse(scope, receive, send, error)
            return
        scope["session"] = session
        if not is_http:
            socket = _Socket(session, receive, send)
            try:
                with socket.watched(self._every):
                    await self.app(scope, socket.receive, socket.send)
            finally:
                # save() stores values, but an end takes effect in any case.
                if session.state.had_end and session.state.record is not None:
                    session.state.headers_left = True
                    await outlast(commit(session, 200))
                leave(session)
            return
        answer = _Answer(session, send, self._every)
        try:
            await self.app(scope, answer.receiving(receive), answer.send)
        except BaseException as error:
            if not await answer.failed(error):
                raise
        else:
            if answer.is_complete:
                await answer.commit_late()
            elif session.state.had_end and session.state.record is not None:
                await commit_failure(session)
        finally:
            answer.stop_watching()
        leave(session)


class _Answer:
    """Holds back the start of a response until the websession is stored; ends an event stream with its websession."""

    def __init__(self, session: WebSession[Any], send: Send, every: float | None) -> None:
        self._session = session
        self._send = send
        self._every = every
        self._gone: asyncio.Future[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._has_failed = False
        self._status = 200
        self.has_started = False
        self.is_complete = False

    def receiving(self, receive: Receive) -> Receive:
        """Return `receive` for the application, which reports the end of its event stream to it."""
        if self._every is None or self._session.state.record is None:
            return receive
        self._gone = asyncio.get_running_loop().create_future()
        return partial(_receive_until, receive, self._gone, {"type": "http.disconnect"})

    def stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def _end(self) -> None:
        assert self._gone is not None
        self._gone.set_result(None)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if self._gone is not None and self._gone.done():
            raise OSError(f"the event stream is closed: {ENDED}")
        if kind == "http.response.start":
            await self._start(message)
        elif self._has_failed:
            return
        else:
            is_last = kind == "http.response.body" and not message.get("more_body")
            if is_last:
                let_read(self._session)
                # A streamed response may have changed it after its start; no new cookie can be sent any more.
                await commit(self._session, self._status)
            await self._send(message)
            self.is_complete = self.is_complete or is_last

    async def failed(self, error: BaseException) -> bool:
        """Commit the parts that hold even if the application failed; return True if this sent the whole response.

        If a cookie must reach the browser, the response is sent here; otherwise the server or an error handler sends
        it.
        """
        session = self._session
        if self._has_failed:
            return False
        # A cancelled commit still has to be completed.
        if not session.state.was_answered or session.state.had_end or session.state.change:
            await commit_failure(self._session)
        if self._gone is not None and self._gone.done() and isinstance(error, Exception):
            return True  # it failed because its event stream was ended
        is_ours = isinstance(error, WebSessionError)  # as CSRFError, which no handler of the application took
        if self.has_started or not isinstance(error, Exception):
            return False
        has_cookie = session.state.cookie is not None
        if is_ours or has_cookie:
            added = take_headers(session)
            self._has_failed = self.has_started = True
            await _plain(self._send, error.status if isinstance(error, WebSessionError) else 500, added)
        return is_ours

    async def commit_late(self) -> None:
        """Store changes made after the answer, as by a background task.

        Raises:
            WebSessionError: it cannot be stored. The server logs it.
        """
        if self._has_failed:
            return
        plan = late_plan(self._session, self._status)
        if plan != NOTHING:
            await outlast(self._session.state.sessions.asynchronous.commit(self._session, plan))

    async def _start(self, message: Message) -> None:
        self.has_started = True
        session = self._session
        self._status = message["status"]
        try:
            await commit(session, self._status)
        except WebSessionError as error:
            log.error("cannot store the websession: %s", error)
            self._has_failed = True
            added: list[tuple[str, str]] = []
            if error.status == 500:
                # Its values cannot be stored; an id that was given up stays so.
                await commit_failure(self._session)
                added = take_headers(session)
            await _plain(self._send, error.status, added)
            return
        headers = message.get("headers", ())
        added = take_headers(session) if self._status in BODILESS else self._streamed(session, headers)
        if added:
            message["headers"] = _with(headers, added)
        session.state.headers_left = True
        await self._send(message)
        if self._gone is not None and _is_event_stream(headers):
            assert self._every is not None
            self._watch = asyncio.ensure_future(watch(session, self._every, self._end))

    @staticmethod
    def _streamed(session: WebSession[Any], headers: Iterable[Any]) -> list[tuple[str, str]]:
        """Return the headers; those of a response of unknown length are sent before its body is made."""
        control: str | None = None
        is_whole = False
        for name, value in headers:
            lower = name.lower()
            if lower == b"cache-control":
                control = (
                    value.decode("latin-1") if control is None else f"{control}, {value.decode('latin-1')}"
                )
            elif lower == b"content-length":
                is_whole = True
        if not is_whole or session.accessed:
            return take_headers(session) if is_whole else stream_headers(session, control)
        return stream_headers(session, control or "public")


class _Socket:
    """A WebSocket: gets its cookie with the accept, and is closed once its websession has ended."""

    def __init__(self, session: WebSession[Any], receive: Receive, send: Send) -> None:
        self._session = session
        self._receive = receive
        self._send = send
        self._gone: asyncio.Future[None] | None = None

    @contextmanager
    def watched(self, every: float | None) -> Iterator[None]:
        """Check every `every` seconds whether the websession has ended; None: never."""
        if every is None or self._session.state.record is None:
            yield
            return
        self._gone = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(watch(self._session, every, self._end))
        try:
            yield
        finally:
            task.cancel()

    async def receive(self) -> Message:
        if self._gone is None:
            return await self._receive()
        gone = {"type": "websocket.disconnect", "code": ENDED_CODE, "reason": ENDED}
        return await _receive_until(self._receive, self._gone, gone)

    async def send(self, message: Message) -> None:
        if self._gone is not None and self._gone.done():
            raise OSError(f"the WebSocket is closed: {ENDED}")
        if message["type"] == "websocket.accept" and self._session.state.cookie is not None:
            message["headers"] = _with(message.get("headers", ()), take_headers(self._session)[:1])
        await self._send(message)

    async def _end(self) -> None:
        assert self._gone is not None
        self._gone.set_result(None)
        await self._send({"type": "websocket.close", "code": ENDED_CODE, "reason": ENDED})


async def _receive_until(receive: Receive, gone: asyncio.Future[None], last: Message) -> Message:
    """Return the next message; `last` once the websession has ended."""
    asked = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not asked.done():
            asked.cancel()
    return last if gone.done() else asked.result()


def _is_event_stream(headers: Iterable[Any]) -> bool:
    return any(
        name.lower() == b"content-type" and is_event_stream(value.decode("latin-1"))
        for name, value in headers
    )


class CSRFMiddleware:
    """Refuses requests from other sites, for an application inside `SessionMiddleware`.

    Requests other than GET, HEAD, OPTIONS and TRACE must come from our own pages and carry a token, in the header
    X-CSRF-Token or in the field `_csrf` within the first 64 KiB of a form. A WebSocket must come from our own pages.

    Args:
        app: the application.
        exclude: paths with their own checks, such as "/hook"; a path that ends in "/" includes everything below it.
    """

    def __init__(self, app: Application, exclude: Iterable[str] = ()) -> None:
        self.app = app
        self._paths = Paths(exclude)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or WebSocket."""
        is_socket = scope["type"] == "websocket"
        if not is_socket and (scope["type"] != "http" or scope["method"] in SAFE):
            await self.app(scope, receive, send)
            return
        session = scope.get("session")
        if self._paths.hold(scope["path"], scope.get("root_path", "")):
            await self.app(scope, receive, send)
            return
        if not isinstance(session, WebSession):
            raise UsageError("expected SessionMiddleware(app, sessions=…) around CSRFMiddleware(app)")

        def header(name: str) -> str | None:
            return _header(scope, name.lower().encode())

        token = header(HEADER)
        if token is None and not is_socket:
            token, receive = await _form_token(header("Content-Type") or "", receive)
        try:
            check_request(session, token, header, has_token=not is_socket)
        except CSRFError as error:
            log.warning("refused %s: %s", scope["path"], error)
            if is_socket:
                await send({"type": "websocket.close", "code": 1008, "reason": "forbidden"})
            else:
                await _plain(send, error.status)
            return
        await self.app(scope, receive, send)


async def _form_token(content_type: str, receive: Receive) -> tuple[str | None, Receive]:
    """Return the token in a form, and a receive function that gives the application the whole form."""
    held: list[Message] = []
    body, token, look = bytearray(), None, 0
    if content_type.lower().startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
        more = True
        while more and len(body) < FORM_BYTES and token is None:
            held.append(message := await receive())
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
            # Not searched at every chunk: chunks of one byte would let a client cause work cheaply.
            if more and len(body) >= look and content_type.lower().startswith("multipart"):
                token, look = token_in_form(content_type, bytes(body)), 2 * len(body)
        token = token or token_in_form(content_type, bytes(body))

    async def again() -> Message:
        return held.pop(0) if held else await receive()

    return token, again


def check_csrf(request: Any, token: str | None = None) -> None:
    """Check the origin of a Starlette request, and its token from the argument or the header X-CSRF-Token.

    Args:
        request: the request.
        token: the token. None: the header's.

    Raises:
        CSRFError: answer 403.

    Example:
        >>> async def change(request):
        ...     check_csrf(request)
        ...     return JSONResponse({"done": True})
    """
    check_request(current_session(request), token, request.headers.get)


def require_fresh(within: Any) -> Callable[[View], View]:
    """Return a decorator for an endpoint of Starlette that needs a recent proof of identity.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The endpoint raises `NotFresh`, answered 403.

    Example:
        >>> @require_fresh("10m")
        ... async def pay(request):
        ...     return JSONResponse({"user": request.session.user})
    """
    return requiring_fresh(lambda *arguments: current_session(arguments[-1]), within)


def _request_view(scope: Scope, sessions: WebSessions[Any], takes_cookies: bool) -> RequestView:
    cookie: str | None = None
    forwarded = ""
    for name, value in scope["headers"]:
        if name == b"cookie":
            # HTTP/2 may send several.
            cookie = value.decode("latin-1") if cookie is None else f"{cookie}; {value.decode('latin-1')}"
        elif name == b"x-forwarded-proto" and sessions.trust_forwarded:
            forwarded = last_of(value.decode("latin-1")).lower()
    is_secure = scope.get("scheme") in ("https", "wss") or forwarded in ("https", "wss")

    def signal(name: str) -> str | None:
        if name == "user_agent":
            return _header(scope, b"user-agent")
        if name == "address":
            if sessions.trust_forwarded and (addresses := _header(scope, b"x-forwarded-for", last=True)):
                return visitor_in(addresses)
            client = scope.get("client")
            return str(client[0]) if client else None
        return None

    return RequestView(cookie, is_secure, signal, takes_cookies)


def _header(scope: Scope, wanted: bytes, *, last: bool = False) -> str | None:
    """Return the first header with a name, or the last one: our proxy appends its own after the visitor's."""
    headers = scope["headers"]
    for name, value in reversed(headers) if last else headers:
        if name == wanted:
            return value.decode("latin-1")
    return None


def _with(headers: Iterable[Any], added: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return the headers with ours added; others' cookies stay, a Cache-Control that allows caching is removed."""
    names = {name.lower().encode() for name, _ in added if name in ("Cache-Control", "Vary")}
    kept, vary = [], []
    for name, value in headers:
        lower = name.lower()
        if lower not in names:
            kept.append((name, value))
        elif lower == b"vary":
            vary.append(value.decode("latin-1"))
    return kept + [
        (name.lower().encode(), (one_vary(vary, value) if name == "Vary" else value).encode("latin-1"))
        for name, value in added
    ]


async def _refuse(scope: Scope, receive: Receive, send: Send, error: WebSessionError) -> None:
    log.error("cannot load the websession: %s", error)
    if scope["type"] == "http":
        await _plain(send, error.status)
        return
    await receive()
    await send({"type": "websocket.close", "code": 1013, "reason": "try again later"})


async def _plain(send: Send, status: int, added: list[tuple[str, str]] | None = None) -> None:
    text = REASONS.get(status, "Internal Server Error").encode()
    await send({"type": "http.response.start", "status": status, "headers": _with(TEXT, added or [])})
    await send({"type": "http.response.body", "body": text})
