"""`motor.motor_tornado`: Motor's names for Tornado, whose loop is asyncio's."""

from __future__ import annotations

from typing import Any

from mangonel.compat import _motor, _motor_cursors


class MotorChangeStream(_motor_cursors.AgnosticChangeStream): ...


class MotorCursor(_motor_cursors.AgnosticCursor): ...


class MotorCommandCursor(_motor_cursors.AgnosticCommandCursor): ...


MotorLatentCommandCursor = MotorCommandCursor


class MotorClientSession(_motor.AgnosticClientSession): ...


class MotorCollection(_motor.AgnosticCollection):
    _cursor_class: type[Any] = MotorCursor
    _command_cursor_class: type[Any] = MotorCommandCursor
    _stream_class: type[Any] = MotorChangeStream


class MotorDatabase(_motor.AgnosticDatabase):
    _collection_class: type[Any] = MotorCollection
    _command_cursor_class: type[Any] = MotorCommandCursor
    _stream_class: type[Any] = MotorChangeStream


class MotorClient(_motor.AgnosticClient):
    _database_class: type[Any] = MotorDatabase
    _session_class: type[Any] = MotorClientSession
    _stream_class: type[Any] = MotorChangeStream

    def get_io_loop(self) -> Any:
        """Return the `tornado.ioloop.IOLoop` that the client was created with, or the current one."""
        from tornado.ioloop import IOLoop

        return self._io_loop if self._io_loop is not None else IOLoop.current()


class MotorGridIn(_motor.AgnosticGridIn): ...


class MotorGridOut(_motor.AgnosticGridOut): ...


class MotorGridOutCursor(_motor_cursors.AgnosticGridOutCursor):
    _file_class = MotorGridOut


class MotorGridFSBucket(_motor.AgnosticGridFSBucket):
    _in_class: type[Any] = MotorGridIn
    _out_class: type[Any] = MotorGridOut
    _cursor_class: type[Any] = MotorGridOutCursor
