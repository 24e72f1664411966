"""What only one face has: the dunder methods of `for` and `with`, and of `async for` and `async with`."""

from __future__ import annotations

from mangonel._light import Generic
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Self


class BlockingIteration(Generic[_DocumentType]):
    """`with` and `next()` for a blocking cursor; its `__next__` is in Rust."""

    if TYPE_CHECKING:

        def __next__(self) -> _DocumentType: ...
        def close(self) -> None: ...

    def next(self) -> _DocumentType:
        """Return the next document.

        Raises:
            StopIteration: there is none; a tailable cursor may be asked again later.
        """
        return next(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsyncIteration(Generic[_DocumentType]):
    """`async with` and `next()` for an asyncio cursor; its `__anext__` is in Rust."""

    if TYPE_CHECKING:

        def __anext__(self) -> Awaitable[_DocumentType]: ...
        def close(self) -> Awaitable[None]: ...

    async def next(self) -> _DocumentType:
        """Return the next document.

        Raises:
            StopAsyncIteration: there is none; a tailable cursor may be asked again later.
        """
        return await self.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
