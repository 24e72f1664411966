"""What clients, databases and collections inherit from each other: how to decode, where to read, what to confirm."""

from __future__ import annotations

from mangonel import _core
from mangonel.bson.codec_options import CodecOptions
from mangonel.errors import InvalidOperation
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import _ServerMode
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PRIMARY_MODE = 0


class Settings:
    """The four settings, checked; `_codec` is the first of them as the Rust half wants it."""

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
        if not isinstance(codec_options, CodecOptions):
            raise TypeError(f"codec_options must be an instance of CodecOptions, not {type(codec_options)}")
        if not isinstance(read_preference, _ServerMode):
            raise TypeError(f"{read_preference!r} is not a read preference; use one of ReadPreference")
        if not isinstance(write_concern, WriteConcern):
            raise TypeError(f"write_concern must be an instance of WriteConcern, not {type(write_concern)}")
        if not isinstance(read_concern, ReadConcern):
            raise TypeError(f"read_concern must be an instance of ReadConcern, not {type(read_concern)}")
        self._codec_options = codec_options
        self._read_preference = read_preference
        self._write_concern = write_concern
        self._read_concern = read_concern
        self._codec = _core.Codec(codec_options)

    @property
    def codec_options(self) -> CodecOptions[Any]:
        """How documents are decoded and encoded. Read-only; see `with_options`."""
        return self._codec_options

    @property
    def read_preference(self) -> _ServerMode:
        """Which servers reads may go to. Read-only; see `with_options`."""
        return self._read_preference

    @property
    def write_concern(self) -> WriteConcern:
        """How many members confirm a write. Read-only; see `with_options`."""
        return self._write_concern

    @property
    def read_concern(self) -> ReadConcern:
        """Which data a read may return. Read-only; see `with_options`."""
        return self._read_concern


def wire_preference(preference: _ServerMode) -> Mapping[str, Any] | None:
    """Return a read preference as the core wants it: None for the primary, which needs no word."""
    return preference.document if preference._MODE != _PRIMARY_MODE else None


def check_session(session: object) -> None:
    """Refuse explicit sessions, which this version does not have.

    Raises:
        InvalidOperation: `session` is not None. Nothing was sent.
    """
    if session is not None:
        raise InvalidOperation(
            f"expected session=None, found {type(session).__name__}; "
            "explicit sessions and transactions are not part of this version"
        )
