"""What holds in a context, a thread's or a task's: the sessions of the transactions that run in it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

# The session of the transaction that runs in this context, by the connection's name.
sessions: ContextVar[Mapping[str, Any] | None] = ContextVar("mangonel_odm_sessions", default=None)


def session_of(alias: str) -> Any:
    """Return the session of the transaction that runs in this context, or None."""
    found = sessions.get()
    return None if found is None else found.get(alias)


def session_options(alias: str) -> dict[str, Any]:
    """Return the keyword that every call of the driver takes inside a transaction."""
    session = session_of(alias)
    return {} if session is None else {"session": session}
