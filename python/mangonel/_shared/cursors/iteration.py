"""Methods that only one face has: for `for` and `with`, or for `async for` and `async with`."""

from __future__ import annotations

from mangonel._light import Generic
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, Self


class BlockingClosing:
    """Closes at the end of a `with` block."""

    if TYPE_CHECKING:
        close: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsyncClosing:
    """Closes at the end of an `async with` block."""

    if TYPE_CHECKING:
        close: Any

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


class BlockingIteration(BlockingClosing, Generic[_DocumentType]):
    """`with` and `next()` for a blocking cursor; its `__next__` is in Rust."""

    if TYPE_CHECKING:

        def __next__(self) -> _DocumentType: ...
        def close(self, *, timeout_ms: float | None = None) -> None: ...

    def next(self) -> _DocumentType:
        """Return the next document.

        Raises:
            StopIteration: there is no document; a tailable cursor may have more later.
        """
        return next(self)


class AsyncIteration(AsyncClosing, Generic[_DocumentType]):
    """`async with` and `next()` for an asyncio cursor; its `__anext__` is in Rust."""

    if TYPE_CHECKING:

        def __anext__(self) -> Awaitable[_DocumentType]: ...
        def close(self, *, timeout_ms: float | None = None) -> Awaitable[None]: ...

    # Otherwise `for` would call `__getitem__`, whose IndexError ends the loop before its first round.
    __iter__ = None

    async def next(self) -> _DocumentType:
        """Return the next document.

        Raises:
            StopAsyncIteration: there is no document; a tailable cursor may have more later.
        """
        return await self.__anext__()


class BlockingChanges(BlockingClosing, Generic[_DocumentType]):
    """`for`, `with` and `next()` for a blocking change stream."""

    if TYPE_CHECKING:
        _pop: Any
        _port: Any
        _next_or_end_flow: Any

        def close(self, *, timeout_ms: float | None = None) -> None: ...

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _DocumentType:
        change = self._pop()
        if change is None:
            change = self._port.flow(self._next_or_end_flow())
            if change is None:
                raise StopIteration
        return change

    def next(self) -> _DocumentType:
        """Wait for the next change and return it.

        Raises:
            StopIteration: the stream is closed.
        """
        return self.__next__()


class AsyncChanges(AsyncClosing, Generic[_DocumentType]):
    """`async for`, `async with` and `next()` for an asyncio change stream."""

    if TYPE_CHECKING:
        _pop: Any
        _port: Any
        _next_or_end_flow: Any

        def close(self, *, timeout_ms: float | None = None) -> Awaitable[None]: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _DocumentType:
        change = self._pop()
        if change is None:
            change = await self._port.flow(self._next_or_end_flow())
            if change is None:
                raise StopAsyncIteration
        return change

    async def next(self) -> _DocumentType:
        """Wait for the next change and return it.

        Raises:
            StopAsyncIteration: the stream is closed.
        """
        return await self.__anext__()
