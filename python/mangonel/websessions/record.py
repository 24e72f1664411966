"""What a store keeps of one websession, and the form in which engines without columns keep it.

Knows no engine, no codec and no clock. All times are seconds since the epoch, whole milliseconds, so that every engine
gives back what it was given.

The form for blobs: 8 bytes version, 8 bytes `expires` in milliseconds, both big-endian, then MessagePack of the rest;
a touch overwrites bytes 8 to 16 and reads nothing else.
"""

from __future__ import annotations

import struct

import msgspec

__all__ = ["ENDED", "Record", "all_but_data", "pack_record", "unpack_record", "with_expires"]

# `next` of a record that was ended, not renewed: whoever follows it arrives nowhere.
ENDED = b""

_HEAD = struct.Struct(">Qq")
HEAD_BYTES = _HEAD.size


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored websession, or what is left of one.

    Attributes:
        key: SHA-256 of the token, 32 bytes; the only way to look a record up.
        data: the encoded, perhaps sealed application data.
        version: 1, 2, 3 …; every `put` raises it by one.
        created: when the websession began, or its user last logged in.
        expires: the idle limit, which `touch` moves; engines with native expiry use it.
        deadline: the absolute limit.
        user: whose it is, after a login.
        next: renewed: the key of the record that goes on. `ENDED`: rotated away or logged out.
        prev: the key this one was renewed from, until this record's own id is first presented. Of one that a rotation
            or a login ended: the key of what goes on, until an end went there.
        issued: when this id was made; renewal counts from here. Of one that was renewed or ended: when that was.
        sid: names the websession over renewals in listings and logs; no key and no token.
        label: what the application calls it in listings, as "Firefox on Linux". Of one that a login ended: "login".
        epoch: the user's revocations that the login had seen; a later one ends it. Of the user's epoch: its own number.
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
        """Whether it ends something: a websession, or as an epoch, which has no name, all of a user's."""
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
    """Return everything of a record but its data, as bytes that a seal can be bound to."""
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


def unpack_record(key: bytes, packed: bytes) -> Record:
    """Return the record that `pack_record` packed.

    Raises:
        ValueError: the bytes are something else; the record is to be treated as absent.
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
    """Return the version that a packed record carries; 0 for what is too short to be one."""
    return int(_HEAD.unpack_from(packed)[0]) if len(packed) >= HEAD_BYTES else 0


def expires_of(packed: bytes) -> float:
    """Return `expires` of a packed record, in seconds; 0 for what is too short to be one."""
    return int(_HEAD.unpack_from(packed)[1]) / 1000 if len(packed) >= HEAD_BYTES else 0.0


def with_expires(packed: bytes, expires: float) -> bytes:
    """Return the packed record with another `expires`, the rest untouched."""
    return packed[:8] + struct.pack(">q", round(expires * 1000)) + packed[HEAD_BYTES:]
