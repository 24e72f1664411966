"""The short way to a single document: one exchange, whose command and instance the core makes. Spec: crud (read)."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._shared.settings import BOUND
from mangonel.bson import ObjectId
from mangonel.odm.connections.connection import connection, connections, overridden
from mangonel.odm.connections.context import current_sessions
from mangonel.odm.connections.place import default_place
from mangonel.odm.query.request import TERMINALS, Request

__all__ = ["LONG_WAY", "STORED_AS_THEY_ARE", "answer", "short_of", "single"]

STORED_AS_THEY_ARE = frozenset((ObjectId, int, str))
"""Types of ids with the same form in the database and in programs."""

LONG_WAY: Any = object()
"""What `single` returns if only a `Request` can ask for the document."""


def single(model: Any, query: Any, is_async: bool, terminal: str, is_id: bool = False) -> Any:
    """Return the document that a query without options finds, or a coroutine for it.

    Args:
        model: a document class.
        query: the conditions.
        is_async: True: use the asyncio client's collection.
        terminal: the name of a terminal for one document, which decides how a missing one is answered.
        is_id: in place of the conditions the id is given, and the model may have a default scope.
    """
    plan = model.__plan__
    alias, core, type_of_id = plan.short or short_of(model)
    if is_id:
        if type(query) is not type_of_id:
            return LONG_WAY
        query = {"_id": query}
    if alias is not None and current_sessions() is None and not BOUND and "$query" not in query:
        # The same as `connection`, inlined to save a frame.
        chosen = connections[alias] if overridden() is None else connection(alias)
        place = chosen._places[is_async].get(model) or default_place(chosen, model, is_async)
        if place.read is not None:
            most = TERMINALS[terminal].most
            try:
                operation = _core.odm_find(place.read, query, most, core, chosen, terminal, is_async)
            except Exception:
                # The error of the long way has the place in the whole command.
                return LONG_WAY
            return place.port.run(operation)
    return LONG_WAY


def short_of(model: Any) -> tuple[Any, Any, Any]:
    """Return the name of a model's connection, its model in the core, and the type of ids that need no conversion.

    Without a name, only a request can ask for its documents; without a type, only a request can ask by id.
    """
    own = model.__plan__.id
    is_short = model.__tenant__ is None and model.__tag_value__ is None
    has_usual_ids = own is not None and own.type in STORED_AS_THEY_ARE and model.__default_scope__ is None
    made = (model.__connection__ if is_short else None, model.__model__, own.type if has_usual_ids else None)
    model.__plan__.short = made
    return made


def answer(model: Any, query: dict[str, Any], is_async: bool, terminal: str, batch: Any) -> Any:
    """Return the result of `single` where the first batch is not exactly one document that fits the model."""
    return Request(model.unscoped(query), terminal, is_async).answer(batch)
