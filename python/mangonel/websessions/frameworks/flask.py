"""Websessions in Flask: `flask.session`, `flask.flash` and everything built on them work as usual.

Runs the flows in the calling thread, on a store's blocking face. Knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import REASONS, last_plan, one_vary, stream_headers, take_headers
from mangonel.websessions.csrf import FIELD, SAFE, check_request
from mangonel.websessions.errors import (
    CSRFError,
    LockTimeout,
    NotFresh,
    SessionMoved,
    StoreError,
    TooManySessions,
    UsageError,
    WebSessionError,
)
from mangonel.websessions.frameworks._shared import (
    Looks,
    View,
    honour_cookie,
    is_event_stream,
    noting,
    requiring_fresh,
    store_at_close,
)
from mangonel.websessions.frameworks.wsgi import KEY, visit_of
from mangonel.websessions.machine import NOTHING
from mangonel.websessions.merge import messages
from mangonel.websessions.session import WebSession
from mangonel.websessions.settings import seconds

try:
    import flask
    from flask.sessions import SessionInterface
except ImportError as error:  # pragma: no cover
    raise ImportError("init_flask needs Flask: pip install flask") from error

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions

__all__ = ["FlaskSessions", "check_csrf", "csrf_exempt", "honour", "init_flask", "require_fresh"]

# Flask's option, ours, and Flask's default.
COOKIE_OPTIONS = (
    ("SESSION_COOKIE_NAME", "name", "session"),
    ("APPLICATION_ROOT", "path", "/"),
    ("SESSION_COOKIE_PATH", "path", None),
    ("SESSION_COOKIE_DOMAIN", "domain", None),
    ("SESSION_COOKIE_SECURE", "secure", False),
    ("SESSION_COOKIE_SAMESITE", "samesite", None),
    ("SESSION_COOKIE_PARTITIONED", "partitioned", False),
)
FOREVER = timedelta(days=31)


class FlaskSessions(SessionInterface):
    """Flask's interface to websessions. It honours the application's own cookie settings.

    Args:
        sessions: the application's websessions.
        revalidate: as for `init_flask`.
    """

    def __init__(self, sessions: WebSessions[Any], revalidate: Any = None) -> None:
        self.sessions = sessions
        # What `flask.flash()` keeps; an application may have a function of its own.
        sessions.merge.setdefault("_flashes", messages)
        self._every = None if revalidate is None else seconds(revalidate, "revalidate")
        self._is_ready = False

    def open_session(self, app: Any, request: Any) -> Any:
        """Load the websession before the request is routed; a store that does not answer gives a 503.

        Args:
            app: the application.
            request: the request; Flask calls this.

        Example:
            >>> app.session_interface = FlaskSessions(sessions)
        """
        if not self._is_ready:
            # An application may be configured after `init_flask`.
            honour(app.config, self.sessions)
            self._is_ready = True
        try:
            session = self.sessions.blocking.load(visit_of(request.environ, self.sessions))
        except StoreError as error:
            # Flask opens sessions outside its error handling, so the request continues and is refused later.
            session = self.sessions.blocking.anonymous(visit_of(request.environ, self.sessions))
            session.state.degraded = True
            request.environ["mangonel.store_error"] = error
        request.environ[KEY] = session
        return session

    def save_session(self, app: Any, session: Any, response: Any) -> None:
        """Store the changes and set the cookie.

        Args:
            app: the application.
            session: the result of `open_session`.
            response: the response; Flask calls this.

        Raises:
            WebSessionError: the session's values cannot be stored; none of them were.
        """
        if not isinstance(session, WebSession):
            return
        sessions = self.sessions
        try:
            plan = last_plan(session, response.status_code)
            if plan != NOTHING:
                sessions.blocking.commit(session, plan)
        except (SessionMoved, StoreError, TooManySessions) as error:
            app.logger.exception("cannot store the websession")
            _refuse(response, error.status)
            return
        except WebSessionError:
            # Its values cannot be stored. A given-up id is committed with Flask's error response, or without one.
            session.state.was_answered = False
            raise
        if response.is_streamed:
            added = stream_headers(session, response.headers.get("Cache-Control"))
            if self._every is not None and session.state.record is not None:
                _end_with(response, Looks(session, self._every))
            if not response.direct_passthrough:
                _pass_through(response, noting(session, response.response))
        else:
            added = take_headers(session)
        session.state.headers_left = True
        store_at_close(session, response)
        for name, value in added:
            if name == "Vary":
                response.headers[name] = one_vary(response.headers.getlist(name), value)
            elif name == "Cache-Control":
                response.headers[name] = value
            else:
                response.headers.add(name, value)


def init_flask(app: Any, sessions: WebSessions[Any], *, csrf: bool = False, revalidate: Any = None) -> None:
    """Make `flask.session` one of these websessions.

    Args:
        app: a Flask application.
        sessions: the websessions for its requests.
        csrf: check every request other than GET, HEAD, OPTIONS and TRACE, except for views with `csrf_exempt`.
        revalidate: how often to check whether the websession of an event stream has ended, in seconds or as text
            such as "60s". None: never. A stream ends at its next event, since no thread can be interrupted.

    Raises:
        UsageError: `revalidate` is no duration, or a setting of the cookie contradicts that of the websessions.

    Example:
        >>> import flask
        >>> init_flask(flask.Flask("shop"), sessions)
    """
    if not hasattr(app, "config"):
        raise TypeError(f'expected a Flask application for "app", got {type(app).__name__}')
    honour(app.config, sessions)
    app.session_interface = FlaskSessions(sessions, revalidate)

    def refuse_without_store() -> Any:
        if "mangonel.store_error" in flask.request.environ:
            app.logger.error("cannot load the websession: %s", flask.request.environ["mangonel.store_error"])
            return flask.Response("Service Unavailable", 503, {"Cache-Control": "no-store"})
        return None

    def refuse_forged() -> None:
        view = app.view_functions.get(flask.request.endpoint)
        if flask.request.method not in SAFE and not getattr(view, "is_csrf_exempt", False):
            check_csrf()

    first = [refuse_without_store, refuse_forged] if csrf else [refuse_without_store]
    app.before_request_funcs.setdefault(None, [])[:0] = first

    def end_without_answer(error: BaseException | None) -> None:
        """Commit the parts that must hold if an exception skipped `save_session`, as in debug mode."""
        # Not `flask.session`, which counts as reading it.
        session = flask.request.environ.get(KEY) if flask.has_request_context() else None
        if error is None or not isinstance(session, WebSession) or session.state.was_answered:
            return
        try:
            session.state.headers_left = False
            plan = last_plan(session)
            if plan != NOTHING:
                sessions.blocking.commit(session, plan)
        except WebSessionError as failure:
            app.logger.error("cannot store the websession: %s", failure)

    app.teardown_request(end_without_answer)

    def answer(error: WebSessionError) -> Any:
        return flask.Response(str(error), error.status, {"Cache-Control": "no-store"})

    def answer_shortly(error: WebSessionError) -> Any:
        app.logger.error("cannot answer with the websession: %s", error)
        return flask.Response(REASONS[error.status], error.status, {"Cache-Control": "no-store"})

    for refused in (CSRFError, NotFresh):
        app.register_error_handler(refused, answer)
    for each in (SessionMoved, TooManySessions, LockTimeout, StoreError):
        app.register_error_handler(each, answer_shortly)


def honour(config: Any, sessions: WebSessions[Any]) -> None:
    """Apply the session cookie settings of an application's configuration.

    Args:
        config: the application's configuration.
        sessions: the websessions for its requests.

    Raises:
        UsageError: the two contradict each other, or a Flask setting is not supported.

    Example:
        >>> honour({"SESSION_COOKIE_NAME": "shop", "SESSION_COOKIE_SAMESITE": "Strict"}, sessions)
        >>> sessions.cookie.name
        'shop'
    """
    if not config.get("SESSION_COOKIE_HTTPONLY", True):
        raise UsageError("expected no SESSION_COOKIE_HTTPONLY=False: scripts never see a websession's cookie")
    honour_cookie(sessions, config.get, COOKIE_OPTIONS, "Flask's configuration")
    lasts = config.get("PERMANENT_SESSION_LIFETIME", FOREVER)
    if lasts == FOREVER:
        return
    sessions.permanent = seconds(lasts, "PERMANENT_SESSION_LIFETIME")
    if sessions.permanent > sessions.longest:
        if sessions.asked_longest is not None:
            raise UsageError(
                f"PERMANENT_SESSION_LIFETIME is {sessions.permanent:.0f} s in Flask's configuration, "
                f"and Lifetime(remember=) of the websessions {sessions.longest:.0f} s; give that as much"
            )
        sessions.longest = sessions.permanent


def check_csrf(token: str | None = None) -> None:
    """Check the origin of the request, and its token, the first of: the argument, the field `_csrf`, X-CSRF-Token.

    Args:
        token: the token. None: the request's.

    Raises:
        CSRFError: the handler that `init_flask` registered answers 403.

    Example:
        >>> @app.post("/change")
        ... def change():
        ...     check_csrf()
        ...     return "done"
    """
    request = flask.request
    session: Any = flask.session
    check_request(session, token or request.form.get(FIELD), request.headers.get)


def csrf_exempt(view: View) -> View:
    """Exempt a view from the check of `init_flask(…, csrf=True)`, for example one that other servers call.

    Args:
        view: a view function.

    Example:
        >>> from flask import Flask
        >>> app = Flask("shop")
        >>> @app.post("/hook")
        ... @csrf_exempt
        ... def hook():
        ...     return "heard"
    """
    view.is_csrf_exempt = True  # type: ignore[attr-defined]
    return view


def require_fresh(within: Any) -> Callable[[View], View]:
    """Return a decorator for a view of Flask that needs a recent proof of identity.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The view raises `NotFresh`, answered 403.

    Example:
        >>> from flask import Flask
        >>> app = Flask("bank")
        >>> @app.post("/pay")
        ... @require_fresh("10m")
        ... def pay():
        ...     return flask.session.user
    """
    return requiring_fresh(lambda *arguments: flask.session, within)


def _end_with(response: Any, looks: Looks) -> None:
    """Let an event stream end with its websession."""
    if not is_event_stream(response.content_type or ""):
        return
    _pass_through(response, takewhile(looks.goes_on, response.response))


def _pass_through(response: Any, body: Iterator[Any]) -> None:
    """Let another iterator yield the parts of a response's body, which is closed as before."""
    parts, response.response = response.response, body
    if hasattr(parts, "close"):
        response.call_on_close(parts.close)


def _refuse(response: Any, status: int) -> None:
    response.status_code = status
    response.headers.clear()
    response.headers["Cache-Control"] = "no-store"
    response.headers["Content-Type"] = "text/plain; charset=utf-8"
    response.set_data(REASONS[status])
