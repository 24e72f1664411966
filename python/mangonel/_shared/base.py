"""Builds the operations of a collection or database: settings become fields of a command."""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_READ, READ_DOCUMENT, REPLIES_NONE, REPLIES_ONE
from mangonel._shared.of_this_process import OfThisProcess
from mangonel._shared.operation import PRIMARY_MODE, build_operation
from mangonel._shared.settings import (
    BOUND,
    Settings,
    preference_in,
    session_handle,
    session_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Self, TypeAlias

    from mangonel._faces.port import Port
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern

    # The fields of a collection that frequent operations need, in one tuple, since attribute access is slow in a class
    # with `__getattr__`: port, database's name, name, codec, whether reads add no fields to the command, write concern,
    # class of cursors.
    CollectionContext: TypeAlias = tuple[Port, str, str, _core.Codec, bool, WriteConcern, type[Any]]


class CommandSource(OfThisProcess, Settings):
    """Builds operations on one database with its owner's settings."""

    _port: Port
    _database_name: str
    # With `__getitem__` alone, `for` would return sub-collections "0", "1" and so on without end.
    __iter__ = None

    def __next__(self) -> NoReturn:
        raise TypeError(f"'{type(self).__name__}' object is not iterable")

    def next(self) -> NoReturn:
        """Raise TypeError: this is not a cursor. Use `database["next"]` for a collection with this name."""
        self.__next__()

    def _limited(self, timeout_ms: float | None) -> Self:
        """Return a copy with this time limit for a single call, or the object itself without a limit.

        Frequent operations check for None themselves, which saves a frame.
        """
        if timeout_ms is None:
            return self
        from mangonel._faces.limited import limited

        return self._on(limited(self._port, timeout_ms, is_call=True))

    def _limited_cursor(self, timeout_ms: float | None, timeout_mode: str | None) -> Self:
        """Return a copy with this time limit for a single call that opens a cursor."""
        from mangonel._faces.limited import limited_cursor

        return self._on(limited_cursor(self._port, timeout_ms, timeout_mode))

    def __copy__(self) -> Self:
        return self._on(self._port)

    def _on(self, port: Any) -> Self:
        made: Self = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._port = port
        return made

    def _operation(
        self,
        command: dict[str, Any],
        *,
        kind: int,
        reading: int = READ_DOCUMENT,
        session: _ClientSession | None = None,
        read_preference: _ServerMode | None = None,
        is_acknowledged: bool = True,
        codec: _core.Codec | None = None,
        database: str | None = None,
    ) -> _core.Operation:
        """Build an operation on this database from a complete command; see `build_operation`."""
        return build_operation(
            command,
            database=self._database_name if database is None else database,
            codec=self._codec if codec is None else codec,
            kind=kind,
            reading=reading,
            replies=REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            read_preference=read_preference,
            session=session_handle(session),
        )

    def _read_operation(
        self,
        command: dict[str, Any],
        reading: int,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        read_preference: _ServerMode | None = None,
        codec: _core.Codec | None = None,
        answer: Callable[..., Any] | None = None,
    ) -> _core.Operation:
        """Build a read. Adds the read concern to `command`; its first key must be the command's name."""
        if comment is not None:
            command["comment"] = comment
        preference = self._read_preference if read_preference is None else read_preference
        has_concern = self._read_concern._level is not None and "readConcern" not in command
        handle: _core.Session | None = None
        if session is not None or BOUND:
            session = session_of(self._port, session)
            if session is not None:
                handle = session._handle
                is_in_transaction = handle.in_transaction
                if is_in_transaction or read_preference is not None:
                    preference = preference_in(session, self._read_preference, read_preference)
                # A transaction has one read concern for all its operations.
                has_concern = has_concern and not is_in_transaction
        if has_concern:
            command["readConcern"] = self._read_concern.document
        return _core.Operation(
            self._database_name,
            command,
            self._codec if codec is None else codec,
            KIND_READ,
            reading,
            read_preference=None if preference._MODE == PRIMARY_MODE else preference.document,
            session=handle,
            answer=answer,
        )

    def _add_read_concern(self, command: dict[str, Any], session: _ClientSession | None) -> None:
        """Add the read concern, except in a transaction, which has its own read concern."""
        if session is not None and session._handle.in_transaction:
            return
        if self._read_concern._level is not None and "readConcern" not in command:
            command["readConcern"] = self._read_concern.document
