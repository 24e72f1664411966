"""The bases of Motor's classes. Subclasses in libraries call their constructor with a delegate, PyMongo's object."""

from __future__ import annotations

from typing import Any

from mangonel.api import Collection, Database


class AgnosticBase:
    """In Motor, this keeps the delegate. Here, an object made from a delegate takes over its name and options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and isinstance(args[0], Collection | Database):
            args, kwargs = (_owner(args[0]), args[0].name), _options(args[0])
        super().__init__(*args, **kwargs)


class AgnosticBaseProperties(AgnosticBase):
    """The base of clients, databases and collections."""


def _owner(delegate: Collection[Any] | Database[Any]) -> Any:
    """Return the parent, a Motor object, of an object made from `delegate`.

    Raises:
        TypeError: the delegate does not come from the `delegate` of a client.
    """
    client = getattr(
        delegate.client if isinstance(delegate, Database) else delegate.database.client, "_twin", None
    )
    if client is None:
        raise TypeError(f"expected an object of the `delegate` of a client of Motor's, got {delegate!r}")
    return client if isinstance(delegate, Database) else client[delegate.database.name]


def _options(of: Any) -> dict[str, Any]:
    names = ("codec_options", "read_preference", "write_concern", "read_concern")
    return {name: getattr(of, name) for name in names}


def database_delegate(database: Any) -> Database[Any]:
    """Return the database of the blocking client, in place of PyMongo's."""
    return Database(database.client.delegate, database.name, **_options(database))


def collection_delegate(collection: Any) -> Collection[Any]:
    """Return the collection of the blocking client, in place of PyMongo's."""
    return Collection(collection.database.delegate, collection.name, **_options(collection))
