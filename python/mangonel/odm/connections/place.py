"""Where a document is stored: the connection it was loaded from, or that the context says for a new one."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel.odm.connections.connection import connection
from mangonel.odm.connections.context import session_for
from mangonel.odm.model.convert import NEW


class Place:
    """A collection of a connection, and the session that is to be used there."""

    __slots__ = ("collection", "connection", "port", "session")

    def __init__(self, chosen: Any, model: Any, is_async: bool, session: Any = None) -> None:
        self.connection = chosen
        self.collection = collection = chosen.collection(model, is_async)
        self.port = collection._port
        given = session if session is not None else session_for(chosen)
        self.session: dict[str, Any] = {} if given is None else {"session": given}


def place_of(document: Any, is_async: bool, session: Any = None) -> Place:
    """Return where a document is stored, or will be if it is new.

    Args:
        document: a document.
        is_async: True: the collection of the asyncio client.
        session: of the driver; None for the one of the context, if any.
    """
    return Place(connection_of(document), document.__class__, is_async, session)


def connection_of(document: Any) -> Any:
    """Return the connection that a document was loaded from; a new one's is what its context says."""
    if not _core.odm_flags(document) & NEW:
        origin = _core.odm_origin(document)
        if origin is not None:
            return origin
    return connection(document.__connection__)
