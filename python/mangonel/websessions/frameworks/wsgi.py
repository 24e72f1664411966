"""Websessions in any WSGI application: `environ["mangonel.session"]`, stored before the response starts.

Runs the flows in the calling thread, on a store's blocking face. Knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import (
    REASONS,
    last_plan,
    late_plan,
    one_vary,
    stream_headers,
    take_headers,
)
from mangonel.websessions.checked_settings import checked
from mangonel.websessions.errors import StoreError, WebSessionError
from mangonel.websessions.frameworks._shared import (
    BODILESS,
    Looks,
    View,
    is_event_stream,
    last_of,
    log,
    requiring_fresh,
    visitor_in,
)
from mangonel.websessions.late import leave, let_read
from mangonel.websessions.machine import NOTHING
from mangonel.websessions.session import RequestView, WebSession
from mangonel.websessions.settings import seconds

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.manager import WebSessions

__all__ = ["KEY", "WSGISessions", "require_fresh", "visit_of"]

KEY = "mangonel.session"

Headers = list[tuple[str, str]]
Start = Callable[..., Any]


class WSGISessions:
    """A WSGI application in front of another.

    Args:
        app: the application.
        sessions: the application's websessions.
        revalidate: how often to check whether the websession of an event stream has ended, in seconds or as text
            such as "60s". None: never. A stream ends at its next event, since no thread can be interrupted.

    Raises:
        UsageError: `revalidate` is no duration.
    """

    def __init__(
        self, app: Callable[..., Iterable[bytes]], sessions: WebSessions[Any], *, revalidate: Any = None
    ) -> None:
        self.app = app
        self._every = None if revalidate is None else seconds(revalidate, "revalidate")
        self.sessions = checked(sessions, "WSGISessions(app, …)")

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        """Handle one request."""
        sessions = self.sessions
        try:
            session = sessions.blocking.load(visit_of(environ, sessions))
        except StoreError as error:
            log.error("cannot load the websession: %s", error)
            return _refuse(start_response, error.status, [])
        environ[KEY] = session
        answer = _Answer(session, start_response, self._every)
        try:
            body = self.app(environ, answer.start)
        except BaseException as error:
            return answer.failed(error)
        answer.leave(is_whole=isinstance(body, list | tuple))
        return _Body(body, answer)


class _Answer:
    """Stores the websession before the start of the response is sent, or when the application failed.

    The start is held back until the application returns or writes: by then, a body that is a list is complete.
    """

    def __init__(self, session: WebSession[Any], start_response: Start, every: float | None) -> None:
        self.session = session
        self._every = every
        self._looks: Looks | None = None
        self._start_response = start_response
        self._added: Headers = []
        self._status = 200
        self._has_returned = False
        self._held: tuple[str, Headers, Any] | None = None
        self._server_write: Any = None

    def start(self, status: str, headers: Headers, exc_info: Any = None) -> Any:
        """Commit, then start the response."""
        self._status = int(status.split(" ", 1)[0])
        self._commit(self._status)
        self.session.state.headers_left = True
        if self._server_write is not None:  # an error, after a start that has left
            return self._start_response(status, with_headers(headers, self._added), exc_info)
        self._held = (status, headers, exc_info)
        if self._every is not None and self.session.state.record is not None:
            kinds = [value for name, value in headers if name.lower() == "content-type"]
            self._looks = Looks(self.session, self._every) if any(map(is_event_stream, kinds)) else None
        if self._has_returned:
            self.leave(is_whole=False)
        return self._write

    def goes_on(self, _part: bytes) -> bool:
        """Return whether to send another part of the body: False once the websession of an event stream has ended."""
        return self._looks is None or self._looks.goes_on()

    def leave(self, *, is_whole: bool) -> None:
        """Send the start of the response, if there is one.

        Args:
            is_whole: the body is complete, so it does not read the websession any more.
        """
        self._has_returned = True
        if self._held is None:
            return
        (status, headers, exc_info), self._held = self._held, None
        if is_whole or self._status in BODILESS:
            self._take_headers()
        else:
            control = [value for name, value in headers if name.lower() == "cache-control"]
            self._added += stream_headers(self.session, ", ".join(control) if control else None)
        self._server_write = (
            self._start_response(status, with_headers(headers, self._added), exc_info) or True
        )

    def _write(self, data: bytes) -> Any:
        self.leave(is_whole=False)
        return self._server_write(data)

    def failed(self, error: BaseException) -> list[bytes]:
        """Commit the parts that hold even if the application failed; respond if a cookie must reach the browser.

        Raises:
            BaseException: the application's, for the server to handle.
        """
        state = self.session.state
        if self._held is not None:
            # The held-back start will never be sent.
            self._held, state.headers_left = None, False
        if state.headers_left:
            self._status = 500
            raise error
        is_ours = isinstance(error, WebSessionError)
        if not state.was_answered:
            try:
                self._commit(500)
            except WebSessionError as failure:
                log.error("cannot store the websession: %s", failure)
        if not isinstance(error, Exception):
            raise error  # as SystemExit, by which a server stops a worker
        gives_cookie = state.cookie is not None
        self._take_headers()
        if is_ours:
            log.error("cannot answer with the websession: %s", error)
        elif gives_cookie:
            log.error("the application failed", exc_info=error)
        else:
            raise error
        return _refuse(self._start_response, getattr(error, "status", 500), self._added)

    def close(self) -> None:
        """Store changes that a generator, or the body's own `close`, made after the start."""
        if not self.session.state.headers_left:
            return
        try:
            self._commit(self._status, late_plan)
        except WebSessionError as error:
            if error.status == 500:
                self._commit(500)
            raise
        finally:
            leave(self.session)

    def _commit(self, status: int, plan_of: Callable[[WebSession[Any], int], int] = last_plan) -> None:
        state = self.session.state
        try:
            plan = plan_of(self.session, status)
            if plan != NOTHING:
                state.sessions.blocking.commit(self.session, plan)
        except WebSessionError as error:
            # If its values cannot be stored, `failed` still commits a given-up id.
            state.was_answered = error.status != 500
            raise

    def _take_headers(self) -> None:
        self._added += take_headers(self.session)


class _Body:
    """The body of the response, whose first part may be produced after the application has returned."""

    def __init__(self, body: Iterable[bytes], answer: _Answer) -> None:
        self._body = body
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from takewhile(self._answer.goes_on, self._body)
        except GeneratorExit:  # the server has enough
            raise
        except BaseException as error:
            yield from self._answer.failed(error)

    def close(self) -> None:
        let_read(self._answer.session)
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._answer.close()


def visit_of(environ: dict[str, Any], sessions: WebSessions[Any]) -> RequestView:
    """Return a websession's view of a WSGI request.

    Args:
        environ: the request, from the server.
        sessions: the websessions whose cookie to look for.

    Example:
        >>> visit_of({"HTTP_COOKIE": "__Host-sid=x", "wsgi.url_scheme": "https"}, sessions).is_secure
        True
    """
    return view_of(environ, environ.get("wsgi.url_scheme") == "https", sessions)


def view_of(environ: dict[str, Any], is_secure: bool, sessions: CheckedSettings[Any]) -> RequestView:
    """Return a websession's view of a WSGI request, for which the framework knows whether it came over TLS."""

    def signal(name: str) -> str | None:
        if name == "user_agent":
            return environ.get("HTTP_USER_AGENT")
        if name == "address":
            if sessions.trust_forwarded and (forwarded := environ.get("HTTP_X_FORWARDED_FOR")):
                return visitor_in(str(forwarded))
            return environ.get("REMOTE_ADDR")
        return None

    if sessions.trust_forwarded and not is_secure:
        is_secure = last_of(str(environ.get("HTTP_X_FORWARDED_PROTO", ""))).lower() == "https"
    return RequestView(environ.get("HTTP_COOKIE"), is_secure, signal)


def require_fresh(within: Any) -> Callable[[View], View]:
    """Return a decorator for a WSGI application behind `WSGISessions` that needs a recent proof of identity.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The application raises `NotFresh`, which is answered 403.

    Example:
        >>> @require_fresh("10m")
        ... def pay(environ, start_response):
        ...     start_response("200 OK", [])
        ...     return [environ["mangonel.session"].user.encode()]
    """
    return requiring_fresh(lambda environ, start_response: environ[KEY], within)


def with_headers(headers: Headers, added: Headers) -> Headers:
    """Return the response's headers with ours added; a Cache-Control that allows caching is removed."""
    replaced = {name.lower() for name, _ in added if name in ("Cache-Control", "Vary")}
    vary = [value for name, value in headers if name.lower() == "vary"]
    return [(name, value) for name, value in headers if name.lower() not in replaced] + [
        (name, one_vary(vary, value) if name == "Vary" else value) for name, value in added
    ]


def _refuse(start_response: Start, status: int, added: Headers) -> list[bytes]:
    reason = REASONS.get(status, "Internal Server Error")
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
    start_response(f"{status} {reason}", with_headers(headers, added))
    return [reason.encode()]
