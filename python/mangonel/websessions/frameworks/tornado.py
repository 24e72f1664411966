"""Websessions in Tornado: a mixin that loads before the handler's method and stores before the response leaves.

`finish()` marks the handler as finished with Tornado's private `_finished`, commits in a task and then finishes, so
that a client that has its response finds everything stored. A test checks that Tornado still has this attribute.

Knows no store. A WebSocket gets its cookie with the handshake, and saves by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import last_plan, one_vary, promise, stream_headers, take_headers
from mangonel.websessions.checked_settings import checked
from mangonel.websessions.csrf import FIELD, SAFE, check_request
from mangonel.websessions.errors import CSRFError, StoreError, UsageError, WebSessionError
from mangonel.websessions.frameworks._shared import (
    ENDED,
    ENDED_CODE,
    View,
    is_event_stream,
    last_of,
    log,
    requiring_fresh,
    visitor_in,
    watch,
)
from mangonel.websessions.late import end_late, leave
from mangonel.websessions.machine import END, NOTHING, discard
from mangonel.websessions.manager import WebSessions
from mangonel.websessions.session import RequestView, WebSession
from mangonel.websessions.settings import seconds

if TYPE_CHECKING:
    from tornado.web import RequestHandler as _Base
else:
    _Base = object

__all__ = ["SessionMixin", "require_fresh"]

SWITCHING_PROTOCOLS = 101


class _Done:
    """The result of `prepare()` if there is nothing to wait for; cheaper than a coroutine."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()


class _HandlersView(RequestView):
    """A request that reads its handler only on demand."""

    __slots__ = ("__weakref__", "_handler")

    # Made for every reader's request, so the mixin sets its fields, which saves a Python call.
    __init__ = object.__init__
    _handler: SessionMixin
    takes_cookies = True

    @property
    def is_secure(self) -> bool:  # type: ignore[override]
        return self._handler._is_secure()

    @property
    def signals(self) -> Callable[[str], str | None]:  # type: ignore[override]
        return self._handler._signal


class _NobodysVisit(_HandlersView):
    """The request of a reader without a cookie."""

    __slots__ = ()

    cookie = None


# The websession's view of its request after the response has left. Without it, handler and websession would refer to
# each other, and every request would be left to the garbage collector.
_LEFT = RequestView(takes_cookies=False)


class SessionMixin(_Base):
    """A mixin for handlers: `class Base(SessionMixin, RequestHandler)`; pass `sessions=` to `Application`.

    A `prepare()` of your own must begin with `await super().prepare()`.

    Attributes:
        use_session: False for handlers that never need one: there is no store call at all.
        check_csrf: True: requests other than GET, HEAD, OPTIONS and TRACE must come from our own pages and carry a
            token, in the field `_csrf` or the header X-CSRF-Token.
        session_revalidate: for WebSockets and event streams: how often to check whether the websession has ended, in
            seconds or as "60s"; if it has, close it, a WebSocket with 4401. None: never.
    """

    use_session = True
    check_csrf = False
    session_revalidate: Any = None

    # None until `prepare()`; after it _NOBODY for a request without a cookie, until the first access.
    _websession: WebSession[Any] | None = None
    _websession_watch: asyncio.Task[None] | None = None
    _websession_failed = False
    # The class whose method comes next, by handler class. `super()` would search for it at every request.
    _websession_prepares: Any = None
    _websession_finishes: Any = None
    _websession_flushes: Any = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Find the methods that come after this mixin's."""
        super().__init_subclass__(**keywords)
        cls._websession_prepares = _next_with("prepare", cls)
        cls._websession_finishes = _next_with("finish", cls)
        cls._websession_flushes = _next_with("flush", cls)

    @property
    def session(self) -> WebSession[Any]:
        """The websession of this request.

        Raises:
            UsageError: it is disabled here, or `prepare()` was overridden without `await super().prepare()`.
        """
        session = self._websession
        if session is None or session is _NOBODY:
            return self._make_websession()
        session.accessed = True
        return session

    @property
    def sessions(self) -> WebSessions[Any]:
        """The application's websessions."""
        found = self.application.settings.get("sessions")
        if found is None:
            if "session_storage" not in self.application.settings:
                raise UsageError("expected Application(…, sessions=WebSessions(…)), got no sessions")
            # An application written for the Tornado fork.
            found = WebSessions.from_tornado_settings(self.application.settings)
            self.application.settings["sessions"] = found
        return checked(found, "Application(…)")

    def prepare(self) -> Awaitable[None] | None:
        """Load the websession that the cookie names; without a cookie there is nothing to wait for."""
        base = self._websession_prepares.prepare(self)
        if not self.use_session:
            return base if base is not None else _DONE
        if base is None and not self.check_csrf and not self.request.headers.get_list("Cookie"):
            # Most readers have no cookie, so this path must be cheap. Only an overridden `prepare()` awaits the result.
            self._websession = _NOBODY
            return None if type(self).prepare is _PREPARE else _DONE
        return self._prepare_websession(base)

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> asyncio.Future[None]:
        """Store the changes, then finish the response.

        Args:
            chunk: the last part of the response.

        Raises:
            HTTPError: the store did not answer at the start of the request, and the websession should end or log in a
                user.

        Example:
            >>> class Page(SessionMixin, RequestHandler):
            ...     async def get(self):
            ...         self.session["seen"] = True
            ...         await self.finish("stored before it leaves")
        """
        session = self._websession
        if session is _NOBODY or session is None or self._finished:
            return self._websession_finishes.finish(self, chunk)
        if self._status_code == SWITCHING_PROTOCOLS:
            # The stream is detached as soon as this returns.
            return self._finish_handshake(session)
        try:
            plan = last_plan(session, 500 if self._websession_failed else self._status_code)
        except StoreError as error:
            # The websession was not loaded, so only the error remains.
            self._websession = _NOBODY
            raise self._http_error(error) from error
        if plan == NOTHING:
            if session.state.cookie is not None or session.accessed:
                self._send_cookie(session)
            future: asyncio.Future[None] = self._websession_finishes.finish(self, chunk)
            session.state.request_view = _LEFT
            leave(session)
            return future
        if chunk is not None:
            self.write(chunk)
        # From here on Tornado and the application see the handler as finished.
        self._finished = True
        commit = asyncio.get_running_loop().create_task(self._commit_and_finish(session, plan))
        leave(session, commit)
        return commit

    def flush(self, include_footers: bool = False) -> asyncio.Future[None]:
        """Send the data so far; the first time with the cookie, which needs no store call.

        Args:
            include_footers: as for Tornado's method.

        Example:
            >>> class Page(SessionMixin, RequestHandler):
            ...     async def get(self):
            ...         self.write("first part")
            ...         await self.flush()
        """
        if not include_footers and not self._headers_written:
            session = self._websession
            if session is _NOBODY:
                session = self._websession = self._anonymous()
            if session is not None:
                promise(session, self._status_code)
                self._add(stream_headers(session, self._headers.get("Cache-Control")))
                if self.session_revalidate is not None and is_event_stream(
                    self._headers.get("Content-Type", "")
                ):
                    self._start_watch(session)
        return self._websession_flushes.flush(self, include_footers)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Respond with an error; errors of this package have their own status.

        Args:
            status_code: the status.
            kwargs: as for Tornado's method; `exc_info` is the exception of the handler.

        Example:
            >>> class Page(SessionMixin, RequestHandler):
            ...     async def get(self):
            ...         self.send_error(404)
        """
        error = (kwargs.get("exc_info") or (None, None))[1]
        if isinstance(error, WebSessionError) and status_code == 500:
            status_code = error.status
        # The status of a streamed response was sent before the handler failed.
        self._websession_failed = self._headers_written
        super().send_error(status_code, **kwargs)

    def on_session_end(self) -> None:
        """Called when the websession of a WebSocket or an event stream has ended; closes it."""
        close: Any = getattr(self, "close", None)
        if close is not None:
            close(ENDED_CODE, ENDED)
        elif not self._finished:
            # The handler fails at its next flush().
            self.request.connection.stream.close()  # type: ignore[union-attr]

    def request_view(self) -> RequestView:
        """Return the websession's view of this request; override it to add signals."""
        # HTTP/2 front ends may send several headers.
        headers = self.request.headers
        request_view: _HandlersView = _HandlersView()
        request_view.cookie = "; ".join(headers.get_list("Cookie")) if "Cookie" in headers else None
        request_view._handler = self
        return request_view

    def _is_secure(self) -> bool:
        if self.request.protocol == "https":
            return True
        if not self.sessions.trust_forwarded:
            return False
        return last_of(self.request.headers.get("X-Forwarded-Proto", "")).lower() == "https"

    def _signal(self, name: str) -> str | None:
        if name == "user_agent":
            return self.request.headers.get("User-Agent")
        if name == "address":
            if self.sessions.trust_forwarded and (forwarded := self.request.headers.get("X-Forwarded-For")):
                return visitor_in(forwarded)
            return self.request.remote_ip
        return None

    def _make_websession(self) -> WebSession[Any]:
        if self._websession is None:
            if not self.use_session:
                raise UsageError("this handler says use_session = False")
            raise UsageError(
                "the websession is not loaded; begin your prepare() with: await super().prepare(), "
                "and name SessionMixin before RequestHandler among the bases"
            )
        session = self._websession = self._anonymous()
        session.accessed = True
        if self._headers_written:
            session.state.headers_left = True
        return session

    def _anonymous(self) -> WebSession[Any]:
        # Most requests have no cookie and come here, so they take no detour.
        sessions = self.application.settings.get("sessions") or self.sessions
        if type(sessions) is str:
            sessions = self.sessions  # it raises with a helpful message
        if type(self).request_view is _REQUEST_VIEW:
            nobody = _NobodysVisit()
            nobody._handler = self
            return WebSession(sessions, nobody)
        return WebSession(sessions, self.request_view())

    async def _prepare_websession(self, base: Awaitable[None] | None) -> None:
        if base is not None:
            await base
        sessions = self.sessions
        try:
            self._websession = await sessions.asynchronous.load(self.request_view())
        except StoreError as error:
            raise self._http_error(error) from error
        if self.check_csrf and self.request.method not in SAFE:
            token = self.get_body_argument(FIELD, None)
            try:
                check_request(self._websession, token, self.request.headers.get)
            except CSRFError as error:
                raise self._http_error(error) from error

    def _finish_handshake(self, session: WebSession[Any]) -> asyncio.Future[None]:
        session.state.headers_left = True
        self._send_cookie(session)
        if self.session_revalidate is not None:
            self._start_watch(session)
        return super().finish()

    def _start_watch(self, session: WebSession[Any]) -> None:
        if session.state.record is not None:
            every = seconds(self.session_revalidate, "session_revalidate")
            self._websession_watch = asyncio.ensure_future(self._watch_websession(session, every))

    async def _commit_and_finish(self, session: WebSession[Any], plan: int) -> None:
        failed: Exception | None = None
        try:
            await session.state.sessions.asynchronous.commit(session, plan)
        except Exception as error:
            failed = error
        finally:
            self._finished = False
        if failed is not None:
            status = failed.status if isinstance(failed, WebSessionError) else 500
            log.error("cannot store the websession of %s: %s", self.request.path, failed)
            if self._headers_written:
                # Too late for a status; the client sees a truncated response.
                self._finished = True
                self.request.connection.stream.close()  # type: ignore[union-attr]
                return
            # The response may be shown, but nothing of this request is stored.
            discard(session)
            if plan == END:
                session.state.degraded = True
            self._websession = _NOBODY
            # Responds with finish(), which has nothing to commit any more.
            self.send_error(status, exc_info=(type(failed), failed, failed.__traceback__))
            return
        self._send_cookie(session)
        try:
            await super().finish()
        except _stream_closed():
            pass  # the client went away, and its data is stored
        session.state.request_view = _LEFT

    def _send_cookie(self, session: WebSession[Any]) -> None:
        if (session.state.cookie is not None or session.accessed) and not self._headers_written:
            self._add(take_headers(session))

    def _add(self, added: list[tuple[str, str]]) -> None:
        headers = self._headers
        for name, value in added:
            # There may be several of each, except these.
            if name == "Vary" and name in headers:
                headers[name] = one_vary(headers.get_list(name), value)
            elif name in headers and name != "Cache-Control":
                headers.add(name, value)
            else:
                headers[name] = value

    async def _watch_websession(self, session: WebSession[Any], every: float) -> None:
        async def end() -> None:
            if getattr(self, "ws_connection", None) is not None or self._headers_written:
                self.on_session_end()

        await watch(session, every, end)

    def on_connection_close(self) -> None:
        """Stop checking a WebSocket's websession, and commit its end if requested, even if the handler failed."""
        if self._websession_watch is not None:
            self._websession_watch.cancel()
        session = self._websession
        if session is not None and session is not _NOBODY and session.state.had_end:
            # Values are stored by save() or with the response, but an end takes effect in any case.
            end_late(session)
        super().on_connection_close()

    @staticmethod
    def _http_error(error: WebSessionError) -> Exception:
        from tornado.web import HTTPError

        return HTTPError(error.status, str(error))


def require_fresh(within: Any) -> Callable[[View], View]:
    """Return a decorator for a method of a handler that needs a recent proof of identity.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The method raises `NotFresh`, which is answered 403.

    Example:
        >>> class Pay(SessionMixin, RequestHandler):
        ...     @require_fresh("10m")
        ...     async def post(self):
        ...         self.write(self.session.user or "")
    """
    return requiring_fresh(lambda handler, *arguments: handler.session, within)


def _next_with(name: str, cls: type) -> type | None:
    """Return the class in which `super()` finds a method, as seen from the mixin; None in a mixin of mixins.

    The method itself is looked up at each call, since tracing libraries replace it.
    """
    order = cls.__mro__
    after = order[order.index(SessionMixin) + 1 :]
    return next((each for each in after if name in each.__dict__), None)


# A placeholder for a websession that was not accessed yet; it has no other use.
_NOBODY: Any = object()
_PREPARE = SessionMixin.prepare
_REQUEST_VIEW = SessionMixin.request_view


def _stream_closed() -> type[Exception]:
    from tornado.iostream import StreamClosedError

    return StreamClosedError
