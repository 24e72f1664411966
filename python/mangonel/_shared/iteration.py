"""What only one face has: the dunder methods of `for` and `with`, and of `async for` and `async with`."""

from __future__ import annotations

from typing import Any, Self


class BlockingIteration:
    """`with` and `next()` for a blocking cursor; its `__next__` is in Rust."""

    def next(self) -> Any:
        """Return the next document.

        Raises:
            StopIteration: there is none; a tailable cursor may be asked again later.
        """
        return next(self)  # type: ignore[call-overload]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()  # type: ignore[attr-defined]


class AsyncIteration:
    """`async with` and `next()` for an asyncio cursor; its `__anext__` is in Rust."""

    async def next(self) -> Any:
        """Return the next document.

        Raises:
            StopAsyncIteration: there is none; a tailable cursor may be asked again later.
        """
        return await self.__anext__()  # type: ignore[attr-defined]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()  # type: ignore[attr-defined]
