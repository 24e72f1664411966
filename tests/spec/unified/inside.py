"""State that the format asks for and no public name shows: pins, dirty sessions, a transaction's state."""

from __future__ import annotations

from typing import Any

__all__ = ["is_dirty", "is_pinned", "pinned_address", "transaction_state"]


def is_dirty(session: Any) -> bool:
    """Return whether its server session will not go back to the pool."""
    if _is_ours(session):
        return bool(session._handle.is_dirty)
    return bool(session._server_session.dirty)


def is_pinned(session: Any) -> bool:
    """Return whether its transaction is bound to a router or a connection."""
    return pinned_address(session) is not None


def pinned_address(session: Any) -> str | None:
    """Return `host:port` of the router that the session's transaction is bound to, or None."""
    if _is_ours(session):
        address: str | None = session._handle.pinned_server
        return address
    pinned = session._pinned_address
    return None if pinned is None else "{}:{}".format(*pinned)


def transaction_state(session: Any) -> str:
    """Return the state in the format's words, as far as a case asks: of an open transaction."""
    if _is_ours(session):
        if session._handle.is_starting:
            return "starting"
        return "in_progress" if session.in_transaction else "none"
    return str(session._transaction.state.name).lower()


def _is_ours(session: Any) -> bool:
    return hasattr(session, "_handle")
