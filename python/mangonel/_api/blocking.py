"""The classes of the blocking face except the client: for each noun, the definition joined with the face."""

from __future__ import annotations

from mangonel import _api
from mangonel._core import Binding, BlockingCursor
from mangonel._light import Any, LateClass
from mangonel._shared.client.database import _Database
from mangonel._shared.collection.collection import _Collection
from mangonel._shared.cursors.change_stream import (
    _ChangeStream,
    _ClusterChangeStream,
    _CollectionChangeStream,
    _DatabaseChangeStream,
)
from mangonel._shared.cursors.command_cursor import _CommandCursor, _RawBatchCommandCursor
from mangonel._shared.cursors.find_cursor import _Cursor, _RawBatchCursor
from mangonel._shared.cursors.iteration import BlockingChanges, BlockingIteration
from mangonel._shared.cursors.plain_cursor import CursorMeta
from mangonel._shared.sessions.contexts import BlockingSession, BlockingTransaction
from mangonel._shared.sessions.session import _ClientSession


class Cursor(BlockingIteration[Any], _Cursor[Any], BlockingCursor, metaclass=CursorMeta): ...


class RawBatchCursor(BlockingIteration[Any], _RawBatchCursor[Any], BlockingCursor): ...


class CommandCursor(BlockingIteration[Any], _CommandCursor[Any], BlockingCursor): ...


class RawBatchCommandCursor(BlockingIteration[Any], _RawBatchCommandCursor[Any], BlockingCursor): ...


class ChangeStream(BlockingChanges[Any], _ChangeStream[Any]): ...


class CollectionChangeStream(ChangeStream, _CollectionChangeStream[Any]): ...


class DatabaseChangeStream(ChangeStream, _DatabaseChangeStream[Any]): ...


class ClusterChangeStream(DatabaseChangeStream, _ClusterChangeStream[Any]): ...


class Collection(_Collection[Any]):
    _cursor_class = Cursor
    _raw_cursor_class = RawBatchCursor
    _command_cursor_class = CommandCursor
    _raw_command_cursor_class = RawBatchCommandCursor
    _change_stream_class = CollectionChangeStream
    _partition_class = LateClass("mangonel.api", "Partition")


Collection._plain_class = Collection


class Database(_Database[Any]):
    _collection_class = Collection
    _command_cursor_class = CommandCursor
    _change_stream_class = DatabaseChangeStream


Database._plain_class = Database


class ClientSession(BlockingSession, _ClientSession):
    _binding_class = Binding
    _transaction_class = BlockingTransaction


_api.publish(vars(), "mangonel.api")
