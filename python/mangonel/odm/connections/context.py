"""State of a context, that is, a thread or a task: the sessions of its transactions."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

# The session of all operations in this context, by the clients that it belongs to.
sessions: ContextVar[Mapping[Any, Any] | None] = ContextVar("mangonel_odm_sessions", default=None)
# Returns them, or None. A method of an imported name is bound again at each call.
current_sessions = sessions.get


def session_for(connection: Any) -> Any:
    """Return this context's session for a connection's deployment, or None."""
    found = current_sessions()
    return None if found is None else found.get(connection.clients)


def session_options(connection: Any) -> dict[str, Any]:
    """Return the `session` keyword for driver calls, if a session is active."""
    session = session_for(connection)
    return {} if session is None else {"session": session}
