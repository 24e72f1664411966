"""Motor's cursors and change streams on the asyncio face. They are iterated without being awaited first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel._core import run_now
from mangonel._shared.cursors.iteration import AsyncClosing
from mangonel.api import AsyncCommandCursor, AsyncCursor, AsyncRawBatchCommandCursor, AsyncRawBatchCursor
from mangonel.gridfs.api import AsyncGridOutCursor

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable
    from typing import Self


def _started(cursor: Any, flow: Any) -> Any:
    loop = cursor.get_io_loop()
    # Tornado's loop runs on one of asyncio.
    return getattr(loop, "asyncio_loop", loop).create_task(flow)


class MotorIteration:
    """Motor's own methods of iterating over a cursor, in addition to `async for`."""

    if TYPE_CHECKING:
        _batch: Any
        _collection: Any
        _fetch_flow: Callable[[], Awaitable[bool]]
        _to_list_flow: Callable[[int | None], Awaitable[list[Any]]]

    @property
    def fetch_next(self) -> Awaitable[bool]:
        """Wait until a document is fetched; False at the end. `next_object` returns the document."""
        return self._has_next_flow()

    async def _has_next_flow(self) -> bool:
        batch = self._batch
        return (batch is not None and not batch.is_empty) or await self._fetch_flow()

    def next_object(self) -> Any:
        """Return a document that `fetch_next` fetched, or None."""
        for document in self._batch or ():
            return self._object_of(document)
        return None

    def _object_of(self, document: Any) -> Any:
        return document

    def to_list(self, length: int | None = None) -> Any:
        """Return a future with the remaining documents, at most `length`; 0 means none.

        Motor returns a future too, and umongo adds a callback to it.

        Raises:
            ValueError: `length` is negative.
        """
        if length is not None and length < 0:
            raise ValueError("length must be non-negative")
        return _started(self, self._list_flow(length))

    async def _list_flow(self, length: int | None) -> list[Any]:
        return [] if length == 0 else await self._to_list_flow(length)

    def each(self, callback: Callable[[Any, BaseException | None], object]) -> None:
        """Call `callback(document, None)` for each document until it returns False, then `callback(None, error)`."""
        self._each_task = _started(self, self._each_flow(callback))

    async def _each_flow(self, callback: Callable[[Any, BaseException | None], object]) -> None:
        try:
            while await self._has_next_flow():
                if callback(self.next_object(), None) is False:
                    return
        except Exception as error:
            callback(None, error)
        else:
            callback(None, None)

    def get_io_loop(self) -> AbstractEventLoop:
        """Return the event loop of the client."""
        return self._collection.get_io_loop()


class LatentOpening(MotorIteration):
    """A cursor that sends its command at the first wait for a document, so its creation is not awaited."""

    collection = property(lambda cursor: cursor._collection, doc="The collection that was asked.")
    _opening: Callable[[Any], Awaitable[Any]] | None = None

    @classmethod
    def latent(cls, collection: Any, opening: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return a cursor that calls `opening` with its batch size, a dict, when the first document is requested."""
        cursor: Any = cls.__new__(cls)
        cursor._begin_state(collection, collection._codec)
        cursor._opening = opening
        return cursor

    async def _fetch_once_flow(self) -> bool:
        opening = self._opening
        if opening is None:
            return await super()._fetch_once_flow()  # type: ignore[misc]  # the cursor beside this mixin has it
        self._opening = None
        try:
            opened = await opening({"batchSize": self._batch_size} if self._batch_size else {})
        except BaseException:
            self._end()
            raise
        # This cursor takes over the opened server cursor, so the other object must not close it.
        size = self._batch_size
        self.__dict__.update(opened.__dict__)
        self._batch = opened._batch
        opened._id = opened._session = opened._pinned = opened._started = None
        self._batch_size = size or self._batch_size
        return self._batch is not None and not self._batch.is_empty

    async def _close_flow(self) -> None:
        self._opening = None
        await super()._close_flow()  # type: ignore[misc]  # the cursor beside this mixin has it

    if TYPE_CHECKING:
        _batch_size: int

        def _end(self) -> None: ...


class Rewinding(MotorIteration):
    """A cursor whose `rewind` is not awaited, as in Motor."""

    def rewind(self) -> Any:
        """Reset the cursor to its start and return it; the server's cursor is closed in the background."""
        this: Any = self
        this._abandon()
        return this._start_over()


class PlainOptions(Rewinding):
    """A cursor whose flags are set without an await, as in Motor."""

    def add_option(self, mask: int) -> Any:
        """Set query flags by their bits; return the cursor."""
        this: Any = self
        # This flow waits for nothing.
        return run_now(this._add_option_flow(mask))


class AgnosticCursor(PlainOptions, AsyncCursor):
    """A query's documents."""


class AgnosticRawBatchCursor(PlainOptions, AsyncRawBatchCursor):
    """A query's batches of bytes."""


class AgnosticCommandCursor(LatentOpening, AsyncCommandCursor):
    """The documents of a command. `aggregate` returns it without being awaited."""


class AgnosticRawBatchCommandCursor(LatentOpening, AsyncRawBatchCommandCursor):
    """An aggregation's batches of bytes."""


class AgnosticGridOutCursor(Rewinding, AsyncGridOutCursor):
    """The files of a bucket."""

    def _object_of(self, document: Any) -> Any:
        this: Any = self
        return this._file_of(document)


class AgnosticChangeStream(AsyncClosing):
    """A change stream that opens in `async with`, or otherwise at the first wait for a change."""

    def __init__(self, opening: Callable[[], Awaitable[Any]], loop: Callable[[], AbstractEventLoop]) -> None:
        self._opening = opening
        self.delegate: Any = None
        self._is_closed = False
        self._loop = loop

    def get_io_loop(self) -> AbstractEventLoop:
        """Return the event loop of the client."""
        return self._loop()

    async def _opened(self) -> Any:
        if self.delegate is None:
            self.delegate = await self._opening()
        return self.delegate

    @property
    def resume_token(self) -> Any:
        """The token to resume from; None before the stream is open."""
        return None if self.delegate is None else self.delegate.resume_token

    @property
    def alive(self) -> bool:
        """Whether more changes may come."""
        return not self._is_closed and (self.delegate is None or bool(self.delegate.alive))

    async def next(self) -> Any:
        """Wait for the next change and return it; raise StopAsyncIteration when the stream is closed."""
        if self._is_closed:
            raise StopAsyncIteration
        return await (await self._opened()).next()

    async def try_next(self) -> Any:
        """Return the next change, or None if there is none now."""
        return None if self._is_closed else await (await self._opened()).try_next()

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def close(self) -> None:
        """End the stream."""
        self._is_closed = True
        if self.delegate is not None:
            await self.delegate.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self.next()
