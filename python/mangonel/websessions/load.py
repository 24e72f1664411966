"""Loads a websession when a request begins, from its cookie. Flows, written once for every face.

Every step is one call of a store; all security decisions are made here, never by an engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.websessions.book import BOOK, seen_flow
from mangonel.websessions.content import adopt, merge
from mangonel.websessions.follow import (
    FOLLOW,
    MOVED,
    current_flow,
    end_flow,
    is_forged,
    is_revoked_flow,
    last_flow,
    leads_on,
    replace,
)
from mangonel.websessions.record import ENDED, Record
from mangonel.websessions.session import WebSession
from mangonel.websessions.writes import changed, next_writes, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.session import RequestView
    from mangonel.websessions.stores.protocol import Store

__all__ = ["alive_flow", "load_flow", "reload_flow"]

# The data of a renewed record whose new id was presented.
SEEN = b"seen"


async def load_flow(
    sessions: CheckedSettings[Any], store: Store, request_view: RequestView, known: bytes | None = None
) -> WebSession[Any]:
    """Return the websession of a request: the stored one that its cookie names, or an empty one.

    Args:
        known: the key of a trace from a predecessor's cookie, used in place of our cookie.
    """
    session: WebSession[Any] = WebSession(sessions, request_view)
    policy = sessions.cookie
    candidates = policy.candidates(request_view.cookie)
    if candidates is None:
        return session
    if policy.secure and not request_view.is_secure:
        # An id sent over plain http may have been copied, so it is ended.
        sessions.tell_insecure()
        return session
    for _, _, key in candidates if known is None else (("", None, known),):
        if key is None:
            sessions.emit("rejected", reason="malformed")
            continue
        record = await store.get(key)
        now = sessions.now()
        if record is None:
            sessions.emit("rejected", reason="unknown")
            sessions.note_guess(request_view)
            continue
        if (
            record.next is not None
            or record.prev is not None
            or not now < record.expires
            or not now < record.deadline
            or sessions.epochs_apart
        ):
            found = await _settle_flow(sessions, store, session, record, now)
            if found is None:
                continue
            record = found
        if not adopt(session, record):
            session = WebSession(sessions, request_view)
            continue
        if sessions.bind and not _is_bound(sessions, session):
            await end_flow(sessions, store, record, now)
            sessions.emit("destroyed", session.state.tag, reason="signal")
            session = WebSession(sessions, request_view)
            session.state.cookie = policy.take_back() if request_view.takes_cookies else None
            return session
        is_due = session.state.was_lost or (
            session.state.alias is None and now - record.issued >= sessions.renew
        )
        if is_due and request_view.takes_cookies:
            await _renew_flow(sessions, store, session, now)
            if session.state.record is None:
                trail = session.state.trail
                session = WebSession(sessions, request_view)
                session.state.trail = trail
                continue
        return session
    return session


async def reload_flow(sessions: CheckedSettings[Any], store: Store, session: WebSession[Any]) -> bool:
    """Read the websession again and drop the changes; empty it and return False if it has ended."""
    record = session.state.record
    if record is None or sessions.is_stateless:
        return not session.state.is_ended
    now = sessions.now()
    found = await current_flow(sessions, store, record.key, now, record)
    is_there = found is not None and not await is_revoked_flow(sessions, store, found)
    if found is not None and is_there and session.state.waiting:
        # Another task of the request is about to store its changes, which this websession includes.
        merge(session, found)
        session.state.record = found
        return True
    if found is not None and is_there and adopt(session, found):
        return True
    session.destroy()
    session.state.record = session.state.device_cookie = None
    session.state.is_gone = True
    return False


async def alive_flow(sessions: CheckedSettings[Any], store: Store, session: WebSession[Any]) -> bool:
    """Return whether a websession that was loaded earlier has not ended since."""
    record = session.state.record
    if record is None or sessions.is_stateless:
        return not session.state.is_ended
    found = await current_flow(sessions, store, record.key, sessions.now(), record)
    return found is not None and (found.user is None or not await is_revoked_flow(sessions, store, found))


async def _settle_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], record: Record, now: float
) -> Record | None:
    """Resolve a record that was renewed, has ended or has expired; return the valid record, or None."""
    if record.issued - now > sessions.grace:
        sessions.emit("clock", record.sid.hex(), seconds=record.issued - now)
    if record.next == ENDED:
        sessions.emit("rejected", record.sid.hex(), reason="ended")
        _note_trail(sessions, session, record)
        return None
    if is_forged(sessions, record):
        return None
    if record.next is not None:
        found = await _renewed_flow(sessions, store, session, record, now)
        if found is None:
            return None
        record = found
    elif not now < record.expires or not now < record.deadline:
        await _expire_flow(sessions, store, record)
        return None
    elif record.prev is not None:
        # Makes this response's write remove `prev`.
        session.state.has_closed = session.state.is_due = await _close_flow(sessions, store, record, now)
    if sessions.epochs_apart and await is_revoked_flow(sessions, store, record):
        sessions.emit("rejected", record.sid.hex(), reason="revoked")
        return None
    return record


async def _renewed_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], record: Record, now: float
) -> Record | None:
    """Follow an old id to the live record, or refuse it.

    The response with the new id may have been lost, so the old one is valid until the new one was presented, and at
    most for the idle limit. After that, the old one is a copy, unless its request was in flight.
    """
    alias = record
    while sessions.unsealed(alias) != SEEN:
        if not now < min(alias.expires, alias.deadline):
            sessions.emit("rejected", record.sid.hex(), reason="renewed")
            return None
        found = await store.get(alias.next or b"")
        if found is None or found.next == ENDED or is_forged(sessions, found):
            sessions.emit("rejected", record.sid.hex(), reason="ended")
            if found is not None and found.next == ENDED:
                _note_trail(sessions, session, found)
            return None
        if found.next is None:
            if not now < min(found.expires, found.deadline):
                sessions.emit("rejected", record.sid.hex(), reason="ended")
                return None
            session.state.alias = record.key
            session.state.was_lost = now - alias.issued > sessions.grace
            return found
        alias = found
    session.state.trail = alias
    if now - alias.issued <= sessions.grace:
        sessions.emit("rejected", record.sid.hex(), reason="renewed")
        return None
    sessions.emit("reused", record.sid.hex())
    if sessions.on_reuse == "destroy":
        found = await current_flow(sessions, store, alias.next or b"", now)
        if found is not None:
            await end_flow(sessions, store, found, now)
            sessions.emit("destroyed", record.sid.hex(), reason="reused")
    return None


def _note_trail(sessions: CheckedSettings[Any], session: WebSession[Any], trace: Record) -> None:
    """Record where a given-up id leads, so that an end can follow."""
    if leads_on(trace) and not is_forged(sessions, trace):
        session.state.trail = trace


async def _close_flow(sessions: CheckedSettings[Any], store: Store, record: Record, now: float) -> bool:
    """Record that the new id was seen, which closes the old one; return False if another request was faster."""
    old = await store.get(record.prev or b"")
    if old is not None and old.label == BOOK:
        await seen_flow(sessions, store, record)
        return True
    if old is None or not old.next or is_forged(sessions, old) or sessions.unsealed(old) == SEEN:
        return True
    # This trace is kept as long as before, or the predecessor's cookie would be read again.
    expires = old.expires if old.label == MOVED else min(old.expires, _kept_closed(sessions, now))
    closed = changed(old, issued=now, expires=expires)
    return await store.put(sessions.sealed(closed, SEEN), old.version)


def _kept_closed(sessions: CheckedSettings[Any], now: float) -> float:
    """Return until when a closed old id is kept, so that a copy of it is detected."""
    return now + max(FOLLOW, sessions.grace, sessions.idle)


async def _expire_flow(sessions: CheckedSettings[Any], store: Store, record: Record) -> None:
    await store.delete(record.key)
    sessions.emit("expired", record.sid.hex())


def _is_bound(sessions: CheckedSettings[Any], session: WebSession[Any]) -> bool:
    """Compare the binding signals; return False if the policy says that the websession must end."""
    bound = (session.state.extra or {}).get("bind")
    if type(bound) is not dict:
        return True
    for signal, digest in bound.items():
        if signal not in sessions.bind or sessions.still_has(session.state.request_view, signal, digest):
            continue
        sessions.emit("mismatch", session.state.tag, signal=signal)
        policy = sessions.mismatch_policy(signal)
        if policy == "destroy":
            return False
        if policy == "challenge":
            session.state.challenged = True
    return True


async def _renew_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], now: float
) -> None:
    """Give a websession a new id. One of several parallel requests succeeds; the others continue with the old id."""
    old = session.state.record
    assert old is not None
    token = sessions.new_token()
    fresh = replace(
        old,
        key=sessions.cookie.key_of(token),
        version=1,
        issued=now,
        prev=old.key,
        expires=sessions.expiry(now, old.deadline, session.state.extra),
        writes=next_writes(b""),
    )
    fresh = sessions.sealed(fresh, session.state.base)
    was_put, _ = await put_flow(store, fresh, 0)
    if not was_put:
        return
    alias = changed(
        old,
        data=b"",
        next=fresh.key,
        prev=None,
        user=None,
        label=None,
        issued=now,
        # The trace is kept as long as the websession, which may be remembered.
        expires=max(_kept_closed(sessions, now), sessions.expiry(now, float("inf"), session.state.extra)),
    )
    was_put, found = await put_flow(store, sessions.sealed(alias, b""), old.version)
    if not was_put:
        await store.delete(fresh.key)
        found = await last_flow(sessions, store, found, rotations=False)
        if found is not None and not found.is_live:
            _note_trail(sessions, session, found)
        is_there = found is not None and found.is_live and now < min(found.expires, found.deadline)
        if found is None or not is_there or not adopt(session, found):
            session.state.record = None
        elif found.key != old.key:
            session.state.alias = old.key
        return
    if await is_revoked_flow(sessions, store, fresh):
        await store.delete(fresh.key, old.key)
        sessions.emit("rejected", fresh.sid.hex(), reason="revoked")
        session.state.record = None
        return
    session.state.record = fresh
    session.state.cookie = sessions.cookie.give(token, fresh.deadline - now, session.state.extra)
    sessions.emit("renewed", session.state.tag)
