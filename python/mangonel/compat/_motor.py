"""Motor's classes on the asyncio face; they differ from it where Motor differs from PyMongo Async."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from mangonel.api import AsyncClientSession, AsyncCollection, AsyncDatabase, AsyncMongoClient, MongoClient
from mangonel.compat._motor_base import (
    AgnosticBase as AgnosticBase,  # a name of `motor.core`
)
from mangonel.compat._motor_base import AgnosticBaseProperties, collection_delegate, database_delegate
from mangonel.compat._motor_cursors import (
    AgnosticChangeStream,
    AgnosticCommandCursor,
    AgnosticCursor,
    AgnosticGridOutCursor,
    AgnosticRawBatchCommandCursor,
    AgnosticRawBatchCursor,
)
from mangonel.errors import InvalidOperation
from mangonel.gridfs.api import AsyncGridFSBucket, AsyncGridIn, AsyncGridOut

if TYPE_CHECKING:
    from collections.abc import Awaitable


def _loop_of_client(self: Any) -> Any:
    """Return the event loop of the client."""
    return self.client.get_io_loop()


def _current_loop(_: Any) -> Any:
    """Return the event loop that serves the file."""
    return asyncio.get_event_loop()


class AgnosticClientSession(AsyncClientSession):
    """A session. As in Motor, `start_session` is awaited and `start_transaction` is not."""

    def start_transaction(self, *args: Any, **kwargs: Any) -> Any:
        """Start a transaction; return a context manager that commits it at the end of an `async with`."""
        return super().start_transaction(*args, **kwargs)

    get_io_loop = _loop_of_client


class AgnosticCollection(AgnosticBaseProperties, AsyncCollection):
    """A collection. Its `aggregate`, listings and `watch` are not awaited."""

    # As in Motor, a collection of a subclass makes collections of that subclass.
    _plain_class: Any = property(type)
    _cursor_class: type[Any] = AgnosticCursor
    _raw_cursor_class: type[Any] = AgnosticRawBatchCursor
    _command_cursor_class: type[Any] = AgnosticCommandCursor
    _raw_command_cursor_class: type[Any] = AgnosticRawBatchCommandCursor
    _stream_class: type[Any] = AgnosticChangeStream
    delegate = property(collection_delegate)

    @property
    def database(self) -> Any:
        """The database of the collection. As in Motor, a subclass may set it."""
        return self._database

    @database.setter
    def database(self, database: Any) -> None:
        self._database = database

    def get_io_loop(self) -> Any:
        """Return the event loop of the client."""
        return self.database.get_io_loop()

    def aggregate(self, *args: Any, **kwargs: Any) -> Any:
        """Return a cursor over the results; the first wait for a result sends the command."""
        return self._command_cursor_class.latent(
            self, lambda size: AsyncCollection.aggregate(self, *args, **kwargs | size)
        )

    def aggregate_raw_batches(self, *args: Any, **kwargs: Any) -> Any:
        """Return a cursor over batches of bytes; the first wait for a batch sends the command."""
        return self._raw_command_cursor_class.latent(
            self, lambda size: AsyncCollection.aggregate_raw_batches(self, *args, **kwargs | size)
        )

    def list_indexes(self, *args: Any, **kwargs: Any) -> Any:
        """Return a cursor over the indexes; the first wait for an index sends the command."""
        return self._command_cursor_class.latent(
            self, lambda _: AsyncCollection.list_indexes(self, *args, **kwargs)
        )

    def list_search_indexes(self, *args: Any, **kwargs: Any) -> Any:
        """Return a cursor over the search indexes; the first wait for an index sends the command."""
        return self._command_cursor_class.latent(
            self, lambda _: AsyncCollection.list_search_indexes(self, *args, **kwargs)
        )

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        """Return a change stream; the first wait for a change opens it."""
        return self._stream_class(lambda: AsyncCollection.watch(self, *args, **kwargs), self.get_io_loop)


class AgnosticDatabase(AgnosticBaseProperties, AsyncDatabase):
    """A database. Its `aggregate` and `watch` are not awaited."""

    _plain_class: Any = property(type)
    _collection_class: type[Any] = AgnosticCollection
    _command_cursor_class: type[Any] = AgnosticCommandCursor
    _stream_class: type[Any] = AgnosticChangeStream
    delegate = property(database_delegate)

    get_io_loop = _loop_of_client

    def aggregate(self, *args: Any, **kwargs: Any) -> Any:
        """Return a cursor over the results; the first wait for a result sends the command."""
        collection = self["$cmd.aggregate"]
        return self._command_cursor_class.latent(
            collection, lambda size: AsyncDatabase.aggregate(self, *args, **kwargs | size)
        )

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        """Return a change stream; the first wait for a change opens it."""
        return self._stream_class(lambda: AsyncDatabase.watch(self, *args, **kwargs), self.get_io_loop)


def _of_delegate(name: str) -> Any:
    """Return a property that reads the blocking client's, as Motor's does, so the value need not be awaited."""
    return property(lambda client: getattr(client.delegate, name), doc=getattr(MongoClient, name).__doc__)


class AgnosticClient(AgnosticBaseProperties, AsyncMongoClient):
    """A client that knows its event loop. Its `close` is not awaited, nor are its properties."""

    address = _of_delegate("address")
    arbiters = _of_delegate("arbiters")
    is_mongos = _of_delegate("is_mongos")
    is_primary = _of_delegate("is_primary")
    primary = _of_delegate("primary")
    secondaries = _of_delegate("secondaries")

    _database_class: type[Any] = AgnosticDatabase
    _session_class: type[Any] = AgnosticClientSession
    _stream_class: type[Any] = AgnosticChangeStream

    def __init__(self, *args: Any, io_loop: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._io_loop = io_loop
        self._arguments = args, kwargs
        self._delegate: Any = None

    @property
    def delegate(self) -> Any:
        """A blocking client with the same arguments and its own connections, made when first read."""
        if self._delegate is None:
            args, kwargs = self._arguments
            self._delegate = MongoClient(*args, **{**kwargs, "connect": False})
            self._delegate._twin = self
        return self._delegate

    @property
    def io_loop(self) -> Any:
        """The same as `get_io_loop`."""
        return self.get_io_loop()

    def get_io_loop(self) -> Any:
        """Return the event loop that the client was created with, or the running one."""
        if self._io_loop is None:
            self._io_loop = asyncio.get_event_loop()
        return self._io_loop

    async def start_session(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # awaited in Motor
        """Return a new session. Sends nothing."""
        return super().start_session(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        """Return a change stream; the first wait for a change opens it."""
        return self._stream_class(lambda: AsyncMongoClient.watch(self, *args, **kwargs), self.get_io_loop)

    def close(self) -> Any:
        """Close every connection; on a running loop, in a task that can be awaited."""
        this: Any = self
        if self._delegate is not None:
            self._delegate.close()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Nothing can be sent any more, so the sessions expire on the server.
            this._core.close()
            this._port.close()
            return None
        self._closing: Awaitable[None] = loop.create_task(this._close_flow())
        return self._closing


class AgnosticGridIn(AsyncGridIn):
    """A new file."""

    get_io_loop = _current_loop


class AgnosticGridOut(AsyncGridOut):
    """A stored file; `seek` and `close` are not awaited, and `async for` yields chunks."""

    async def open(self) -> Any:
        """Load the file's document, unless it is loaded, and return the file."""
        await super().open()
        return self

    async def __anext__(self) -> bytes:
        if chunk := await self.readchunk():
            return chunk
        raise StopAsyncIteration

    def seek(self, pos: int, whence: int = os.SEEK_SET) -> Any:
        """Move to another position and return it.

        Raises:
            InvalidOperation: the position counts from the end of the file, and nothing of the file was read yet.
        """
        this: Any = self
        if whence == os.SEEK_END and this._file is None:
            raise InvalidOperation("expected an open file to seek from its end; await its `open()` first")
        left = this._move(pos, whence, this.length if whence == os.SEEK_END else 0)
        if left is not None:
            left.drop()
        return this._position

    def close(self) -> Any:
        """Close the file; its cursor on the server is ended in the background."""
        this: Any = self
        stream, this._stream = this._stream, None
        this._mark_closed()
        if stream is not None:
            stream.drop()

    get_io_loop = _current_loop

    async def stream_to_handler(self, request_handler: Any) -> None:
        """Write the file to a Tornado request handler, chunk by chunk."""
        while piece := await self.readchunk():
            request_handler.write(piece)
            if (flushed := request_handler.flush()) is not None:
                await flushed


class AgnosticGridFSBucket(AsyncGridFSBucket):
    """Files in a database."""

    _in_class: type[Any] = AgnosticGridIn
    _out_class: type[Any] = AgnosticGridOut
    _cursor_class: type[Any] = AgnosticGridOutCursor
    collection = property(lambda bucket: bucket._collection, doc="The root of the bucket's two collections.")

    def __init__(self, *args: Any, collection: str | None = None, **kwargs: Any) -> None:
        # The older name of `bucket_name`.
        super().__init__(*args, **kwargs if collection is None else kwargs | {"bucket_name": collection})

    def get_io_loop(self) -> Any:
        """Return the event loop of the client."""
        this: Any = self
        return this._collection.get_io_loop()
