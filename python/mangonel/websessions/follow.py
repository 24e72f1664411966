"""Follows a websession from the record that a request knows, over renewals, to the live one. Flows.

Three rules cover every wait for a store. A `put` succeeds only on the version that was read, so a slow writer cannot
revive an ended websession. Ending one is a `put` too, so a renewal cannot slip past it. An unknown id is never adopted.

Knows no engine, no framework, and no clock but the settings'. Errors of a store pass through; the faces handle them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.errors import StoreError, Unsupported
from mangonel.websessions.record import ENDED, Record
from mangonel.websessions.writes import changed, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.stores.protocol import Store

__all__ = [
    "FOLLOW",
    "MOVED",
    "ROUNDS",
    "current_flow",
    "end_flow",
    "epoch_flow",
    "is_forged",
    "is_revoked_flow",
    "last_flow",
    "leads_on",
    "live_flow",
    "replace",
]

# For how many seconds requests in flight can find where a renewed or rotated websession continues.
# After that, a long-lived connection such as a socket finds it by its user; without a user it cannot.
FOLLOW = 600.0

# With twenty writers on one websession, the last one succeeds in the twentieth round at the latest.
ROUNDS = 64

# How many times a writer checks for the record that a concurrent rotation is about to store.
LOOKS = 8

# The label of a record that a login has ended.
LOGIN = "login"

# The label of the trace that leads from a predecessor's cookie to its websession.
MOVED = "moved"

replace = msgspec.structs.replace


async def current_flow(
    sessions: CheckedSettings[Any], store: Store, key: bytes, now: float, known: Record | None = None
) -> Record | None:
    """Return the live record for a key, for a request that was admitted already; None if the websession has ended.

    Args:
        known: the record at admission, for a search by its user if the trail is gone.
    """
    record = await last_flow(sessions, store, await store.get(key), known)
    if record is None or not record.is_live or not now < min(record.expires, record.deadline):
        return None
    return record


async def last_flow(
    sessions: CheckedSettings[Any],
    store: Store,
    record: Record | None,
    known: Record | None = None,
    *,
    rotations: bool = True,
) -> Record | None:
    """Return the record at the end of a trail: a live one, a trace that leads no further, or None.

    A request admitted before a rotation continues with the rotated websession. It does not follow a login, which may be
    another user's.

    Args:
        record: the record at which the trail begins.
        known: the record at admission, for a search by its user if the trail is gone.
        rotations: False: stop at a record that a rotation ended, for a request that is not admitted yet.
    """
    for _ in range(ROUNDS):  # a request may have taken longer than several renewals
        if record is None or not leads_on(record) or record.label == LOGIN:
            break
        if record.next == ENDED and not rotations:
            break
        if is_forged(sessions, record):
            return None
        trace = record
        for _ in range(LOOKS):
            record = await store.get(trace.next or trace.prev or b"")
            if record is not None or trace.next:
                break
        else:
            return trace  # the rotation has not stored it yet, or has died
    if record is None and known is not None:
        record = await _search_flow(store, known)
    return record


def leads_on(record: Record) -> bool:
    """Whether a record that is not live names the record with which its websession continues."""
    return bool(record.next) or (record.next == ENDED and record.prev is not None)


async def end_flow(
    sessions: CheckedSettings[Any],
    store: Store,
    record: Record,
    now: float,
    keep: float = 0.0,
    *,
    goes_on: bytes | None = None,
    by_login: bool = False,
    follows: bool = True,
) -> Record | None:
    """Make a record, and its successors by renewal or rotation, unusable; return its last live version, or None.

    Args:
        keep: seconds to keep a trace that the websession was ended on purpose; 0 removes the record.
        goes_on: key of the record that a rotation or a login is about to store.
        by_login: whether this is a login; only an end may follow its trace.
        follows: False: keep the record that another rotation made of it.
    """
    live: Record | None = record
    has_searched = False
    for _ in range(ROUNDS):
        if live is None and not has_searched:
            has_searched = True
            live = await _search_flow(store, record)
        if live is None:
            return None
        if live.next == ENDED:
            if not follows or live.prev is None or is_forged(sessions, live):
                return None
            # Another rotation was faster. If it has stored its record, that one is ended here; if not, the rotation
            # ends the record itself, since it checks for concurrent changes.
            closed = sessions.sealed(changed(live, prev=None), b"")
            was_closed, found = await put_flow(store, closed, live.version)
            # If the trace was removed meanwhile, `live` still names the record to continue with.
            live = found if found is not None and not was_closed else await store.get(live.prev)
            if live is None:
                return None
            continue
        if live.next is not None:
            live = await store.get(live.next)
            continue
        # Not a delete: a concurrent renewal would slip past it.
        trace = changed(
            live,
            data=b"",
            user=None,
            next=ENDED,
            prev=goes_on,
            label=LOGIN if by_login else None,
            issued=now,
            expires=now + keep,
        )
        was_ended, found = await put_flow(store, sessions.sealed(trace, b""), live.version)
        if was_ended:
            if not keep:
                await store.delete(*dict.fromkeys((record.key, live.key)))
            return live
        live = found
    raise StoreError(f"the websession was changed by others {ROUNDS} times while it was to be ended")


async def epoch_flow(sessions: CheckedSettings[Any], store: Store, user: str) -> int:
    """Return the number of a user's last revocation; 0: there was none."""
    epochs = sessions.epochs_of(store)
    epoch = await epochs.get(sessions.epoch_key(user)) if epochs is not None else None
    return epoch.epoch if epoch is not None else 0


async def is_revoked_flow(sessions: CheckedSettings[Any], store: Store, record: Record) -> bool:
    """Return whether the user was revoked after the login that made the record. Depends on no clock."""
    return record.user is not None and await epoch_flow(sessions, store, record.user) > record.epoch


async def live_flow(sessions: CheckedSettings[Any], store: Store, user: str) -> list[Record]:
    """Return a user's usable records."""
    if not hasattr(store, "find"):
        raise Unsupported(
            f"max_per_user needs a store that can list a user's websessions, {type(store).__name__} cannot"
        )
    now = sessions.now()
    found: list[Record] = await store.find(user)
    # Some engines also find names that differ in trailing spaces.
    return [
        record
        for record in found
        if record.user == user and record.is_live and now < min(record.expires, record.deadline)
    ]


def is_forged(sessions: CheckedSettings[Any], record: Record) -> bool:
    """Return whether a writer without our key has changed the record in the store."""
    try:
        sessions.unsealed(record)
    except ValueError:
        sessions.emit("rejected", record.sid.hex(), reason="sealed")
        return True
    return False


async def _search_flow(store: Store, known: Record) -> Record | None:
    """Return the live record of a user's websession whose trail is gone, or None.

    A socket may stay open for longer than `FOLLOW` after a renewal, and a logout there must end the websession.
    """
    if known.user is None or not hasattr(store, "find"):
        return None
    found: list[Record] = await store.find(known.user)
    # During a renewal, the older record: any change to it makes the renewal check again.
    live = [record for record in found if record.sid == known.sid and record.is_live]
    return min(live, key=lambda record: record.issued, default=None)
