"""A user's websessions: listing, ending one, ending all. Flows, for every face.

`revoke_user` first raises the user's epoch, then ends the records. A websession that was created meanwhile, and that
the search missed, reads the epoch when it is stored, and ends itself. A login stores the epoch that it has read; if it
is below the user's, the login has been revoked. Numbers are compared, so servers with different clocks agree.
"""

from __future__ import annotations

from secrets import randbits
from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.book import forget_all_flow, forget_login_flow
from mangonel.websessions.content import extra_of
from mangonel.websessions.errors import StoreError, Unsupported
from mangonel.websessions.follow import ROUNDS, end_flow, last_flow, live_flow, replace
from mangonel.websessions.record import Record
from mangonel.websessions.settings import checked_text
from mangonel.websessions.writes import changed, next_writes, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.session import WebSession
    from mangonel.websessions.stores.protocol import Store

__all__ = ["Handle", "of_flow", "revoke_flow", "revoke_user_flow"]

# Random bits at the end of an epoch, whose beginning is the time in milliseconds.
EPOCH_BITS = 20


class Handle(msgspec.Struct, frozen=True):
    """One websession in a listing.

    Attributes:
        id: for `revoke`; it grants no access and finds nothing. It is the websession's `tag` in logs.
        user: name of the user.
        created: when the user logged in, in seconds since the epoch.
        last_seen: when it was last used, within `touch_after`.
        expires: when it ends unless it is used.
        label: the application's name for it.
        is_current: whether it is the one passed to `of(user, current=…)`.
        device: id of its device; "" if devices are not kept.
    """

    id: str
    user: str
    created: float
    last_seen: float
    expires: float
    label: str | None = None
    is_current: bool = False
    device: str = ""


async def of_flow(
    sessions: CheckedSettings[Any], store: Store, user: str, current: WebSession[Any] | None
) -> list[Handle]:
    """Return a user's websessions, the newest first."""
    checked_text(user, "the user")
    _check_finds(store)
    found: dict[bytes, Handle] = {}
    now = sessions.now()
    for record in sorted(await live_flow(sessions, store, user), key=lambda record: record.issued):
        extra = extra_of(sessions, record)
        idle = sessions.expiry(0.0, float("inf"), extra)
        last_seen = max(record.created, record.issued, min(record.expires - idle, now))
        found[record.sid] = Handle(
            record.sid.hex(),
            user,
            record.created,
            last_seen,
            min(record.expires, record.deadline),
            record.label,
            current is not None and current.state.tag == record.sid.hex(),
            str(extra.get("device", "")),
        )
    return sorted(found.values(), key=lambda handle: handle.created, reverse=True)


async def revoke_flow(sessions: CheckedSettings[Any], store: Store, user: str, handle: str) -> bool:
    """End one of the user's websessions; return False if it has ended already."""
    checked_text(user, "the handle's user")
    checked_text(handle, "the handle's id")
    _check_finds(store)
    was_there = False
    for record in await live_flow(sessions, store, user):
        if record.sid.hex() == handle:
            if sessions.has_devices:
                # Done first, so that the browser cannot log in by itself at the same time.
                await forget_login_flow(sessions, store, user, str(extra_of(sessions, record).get("device")))
            was_there = await end_flow(sessions, store, record, sessions.now()) is not None or was_there
    if was_there:
        sessions.emit("revoked", handle, user=user)
    return was_there


async def revoke_user_flow(
    sessions: CheckedSettings[Any], store: Store, user: str, except_: WebSession[Any] | None
) -> int:
    """End all of the user's websessions except one, including those being created; return how many were found."""
    checked_text(user, "the user")
    epochs = sessions.epochs_of(store)
    if epochs is None:
        raise _no_find(store)
    spared = except_ if except_ is not None and except_.state.record is not None else None
    await _epoch_flow(sessions, store, epochs, user, spared)
    if not hasattr(store, "find"):
        sessions.emit("revoked", user=user)
        return 0
    sid = spared.state.record.sid if spared is not None and spared.state.record is not None else None
    ended = 0
    now = sessions.now()
    for record in await live_flow(sessions, store, user):
        if record.sid != sid:
            ended += await end_flow(sessions, store, record, now) is not None
            sessions.emit("revoked", record.sid.hex(), user=user)
    return ended


async def _epoch_flow(
    sessions: CheckedSettings[Any], store: Store, epochs: Store, user: str, spared: WebSession[Any] | None
) -> None:
    """Raise the user's epoch; the websession to spare is marked with the new epoch first."""
    key = sessions.epoch_key(user)
    now = sessions.now()
    lasts = now + sessions.longest + 60.0
    for _ in range(ROUNDS):
        current = await epochs.get(key)
        version, last, writes = (current.version, current.epoch, current.writes) if current else (0, 0, b"")
        epoch = _next_epoch(now, last)
        if spared is not None:
            await _spare_flow(sessions, store, spared, last, epoch)
        if sessions.has_devices:
            own = (spared.state.extra or {}).get("device") if spared is not None else None
            await forget_all_flow(sessions, store, user, own, last, epoch)
        fresh = Record(key, b"", version + 1, now, lasts, lasts, epoch=epoch, writes=next_writes(writes))
        was_put, _ = await put_flow(epochs, fresh, version)
        if was_put:
            return
    raise StoreError(f"the user's epoch was changed by others {ROUNDS} times")


def _next_epoch(now: float, last: int) -> int:
    """Return a number above the last one. It contains the time, so it is above those of an expired record too.

    Two servers that count at the same time almost never get the same number.
    """
    return max((round(now * 1000) << EPOCH_BITS) + randbits(EPOCH_BITS), last + 1)


async def _spare_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], last: int, epoch: int
) -> None:
    """Let a websession survive an epoch that is about to be stored, unless an earlier epoch has ended it."""
    state = session.state
    record = state.record
    assert record is not None
    if sessions.is_stateless:
        if last <= record.epoch:
            state.record, state.is_due = replace(record, epoch=epoch), True
        return
    found: Record | None = record
    for _ in range(ROUNDS):
        if found is None or not found.is_live or found.epoch < last:
            return
        fresh = sessions.sealed(changed(found, epoch=epoch), sessions.unsealed(found))
        was_put, found = await put_flow(store, fresh, found.version)
        if was_put:
            # Others' changes are merged when the response leaves, not here.
            if fresh.version == record.version + 1 and fresh.key == record.key:
                state.record = fresh
            return
        found = await last_flow(sessions, store, found)
    raise StoreError(f"the websession was changed by others {ROUNDS} times while it was to be spared")


def _check_finds(store: Store) -> None:
    if not hasattr(store, "find"):
        raise _no_find(store)


def _no_find(store: Store) -> Unsupported:
    return Unsupported(
        f"{type(store).__name__} cannot list a user's websessions; "
        "use an engine that can, or give epochs= to end them all without listing"
    )
