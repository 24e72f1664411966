"""The short way to a single document: one exchange. The core makes its command and the instance. Spec: crud (read)."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._shared.settings import BOUND
from mangonel.bson import ObjectId
from mangonel.odm.connections.connection import connection, connections, overrides
from mangonel.odm.connections.context import sessions
from mangonel.odm.connections.place import default_place
from mangonel.odm.expressions.expr import Expr
from mangonel.odm.query.request import TERMINALS, Request

__all__ = ["LONG_WAY", "STORED_AS_THEY_ARE", "answer", "short_of", "single", "single_by_id"]

STORED_AS_THEY_ARE = frozenset((ObjectId, int, str))
"""Types of ids with the same form in the database and in programs."""

LONG_WAY: Any = object()
"""Returned by `single` and `single_by_id` if only a `Request` can fetch the document."""


def short_of(model: Any) -> tuple[Any, Any, Any]:
    """Return the name of a model's connection, its model in the core, and the type of ids that need no conversion.

    Without a name, only a request can fetch its documents; without a type, only a request can fetch by id.
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


_short_way = _core.OdmShortWay(
    {
        "connections": connections,
        "overrides": overrides,
        "sessions": sessions,
        "bound": BOUND,
        "most": {name: terminal.most for name, terminal in TERMINALS.items() if terminal.most},
        "expr": Expr,
        "short_of": short_of,
        "connection": connection,
        "default_place": default_place,
        "long_way": LONG_WAY,
    }
)
# Find a model's document by the conditions of a query without options, or by its id. Both also take whether the asyncio
# client is used, and the name of a terminal for one document; they return the document, or a coroutine for it.
single = _short_way.of_conditions
single_by_id = _short_way.of_id
