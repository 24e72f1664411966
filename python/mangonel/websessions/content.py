"""Encodes and decodes the values of a websession, with its model, internal values and limits.

Waits for nothing and knows no store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.websessions.errors import EncodeError, SessionTooLarge, UsageError, WebSessionError
from mangonel.websessions.merge import RESERVED, adding, merged

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.record import Record
    from mangonel.websessions.session import WebSession

__all__ = ["adopt", "encoded", "extra_of", "fill", "largest_key", "merge"]


def encoded(session: WebSession[Any]) -> bytes:
    """Return the values in their stored form.

    Raises:
        EncodeError: the codec cannot store a value; it names the key.
        SessionTooLarge: the values exceed `max_bytes`.
        UsageError: with a model, a plain value was set, which would not be stored; it names the keys.
    """
    state = session.state
    sessions = state.sessions
    codec = sessions.codec
    extra = state.extra
    value: Any = session
    try:
        if sessions.model is not None:
            if dict.__len__(session):
                raise UsageError(
                    f"expected values in session.data, a {_name_of(sessions.model)}, got plain ones that would not be "
                    f"stored: {', '.join(map(repr, dict.keys(session)))}; set them as session.data.name = value"
                )
            if state.model is None and not extra:
                return sessions.blank
            typed = state.model if state.model is not None else sessions.model()
            value = sessions.to_builtins(typed) if extra else sessions.encodable(typed)
        elif dict.__contains__(session, RESERVED):
            raise EncodeError(f"the key {RESERVED!r} is taken; name yours otherwise")
        if extra:
            value = dict(dict.items(value)) | {RESERVED: extra}
        found = codec.encode(value)
    except WebSessionError:
        raise
    except Exception as error:
        raise codec.blame(value if isinstance(value, dict) else {}, error) from error
    # A websession stored under an older limit may stay, and shrink.
    if len(found) > sessions.max_bytes and len(found) > len(state.base):
        raise SessionTooLarge(
            f"the websession takes {len(found)} bytes, the limit is {sessions.max_bytes}; "
            f"the largest part is {largest_key(sessions, found)!r}"
        )
    return found


def fill(session: WebSession[Any], plain: bytes, value: dict[str, Any]) -> None:
    """Take over the values decoded from `plain`; if a model's validators raise, nothing changes."""
    state = session.state
    extra = value.pop(RESERVED, None)
    if state.sessions.model is not None:
        state.model = state.sessions.from_builtins(value)
    state.base = plain
    state.extra = extra if type(extra) is dict else None
    if state.sessions.model is None:
        if dict.__len__(session):
            dict.clear(session)
        dict.update(session, value)


def adopt(session: WebSession[Any], record: Record) -> bool:
    """Take over a record's content; return False if it cannot be read."""
    state = session.state
    sessions = state.sessions
    try:
        plain = record.data if sessions.ring is None else sessions.unsealed(record)
    except ValueError:
        sessions.emit("rejected", record.sid.hex(), reason="sealed")
        return False
    try:
        value = sessions.codec.raw_decode(plain)
        if type(value) is not dict:
            raise ValueError("not a mapping")
        fill(session, plain, value)
    except Exception:  # a model's validators raise any class
        sessions.emit("rejected", record.sid.hex(), reason="corrupt")
        return False
    state.record = record
    state.user = record.user
    state.label = record.label
    return True


def extra_of(sessions: CheckedSettings[Any], record: Record) -> dict[str, Any]:
    """Return the package's own values in a record; empty if no key here opens it, as on the command line."""
    try:
        extra = sessions.codec.decode(sessions.unsealed(record)).get(RESERVED)
    except ValueError:
        return {}
    return extra if isinstance(extra, dict) else {}


def merge(session: WebSession[Any], current: Record, only: tuple[str, ...] | None = None) -> bytes:
    """Merge others' stored changes into the websession; return it encoded.

    Args:
        current: the record stored now.
        only: the keys of theirs to merge. None: all.
    """
    state = session.state
    sessions = state.sessions
    decode, encode = sessions.codec.decode, sessions.codec.encode
    try:
        stored = sessions.unsealed(current)
        theirs = decode(stored)
    except ValueError as error:
        raise EncodeError(f"the websession was overwritten with something unreadable: {error}") from None
    base, mine = decode(state.base), decode(encoded(session))
    if only is not None:
        base = {key: base[key] for key in only if key in base}
        theirs = {key: theirs[key] for key in only if key in theirs}
    choosers = {**sessions.merge, **dict.fromkeys(state.counted, adding)}
    try:
        value = merged(base, mine, theirs, lambda a, b: encode({"": a}) != encode({"": b}), choosers)
    except Exception as error:
        raise UsageError(f"a merge function failed: {type(error).__name__}: {error}") from error
    try:
        fill(session, stored, decode(encode(value)))
    except Exception as error:
        raise UsageError(
            f"what requests side by side made of the websession is no {_name_of(sessions.model)}: {error}; "
            "Content(merge=) says by key what both together mean, and lock() keeps them apart"
        ) from error
    # Keys have the same order as in every other encoding, so that equal values have equal bytes.
    state.encoded = encoded(session)
    return state.encoded


def largest_key(sessions: CheckedSettings[Any], plain: bytes) -> str:
    """Return the key with the largest encoded value."""
    codec = sessions.codec
    values = codec.decode(plain)
    return max(values, key=lambda key: len(codec.encode({key: values[key]})), default="")


def _name_of(model: Any) -> str:
    return getattr(model, "__name__", "mapping")
