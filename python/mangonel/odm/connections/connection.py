"""Connections to the databases of models. One serves both faces; its clients are made on demand."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from mangonel import _core
from mangonel._arguments import expect
from mangonel.odm._registry import keepers, makers
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import ConnectionTwins
from mangonel.odm.connections.transactions import SessionBlock, Transaction, run_flow
from mangonel.odm.errors import NotConnected
from mangonel.odm.model.codec import codec_options, conversions
from mangonel.odm.model.encrypted_trees import may_encrypt

if TYPE_CHECKING:
    from typing import Unpack

    from mangonel.api import MongoClient
    from mangonel.bson import CodecOptions
    from mangonel.odm.query.options import SessionOptions, TransactionOptions
    from mangonel.odm.store.unit import Unit

T = TypeVar("T")


class _Known(dict[str, "Connection"]):
    """The connections by their names."""

    def __missing__(self, alias: str) -> Connection:
        raise NotConnected(f"expected a connection {alias!r}, got none; call connect(uri, {alias!r}) first")


# `connection()` reads both; so does the code in which it is inlined to save a frame.
connections: _Known = _Known()
# The connections that replace others in this context, by name.
overrides: ContextVar[Mapping[str, Connection] | None] = ContextVar("mangonel_odmoverrides", default=None)
# Returns them, or None.
overridden = overrides.get


class Connection(ConnectionTwins):
    """A database that both the blocking and the asyncio client reach. Made and named by `connect()`."""

    def __init__(self, alias: str, clients: Clients, database: str) -> None:
        self.alias = alias
        self.name = database
        self.clients = clients
        # By face. Forgetting replaces the dict, so a collection that is made meanwhile goes into the discarded one.
        self._collections: list[dict[Any, Any]] = [{}, {}]
        self._places: list[dict[Any, Any]] = [{}, {}]
        # The codec options for instances without and with time zones, if the client asks for conversions. The core
        # reads them.
        self.conversions: tuple[CodecOptions[Any], CodecOptions[Any]] | None = None
        keepers.add(self)

    @property
    @terminal
    def client(self) -> MongoClient[Any]:
        """The blocking client."""
        return self.clients.get(IS_ASYNC)

    @property
    def is_only_async(self) -> bool:
        """Whether only the asyncio client has been used so far."""
        return self.clients.is_only_async

    def database(self, is_async: bool = False) -> Any:
        """Return the driver's database object, from the blocking or the asyncio client.

        Args:
            is_async: True: the asyncio client's.

        Example:
            >>> db.database().name
            'shop'
        """
        client = self.clients.get(is_async)
        return client.get_database(self.name, codec_options=codec_options(False, client.codec_options))

    def collection(self, model: Any, is_async: bool) -> Any:
        """Return the driver's collection that stores the documents of a model.

        Args:
            model: a document class.
            is_async: True: the asyncio client's.

        Example:
            >>> db.collection(User, is_async=False).name
            'people'
        """
        known = self._collections[is_async]
        found = known.get(model)
        if found is None:
            options = getattr(model, "__options__", None) or {}
            if may_encrypt(model):
                from mangonel.odm.encryption.encrypting_port import database_of

                database = database_of(self, model, is_async)
            else:
                database = self.database(is_async)
            given = database.codec_options
            self.conversions = conversions(given) or self.conversions
            found = database.get_collection(
                model.__collection_name__(),
                codec_options=codec_options(getattr(model, "__tz_aware__", True), given),
                write_concern=options.get("write_concern"),
                read_concern=options.get("read_concern"),
                read_preference=options.get("read_preference"),
            )
            known[model] = found
        return found

    def forget(self) -> None:
        """Drop the cached collections; they are made again on next use. Called when a model is defined."""
        for is_async in (False, True):
            self._forget_face(is_async)

    def _forget_face(self, is_async: bool) -> None:
        self._collections[is_async], self._places[is_async] = {}, {}

    def sibling(self, database: str) -> Connection:
        """Return a connection to another database of the same deployment.

        Args:
            database: its name.

        Example:
            >>> db.sibling("archive").database().name
            'archive'
        """
        return self.clients.connection(self.alias, database)

    @contextmanager
    def use(self, other: Connection | str) -> Iterator[Connection]:
        """Make models of this connection use another one inside the block, in this thread or task only.

        Args:
            other: a connection, or the name of a database of the same deployment, for example a tenant's.

        Example:
            >>> with db.use("tenant_7"):
            ...     Order.find().count()
        """
        chosen = self.sibling(other) if isinstance(other, str) else other
        token = overrides.set({**(overrides.get() or {}), self.alias: chosen})
        try:
            yield chosen
        finally:
            overrides.reset(token)

    def transaction(self, *, retry: bool = False, **options: Unpack[TransactionOptions]) -> Transaction:
        """Return a transaction for `with` or `async with`; all models of this connection take part in it.

        If it is aborted, every document that it touched gets its former values back.

        Args:
            retry: True: use it as a decorator of a function, which runs again after a transient failure.
            options: as for the driver's `start_transaction`.

        Example:
            >>> with db.transaction():
            ...     _ = Post(title="Tea").save(), user.update(inc(User.age))
        """
        return Transaction(self, {**options}, retry)

    def unit(self, **options: Unpack[TransactionOptions]) -> Unit:
        """Return a unit for `with` or `async with`: documents of several models that are stored together or not at all.

        Args:
            options: as for the driver's `start_transaction`.

        Example:
            >>> with db.unit() as unit:
            ...     user.age = 40
            ...     unit.save(user, Post(title="Tea", author=user))
        """
        return makers["unit"](self, {**options})

    @terminal
    def run(self, function: Callable[[], T], **options: Unpack[TransactionOptions]) -> T:
        """Call a function in a transaction; retry transient errors for up to 120 s.

        Before each attempt, the documents that it touched get back the values from before the first attempt.

        Args:
            function: function without arguments.
            options: as for the driver's `start_transaction`.

        Raises:
            OperationFailure, NetworkError: the last attempt failed. Nothing was stored.

        Example:
            >>> db.run(lambda: user.save()).name
            'Ada'
        """
        client = self.clients.get(IS_ASYNC)
        return client._port.flow(run_flow(lambda: Transaction(self, {**options}), function, client))

    def session(self, **options: Unpack[SessionOptions]) -> SessionBlock:
        """Return a session for `with` or `async with`; models of this connection use it inside the block.

        Args:
            options: as for the driver's `start_session`: `causal_consistency`, `snapshot`, ….

        Example:
            >>> with db.session(causal_consistency=True):
            ...     User.find().count()
            2
        """
        return SessionBlock(self, {**options})

    @terminal
    def close(self) -> None:
        """Close the blocking client; `aclose` closes the asyncio one.

        Later use raises NotConnected, also by documents that were loaded through it; call `connect()` again.
        """
        return self.clients.close(IS_ASYNC)

    def __repr__(self) -> str:
        return f"Connection({self.alias!r}, database={self.name!r})"


class Clients:
    """The two clients of a deployment."""

    def __init__(
        self,
        uri: str | None,
        options: dict[str, Any],
        client: Any = None,
        aclient: Any = None,
        page_key: bytes | None = None,
        encryption: Any = None,
        aencryption: Any = None,
    ) -> None:
        self._uri = uri
        self._options = options
        # By face, under None. Closing replaces the dict, so a client made meanwhile goes into the discarded one.
        self._made: list[dict[None, Any]] = [{}, {}]
        self._connections: dict[tuple[str, str], Connection] = {}
        self._is_closed = {False: False, True: False}
        self._listeners: list[Any] = []
        # The key that signs page tokens: the program's own, or one that every process with this URI derives.
        made = os.urandom(32) if uri is None else hashlib.sha256(f"pages:{uri}".encode()).digest()
        self.page_key = page_key or made
        # The encryption object of each face, with the keys of encrypted fields; None: the client's own options.
        self.encryption = {False: encryption, True: aencryption}
        if client is not None:
            self._made[False][None] = client
        if aclient is not None:
            self._made[True][None] = aclient

    def connection(self, alias: str, database: str) -> Connection:
        """Return the connection to a database; always the same object, since documents remember it."""
        found = self._connections.get((alias, database))
        if found is None:
            found = self._connections.setdefault((alias, database), Connection(alias, self, database))
        return found

    def get(self, is_async: bool) -> Any:
        """Return a client, made on demand."""
        known = self._made[is_async]
        made = known.get(None)
        if made is None:
            from mangonel import AsyncMongoClient, MongoClient

            if self._is_closed[is_async]:
                raise self._closed(is_async)
            if self._uri is None:
                face = "asyncio" if is_async else "blocking"
                raise NotConnected(f"expected a client of the {face} face, got only the other; name a URI")
            fresh: Any = (AsyncMongoClient if is_async else MongoClient)(self._uri, **self._options)
            for listener in self._listeners:
                fresh._listeners.add(listener)
            # Concurrent threads must get the same client: it would refuse another one's sessions.
            made = known.setdefault(None, fresh)
            is_late = self._is_closed[is_async]
            if (is_late or made is not fresh) and not is_async:
                # An unused asyncio client has done nothing yet, and ends with its last reference.
                fresh.close()
            if is_late:
                raise self._closed(is_async)
        return made

    def _closed(self, is_async: bool) -> NotConnected:
        face = "asyncio" if is_async else "blocking"
        return NotConnected(
            f"the {face} client of this connection was closed; call connect() again, and load documents anew"
        )

    @property
    def is_only_async(self) -> bool:
        """Whether there is an asyncio client and no blocking one."""
        return bool(self._made[True]) and not self._made[False]

    def close(self, is_async: bool) -> Any:
        """Close one of the clients; return a coroutine on asyncio."""
        client = self._taken(is_async)
        if client is not None:
            return client.close()
        return _core.odm_finished(None) if is_async else None

    def _taken(self, is_async: bool) -> Any:
        """Take out the client to close it; from now on, neither it nor its collections are handed out."""
        self._is_closed[is_async] = True
        made, self._made[is_async] = self._made[is_async], {}
        taken = made.pop(None, None)
        # Only now, so that a collection created from here on finds no client.
        for found in list(self._connections.values()):
            found._forget_face(is_async)
        return taken

    def _clients(self) -> list[Any]:
        return [client for made in self._made for client in list(made.values())]

    def listen(self, listener: Any) -> None:
        """Add a listener for the driver's events."""
        self._listeners.append(listener)
        for client in self._clients():
            client._listeners.add(listener)

    def unlisten(self, listener: Any) -> None:
        """Remove a listener."""
        self._listeners.remove(listener)
        for client in self._clients():
            client._listeners.remove(listener)


def connect(
    uri: str | None = None,
    alias: str = "default",
    *,
    database: str | None = None,
    client: Any = None,
    aclient: Any = None,
    page_key: bytes | None = None,
    encryption: Any = None,
    aencryption: Any = None,
    **options: Any,
) -> Connection:
    """Set the database of models. Sends nothing. A second call with the same alias replaces the connection.

    Args:
        uri: as for `MongoClient`; it may name the database.
        alias: models use "default" unless they set `__connection__`.
        database: name of the database if the URI has none.
        client, aclient: a MongoClient and an AsyncMongoClient to use instead of new ones.
        page_key: signs the tokens of `page()`. None: a key derived from the URI, as secret as the URI; without a URI, a
            random one.
        encryption, aencryption: a ClientEncryption and an AsyncClientEncryption for fields marked `Encrypted`. None:
            use the keys of `auto_encryption_opts`.
        options: as for `MongoClient`.

    Raises:
        ConfigurationError, InvalidURI: the URI is wrong.
        ValueError: no database is named.

    Example:
        >>> db = connect("mongodb://localhost/blog")
    """
    for name, given in (("client", client), ("aclient", aclient)):
        if given is not None and not hasattr(given, "get_default_database"):
            raise TypeError(f'expected a client of this package for "{name}", got {type(given).__name__}')
    if uri is not None:
        expect("uri", uri, str, "a URI")
    if database is None:
        database = _database_of(uri, client or aclient)
    expect("database", database, str, "a name")
    clients = Clients(uri, options, client, aclient, page_key, encryption, aencryption)
    made = clients.connection(alias, database)
    connections[alias] = made
    return made


def _database_of(uri: str | None, client: Any) -> str:
    if client is not None:
        return str(client.get_default_database().name)
    if uri is not None and uri.startswith(("mongodb://", "mongodb+srv://")):
        path = uri.partition("://")[2].partition("/")[2].partition("?")[0]
        if path:
            return unquote(path.partition(".")[0])
    raise ValueError('expected the name of a database, in the URI or as database="…", got none')


def connection(alias: str = "default") -> Connection:
    """Return the connection that models of this alias use in this context.

    Args:
        alias: the name passed to `connect`.

    Raises:
        NotConnected: `connect()` was not called for it.

    Example:
        >>> connection().database().name
        'shop'
    """
    others = overridden()
    try:
        return connections[alias] if others is None else others.get(alias) or connections[alias]
    except TypeError:
        raise TypeError(f'expected a name for "alias", got {type(alias).__name__}') from None
