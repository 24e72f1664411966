"""The websession of a request that went through an ASGI middleware, as a dependency of FastAPI.

Imports no framework but for the type that FastAPI looks at.
"""

from __future__ import annotations

from typing import Any

from mangonel.websessions.errors import UsageError
from mangonel.websessions.session import WebSession

__all__ = ["current_session"]


def current_session(request: Any) -> WebSession[Any]:
    """Return the websession of a request; the FastAPI dependency behind `sessions.current`.

    Args:
        request: any that went through `SessionMiddleware`.

    Raises:
        UsageError: it did not.

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
    # FastAPI looks at the annotation to know that it wants the connection.
    try:
        from starlette.requests import HTTPConnection
    except ImportError:
        return
    current_session.__annotations__["request"] = HTTPConnection


_annotate()
