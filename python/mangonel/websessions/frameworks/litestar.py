"""Websessions in Litestar: a plugin that puts the ASGI middleware around every handler.

`request.session` is the websession; `set_session()` replaces its values and `clear_session()` ends it. Knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mangonel.websessions.answer import REASONS
from mangonel.websessions.checked_settings import checked
from mangonel.websessions.errors import UsageError, WebSessionError
from mangonel.websessions.frameworks._shared import log
from mangonel.websessions.frameworks.asgi import (
    Application,
    CSRFMiddleware,
    Message,
    Receive,
    Scope,
    Send,
    SessionMiddleware,
)
from mangonel.websessions.session import WebSession
from mangonel.websessions.settings import seconds

try:
    from litestar import Response
    from litestar.connection import ASGIConnection, Request
    from litestar.middleware import DefineMiddleware
    from litestar.plugins import InitPlugin
    from litestar.types import Empty
except ImportError as error:  # pragma: no cover
    raise ImportError("SessionPlugin needs Litestar: pip install litestar") from error

if TYPE_CHECKING:
    from litestar.config.app import AppConfig

    from mangonel.websessions.manager import WebSessions

__all__ = ["SessionPlugin", "current_session", "require_fresh"]

Connection = ASGIConnection[Any, Any, Any, Any]


class SessionPlugin(InitPlugin):
    """Gives the handlers of an application websessions: `Litestar(…, plugins=[SessionPlugin(sessions)])`.

    Args:
        sessions: the application's websessions.
        exclude: paths without websessions, such as "/health"; a path that ends in "/" includes everything below it.
        csrf: check every request other than GET, HEAD, OPTIONS and TRACE, and the origin of every WebSocket.
        csrf_exclude: paths with their own checks, such as "/hook".
        revalidate: how often to check whether the websession of a WebSocket or an event stream has ended, in seconds or
            as "60s"; if it has, close it, a WebSocket with 4401. None: never.

    Raises:
        UsageError: `sessions` is no `WebSessions`.
    """

    def __init__(
        self,
        sessions: WebSessions[Any],
        *,
        exclude: Iterable[str] = (),
        csrf: bool = False,
        csrf_exclude: Iterable[str] = (),
        revalidate: Any = None,
    ) -> None:
        self.sessions = checked(sessions, "SessionPlugin(…)")
        # Litestar's own types of ASGI are narrower than ours.
        around: Any = SessionMiddleware
        checking: Any = CSRFMiddleware
        middleware = DefineMiddleware(
            around, sessions=sessions, exclude=tuple(exclude), revalidate=revalidate
        )
        self._middleware: list[Any] = [middleware, _Taken]
        if csrf:
            self._middleware.append(DefineMiddleware(checking, exclude=tuple(csrf_exclude)))

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Put the middleware first, and answer this package's errors with their status; Litestar calls it.

        Args:
            app_config: the application's configuration.

        Example:
            >>> from litestar import Litestar
            >>> app = Litestar([], plugins=[SessionPlugin(sessions)])
        """
        app_config.middleware = [*self._middleware, *app_config.middleware]
        app_config.exception_handlers = {WebSessionError: _answer, **dict(app_config.exception_handlers)}
        return app_config


def current_session(connection: Connection) -> WebSession[Any]:
    """Return the websession of a request or WebSocket.

    Args:
        connection: the request.

    Raises:
        UsageError: the plugin is missing, or the path is excluded.

    Example:
        >>> from litestar import Request, get
        >>> @get("/who")
        ... async def who(request: Request) -> str:
        ...     return str(current_session(request).user)
    """
    session = connection.scope.get("session")
    if not isinstance(session, WebSession):
        raise UsageError(
            "expected Litestar(…, plugins=[SessionPlugin(sessions)]), and a path that is not excluded"
        )
    session.accessed = True
    return session


def require_fresh(within: Any) -> Callable[[Connection, Any], None]:
    """Return a guard of Litestar: the handler runs only if the user has proved their identity within a time.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The guard raises `NotFresh`, which is answered 403.

    Example:
        >>> from litestar import Request, post
        >>> @post("/pay", guards=[require_fresh("10m")])
        ... async def pay(request: Request) -> str:
        ...     return request.session.user
    """
    limit = seconds(within, "within")

    def guard(connection: Connection, handler: Any) -> None:
        current_session(connection).check_fresh(limit)

    return guard


def _answer(request: Request[Any, Any, Any], error: WebSessionError) -> Response[str]:
    log.error("cannot answer with the websession: %s", error)
    text = REASONS.get(error.status, "Internal Server Error")
    return Response(
        text, status_code=error.status, media_type="text/plain", headers={"Cache-Control": "no-store"}
    )


class _Taken:
    """Applies `set_session()` and `clear_session()`, which replace the websession by another object."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = scope.get("session")
        if not isinstance(session, WebSession):
            await self.app(scope, receive, send)
            return

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                _take(scope, session)
            await send(message)

        try:
            await self.app(scope, receive, sender)
        finally:
            _take(scope, session)


def _take(scope: Scope, session: WebSession[Any]) -> None:
    given = scope.get("session")
    if given is session:
        return
    scope["session"] = session
    if given is Empty or given is None:
        session.destroy()
    elif isinstance(given, Mapping):
        session.clear()
        session.update(given)
    else:
        session.data = given
