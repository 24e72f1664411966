"""Settings that databases and collections inherit: codec options, read preference, write concern, read concern."""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect_instance
from mangonel._shared.operation import PRIMARY_MODE
from mangonel.bson.codec_options import CodecOptions
from mangonel.errors import (
    ConfigurationError,
    InvalidOperation,
    NotPrimaryError,
    command_error,
    is_allowable,
)
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import _ServerMode
from mangonel.write_concern import DEFAULT_WRITE_CONCERN, WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from typing import Any

    from mangonel._faces.port import Port
    from mangonel._shared.sessions.session import _ClientSession


class Settings:
    """The four settings, checked; `_codec` is the codec options in the core's form."""

    _codec_options: CodecOptions[Any]
    _read_preference: _ServerMode
    _write_concern: WriteConcern
    _read_concern: ReadConcern
    _codec: _core.Codec

    def _take_settings(
        self,
        codec_options: CodecOptions[Any],
        read_preference: _ServerMode,
        write_concern: WriteConcern,
        read_concern: ReadConcern,
    ) -> None:
        expect_instance("codec_options", codec_options, CodecOptions)
        if not isinstance(read_preference, _ServerMode):
            raise TypeError(f"{read_preference!r} is not a read preference; use one of ReadPreference")
        expect_instance("write_concern", write_concern, WriteConcern)
        expect_instance("read_concern", read_concern, ReadConcern)
        self._codec_options = codec_options
        self._read_preference = read_preference
        self._write_concern = write_concern
        self._read_concern = read_concern
        self._codec = _core.Codec(codec_options)

    def _derive_settings(
        self,
        owner: Any,
        codec_options: CodecOptions[Any] | None,
        read_preference: _ServerMode | None,
        write_concern: WriteConcern | None,
        read_concern: ReadConcern | None,
    ) -> None:
        """Use the given settings, and the owner's for the others.

        A stand-in for a client, as in tests and in-memory databases, has only the public attributes.
        """
        if not isinstance(owner, Settings):
            self._take_settings(
                codec_options or owner.codec_options,
                read_preference or owner.read_preference,
                write_concern or owner.write_concern,
                read_concern or owner.read_concern,
            )
            return
        # The owner's settings were checked.
        self._codec_options, self._codec = owner._codec_options, owner._codec
        self._read_preference = owner._read_preference
        self._write_concern = owner._write_concern
        self._read_concern = owner._read_concern
        self._change_settings(codec_options, read_preference, write_concern, read_concern)

    def _change_settings(
        self,
        codec_options: CodecOptions[Any] | None,
        read_preference: _ServerMode | None,
        write_concern: WriteConcern | None,
        read_concern: ReadConcern | None,
    ) -> bool:
        """Set the given settings, and keep the others; return whether one changed."""
        is_changed = False
        if codec_options and codec_options is not self._codec_options:
            expect_instance("codec_options", codec_options, CodecOptions)
            self._codec_options, self._codec = codec_options, _core.Codec(codec_options)
            is_changed = True
        if read_preference and read_preference is not self._read_preference:
            if not isinstance(read_preference, _ServerMode):
                raise TypeError(f"{read_preference!r} is not a read preference; use one of ReadPreference")
            self._read_preference = read_preference
            is_changed = True
        if write_concern and write_concern is not self._write_concern:
            expect_instance("write_concern", write_concern, WriteConcern)
            self._write_concern = write_concern
            is_changed = True
        if read_concern and read_concern is not self._read_concern:
            expect_instance("read_concern", read_concern, ReadConcern)
            self._read_concern = read_concern
            is_changed = True
        return is_changed

    @property
    def codec_options(self) -> CodecOptions[Any]:
        """How documents are decoded and encoded. Read-only; see `with_options`."""
        return self._codec_options

    @property
    def read_preference(self) -> _ServerMode:
        """The read preference of reads. Read-only; see `with_options`."""
        return self._read_preference

    @property
    def write_concern(self) -> WriteConcern:
        """How many members confirm a write. Read-only; see `with_options`."""
        return self._write_concern

    @property
    def read_concern(self) -> ReadConcern:
        """Which data a read may return. Read-only; see `with_options`."""
        return self._read_concern


def port_of(owner: Any, name: str) -> Any:
    """Return the port of a client or database; for a stand-in, such as an in-memory client, one that sends nothing.

    Raises:
        TypeError: `owner` is neither a client or database nor a stand-in for one.
    """
    if isinstance(owner, Settings):
        return owner._port  # type: ignore[attr-defined]  # of clients and databases
    if not any(base.__name__.removeprefix("Async") == name for base in type(owner).__mro__):
        raise TypeError(f"{name} required but given {type(owner).__name__}")
    from mangonel._faces.stand_in import StandInPort

    return StandInPort()


# One entry for each open `bind()` in the process. Without any, no call looks for a bound session, so programs that do
# not use it do not pay for it.
BOUND: list[None] = []


def session_of(port: Port, session: _ClientSession | None) -> _ClientSession | None:
    """Return the session of a call: the given one, or the bound one, or None.

    Raises:
        ValueError, InvalidOperation: the session is of another type or client, or has ended. Nothing was sent.
    """
    if session is None:
        if not BOUND:
            return None
        from mangonel._shared.sessions.session import bound_session

        session = bound_session()
        if session is None:
            return None
        if session._port is not port and session._port is not getattr(port, "home", None):
            raise InvalidOperation(
                "Only the client that created the bound session can perform operations within its context block"
            )
    elif type(getattr(session, "_handle", None)) is not _core.Session:
        name = "an AsyncClientSession" if port.is_async else "a ClientSession"
        raise ValueError(f"'session' argument must be {name} or None, not {type(session)}")
    # A port on top of the client's accepts its sessions.
    if session._port is not port and session._port is not getattr(port, "home", None):
        raise InvalidOperation(
            f"Can only use session with the {type(session.client).__name__} that started it"
        )
    if session._keeps_limit and session._port is not port and getattr(port, "is_call", False):
        raise ConfigurationError(
            "expected no timeout_ms in the callback of with_transaction, whose limit is for all of its operations, got "
            f"{port.limit * 1000:g}; pass it to with_transaction"  # type: ignore[operator]
        )
    if session._handle.has_ended:
        session._check_ended()
    return session


def session_handle(session: _ClientSession | None) -> _core.Session | None:
    """Return the core's handle of a session."""
    return None if session is None else session._handle


def concern_in(session: _ClientSession | None, own: WriteConcern) -> WriteConcern:
    """Return the write concern of a write in `session`: none in a transaction, since its commit has the concern.

    Raises:
        ConfigurationError: the write would be unacknowledged. Nothing was sent.
    """
    if session is None:
        return own
    if session._handle.in_transaction:
        return DEFAULT_WRITE_CONCERN
    if not own._acknowledged:
        raise ConfigurationError(
            f"Explicit sessions are incompatible with unacknowledged write concern: {own!r}"
        )
    return own


def write_in(
    port: Port, session: _ClientSession | None, own: WriteConcern
) -> tuple[_core.Session | None, WriteConcern]:
    """Return the core's handle of a write's session, and its write concern; see `session_of` and `concern_in`."""
    handle = getattr(session, "_handle", None)
    # Usually the session is in a transaction and of the same port: nothing else has to be checked.
    if type(handle) is _core.Session and session._port is port and handle.in_transaction:  # type: ignore[union-attr]
        return handle, DEFAULT_WRITE_CONCERN
    session = session_of(port, session)
    return session_handle(session), concern_in(session, own)


def check_reply(
    reply: Mapping[str, Any], session: _ClientSession | None, allowable_errors: Container[str | int]
) -> None:
    """Raise the error of a failed reply, unless the caller allows it.

    The core does the same for replies that it reads: after a "not primary" error in a transaction, the transaction may
    run again.
    """
    if reply.get("ok") or is_allowable(reply, allowable_errors):
        return
    error = command_error(reply)
    if session is not None and session._handle.in_transaction and isinstance(error, NotPrimaryError):
        error._add_error_label("TransientTransactionError")
    raise error


def preference_in(
    session: _ClientSession | None, own: _ServerMode, asked: _ServerMode | None = None
) -> _ServerMode:
    """Return the read preference of a read in `session`: a transaction has one preference for all reads.

    Args:
        own: the preference of the collection or database.
        asked: the preference of the call itself, or None.

    Raises:
        TypeError: the call's own value is not a read preference.
        InvalidOperation: in a transaction, the preference is not primary. Nothing was sent.
    """
    if asked is not None and not isinstance(asked, _ServerMode):
        raise TypeError(f"{asked!r} is not a read preference; use one of ReadPreference")
    if session is None or not session._handle.in_transaction:
        return own if asked is None else asked
    preference = session._transaction_preference if asked is None else asked
    if preference._MODE != PRIMARY_MODE:
        raise InvalidOperation(f"read preference in a transaction must be primary, not: {preference!r}")
    return preference
