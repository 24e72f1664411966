"""One write of a record: applied once, with a known outcome, even if answers are lost and writes are sent twice.

A store's `put` may answer False to a write that it has applied: the client sent it again because the first answer was
lost, or the server counted several writes together. So each write leaves a random mark in the record, behind those of
the writes before it. The record's version determines the position of a write's mark; nothing depends on a
clock or on the order of answers. Knows no engine.
"""

from __future__ import annotations

from os import urandom
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mangonel.websessions.errors import StoreError
from mangonel.websessions.record import Record

if TYPE_CHECKING:
    from mangonel.websessions.session import WebSession
    from mangonel.websessions.stores.protocol import Store

__all__ = ["KEPT", "changed", "has_write", "new_record", "next_writes", "put_flow", "refused_flow"]

MARK_BYTES = 6

# A write in doubt is searched for within one or two round trips; at most this many other writes may come between.
KEPT = 32
MOST_BYTES = KEPT * MARK_BYTES


def next_writes(before: bytes) -> bytes:
    """Return the marks of a record's next version: those of the last writes, and a new one."""
    return (before + urandom(MARK_BYTES))[-MOST_BYTES:]


def changed(record: Record, **changes: Any) -> Record:
    """Return the next version of a record, with these fields changed."""
    writes = next_writes(record.writes)
    return replace(record, **{"version": record.version + 1, "writes": writes, **changes})


def new_record(
    session: WebSession[Any],
    token: str,
    plain: bytes,
    now: float,
    deadline: float,
    *,
    created: float | None = None,
    prev: bytes | None = None,
    epoch: int = 0,
) -> Record:
    """Return the first record of a websession under a new id.

    Args:
        token: the new id.
        plain: the encoded values.
        now, deadline: seconds since the epoch.
        created: when its user logged in. None: now.
        prev, epoch: as in `Record`.
    """
    state = session.state
    sessions = state.sessions
    record = Record(
        sessions.cookie.key_of(token),
        b"",
        1,
        now if created is None else created,
        sessions.expiry(now, deadline, state.extra),
        deadline,
        state.user,
        prev=prev,
        issued=now,
        sid=sessions.new_sid(),
        label=state.label,
        epoch=epoch,
        writes=next_writes(b""),
    )
    return sessions.sealed(record, plain)


def has_write(found: Record, written: Record) -> bool:
    """Return whether a stored record contains this write, possibly with later ones on top of it.

    Args:
        found: the stored record.
        written: the record of the write.

    Raises:
        StoreError: so many writes came later that the mark of this one would be gone.
    """
    later = found.version - written.version
    if later < 0:
        return False
    end = len(found.writes) - later * MARK_BYTES
    if end < MARK_BYTES:
        raise StoreError(
            f"cannot tell whether a write was applied: the record was written {later} times since"
        )
    return found.writes[end - MARK_BYTES : end] == written.writes[-MARK_BYTES:]


async def put_flow(store: Store, record: Record, expected: int) -> tuple[bool, Record | None]:
    """Write a record if the stored version is `expected`; return whether it was applied, and the stored record.

    Args:
        record: its `writes` end with a mark of this write.
        expected: as for `Store.put`.

    Raises:
        StoreError: it is not known whether the write was applied.
    """
    if await store.put(record, expected):
        return True, record
    return await refused_flow(store, record)


async def refused_flow(store: Store, record: Record) -> tuple[bool, Record | None]:
    """Return the result of `put_flow` for a write to which the store has answered False."""
    found = await store.get(record.key)
    return found is not None and has_write(found, record), found
