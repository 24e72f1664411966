"""GridFS methods that only one face has: for `for` and `with`, or for `async for` and `async with`."""

from __future__ import annotations

import io

from mangonel._light import Any
from mangonel._shared.cursors.iteration import AsyncClosing, AsyncIteration, BlockingIteration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


class BlockingReading(io.IOBase):
    """A stored file that behaves like Python's file objects: lines, `with`, `io.IOBase`."""

    if TYPE_CHECKING:
        _alone_flow: Any
        _read_line_flow: Any
        _port: Any

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        line: bytes = self._port.flow(self._alone_flow(self._read_line_flow))
        if line:
            return line
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _mark_closed(self) -> None:
        # This only marks the object as closed: `io.IOBase.close` calls nothing but `flush`, which does nothing here.
        io.IOBase.close(self)

    def __del__(self) -> None:
        # Overrides that of `io.IOBase`, which closes the file: closing may send a command.
        return


class AsyncReading(AsyncClosing):
    """A stored file on asyncio, with `async for` over its lines and `async with`."""

    closed: bool = False

    if TYPE_CHECKING:
        _alone_flow: Any
        _read_line_flow: Any

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line: bytes = await self._alone_flow(self._read_line_flow)
        if line:
            return line
        raise StopAsyncIteration

    async def to_list(self) -> list[bytes]:
        """Return the remaining lines.

        Example:
            >>> await source.to_list()
            [b'first line\\n', b'second line']
        """
        return [line async for line in self]

    def _mark_closed(self) -> None:
        self.closed = True


class BlockingWriting:
    """`with` for a new file: closes it on success, aborts it on an exception."""

    if TYPE_CHECKING:
        _port: Any
        _leave_flow: Any
        close: Callable[[], Any]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if kind is None:
            self.close()
        else:
            self._port.flow(self._leave_flow(*exc_info[:1]))


class AsyncWriting:
    """`async with` for a new file: closes it on success, aborts it on an exception."""

    if TYPE_CHECKING:
        _leave_flow: Any
        close: Callable[[], Any]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *exc_info: object) -> None:
        if kind is None:
            await self.close()
        else:
            await self._leave_flow(*exc_info[:1])


class BlockingFiles(BlockingIteration[Any]):
    """Returns open files where the underlying cursor returns file documents."""

    if TYPE_CHECKING:
        _file_of: Callable[[Any], Any]

    def __next__(self) -> Any:
        return self._file_of(super().__next__())


class AsyncFiles(AsyncIteration[Any]):
    """Returns open files where the underlying cursor returns file documents."""

    if TYPE_CHECKING:
        _file_of: Callable[[Any], Any]

    async def __anext__(self) -> Any:
        return self._file_of(await super().__anext__())
