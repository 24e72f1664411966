"""What the format asks and no public name tells: pins, dirt, the state of a transaction; and an early start."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["is_dirty", "is_pinned", "pinned_address", "start_watching", "transaction_state"]


def is_dirty(session: Any) -> bool:
    """Whether its server session will not go back to the pool."""
    if _is_ours(session):
        return bool(session._handle.is_dirty)
    return bool(session._server_session.dirty)


def is_pinned(session: Any) -> bool:
    """Whether its transaction is bound to a router or a connection."""
    return pinned_address(session) is not None


def pinned_address(session: Any) -> str | None:
    """Return `host:port` of the router that its transaction is bound to."""
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


def start_watching(client: Any) -> None:
    """Let an asyncio client look at its servers now, as the format expects; ours would wait for the first operation."""
    if hasattr(client, "_core") and client._port.is_async:
        from mangonel import _core

        ping = {"ping": 1}
        selection = _core.Operation("admin", ping, client._codec, _core.KIND_SELECTION, _core.READ_DOCUMENT)
        selection.silence()
        client._core.begin(selection, int(client._port._enter(asyncio.get_running_loop()).shard)).close()


def _is_ours(session: Any) -> bool:
    return hasattr(session, "_handle")
