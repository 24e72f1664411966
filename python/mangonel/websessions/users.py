"""A user's websessions: to list, to end one, to end all. Flows, for every face.

`revoke_user` writes the user's epoch first and ends the records then: a websession that was being made meanwhile, which
the search missed, finds the epoch when it is stored, and ends itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.errors import StoreError, Unsupported
from mangonel.websessions.follow import ROUNDS, end_flow, live_flow, replace
from mangonel.websessions.merge import RESERVED
from mangonel.websessions.record import Record
from mangonel.websessions.settings import checked_text

if TYPE_CHECKING:
    from mangonel.websessions.session import WebSession
    from mangonel.websessions.settled import Settled
    from mangonel.websessions.stores.protocol import Store

__all__ = ["Handle", "of_flow", "revoke_flow", "revoke_user_flow"]

# The smallest step of time that every store keeps.
TICK = 0.001


class Handle(msgspec.Struct, frozen=True):
    """One websession in a listing.

    Attributes:
        id: opens nothing and looks nothing up; give it to `revoke`. It is the websession's `tag` in logs.
        user: whose it is.
        created: seconds since the epoch: when the user logged in.
        last_seen: when it was last used, give or take `touch_after`.
        expires: when it ends unless used.
        label: what the application calls it.
        is_current: whether it is the one given to `of(user, current=…)`.
    """

    id: str
    user: str
    created: float
    last_seen: float
    expires: float
    label: str | None = None
    is_current: bool = False


async def of_flow(
    sessions: Settled[Any], store: Store, user: str, current: WebSession[Any] | None
) -> list[Handle]:
    """Return a user's websessions, the newest first."""
    checked_text(user, "the user")
    _check_finds(store)
    found: dict[bytes, Handle] = {}
    now = sessions.now()
    for record in sorted(await live_flow(sessions, store, user), key=lambda record: record.issued):
        last_seen = max(record.created, record.issued, min(record.expires - _idle(sessions, record), now))
        found[record.sid] = Handle(
            record.sid.hex(),
            user,
            record.created,
            last_seen,
            min(record.expires, record.deadline),
            record.label,
            current is not None and current.state.tag == record.sid.hex(),
        )
    return sorted(found.values(), key=lambda handle: handle.created, reverse=True)


async def revoke_flow(sessions: Settled[Any], store: Store, user: str, handle: str) -> bool:
    """End one of the user's websessions; False when it has ended already."""
    checked_text(user, "the handle's user")
    checked_text(handle, "the handle's id")
    _check_finds(store)
    was_there = False
    for record in await live_flow(sessions, store, user):
        if record.sid.hex() == handle:
            was_there = await end_flow(sessions, store, record, sessions.now()) is not None or was_there
    if was_there:
        sessions.emit("revoked", handle, user=user)
    return was_there


async def revoke_user_flow(
    sessions: Settled[Any], store: Store, user: str, except_: WebSession[Any] | None
) -> int:
    """End all of the user's websessions but one, those included that are being made; return how many were found."""
    checked_text(user, "the user")
    epochs = sessions.epochs_of(store)
    if epochs is None:
        raise _no_find(store)
    now = sessions.now()
    # The one to spare is marked as younger than the epoch before the epoch is there.
    if except_ is not None and except_.state.record is not None:
        await _spare_flow(sessions, store, except_, now + TICK)
    await _epoch_flow(sessions, epochs, user, now)
    sessions.after_epoch = max(sessions.after_epoch, now + TICK)
    if not hasattr(store, "find"):
        sessions.emit("revoked", user=user)
        return 0
    spared = except_.state.record.sid if except_ is not None and except_.state.record is not None else None
    ended = 0
    for record in await live_flow(sessions, store, user):
        if record.sid != spared:
            ended += await end_flow(sessions, store, record, now) is not None
            sessions.emit("revoked", record.sid.hex(), user=user)
    return ended


def _idle(sessions: Settled[Any], record: Record) -> float:
    try:
        extra = sessions.codec.decode(sessions.unsealed(record)).get(RESERVED)
    except ValueError:  # sealed with another's key, as on the command line
        extra = None
    return sessions.expiry(0.0, float("inf"), extra if isinstance(extra, dict) else None)


async def _spare_flow(sessions: Settled[Any], store: Store, session: WebSession[Any], created: float) -> None:
    for _ in range(ROUNDS):
        record = session.state.record
        assert record is not None
        fresh = _younger(sessions, record, created)
        if await store.put(fresh, record.version):
            session.state.record = fresh
            return
        current = await store.get(record.key)
        while current is not None and current.next:
            current = await store.get(current.next)
        if current is None or not current.is_live:
            return
        # Only what is not ours to merge: the data is merged when the answer leaves.
        fresh = _younger(sessions, current, created)
        if await store.put(fresh, current.version):
            return
    raise StoreError(f"the websession was changed by others {ROUNDS} times while it was to be spared")


def _younger(sessions: Settled[Any], record: Record, created: float) -> Record:
    fresh = replace(record, created=created, version=record.version + 1)
    return sessions.sealed(fresh, sessions.unsealed(record))


async def _epoch_flow(sessions: Settled[Any], epochs: Store, user: str, now: float) -> None:
    key = sessions.epoch_key(user)
    lasts = now + sessions.longest + 60.0
    for _ in range(ROUNDS):
        current = await epochs.get(key)
        version = current.version if current is not None else 0
        if current is not None and current.created > now:
            return
        if await epochs.put(Record(key, b"", version + 1, now, lasts, lasts), version):
            return
    raise StoreError(f"the user's epoch was changed by others {ROUNDS} times")


def _check_finds(store: Store) -> None:
    if not hasattr(store, "find"):
        raise _no_find(store)


def _no_find(store: Store) -> Unsupported:
    return Unsupported(
        f"{type(store).__name__} cannot list a user's websessions; "
        "use an engine that can, or give epochs= to end them all without listing"
    )
