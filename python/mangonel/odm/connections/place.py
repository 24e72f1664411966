"""The storage place of a document: the connection it was loaded from, or the context's for a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel.odm.connections.connection import connection, connections, overridden
from mangonel.odm.connections.context import current_sessions, session_for
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.model.convert import NEW

if TYPE_CHECKING:
    from mangonel._faces.port import Port


class Place:
    """A collection of a connection, with the session to use.

    `read` and `written` hold the names and settings of `collection` for commands that the core builds; `read` also
    holds the port. None: the core builds none.
    """

    __slots__ = ("collection", "connection", "port", "read", "session", "write_concern", "written")

    def __init__(
        self, chosen: Any, model: Any, is_async: bool, session: Any = None, write_concern: Any = None
    ) -> None:
        self.connection = chosen
        self.collection = collection = chosen.collection(model, is_async)
        self.port: Port = collection._port
        given = session if session is not None else session_for(chosen)
        self.session: dict[str, Any] = {} if given is None else {"session": given}
        self.write_concern = write_concern
        if write_concern is not None:
            if given is not None and given.in_transaction:
                raise concern_in_transaction("write_concern")
            self.collection = collection.with_options(write_concern=write_concern)
        _, database, name, codec, is_plain, concern, _ = self.collection._context
        is_acknowledged = given is None and concern._acknowledged
        self.read = (database, name, codec, self.port) if given is None and is_plain else None
        self.written = (database, name, codec, concern._document or None) if is_acknowledged else None


def concern_in_transaction(option: str) -> UnsupportedOption:
    """Return the error for a concern requested in a transaction, which has its own."""
    return UnsupportedOption(
        f"an operation in a transaction cannot honour {option}=…: it is the transaction's, so give it to transaction()"
    )


def place_of(document: Any, is_async: bool, session: Any = None, write_concern: Any = None) -> Place:
    """Return where a document is stored, or will be if it is new.

    Args:
        document: a document.
        is_async: True: use the asyncio client's collection.
        session: the driver's session. None: the context's, if any.
        write_concern: the driver's write concern. None: the model's or the database's.

    Raises:
        UnsupportedOption: a write concern in a transaction.
    """
    model = document.__class__
    # The same as `connection_of`, inlined to save two frames of each save.
    chosen = None if _core.odm_flags(document) & NEW else _core.odm_origin(document)
    if chosen is None:
        alias = model.__connection__
        chosen = connections[alias] if overridden() is None else connection(alias)
    if session is not None or write_concern is not None or current_sessions() is not None:
        return Place(chosen, model, is_async, session, write_concern)
    found: Place | None = chosen._places[is_async].get(model)
    return found or default_place(chosen, model, is_async)


def default_place(chosen: Any, model: Any, is_async: bool) -> Place:
    """Return the place of a model's documents on a connection, without a session; it is cached, as collections are.

    Args:
        chosen: the connection.
        model: a document class.
        is_async: True: use the asyncio client's collection.
    """
    places: dict[Any, Place] = chosen._places[is_async]
    place = places.get(model)
    if place is None:
        place = places[model] = Place(chosen, model, is_async)
    return place


def connection_of(document: Any) -> Any:
    """Return the connection that a document was loaded from; for a new one, the context's."""
    if not _core.odm_flags(document) & NEW:
        origin = _core.odm_origin(document)
        if origin is not None:
            return origin
    return connection(document.__connection__)
