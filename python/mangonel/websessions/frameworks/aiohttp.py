"""Websessions in aiohttp: `setup(app, sessions)` adds a middleware and a signal.

The middleware loads before the handler runs and stores before its response leaves. A stream or WebSocket is prepared
inside the handler: the signal stores then, and the middleware stores later changes once the handler has returned.
Knows no store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import REASONS, late_plan, one_vary, stream_headers, take_headers
from mangonel.websessions.checked_settings import checked
from mangonel.websessions.csrf import FIELD, SAFE, check_request
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

try:
    from aiohttp import web
except ImportError as error:  # pragma: no cover
    raise ImportError("setup needs aiohttp: pip install aiohttp") from error

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions

__all__ = ["check_csrf", "current_session", "require_fresh", "setup"]

# aiohttp 3.14 and newer warn about keys that are plain strings.
_key: Any = getattr(web, "RequestKey", lambda name, kind: name)
KEY = _key("mangonel.session", WebSession)
ANSWER = _key("mangonel.session.answer", object)

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def setup(
    app: web.Application,
    sessions: WebSessions[Any],
    *,
    exclude: Iterable[str] = (),
    csrf: bool = False,
    revalidate: Any = None,
) -> None:
    """Give the requests of an application websessions; `current_session(request)` returns a request's.

    Middlewares that are added after this call run inside it and may use the websession.

    Args:
        app: the application.
        sessions: the application's websessions.
        exclude: paths without websessions, such as "/health"; a path that ends in "/" includes everything below it.
        csrf: check every request other than GET, HEAD, OPTIONS and TRACE, and the origin of every WebSocket.
        revalidate: how often to check whether the websession of a WebSocket or an event stream has ended, in seconds or
            as "60s"; if it has, close it, a WebSocket with 4401. None: never.

    Raises:
        UsageError: `sessions` is no `WebSessions`, or `revalidate` no duration.

    Example:
        >>> from aiohttp import web
        >>> app = web.Application()
        >>> setup(app, sessions)
    """
    checked(sessions, "setup(app, …)")
    paths = Paths(exclude)
    every = None if revalidate is None else seconds(revalidate, "revalidate")

    @web.middleware
    async def websessions(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in paths or KEY in request:
            return await handler(request)
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        request_view = _request_view(request, sessions, not is_socket)
        try:
            if sessions.cookie.is_in(request_view.cookie):
                session = await sessions.asynchronous.load(request_view)
            else:
                session = sessions.asynchronous.anonymous(request_view)
        except WebSessionError as error:
            log.error("cannot load the websession: %s", error)
            return _plain(error.status)
        request[KEY] = session
        answer = request[ANSWER] = _Answer(session, every)
        if csrf and (is_socket or request.method not in SAFE):
            try:
                await _check(request, session, is_socket=is_socket)
            except CSRFError as error:
                log.warning("refused %s: %s", request.path, error)
                return _plain(error.status)
        return await (answer.socket if is_socket else answer.of)(request, handler)

    app.middlewares.append(websessions)
    app.on_response_prepare.append(_on_prepare)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def current_session(request: web.Request) -> WebSession[Any]:
    """Return the websession of a request.

    Args:
        request: a request of an application that `setup` was called for.

    Raises:
        UsageError: the middleware did not run for this request.

    Example:
        >>> async def who(request):
        ...     return web.Response(text=str(current_session(request).user))
    """
    session = request.get(KEY)
    if not isinstance(session, WebSession):
        raise UsageError(
            "expected setup(app, sessions) before the middlewares that use the websession, "
            "and a path that is not excluded"
        )
    session.accessed = True
    return session


async def check_csrf(request: web.Request, token: str | None = None) -> None:
    """Check the origin of a request, and its token, the first of: the argument, the field `_csrf`, X-CSRF-Token.

    Args:
        request: the request.
        token: the token. None: the request's.

    Raises:
        CSRFError: the middleware answers 403 if the handler lets it pass.

    Example:
        >>> async def change(request):
        ...     await check_csrf(request)
        ...     return web.json_response({"done": True})
    """
    await _check(request, current_session(request), token)


def require_fresh(within: Any) -> Callable[[View], View]:
    """Return a decorator for a handler of aiohttp that needs a recent proof of identity.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The handler raises `NotFresh`, answered 403.

    Example:
        >>> from aiohttp import web
        >>> @require_fresh("10m")
        ... async def pay(request):
        ...     return web.Response(text=current_session(request).user)
    """
    return requiring_fresh(
        lambda view: current_session(view.request if isinstance(view, web.View) else view), within
    )


async def _check(
    request: web.Request, session: WebSession[Any], token: str | None = None, *, is_socket: bool = False
) -> None:
    if token is None and request.content_type in FORMS:
        found = (await request.post()).get(FIELD)
        token = found if isinstance(found, str) else None
    check_request(session, token, request.headers.get, has_token=not is_socket)


class _Answer:
    """Stores the websession before the headers of a response leave, and the later changes of a stream."""

    def __init__(self, session: WebSession[Any], every: float | None) -> None:
        self._session = session
        self._every = every
        self._is_started = False
        self._status = 200
        self._watch: asyncio.Task[None] | None = None

    async def of(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler of a request and store its changes."""
        try:
            return await self._of(request, handler)
        finally:
            if self._watch is not None:
                self._watch.cancel()

    async def _of(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        session = self._session
        try:
            response = await handler(request)
        except web.HTTPException as error:
            await self._finish(request, error)
            raise
        except BaseException as error:
            # A cancelled commit still has to be completed.
            if not session.state.was_answered or session.state.had_end or session.state.change:
                await commit_failure(session)
            is_ours = isinstance(error, WebSessionError)
            if is_ours:
                log.error("cannot answer with the websession: %s", error)
            if self._is_started or not isinstance(error, Exception):
                leave(session)
                raise
            if not is_ours and session.state.cookie is None:
                raise
            if not is_ours:
                log.error("the handler failed", exc_info=error)
            return self._replaced(error.status if isinstance(error, WebSessionError) else 500)
        return await self._finish(request, response)

    async def socket(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler of a WebSocket, which stores its changes by itself."""
        session = self._session
        try:
            return await handler(request)
        finally:
            if self._watch is not None:
                self._watch.cancel()
            # save() stores values, but an end takes effect in any case.
            if session.state.had_end and session.state.record is not None:
                session.state.headers_left = True
                await outlast(commit(session, 200))
            leave(session)

    async def start(self, request: web.Request, response: web.StreamResponse) -> None:
        """Store the changes and put the headers into a response that leaves now.

        Raises:
            WebSessionError: nothing was stored, and the response must not leave.
        """
        if self._is_started:
            return
        session = self._session
        if isinstance(response, web.WebSocketResponse):
            self._is_started = True
            if session.state.cookie is not None:
                _add(response, take_headers(session)[:1])
            if self._every is not None and session.state.record is not None:
                close = response.close
                self._watch = asyncio.ensure_future(
                    watch(
                        session,
                        self._every,
                        lambda: close(code=ENDED_CODE, message=ENDED.encode()),
                    )
                )
            return
        self._status = response.status
        await commit(session, response.status)
        self._is_started = True
        if response.content_length is not None or response.status in BODILESS:
            _add(response, take_headers(session))
        else:
            control = response.headers.getall("Cache-Control", None)
            _add(response, stream_headers(session, ", ".join(control) if control else None))
        session.state.headers_left = True
        if (
            self._every is not None
            and session.state.record is not None
            and is_event_stream(response.content_type)
        ):
            self._watch = asyncio.ensure_future(watch(session, self._every, partial(_close, request)))

    async def _finish(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        session = self._session
        if not self._is_started:
            try:
                await self.start(request, response)
            except WebSessionError as error:
                log.error("cannot store the websession: %s", error)
                if error.status == 500:
                    # Its values cannot be stored; an id that was given up stays so.
                    await commit_failure(session)
                    return self._replaced(error.status)
                session.state.cookie = session.state.csrf_cookie = None
                leave(session)
                return _plain(error.status)
            if response.content_length is not None or not isinstance(response, web.Response):
                leave(session)
                return response
            # The body is produced while it is sent, and may change the websession.
            await response.prepare(request)
            await response.write_eof()
        let_read(session)
        plan = late_plan(session, self._status)
        try:
            if plan != NOTHING:
                await outlast(session.state.sessions.asynchronous.commit(session, plan))
        finally:
            leave(session)
        return response

    def _replaced(self, status: int) -> web.Response:
        """Return an error response that carries the websession's cookie."""
        self._is_started = True
        response = _plain(status)
        _add(response, take_headers(self._session))
        leave(self._session)
        return response


async def _on_prepare(request: web.Request, response: web.StreamResponse) -> None:
    answer = request.get(ANSWER)
    if answer is not None:
        await answer.start(request, response)


async def _close(request: web.Request) -> None:
    """End an event stream; its handler is cancelled, or fails at its next write."""
    if request.transport is not None:
        request.transport.close()


def _add(response: web.StreamResponse, added: list[tuple[str, str]]) -> None:
    for name, value in added:
        if name == "Vary":
            response.headers[name] = one_vary(response.headers.getall(name, ()), value)
        elif name == "Cache-Control":
            response.headers[name] = value
        else:
            response.headers.add(name, value)


def _plain(status: int) -> web.Response:
    return web.Response(
        status=status,
        text=REASONS.get(status, "Internal Server Error"),
        headers={"Cache-Control": "no-store"},
    )


def _request_view(request: web.Request, sessions: WebSessions[Any], takes_cookies: bool) -> RequestView:
    headers = request.headers

    def signal(name: str) -> str | None:
        if name == "user_agent":
            return headers.get("User-Agent")
        if name == "address":
            # Our proxy appends its own address after the visitor's.
            forwarded = headers.getall("X-Forwarded-For", ()) if sessions.trust_forwarded else ()
            return visitor_in(forwarded[-1]) if forwarded else request.remote
        return None

    is_secure = request.secure
    if sessions.trust_forwarded and not is_secure:
        is_secure = last_of(",".join(headers.getall("X-Forwarded-Proto", ()))).lower() in ("https", "wss")
    cookies = headers.getall("Cookie", ())
    return RequestView("; ".join(cookies) if cookies else None, is_secure, signal, takes_cookies)
