"""The classes of the asyncio face: for each noun, the definition joined with the face. No logic lives here."""

from __future__ import annotations

from mangonel import _api
from mangonel._core import AsyncCursorBase
from mangonel._light import Any, LateClass
from mangonel._shared.client.client import _MongoClient
from mangonel._shared.client.database import _Database
from mangonel._shared.collection.collection import _Collection
from mangonel._shared.coroutine_functions import coroutine_functions
from mangonel._shared.cursors.change_stream import (
    _ChangeStream,
    _ClusterChangeStream,
    _CollectionChangeStream,
    _DatabaseChangeStream,
)
from mangonel._shared.cursors.command_cursor import _CommandCursor, _RawBatchCommandCursor
from mangonel._shared.cursors.find_cursor import _Cursor, _RawBatchCursor
from mangonel._shared.cursors.iteration import AsyncChanges, AsyncIteration
from mangonel._shared.sessions.contexts import AsyncBinding, AsyncSession, AsyncTransaction
from mangonel._shared.sessions.session import _ClientSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


@coroutine_functions
class AsyncCursor(AsyncIteration[Any], _Cursor[Any], AsyncCursorBase): ...


@coroutine_functions
class AsyncRawBatchCursor(AsyncIteration[Any], _RawBatchCursor[Any], AsyncCursorBase): ...


@coroutine_functions
class AsyncCommandCursor(AsyncIteration[Any], _CommandCursor[Any], AsyncCursorBase): ...


@coroutine_functions
class AsyncRawBatchCommandCursor(AsyncIteration[Any], _RawBatchCommandCursor[Any], AsyncCursorBase): ...


@coroutine_functions
class AsyncChangeStream(AsyncChanges[Any], _ChangeStream[Any]): ...


@coroutine_functions
class AsyncCollectionChangeStream(AsyncChangeStream, _CollectionChangeStream[Any]): ...


@coroutine_functions
class AsyncDatabaseChangeStream(AsyncChangeStream, _DatabaseChangeStream[Any]): ...


@coroutine_functions
class AsyncClusterChangeStream(AsyncDatabaseChangeStream, _ClusterChangeStream[Any]): ...


@coroutine_functions
class AsyncCollection(_Collection[Any]):
    _cursor_class = AsyncCursor
    _raw_cursor_class = AsyncRawBatchCursor
    _command_cursor_class = AsyncCommandCursor
    _raw_command_cursor_class = AsyncRawBatchCommandCursor
    _change_stream_class = AsyncCollectionChangeStream
    _partition_class = LateClass("mangonel.api", "AsyncPartition")


AsyncCollection._plain_class = AsyncCollection


@coroutine_functions
class AsyncDatabase(_Database[Any]):
    _collection_class = AsyncCollection
    _command_cursor_class = AsyncCommandCursor
    _change_stream_class = AsyncDatabaseChangeStream


AsyncDatabase._plain_class = AsyncDatabase


@coroutine_functions
class AsyncClientSession(AsyncSession, _ClientSession):
    _binding_class = AsyncBinding
    _transaction_class = AsyncTransaction


class _AsyncioPort:
    """Stands for the asyncio port until a client needs it: importing asyncio costs more than all the rest."""

    is_async = True

    def __new__(cls, *args: Any) -> Any:
        from mangonel._faces.aio import AioPort

        return AioPort(*args)


@coroutine_functions
class AsyncMongoClient(_MongoClient[Any]):
    _port_class = _AsyncioPort
    _database_class = AsyncDatabase
    _session_class = AsyncClientSession
    _change_stream_class = AsyncClusterChangeStream

    async def aconnect(self) -> None:
        """Open a connection now, so that a server that cannot be reached is noticed at once.

        Raises:
            ServerSelectionTimeoutError: no server answered in time.

        Example:
            >>> await client.aconnect()
        """
        await self._connect_flow()

    async def aclose(self) -> None:
        """Close every connection; the same as `close`."""
        await self.close()  # type: ignore[misc]  # a coroutine on this face

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()  # type: ignore[misc]  # a coroutine on this face


_api.publish(vars(), "mangonel.api")
