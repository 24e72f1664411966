"""The public classes: for each noun, the definition joined with a face. No logic lives here.

`api.pyi` is written by `tools/stubs.py`; run `make stubs` after changing a signature.
"""

from __future__ import annotations

from mangonel._core import AsyncCursorBase, BlockingCursor
from mangonel._faces.blocking import BlockingPort
from mangonel._light import Any
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
from mangonel._shared.cursors.iteration import (
    AsyncChanges,
    AsyncIteration,
    BlockingChanges,
    BlockingIteration,
)
from mangonel._shared.cursors.plain_cursor import Joinable
from mangonel._shared.sessions.contexts import (
    AsyncBinding,
    AsyncSession,
    AsyncTransaction,
    BlockingBinding,
    BlockingSession,
    BlockingTransaction,
)
from mangonel._shared.sessions.session import _ClientSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Cursor(BlockingIteration[Any], _Cursor[Any], BlockingCursor, metaclass=Joinable):
    __doc__ = _Cursor.__doc__


@coroutine_functions
class AsyncCursor(AsyncIteration[Any], _Cursor[Any], AsyncCursorBase):
    __doc__ = _Cursor.__doc__


class RawBatchCursor(BlockingIteration[Any], _RawBatchCursor[Any], BlockingCursor):
    __doc__ = _RawBatchCursor.__doc__


@coroutine_functions
class AsyncRawBatchCursor(AsyncIteration[Any], _RawBatchCursor[Any], AsyncCursorBase):
    __doc__ = _RawBatchCursor.__doc__


class CommandCursor(BlockingIteration[Any], _CommandCursor[Any], BlockingCursor):
    __doc__ = _CommandCursor.__doc__


@coroutine_functions
class AsyncCommandCursor(AsyncIteration[Any], _CommandCursor[Any], AsyncCursorBase):
    __doc__ = _CommandCursor.__doc__


class RawBatchCommandCursor(BlockingIteration[Any], _RawBatchCommandCursor[Any], BlockingCursor):
    __doc__ = _RawBatchCommandCursor.__doc__


@coroutine_functions
class AsyncRawBatchCommandCursor(AsyncIteration[Any], _RawBatchCommandCursor[Any], AsyncCursorBase):
    __doc__ = _RawBatchCommandCursor.__doc__


class ChangeStream(BlockingChanges[Any], _ChangeStream[Any]):
    __doc__ = _ChangeStream.__doc__


@coroutine_functions
class AsyncChangeStream(AsyncChanges[Any], _ChangeStream[Any]):
    __doc__ = _ChangeStream.__doc__


class CollectionChangeStream(ChangeStream, _CollectionChangeStream[Any]):
    __doc__ = _CollectionChangeStream.__doc__


@coroutine_functions
class AsyncCollectionChangeStream(AsyncChangeStream, _CollectionChangeStream[Any]):
    __doc__ = _CollectionChangeStream.__doc__


class DatabaseChangeStream(ChangeStream, _DatabaseChangeStream[Any]):
    __doc__ = _DatabaseChangeStream.__doc__


@coroutine_functions
class AsyncDatabaseChangeStream(AsyncChangeStream, _DatabaseChangeStream[Any]):
    __doc__ = _DatabaseChangeStream.__doc__


class ClusterChangeStream(DatabaseChangeStream, _ClusterChangeStream[Any]):
    __doc__ = _ClusterChangeStream.__doc__


@coroutine_functions
class AsyncClusterChangeStream(AsyncDatabaseChangeStream, _ClusterChangeStream[Any]):
    __doc__ = _ClusterChangeStream.__doc__


class Collection(_Collection[Any]):
    __doc__ = _Collection.__doc__
    _cursor_class = Cursor
    _raw_cursor_class = RawBatchCursor
    _command_cursor_class = CommandCursor
    _raw_command_cursor_class = RawBatchCommandCursor
    _change_stream_class = CollectionChangeStream


@coroutine_functions
class AsyncCollection(_Collection[Any]):
    __doc__ = _Collection.__doc__
    _cursor_class = AsyncCursor
    _raw_cursor_class = AsyncRawBatchCursor
    _command_cursor_class = AsyncCommandCursor
    _raw_command_cursor_class = AsyncRawBatchCommandCursor
    _change_stream_class = AsyncCollectionChangeStream


class Database(_Database[Any]):
    __doc__ = _Database.__doc__
    _collection_class = Collection
    _command_cursor_class = CommandCursor
    _change_stream_class = DatabaseChangeStream


@coroutine_functions
class AsyncDatabase(_Database[Any]):
    __doc__ = _Database.__doc__
    _collection_class = AsyncCollection
    _command_cursor_class = AsyncCommandCursor
    _change_stream_class = AsyncDatabaseChangeStream


class ClientSession(BlockingSession, _ClientSession):
    __doc__ = _ClientSession.__doc__
    _binding_class = BlockingBinding
    _transaction_class = BlockingTransaction


@coroutine_functions
class AsyncClientSession(AsyncSession, _ClientSession):
    __doc__ = _ClientSession.__doc__
    _binding_class = AsyncBinding
    _transaction_class = AsyncTransaction


class _AsyncioPort:
    """Stands for the asyncio port until a client needs it: importing asyncio costs more than all the rest."""

    is_async = True

    def __new__(cls, *args: Any) -> Any:
        from mangonel._faces.aio import AioPort

        return AioPort(*args)


class MongoClient(_MongoClient[Any]):
    __doc__ = _MongoClient.__doc__
    _port_class = BlockingPort
    _database_class = Database
    _session_class = ClientSession
    _change_stream_class = ClusterChangeStream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@coroutine_functions
class AsyncMongoClient(_MongoClient[Any]):
    __doc__ = _MongoClient.__doc__
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
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
