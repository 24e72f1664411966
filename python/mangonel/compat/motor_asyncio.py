"""`motor.motor_asyncio`: Motor's names on asyncio."""

from __future__ import annotations

from typing import Any

from mangonel.compat import _motor, _motor_cursors


class AsyncIOMotorChangeStream(_motor_cursors.AgnosticChangeStream): ...


class AsyncIOMotorCursor(_motor_cursors.AgnosticCursor): ...


class AsyncIOMotorCommandCursor(_motor_cursors.AgnosticCommandCursor): ...


AsyncIOMotorLatentCommandCursor = AsyncIOMotorCommandCursor


class AsyncIOMotorClientSession(_motor.AgnosticClientSession): ...


class AsyncIOMotorCollection(_motor.AgnosticCollection):
    _cursor_class: type[Any] = AsyncIOMotorCursor
    _command_cursor_class: type[Any] = AsyncIOMotorCommandCursor
    _stream_class: type[Any] = AsyncIOMotorChangeStream


class AsyncIOMotorDatabase(_motor.AgnosticDatabase):
    _collection_class: type[Any] = AsyncIOMotorCollection
    _command_cursor_class: type[Any] = AsyncIOMotorCommandCursor
    _stream_class: type[Any] = AsyncIOMotorChangeStream


class AsyncIOMotorClient(_motor.AgnosticClient):
    _database_class: type[Any] = AsyncIOMotorDatabase
    _session_class: type[Any] = AsyncIOMotorClientSession
    _stream_class: type[Any] = AsyncIOMotorChangeStream


class AsyncIOMotorGridIn(_motor.AgnosticGridIn): ...


class AsyncIOMotorGridOut(_motor.AgnosticGridOut): ...


class AsyncIOMotorGridOutCursor(_motor_cursors.AgnosticGridOutCursor):
    _file_class = AsyncIOMotorGridOut


class AsyncIOMotorGridFSBucket(_motor.AgnosticGridFSBucket):
    _in_class: type[Any] = AsyncIOMotorGridIn
    _out_class: type[Any] = AsyncIOMotorGridOut
    _cursor_class: type[Any] = AsyncIOMotorGridOutCursor
