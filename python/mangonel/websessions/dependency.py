"""The websession of a request behind an ASGI middleware, as a dependency of FastAPI.

Imports no framework, except the type that FastAPI needs.
"""

from __future__ import annotations

from typing import Any

from mangonel.websessions.errors import UsageError
from mangonel.websessions.session import WebSession

__all__ = ["current_session"]


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


def _annotate() -> None:
    # FastAPI reads the annotation to learn that the function takes the connection.
    try:
        from starlette.requests import HTTPConnection
    except ImportError:
        return
    current_session.__annotations__["request"] = HTTPConnection


_annotate()
