"""Websessions in any WSGI application: `environ["mangonel.session"]`, stored before the answer's start leaves.

Runs the flows in the calling thread, on a store's blocking side. Knows no store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import headers_of
from mangonel.websessions.errors import StoreError, WebSessionError
from mangonel.websessions.machine import NOTHING, decide, discard
from mangonel.websessions.session import Visit, WebSession
from mangonel.websessions.settled import checked

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions

__all__ = ["KEY", "WSGISessions", "visit_of"]

KEY = "mangonel.session"

log = logging.getLogger("mangonel.websessions")

Headers = list[tuple[str, str]]
Start = Callable[..., Any]


class WSGISessions:
    """A WSGI application in front of another.

    Args:
        app: the application.
        sessions: the application's websessions.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], sessions: WebSessions[Any]) -> None:
        self.app = app
        self.sessions = checked(sessions, "WSGISessions(app, …)")

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        """Handle one request."""
        sessions = self.sessions
        try:
            session = sessions.blocking.load(visit_of(environ, sessions))
        except StoreError as error:
            log.error("cannot load the websession: %s", error)
            return _refuse(start_response, error)
        environ[KEY] = session

        def start(status: str, headers: Headers, exc_info: Any = None) -> Any:
            if int(status.split(" ", 1)[0]) >= 500 and not sessions.save_on_error:
                discard(session)
            plan = decide(session)
            if plan != NOTHING:
                sessions.blocking.commit(session, plan)
            added = headers_of(session)
            session.state.headers_left = True
            session.state.cookie = None
            return start_response(status, with_headers(headers, added), exc_info)

        try:
            body = self.app(environ, start)
        except WebSessionError as error:
            log.error("cannot store the websession: %s", error)
            return _refuse(start_response, error)
        return _Body(body, session, sessions)


class _Body:
    """The answer's body; what a generator changed after the start is stored when it ends."""

    def __init__(self, body: Iterable[bytes], session: WebSession[Any], sessions: WebSessions[Any]) -> None:
        self._body = body
        self._session = session
        self._sessions = sessions

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            if self._session.state.headers_left:
                self._sessions.blocking.commit(self._session)


def visit_of(environ: dict[str, Any], sessions: WebSessions[Any]) -> Visit:
    """Return what a websession wants to know of a WSGI request.

    Args:
        environ: the request, as the server made it.
        sessions: whose cookie is looked for.

    Example:
        >>> visit_of({"HTTP_COOKIE": "__Host-sid=x", "wsgi.url_scheme": "https"}, sessions).is_secure
        True
    """

    def signal(name: str) -> str | None:
        if name == "user_agent":
            agent: str | None = environ.get("HTTP_USER_AGENT")
            return agent
        if name == "address":
            if sessions.trust_forwarded and (forwarded := environ.get("HTTP_X_FORWARDED_FOR")):
                return str(forwarded).rpartition(",")[2].strip()
            address: str | None = environ.get("REMOTE_ADDR")
            return address
        return None

    is_secure = environ.get("wsgi.url_scheme") == "https"
    if sessions.trust_forwarded and not is_secure:
        is_secure = str(environ.get("HTTP_X_FORWARDED_PROTO", "")).strip().lower() == "https"
    return Visit(environ.get("HTTP_COOKIE"), is_secure, signal)


def with_headers(headers: Headers, added: Headers) -> Headers:
    """Return an answer's headers with ours; a Cache-Control that allows caching goes."""
    replaced = {name.lower() for name, _ in added if name == "Cache-Control"}
    return [(name, value) for name, value in headers if name.lower() not in replaced] + added


def _refuse(start_response: Start, error: WebSessionError) -> list[bytes]:
    status = {503: "503 Service Unavailable", 409: "409 Conflict", 403: "403 Forbidden"}.get(
        error.status, "500 Internal Server Error"
    )
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [status[4:].encode()]
