"""Session methods that only one face has: those of `with` or of `async with`."""

from __future__ import annotations

from mangonel import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator
    from typing import Any, NoReturn, Self

    from mangonel._shared.sessions.session import _ClientSession


class BlockingSession:
    """`with` for a blocking session."""

    if TYPE_CHECKING:
        _handle: _core.Session

        def end_session(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._handle.end_idle():
            self.end_session()


class AsyncSession:
    """`async with` for an asyncio session."""

    if TYPE_CHECKING:
        _handle: _core.Session

        def end_session(self) -> Awaitable[None]: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._handle.end_idle():
            await self.end_session()


class BlockingTransaction(_core.Transaction):
    """Commits at the end of its block, or aborts after an exception; does nothing if the transaction has ended."""

    __slots__ = ()


class AsyncTransaction:
    """Commits at the end of its block, or aborts after an exception; does nothing if the transaction has ended.

    It may be awaited first: `async with await session.start_transaction()` is the same as without `await`.
    """

    def __init__(self, session: _ClientSession) -> None:
        self._session = session

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    # With these methods `create_task` accepts the object as a coroutine, which PyMongo returns.

    def send(self, value: None) -> NoReturn:
        """End the coroutine: the transaction has already begun."""
        raise StopIteration(self)

    def throw(self, kind: Any, error: Any = None, trace: Any = None) -> NoReturn:
        """Raise the given exception."""
        raise kind

    def close(self) -> None:
        """Do nothing: there is nothing to wait for."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        session = self._session
        if session.in_transaction:
            ended: Any = session.commit_transaction() if error is None else session.abort_transaction()
            await ended


class AsyncBinding:
    """`async with` for a bound session."""

    def __init__(
        self, session: _ClientSession, variable: Any, blocks: list[None], ends_session: bool
    ) -> None:
        self._session = session
        self._ends_session = ends_session
        self._block = _core.Binding(session, variable, blocks, False)

    async def __aenter__(self) -> Any:
        return self._block.__enter__()

    async def __aexit__(self, *exc_info: object) -> None:
        self._block.__exit__()
        if self._ends_session:
            ended: Any = self._session._port.flow(self._session._end_flow())
            await ended
