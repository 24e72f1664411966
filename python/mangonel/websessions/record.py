"""The stored record of one websession, and its form for engines without columns.

Knows no engine, no codec and no clock. All times are seconds since the epoch in whole milliseconds, so that every
engine returns them exactly.

The blob form: 8 bytes version, 8 bytes `expires` in milliseconds, both big-endian, then MessagePack of the rest; a
touch overwrites bytes 8 to 16 and reads nothing else.
"""

from __future__ import annotations

import struct

import msgspec

__all__ = ["ENDED", "Record", "all_but_data", "pack_record", "stored_record", "unpack_record", "with_expires"]

# `next` of a record that was ended, not renewed: it leads to no other record.
ENDED = b""

_HEAD = struct.Struct(">Qq")
HEAD_BYTES = _HEAD.size


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored websession, or the trace of one.

    Attributes:
        key: SHA-256 of the token, 32 bytes; the only way to find a record.
        data: the encoded and optionally sealed application data.
        version: 1, 2, 3 …; every `put` increments it.
        created: when the websession began, or its user last logged in.
        expires: the idle limit, which `touch` moves; engines with native expiry use it.
        deadline: the absolute limit.
        user: the user after a login.
        next: renewed: the key of the next record. `ENDED`: rotated away or logged out.
        prev: the key that this record was renewed from, until its own id is first presented. In a record that a
            rotation or a login has ended: the key of the new record, unless that one has ended too.
        issued: when this id was made; renewal counts from here. For a renewed or ended record: when that happened.
        sid: names the websession across renewals in listings and logs; neither a key nor a token.
        label: the application's name for listings, such as "Firefox on Linux". After a login ended the record: "login".
        epoch: the user's revocations that the login had seen; a later one ends it. In an epoch's record: its number.
        writes: a random mark of each of the last writes, the newest at the end; see `writes.py`.
    """

    key: bytes
    data: bytes
    version: int
    created: float
    expires: float
    deadline: float
    user: str | None = None
    next: bytes | None = None
    prev: bytes | None = None
    issued: float = 0.0
    sid: bytes = b""
    label: str | None = None
    epoch: int = 0
    writes: bytes = b""

    @property
    def is_live(self) -> bool:
        """Whether it holds a websession: neither renewed nor ended. Says nothing about time."""
        return self.next is None

    @property
    def is_final(self) -> bool:
        """Whether this record ends a websession, or all websessions of a user (an epoch, which has no `sid`)."""
        return self.next == ENDED or not self.sid


class _Rest(msgspec.Struct, array_like=True, gc=False):
    data: bytes
    created: float
    deadline: float
    user: str | None
    next: bytes | None
    prev: bytes | None
    issued: float
    sid: bytes
    label: str | None
    epoch: int = 0
    writes: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Rest).decode


def pack_record(record: Record) -> bytes:
    """Return the record, without its key, as bytes."""
    return _HEAD.pack(record.version, round(record.expires * 1000)) + _encode(
        _Rest(
            record.data,
            record.created,
            record.deadline,
            record.user,
            record.next,
            record.prev,
            record.issued,
            record.sid,
            record.label,
            record.epoch,
            record.writes,
        )
    )


def all_but_data(record: Record) -> bytes:
    """Return the record without its data as bytes, to which a seal is bound."""
    times = (record.created, record.expires, record.deadline, record.issued)
    rest = (
        record.user,
        record.next,
        record.prev,
        record.sid,
        record.label,
        record.epoch,
        record.writes,
    )
    return record.key + msgspec.msgpack.encode(
        (record.version, *(round(each * 1000) for each in times), *rest)
    )


def stored_record(key: bytes, stored: bytes | None) -> Record | None:
    """Return the record in a store's value for a key; None without a value, and for bytes that are no record."""
    if stored is None:
        return None
    try:
        return unpack_record(key, stored)
    except ValueError:
        return None


def unpack_record(key: bytes, packed: bytes) -> Record:
    """Return the record that `pack_record` packed.

    Raises:
        ValueError: the bytes are something else; treat the record as absent.
    """
    try:
        version, expires = _HEAD.unpack_from(packed)
        rest = _decode(memoryview(packed)[HEAD_BYTES:])
    except (struct.error, msgspec.DecodeError, RecursionError) as error:
        raise ValueError(
            f"expected a packed websession, got {len(packed)} bytes of something else"
        ) from error
    return Record(
        key,
        rest.data,
        version,
        rest.created,
        expires / 1000,
        rest.deadline,
        rest.user,
        rest.next,
        rest.prev,
        rest.issued,
        rest.sid,
        rest.label,
        rest.epoch,
        rest.writes,
    )


def version_of(packed: bytes) -> int:
    """Return the version in a packed record; 0 if it is too short to be one."""
    return int(_HEAD.unpack_from(packed)[0]) if len(packed) >= HEAD_BYTES else 0


def expires_of(packed: bytes) -> float:
    """Return `expires` of a packed record, in seconds; 0 if it is too short to be one."""
    return int(_HEAD.unpack_from(packed)[1]) / 1000 if len(packed) >= HEAD_BYTES else 0.0


def with_expires(packed: bytes, expires: float) -> bytes:
    """Return the packed record with another `expires` and everything else unchanged."""
    return packed[:8] + struct.pack(">q", round(expires * 1000)) + packed[HEAD_BYTES:]
