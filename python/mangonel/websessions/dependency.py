"""The websession of a request behind an ASGI middleware, as a dependency of FastAPI.

Imports no framework, except the type that FastAPI needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mangonel.websessions.errors import UsageError
from mangonel.websessions.session import WebSession
from mangonel.websessions.settings import seconds

__all__ = ["current_session", "fresh_session"]


Dependency = TypeVar("Dependency", bound=Callable[..., Any])


def current_session(request: Any) -> WebSession[Any]:
    """Return the websession of a request; the FastAPI dependency behind `sessions.current`.

    Args:
        request: a request behind `SessionMiddleware`.

    Raises:
        UsageError: the middleware is missing.

    Example:
        >>> async def who(session=Depends(current_session)):
        ...     return session.user
    """
    session = request.scope.get("session")
    if not isinstance(session, WebSession):
        raise UsageError("expected SessionMiddleware(app, sessions=…) around the application")
    session.accessed = True
    return session


def fresh_session(within: Any) -> Callable[..., WebSession[Any]]:
    """Return the FastAPI dependency behind `sessions.fresh`: the websession, if its user has proved who they are.

    Args:
        within: the longest time since the proof, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The dependency raises `NotFresh`, which the middleware answers 403.

    Example:
        >>> async def pay(session=Depends(fresh_session("10m"))):
        ...     return session.user
    """
    limit = seconds(within, "within")

    def fresh(request: Any) -> WebSession[Any]:
        session = current_session(request)
        session.check_fresh(limit)
        return session

    return _annotated(fresh)


def _annotated(dependency: Dependency) -> Dependency:
    # FastAPI reads the annotation to learn that the function takes the connection.
    try:
        from starlette.requests import HTTPConnection
    except ImportError:
        return dependency
    dependency.__annotations__["request"] = HTTPConnection
    return dependency


_annotated(current_session)
