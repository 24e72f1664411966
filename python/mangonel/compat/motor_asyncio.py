"""`motor.motor_asyncio`: Motor's names on asyncio."""

from __future__ import annotations

from typing import Any

from mangonel.compat import _motor, _motor_cursors


class AsyncIOMotorChangeStream(_motor_cursors.AgnosticChangeStream):
    __doc__ = _motor_cursors.AgnosticChangeStream.__doc__


class AsyncIOMotorCursor(_motor_cursors.AgnosticCursor):
    __doc__ = _motor_cursors.AgnosticCursor.__doc__


class AsyncIOMotorCommandCursor(_motor_cursors.AgnosticCommandCursor):
    __doc__ = _motor_cursors.AgnosticCommandCursor.__doc__


AsyncIOMotorLatentCommandCursor = AsyncIOMotorCommandCursor


class AsyncIOMotorClientSession(_motor.AgnosticClientSession):
    __doc__ = _motor.AgnosticClientSession.__doc__


class AsyncIOMotorCollection(_motor.AgnosticCollection):
    __doc__ = _motor.AgnosticCollection.__doc__
    _cursor_class: type[Any] = AsyncIOMotorCursor
    _command_cursor_class: type[Any] = AsyncIOMotorCommandCursor
    _stream_class: type[Any] = AsyncIOMotorChangeStream


class AsyncIOMotorDatabase(_motor.AgnosticDatabase):
    __doc__ = _motor.AgnosticDatabase.__doc__
    _collection_class: type[Any] = AsyncIOMotorCollection
    _command_cursor_class: type[Any] = AsyncIOMotorCommandCursor
    _stream_class: type[Any] = AsyncIOMotorChangeStream


class AsyncIOMotorClient(_motor.AgnosticClient):
    __doc__ = _motor.AgnosticClient.__doc__
    _database_class: type[Any] = AsyncIOMotorDatabase
    _session_class: type[Any] = AsyncIOMotorClientSession
    _stream_class: type[Any] = AsyncIOMotorChangeStream


class AsyncIOMotorGridIn(_motor.AgnosticGridIn):
    __doc__ = _motor.AgnosticGridIn.__doc__


class AsyncIOMotorGridOut(_motor.AgnosticGridOut):
    __doc__ = _motor.AgnosticGridOut.__doc__


class AsyncIOMotorGridOutCursor(_motor_cursors.AgnosticGridOutCursor):
    __doc__ = _motor_cursors.AgnosticGridOutCursor.__doc__
    _file_class = AsyncIOMotorGridOut


class AsyncIOMotorGridFSBucket(_motor.AgnosticGridFSBucket):
    __doc__ = _motor.AgnosticGridFSBucket.__doc__
    _in_class: type[Any] = AsyncIOMotorGridIn
    _out_class: type[Any] = AsyncIOMotorGridOut
    _cursor_class: type[Any] = AsyncIOMotorGridOutCursor
