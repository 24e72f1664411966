"""The methods of `with` and `async with`, one class for each face."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
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
