"""Commits a websession before a response leaves, following the plan of `machine.decide`. Flows, for every face.

Every step is one call of a store; all security decisions are made here, never by an engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.websessions.book import book_key
from mangonel.websessions.content import merge
from mangonel.websessions.devices import enlist_flow
from mangonel.websessions.errors import SessionMoved, StoreError
from mangonel.websessions.follow import (
    FOLLOW,
    ROUNDS,
    end_flow,
    epoch_flow,
    is_revoked_flow,
    last_flow,
    leads_on,
    replace,
)
from mangonel.websessions.limit import check_limit, evict_flow, limit_flow, limit_of
from mangonel.websessions.machine import END, INSERT, NOTHING, ROTATE, TOUCH, check_not_moved
from mangonel.websessions.remember import forget_remembered_flow
from mangonel.websessions.session import PROOFS
from mangonel.websessions.stores.meter import Meter
from mangonel.websessions.writes import new_record, next_writes, put_flow, refused_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.record import Record
    from mangonel.websessions.session import WebSession
    from mangonel.websessions.stores.protocol import Store

__all__ = ["commit_flow"]


async def commit_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], plan: int
) -> None:
    """Carry out the plan of `machine.decide`; put the new cookie, if any, into the websession.

    Raises:
        StoreError: other requests kept changing the record for many rounds.
        TooManySessions: a login beyond `max_per_user`.
    """
    if plan == NOTHING:
        return
    now = sessions.now()
    meter = Meter(store) if sessions.listens else None
    if meter is not None:
        store = meter
    told = ""
    if plan == INSERT:
        check_not_moved(session.state)
        await _insert_flow(
            sessions,
            store,
            session,
            session.state.encoded,
            now,
            now,
            now + sessions.lasts(session.state.extra),
        )
        told = "created"
    elif plan == TOUCH:
        await _touch_flow(sessions, store, session, now)
    elif plan == ROTATE:
        await _rotate_flow(sessions, store, session, now)
    elif plan == END:
        await _destroy_flow(sessions, store, session, now)
        if session.state.encoded != sessions.blank:
            # For example a farewell message: it gets a new websession.
            await _insert_flow(
                sessions, store, session, session.state.encoded, now, now, now + sessions.absolute
            )
            session.state.is_ended = session.state.is_gone = False
            told = "created"
    elif await _write_flow(sessions, store, session, now):
        told = "saved"
    session.state.is_due = session.state.had_end = False
    if told and meter is not None:
        sessions.emit(
            told, session.state.tag, bytes=len(session.state.base), seconds=meter.seconds(), calls=meter.calls
        )


async def _insert_flow(
    sessions: CheckedSettings[Any],
    store: Store,
    session: WebSession[Any],
    plain: bytes,
    now: float,
    created: float,
    deadline: float,
    epoch: int = 0,
) -> None:
    """Store a websession under a new id.

    Args:
        epoch: the last revocation of the user that the login has seen.
    """
    token = session.state.promised or sessions.new_token()
    session.state.promised = None
    record = new_record(session, token, plain, now, deadline, created=created, epoch=epoch)
    was_put, found = await put_flow(store, record, 0)
    # If there is no record now, this request's record was stored and has ended since.
    if not was_put and found is not None:
        raise StoreError("the store already has a record under an id that was just made from 256 random bits")
    session.state.record = record
    session.state.base = plain
    session.state.alias = None
    session.state.cookie = sessions.cookie.give(token, deadline - now, session.state.extra)


async def _touch_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], now: float
) -> None:
    record = session.state.record
    assert record is not None
    expires = sessions.expiry(now, record.deadline, session.state.extra)
    if await store.touch(record.key, expires):
        session.state.record = replace(record, expires=expires)
        sessions.emit("touched", session.state.tag)
    else:
        _lose(sessions, session)


async def _write_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], now: float
) -> bool:
    """Write the changes over the version that was read, or merge them with others' changes; False: it had ended."""
    current = session.state.record
    assert current is not None
    plain = session.state.encoded
    has_new_label = session.state.label != current.label
    for _ in range(ROUNDS):
        # The same as `changed`, and below as `put_flow`, inlined since nearly every write succeeds at once.
        fresh = replace(
            current,
            version=current.version + 1,
            expires=sessions.expiry(now, current.deadline, session.state.extra),
            # Only a request that presented the new id has closed the old one.
            prev=None if session.state.has_closed else current.prev,
            label=session.state.label if has_new_label else current.label,
            writes=next_writes(current.writes),
            data=plain,
        )
        if sessions.ring is not None:
            fresh = sessions.sealed(fresh, plain)
        was_put, found = await store.put(fresh, current.version), None
        if not was_put:
            was_put, found = await refused_flow(store, fresh)
        if was_put:
            session.state.record = fresh
            session.state.label = fresh.label
            session.state.base = plain
            return True
        sessions.emit("conflict", session.state.tag)
        found = await last_flow(sessions, store, found, current)
        if found is None or not found.is_live or not now < min(found.expires, found.deadline):
            _lose_or_raise(sessions, session, found, has_new_label)
            return False
        current = found
        plain = merge(session, current)
    raise StoreError(f"the websession was changed by others {ROUNDS} times while it was to be saved")


def _lose_or_raise(
    sessions: CheckedSettings[Any], session: WebSession[Any], trace: Record | None, has_new_label: bool
) -> None:
    """Drop a change if a logout came first; refuse it if a login or a rotation came first.

    Raises:
        SessionMoved: the websession continues, but this change cannot follow.
    """
    state = session.state
    is_moved = trace is not None and leads_on(trace)
    was_changed = has_new_label or state.encoded != state.base
    _lose(sessions, session, was_rotated=trace is not None)
    if is_moved and was_changed:
        raise _moved()


def _moved() -> SessionMoved:
    return SessionMoved(
        "the websession took a new id while this request ran, by a login or a rotation beside it, so nothing of this "
        "request was stored; sent again with the new cookie, it finds the websession"
    )


def _lose(sessions: CheckedSettings[Any], session: WebSession[Any], was_rotated: bool = False) -> None:
    sessions.emit("gone", session.state.tag)
    # After a rotation the browser may already have the new cookie; removing the old one would remove that too.
    can_leave = not session.state.headers_left and session.state.request_view.takes_cookies
    session.state.cookie = sessions.cookie.take_back() if can_leave and not was_rotated else None
    session.destroy()
    session.state.record = session.state.device_cookie = None
    session.state.is_gone = True


async def _destroy_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], now: float
) -> None:
    record = session.state.record or session.state.trail
    assert record is not None
    tag = record.sid.hex()
    if sessions.has_devices:
        # Done first, so that the browser cannot log in by itself at the same time.
        await forget_remembered_flow(sessions, store, session)
    await end_flow(sessions, store, record, now)
    session.state.trail = None
    if session.state.alias is not None:
        await store.delete(session.state.alias)
    session.state.record = session.state.alias = None
    session.state.is_gone = True
    session.state.base = sessions.blank
    session.state.cookie = sessions.cookie.take_back()
    session.state.clear_site_data = bool(sessions.clear_site_data)
    sessions.emit("destroyed", tag)


async def _rotate_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], now: float
) -> None:
    """End the old id first, then store everything under a new one; a crash in between logs out, the safe result."""
    change, old, user = session.state.change, session.state.record, session.state.user
    starts_again = change != "rotated" or old is None
    created = now if starts_again or old is None else old.created
    epoch = old.epoch if old is not None else 0
    most: int | None = None
    if change == "login" and user is not None:
        # Read first, so that a later revocation ends this login.
        epoch = await epoch_flow(sessions, store, user)
        most = limit_of(sessions, user)
        if most is not None:
            created = max(now, await limit_flow(sessions, store, user, most, old))
    plain = session.state.encoded
    ended, goes_on = None, None
    if old is not None:
        # A concurrent logout must find the new record.
        session.state.promised = session.state.promised or sessions.new_token()
        goes_on = sessions.cookie.key_of(session.state.promised)
        by_login = change == "login"
        ended = await end_flow(
            sessions, store, old, now, FOLLOW, goes_on=goes_on, by_login=by_login, follows=False
        )
        if ended is None and not by_login:
            session.state.promised = None
            trace = await last_flow(sessions, store, await store.get(old.key))
            _lose(sessions, session, was_rotated=trace is not None)
            if trace is not None and (trace.is_live or leads_on(trace)):
                raise _moved()
            return
        if ended is not None and (ended.version, ended.key) != (old.version, old.key):
            plain = merge(session, ended, session.state.kept if change == "login" else None)
            if session.state.label == old.label:
                session.state.label = ended.label
    deadline = now + sessions.lasts(session.state.extra) if starts_again or old is None else old.deadline
    await _insert_flow(sessions, store, session, plain, now, created, deadline, epoch)
    session.state.change = ""
    session.state.kept = None
    record = session.state.record
    assert record is not None
    if ended is not None and goes_on is not None:
        trace = await store.get(ended.key)
        if trace is None or trace.prev != goes_on:
            # A logout came in between.
            await end_flow(sessions, store, record, now)
            _lose(sessions, session)
            return
    if record.user is not None:
        if await is_revoked_flow(sessions, store, record):
            await end_flow(sessions, store, record, now)
            _lose(sessions, session)
            return
        if most is not None and (count := await evict_flow(sessions, store, record, most, now)):
            _lose(sessions, session)
            check_limit(most, count)
        if sessions.has_devices and change in PROOFS:
            if change == "login":
                await forget_remembered_flow(sessions, store, session, book_key(record.user))
            await enlist_flow(sessions, store, session, record, now)
    sessions.emit(change, session.state.tag, user=record.user)
