"""The short way to a single document: one exchange, whose command and instance the core makes. Spec: crud (read)."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._shared.settings import BOUND
from mangonel.odm.connections.connection import connection, connections, overrides
from mangonel.odm.connections.context import sessions
from mangonel.odm.query.request import TERMINALS, Request

__all__ = ["LONG_WAY", "answer", "single"]

LONG_WAY = object()
"""What `single` returns if only a `Request` can ask for the document."""


def single(model: Any, query: dict[str, Any], is_async: bool, terminal: str) -> Any:
    """Return the document that a query without options finds, or a coroutine for it.

    Args:
        model: a document class.
        query: the conditions.
        is_async: True: use the asyncio client's collection.
        terminal: the name of a terminal for one document, which says what a missing one means.
    """
    if (
        model.__tenant__ is None
        and model.__tag_value__ is None
        and sessions.get() is None
        and not BOUND
        and "$query" not in query
    ):
        # The same as `connection` and `_first_batch`, inlined to save frames.
        alias = model.__connection__
        chosen = connections[alias] if overrides.get() is None else connection(alias)
        collection = chosen._collections[is_async].get(model)
        if collection is not None:
            port, database, name, codec, is_plain, _ = collection._context
            if is_plain:
                most = TERMINALS[terminal].most
                try:
                    operation = _core.odm_find(
                        database, name, codec, query, most, model.__model__, chosen, terminal, is_async
                    )
                except Exception:
                    # The error of the long way has the place in the whole command.
                    return LONG_WAY
                return port.run(operation)
    return LONG_WAY


def answer(model: Any, query: dict[str, Any], is_async: bool, terminal: str, batch: Any) -> Any:
    """Return the result of `single` where the first batch is not exactly one document that fits the model."""
    return Request(model.unscoped(query), terminal, is_async).answer(batch)
