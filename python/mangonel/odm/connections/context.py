"""What holds in a context, a thread's or a task's: the sessions of the transactions that run in it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

# The session that everything in this context takes part in, by the clients it belongs to.
sessions: ContextVar[Mapping[Any, Any] | None] = ContextVar("mangonel_odm_sessions", default=None)


def session_for(connection: Any) -> Any:
    """Return the session of this context for a connection's deployment, or None."""
    found = sessions.get()
    return None if found is None else found.get(connection.clients)


def session_options(connection: Any) -> dict[str, Any]:
    """Return the keyword that every call of the driver takes where a session runs."""
    session = session_for(connection)
    return {} if session is None else {"session": session}
