"""Connections: where models store their documents. One serves both faces; its clients are made when first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import unquote

from mangonel import _core
from mangonel.odm.connections.transactions import Transaction
from mangonel.odm.errors import NotConnected
from mangonel.odm.model.codec import codec_options

_connections: dict[str, Connection] = {}
# What stands for a connection in this context, by its name.
_overrides: ContextVar[Mapping[str, Connection] | None] = ContextVar("mangonel_odm_overrides", default=None)


class Connection:
    """A database, by the blocking client and by the asyncio client. `connect()` makes and names one."""

    def __init__(self, alias: str, clients: _Clients, database: str) -> None:
        self.alias = alias
        self.name = database
        self._clients = clients
        self._collections: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})

    @property
    def client(self) -> Any:
        """The blocking client."""
        return self._clients.get(False)

    @property
    def aclient(self) -> Any:
        """The asyncio client."""
        return self._clients.get(True)

    def database(self, is_async: bool = False) -> Any:
        """Return the driver's database, of the blocking or of the asyncio client.

        Args:
            is_async: True: the asyncio client's.

        Example:
            >>> db.database().name
            'shop'
        """
        return self._clients.get(is_async).get_database(self.name, codec_options=codec_options())

    def collection(self, model: Any, is_async: bool) -> Any:
        """Return the driver's collection that a model's documents are in.

        Args:
            model: a document class.
            is_async: True: the asyncio client's.

        Example:
            >>> db.collection(User, is_async=False).name
            'people'
        """
        found = self._collections[is_async].get(model)
        if found is None:
            options = getattr(model, "__options__", None) or {}
            found = self.database(is_async).get_collection(
                model.__collection_name__(),
                write_concern=options.get("write_concern"),
                read_concern=options.get("read_concern"),
                read_preference=options.get("read_preference"),
            )
            self._collections[is_async][model] = found
        return found

    def sibling(self, database: str) -> Connection:
        """Return a connection to another database of the same deployment.

        Args:
            database: its name.

        Example:
            >>> db.sibling("archive").database().name
            'archive'
        """
        return Connection(self.alias, self._clients, database)

    @contextmanager
    def use(self, other: Connection | str) -> Iterator[Connection]:
        """Let models of this connection use another one in this context: this thread's or task's.

        Args:
            other: a connection, or the name of a database of the same deployment, such as a tenant's.

        Example:
            >>> with db.use("tenant_7"):
            ...     Order.find().count()
        """
        chosen = self.sibling(other) if isinstance(other, str) else other
        token = _overrides.set({**(_overrides.get() or {}), self.alias: chosen})
        try:
            yield chosen
        finally:
            _overrides.reset(token)

    def transaction(self, **options: Any) -> Transaction:
        """Return a transaction, for `with` or `async with`: what models of this connection do inside is one.

        Args:
            options: as for the driver's `start_transaction`.

        Example:
            >>> with db.transaction():
            ...     _ = Post(title="Tea").save(), user.update(inc(User.age))
        """
        return Transaction(self, options)

    def close(self) -> None:
        """Close the blocking client; the asyncio one is closed by `aclose`."""
        self._clients.close()

    def aclose(self) -> Any:
        """Close the asyncio client."""
        return self._clients.aclose()

    def __repr__(self) -> str:
        return f"Connection({self.alias!r}, database={self.name!r})"


class _Clients:
    """The two clients of a deployment."""

    def __init__(
        self, uri: str | None, options: dict[str, Any], client: Any = None, aclient: Any = None
    ) -> None:
        self._uri = uri
        self._options = options
        self._made: dict[bool, Any] = {}
        if client is not None:
            self._made[False] = client
        if aclient is not None:
            self._made[True] = aclient

    def get(self, is_async: bool) -> Any:
        made = self._made.get(is_async)
        if made is None:
            from mangonel import AsyncMongoClient, MongoClient

            if self._uri is None:
                face = "asyncio" if is_async else "blocking"
                raise NotConnected(f"expected a client of the {face} face, found only the other; name a URI")
            made = (AsyncMongoClient if is_async else MongoClient)(self._uri, **self._options)
            self._made[is_async] = made
        return made

    def close(self) -> None:
        client = self._made.pop(False, None)
        if client is not None:
            client.close()

    def aclose(self) -> Any:
        client = self._made.pop(True, None)
        return client.close() if client is not None else _core.odm_finished(None)


def connect(
    uri: str | None = None,
    alias: str = "default",
    *,
    database: str | None = None,
    client: Any = None,
    aclient: Any = None,
    **options: Any,
) -> Connection:
    """Name the database of models; nothing is sent. Calling it again for the same alias replaces the connection.

    Args:
        uri: as for `MongoClient`; the database is the one it names.
        alias: models use "default" unless they set `__connection__`.
        database: its name, when the URI names none.
        client, aclient: a MongoClient and an AsyncMongoClient to use instead of making them.
        options: as for `MongoClient`.

    Raises:
        ConfigurationError, InvalidURI: the URI is wrong.
        ValueError: no database is named.

    Example:
        >>> db = connect("mongodb://localhost/blog")
    """
    if database is None:
        database = _database_of(uri, client or aclient)
    made = Connection(alias, _Clients(uri, options, client, aclient), database)
    _connections[alias] = made
    return made


def _database_of(uri: str | None, client: Any) -> str:
    if client is not None:
        return str(client.get_default_database().name)
    if uri is not None and uri.startswith(("mongodb://", "mongodb+srv://")):
        path = uri.partition("://")[2].partition("/")[2].partition("?")[0]
        if path:
            return unquote(path.partition(".")[0])
    raise ValueError('expected the name of a database, in the URI or as database="…", found none')


def connection(alias: str = "default") -> Connection:
    """Return what models of this alias use in this context.

    Args:
        alias: the name that was given to `connect`.

    Raises:
        NotConnected: `connect()` was not called for it.

    Example:
        >>> connection().database().name
        'shop'
    """
    overrides = _overrides.get()
    if overrides is not None:
        found = overrides.get(alias)
        if found is not None:
            return found
    try:
        return _connections[alias]
    except KeyError:
        raise NotConnected(
            f"expected a connection {alias!r}, found none; call connect(uri, {alias!r}) first"
        ) from None
