"""How a collection or database builds its operations: settings turned into fields of a command."""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_READ, KIND_RETRYABLE_WRITE, READ_DOCUMENT, REPLIES_NONE, REPLIES_ONE
from mangonel._shared.settings import Settings, check_session, wire_preference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from mangonel._faces.port import Port
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern


class CommandSource(Settings):
    """Builds operations on one database with the settings of its owner."""

    _port: Port
    _database_name: str

    def __iter__(self) -> NoReturn:
        # With `__getitem__` alone, `for` would take sub-collections "0", "1" and so on without end.
        raise TypeError(f"'{type(self).__name__}' object is not iterable")

    def _read_operation(
        self,
        command: dict[str, Any],
        reading: int = READ_DOCUMENT,
        kind: int = KIND_READ,
        *,
        session: Any = None,
        comment: Any = None,
        read_preference: _ServerMode | None = None,
        codec: _core.Codec | None = None,
    ) -> _core.Operation:
        """Build a read. `command` gains the read concern; its first key must be the command's name."""
        if session is not None:
            check_session(session)
        if comment is not None:
            command["comment"] = comment
        if self._read_concern._level is not None and "readConcern" not in command:
            command["readConcern"] = self._read_concern.document
        preference = self._read_preference if read_preference is None else read_preference
        return _core.Operation(
            self._database_name,
            command,
            self._codec if codec is None else codec,
            kind,
            reading,
            REPLIES_ONE,
            wire_preference(preference),
        )

    def _write_operation(
        self,
        command: dict[str, Any],
        reading: int = READ_DOCUMENT,
        kind: int = KIND_RETRYABLE_WRITE,
        *,
        session: Any = None,
        comment: Any = None,
        write_concern: WriteConcern | None = None,
    ) -> _core.Operation:
        """Build a write. `command` gains the write concern; an unacknowledged one is not answered."""
        if session is not None:
            check_session(session)
        if comment is not None:
            command["comment"] = comment
        concern = self._write_concern if write_concern is None else write_concern
        if not concern.is_server_default:
            command["writeConcern"] = concern.document
        replies = REPLIES_ONE if concern.acknowledged else REPLIES_NONE
        return _core.Operation(self._database_name, command, self._codec, kind, reading, replies)
