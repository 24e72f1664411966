"""What happens when a request begins and when its answer is about to leave, written once for every face.

Every step is one call of a store; whatever matters for security is decided here, never by an engine. Three sentences
carry it: a `put` succeeds only on the version that was read, so a slow writer cannot bring back what was ended; what
ends a websession is a `put` too, so a renewal cannot slip past it; an id that was not found is never adopted.

Knows no engine, no framework, no clock but the settings'. Errors of a store pass through; the faces judge them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mangonel.websessions.cookies import key_of
from mangonel.websessions.errors import EncodeError, StoreError, TooManySessions, UsageError
from mangonel.websessions.record import ENDED, Record
from mangonel.websessions.session import END, INSERT, NOTHING, ROTATE, TOUCH, WebSession
from mangonel.websessions.stores.meter import Meter

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions
    from mangonel.websessions.session import Visit
    from mangonel.websessions.stores.protocol import Store

__all__ = ["alive_flow", "commit_flow", "end_flow", "load_flow", "reload_flow"]

# Requests in flight may find, for so many seconds, where a renewed websession went on or that it was rotated away.
# What stays open for longer, as a socket, finds a user's websession by its user, and nobody's not any more.
FOLLOW = 600.0

# With twenty writers on one websession the last one wins in the twentieth round at the latest.
ROUNDS = 64

replace = msgspec.structs.replace


async def load_flow(sessions: WebSessions[Any], store: Store, visit: Visit) -> WebSession[Any]:
    """Return the websession of a request: the stored one that its cookie names, or an empty one."""
    session: WebSession[Any] = WebSession(sessions, visit)
    cookie = visit.cookie
    policy = sessions.cookie
    if cookie is None or not policy.is_in(cookie):
        return session
    if policy.secure and not visit.is_secure:
        # An id that travelled in the clear is nobody's any more.
        sessions.tell_insecure()
        return session
    for value in policy.candidates(cookie):
        token = policy.token_of(value)
        if token is None:
            sessions.emit("rejected", reason="malformed")
            continue
        key = key_of(token)
        record = await store.get(key)
        now = sessions.now()
        if record is None:
            sessions.emit("rejected", reason="unknown")
            sessions.note_guess(visit)
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
        if not adopt(sessions, session, record):
            session = WebSession(sessions, visit)
            continue
        if sessions.bind and not _is_bound(sessions, session):
            await end_flow(store, record, now)
            sessions.emit("destroyed", session.tag, reason="signal")
            session = WebSession(sessions, visit)
            session._cookie = policy.take_back() if visit.takes_cookies else None
            return session
        if now - record.issued >= sessions.renew and visit.takes_cookies and session._alias is None:
            await _renew_flow(sessions, store, session, now)
            if session._record is None:
                session = WebSession(sessions, visit)
                continue
        return session
    return session


async def commit_flow(sessions: WebSessions[Any], store: Store, session: WebSession[Any], plan: int) -> None:
    """Do what `session._decide()` found; leaves the cookie to set, if any, in the websession.

    Raises:
        StoreError: the changes of others came in faster than ours for many rounds.
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
        await _insert_flow(sessions, store, session, session._encoded, now, now, now + sessions.absolute)
        told = "created"
    elif plan == TOUCH:
        await _touch_flow(sessions, store, session, now)
    elif plan == ROTATE:
        await _rotate_flow(sessions, store, session, now)
    elif plan == END:
        await _destroy_flow(sessions, store, session, now)
        if session._encoded != sessions.blank:
            # As a farewell message: it goes into a websession of its own.
            await _insert_flow(sessions, store, session, session._encoded, now, now, now + sessions.absolute)
            told = "created"
    elif await _write_flow(sessions, store, session, now):
        told = "saved"
    session._is_due = False
    if told and meter is not None:
        sessions.emit(told, session.tag, bytes=len(session._base), seconds=meter.seconds(), calls=meter.calls)


async def reload_flow(sessions: WebSessions[Any], store: Store, session: WebSession[Any]) -> bool:
    """Read the websession again and drop the changes; False, and empty it, when it has ended."""
    record = session._record
    if record is None or sessions.is_stateless:
        return not session._is_ended
    now = sessions.now()
    found = await current_flow(store, record.key, now, record)
    if found is not None and (found.user is None or not await is_revoked_flow(sessions, store, found)):
        return adopt(sessions, session, found)
    session.destroy()
    session._record = None
    return False


async def alive_flow(sessions: WebSessions[Any], store: Store, session: WebSession[Any]) -> bool:
    """Return whether a websession that was loaded some time ago has not ended since."""
    record = session._record
    if record is None or sessions.is_stateless:
        return not session._is_ended
    found = await current_flow(store, record.key, sessions.now(), record)
    return found is not None and (found.user is None or not await is_revoked_flow(sessions, store, found))


async def end_flow(store: Store, record: Record, now: float, keep: float = 0.0) -> Record | None:
    """Make a record, and what it was renewed to, unusable; return the last live version of it, or None.

    Args:
        keep: seconds for which a trace says that it was ended on purpose; 0 removes it.
    """
    live: Record | None = record
    has_searched = False
    for _ in range(ROUNDS):
        if live is None and not has_searched:
            has_searched = True
            live = await _search_flow(store, record)
        if live is None or live.next == ENDED:
            return None
        if live.next is not None:
            live = await store.get(live.next)
            continue
        # Not a delete: a renewal that is under way would slip past it.
        trace = replace(
            live,
            data=b"",
            version=live.version + 1,
            user=None,
            next=ENDED,
            prev=None,
            label=None,
            expires=now + keep,
        )
        if await store.put(trace, live.version):
            if not keep:
                await store.delete(record.key, live.key) if record.key != live.key else await store.delete(
                    live.key
                )
            return live
        live = await store.get(live.key)
    raise StoreError(f"the websession was changed by others {ROUNDS} times while it was to be ended")


async def current_flow(store: Store, key: bytes, now: float, known: Record | None = None) -> Record | None:
    """Return the live record that a key leads to, for a request that was let in already; None when it has ended.

    Args:
        known: what the request was let in with, to search by its user where the trail is cold.
    """
    record = await store.get(key)
    hops = 0
    while record is not None and record.next and hops < 8:
        # A request may have taken longer than several renewals.
        record = await store.get(record.next)
        hops += 1
    if record is None and known is not None:
        record = await _search_flow(store, known)
    if record is None or not record.is_live or not now < min(record.expires, record.deadline):
        return None
    return record


async def _search_flow(store: Store, known: Record) -> Record | None:
    """Return the live record of a user's websession whose trail is gone; None where there is none or none can be found.

    A socket may stay open for longer than `FOLLOW` after a renewal, and a logout there must end the websession.
    """
    if known.user is None or not hasattr(store, "find"):
        return None
    found: list[Record] = await store.find(known.user)
    # The older one, if a renewal is under way: whatever happens to it makes the renewal look again.
    live = [record for record in found if record.sid == known.sid and record.is_live]
    return min(live, key=lambda record: record.issued, default=None)


async def is_revoked_flow(sessions: WebSessions[Any], store: Store, record: Record) -> bool:
    """Return whether the user's epoch is later than the record: revoked while it was being made."""
    epochs = sessions.epochs_of(store) if record.user is not None else None
    if epochs is None or record.user is None:
        return False
    epoch = await epochs.get(sessions.epoch_key(record.user))
    return epoch is not None and record.created <= epoch.created


async def _settle_flow(
    sessions: WebSessions[Any], store: Store, session: WebSession[Any], record: Record, now: float
) -> Record | None:
    """Judge a record that is anything but plain and in time; return the one that counts, or None."""
    if record.next == ENDED:
        sessions.emit("rejected", record.sid.hex(), reason="ended")
        return None
    if record.next is not None:
        # Renewed. The old id is good for a while, in case the answer with the new one was lost, and no longer than
        # until the new one was seen.
        if record.data or now > record.issued + sessions.grace:
            sessions.emit("rejected", record.sid.hex(), reason="renewed")
            return None
        found = await current_flow(store, record.next, now)
        if found is None:
            sessions.emit("rejected", record.sid.hex(), reason="ended")
            return None
        session._alias = record.key
        record = found
    elif not now < record.expires or not now < record.deadline:
        await _expire_flow(sessions, store, record)
        return None
    elif record.prev is not None:
        old = await store.get(record.prev)
        if old is not None and old.next and not old.data:
            await store.put(replace(old, version=old.version + 1, data=b"seen"), old.version)
        session._has_closed = session._is_due = True  # so that `prev` goes with this answer's write
    if sessions.epochs_apart and await is_revoked_flow(sessions, store, record):
        sessions.emit("rejected", record.sid.hex(), reason="revoked")
        return None
    return record


async def _expire_flow(sessions: WebSessions[Any], store: Store, record: Record) -> None:
    await store.delete(record.key)
    sessions.emit("expired", record.sid.hex())


def adopt(sessions: WebSessions[Any], session: WebSession[Any], record: Record) -> bool:
    """Take over a record's content; False when it cannot be read."""
    try:
        plain = sessions.unsealed(record.data, record.key)
    except ValueError:
        sessions.emit("rejected", record.sid.hex(), reason="sealed")
        return False
    try:
        session._fill(plain, sessions.codec.decode(plain))
    except (ValueError, TypeError):
        sessions.emit("rejected", record.sid.hex(), reason="corrupt")
        return False
    session._record = record
    session._user = record.user
    session._label = record.label
    return True


def _is_bound(sessions: WebSessions[Any], session: WebSession[Any]) -> bool:
    """Compare the binding signals; False when the policy says that the websession must end."""
    bound = (session._extra or {}).get("bind")
    if type(bound) is not dict:
        return True
    seen = sessions.signals_of(session._visit)
    for signal, digest in bound.items():
        if signal not in seen or seen[signal] == digest:
            continue
        sessions.emit("mismatch", session.tag, signal=signal)
        policy = sessions.mismatch_policy(signal)
        if policy == "destroy":
            return False
        if policy == "challenge":
            session.challenged = True
    return True


async def _renew_flow(sessions: WebSessions[Any], store: Store, session: WebSession[Any], now: float) -> None:
    """Give a websession a new id. One of several parallel requests wins; the others go on with the old id."""
    old = session._record
    assert old is not None
    token = sessions.new_token()
    fresh = replace(
        old,
        key=key_of(token),
        data=sessions.sealed(session._base, key_of(token)),
        version=1,
        issued=now,
        prev=old.key,
        expires=sessions.expiry(now, old.deadline, session._extra),
    )
    if not await store.put(fresh, 0):
        return
    alias = replace(
        old,
        data=b"",
        version=old.version + 1,
        next=fresh.key,
        prev=None,
        user=None,
        label=None,
        issued=now,
        expires=now + max(FOLLOW, sessions.grace),
    )
    if not await store.put(alias, old.version):
        await store.delete(fresh.key)
        found = await current_flow(store, old.key, now)
        if found is None or not adopt(sessions, session, found):
            session._record = None
        elif found.key != old.key:
            session._alias = old.key
        return
    if await is_revoked_flow(sessions, store, fresh):
        await store.delete(fresh.key, old.key)
        sessions.emit("rejected", fresh.sid.hex(), reason="revoked")
        session._record = None
        return
    session._record = fresh
    session._cookie = sessions.cookie.give(token, fresh.deadline - now)
    sessions.emit("renewed", session.tag)


async def _insert_flow(
    sessions: WebSessions[Any],
    store: Store,
    session: WebSession[Any],
    plain: bytes,
    now: float,
    created: float,
    deadline: float,
) -> None:
    """Store a websession under a new id."""
    token = session._promised or sessions.new_token()
    session._promised = None
    key = key_of(token)
    record = Record(
        key,
        sessions.sealed(plain, key),
        1,
        created,
        sessions.expiry(now, deadline, session._extra),
        deadline,
        session._user,
        None,
        None,
        now,
        sessions.new_sid(),
        session._label,
    )
    if not await store.put(record, 0):
        raise StoreError("the store already has a record under an id that was just made from 256 random bits")
    session._record = record
    session._base = plain
    session._alias = None
    session._cookie = sessions.cookie.give(token, deadline - now)


async def _touch_flow(sessions: WebSessions[Any], store: Store, session: WebSession[Any], now: float) -> None:
    record = session._record
    assert record is not None
    expires = sessions.expiry(now, record.deadline, session._extra)
    if await store.touch(record.key, expires):
        session._record = replace(record, expires=expires)
        sessions.emit("touched", session.tag)
    else:
        _lose(sessions, session)


async def _write_flow(sessions: WebSessions[Any], store: Store, session: WebSession[Any], now: float) -> bool:
    """Write the changes over what was read, or merge them with what others wrote meanwhile; False: it had ended."""
    current = session._record
    assert current is not None
    plain = session._encoded
    for attempt in range(ROUNDS):
        if attempt:
            found = await current_flow(store, current.key, now, current)
            if found is None:
                await _lose_flow(sessions, store, session, current)
                return False
            current = found
            plain = _merge(sessions, session, current)
        fresh = replace(
            current,
            data=sessions.sealed(plain, current.key),
            version=current.version + 1,
            expires=sessions.expiry(now, current.deadline, session._extra),
            # Only a request that presented the new id has closed the old one.
            prev=None if session._has_closed else current.prev,
            label=session._label,
        )
        if await store.put(fresh, current.version):
            session._record = fresh
            session._base = plain
            return True
        sessions.emit("conflict", session.tag)
    raise StoreError(f"the websession was changed by others {ROUNDS} times while it was to be saved")


def _merge(
    sessions: WebSessions[Any], session: WebSession[Any], current: Record, only: tuple[str, ...] | None = None
) -> bytes:
    """Merge into the websession what others stored; return it encoded."""
    from mangonel.websessions.merge import merged

    decode, encode = sessions.codec.decode, sessions.codec.encode
    try:
        stored = sessions.unsealed(current.data, current.key)
        theirs = decode(stored)
    except ValueError as error:
        raise EncodeError(f"the websession was overwritten with something unreadable: {error}") from None
    base, mine = decode(session._base), session._builtins()
    if only is not None:
        base = {key: base[key] for key in only if key in base}
        theirs = {key: theirs[key] for key in only if key in theirs}
    try:
        value = merged(base, mine, theirs, lambda a, b: encode({"": a}) != encode({"": b}), sessions.merge)
    except Exception as error:
        raise UsageError(f"a merge function failed: {type(error).__name__}: {error}") from error
    plain = encode(value)
    if len(plain) > sessions.max_bytes:
        session._refuse_size(plain)
    session._fill(plain, decode(plain))
    session._base = stored
    session._encoded = plain
    return plain


async def _lose_flow(
    sessions: WebSessions[Any], store: Store, session: WebSession[Any], record: Record
) -> None:
    """The websession ended while this request ran: drop the change."""
    trace = await store.get(record.key)
    _lose(sessions, session, was_rotated=trace is not None)


def _lose(sessions: WebSessions[Any], session: WebSession[Any], was_rotated: bool = False) -> None:
    sessions.emit("gone", session.tag)
    # After a rotation the browser may have the new cookie by now, which taking the old one back would remove.
    can_leave = not session._headers_left and session._visit.takes_cookies
    session._cookie = sessions.cookie.take_back() if can_leave and not was_rotated else None
    session.destroy()
    session._record = None


async def _destroy_flow(
    sessions: WebSessions[Any], store: Store, session: WebSession[Any], now: float
) -> None:
    record = session._record
    assert record is not None
    tag = session.tag
    await end_flow(store, record, now)
    if session._alias is not None:
        await store.delete(session._alias)
    session._record = session._alias = None
    session._base = sessions.blank
    session._cookie = sessions.cookie.take_back()
    session._clear_site_data = bool(sessions.clear_site_data)
    sessions.emit("destroyed", tag)


async def _rotate_flow(
    sessions: WebSessions[Any], store: Store, session: WebSession[Any], now: float
) -> None:
    """End the old id first, then store everything under a new one; a crash between logs out, which is the safe side."""
    change, old, user = session._change, session._record, session._user
    starts_again = change != "rotated" or old is None
    # Before the first wait: a revocation that comes meanwhile must find this login older than itself.
    created = max(now, sessions.after_epoch) if starts_again or old is None else old.created
    if change == "login" and user is not None and sessions.max_per_user is not None:
        await _refuse_flow(sessions, store, user, old)
    plain = session._encoded
    if old is not None:
        ended = await end_flow(store, old, now, FOLLOW)
        if ended is None and change != "login":
            _lose(sessions, session)
            return
        if ended is not None and (ended.version, ended.key) != (old.version, old.key):
            plain = _merge(sessions, session, ended, session._kept if change == "login" else None)
    deadline = now + sessions.absolute if starts_again or old is None else old.deadline
    await _insert_flow(sessions, store, session, plain, now, created, deadline)
    session._change = ""
    session._kept = None
    record = session._record
    assert record is not None
    if record.user is not None:
        if await is_revoked_flow(sessions, store, record):
            await end_flow(store, record, now)
            _lose(sessions, session)
            return
        if change == "login" and sessions.max_per_user is not None:
            await _evict_flow(sessions, store, session, record, now)
    sessions.emit(change, session.tag, user=record.user)


async def _refuse_flow(sessions: WebSessions[Any], store: Store, user: str, old: Record | None) -> None:
    """Refuse before anything is ended. The one that this login replaces does not count."""
    if sessions.over_limit != "refuse":
        return
    own = old.sid if old is not None else None
    others = {record.sid for record in await live_flow(sessions, store, user)} - {own}
    if sessions.max_per_user is not None and len(others) >= sessions.max_per_user:
        raise TooManySessions(f"the user has {sessions.max_per_user} websessions already")


async def _evict_flow(
    sessions: WebSessions[Any], store: Store, session: WebSession[Any], record: Record, now: float
) -> None:
    """Look again after the insert, so that two logins at once see each other."""
    assert sessions.max_per_user is not None
    assert record.user is not None
    others = [other for other in await live_flow(sessions, store, record.user) if other.sid != record.sid]
    surplus = len({other.sid for other in others}) + 1 - sessions.max_per_user
    if surplus <= 0:
        return
    if sessions.over_limit == "refuse":
        await end_flow(store, record, now)
        _lose(sessions, session)
        raise TooManySessions(f"the user has {sessions.max_per_user} websessions already")
    doomed = {other.sid: None for other in sorted(others, key=lambda other: other.created)}
    for sid in list(doomed)[:surplus]:
        for other in others:
            if other.sid == sid:
                await end_flow(store, other, now)
        sessions.emit("evicted", sid.hex(), user=record.user)


async def live_flow(sessions: WebSessions[Any], store: Store, user: str) -> list[Record]:
    """Return a user's records that can still be used."""
    now = sessions.now()
    found: list[Record] = await store.find(user)  # type: ignore[attr-defined]
    return [record for record in found if record.is_live and now < min(record.expires, record.deadline)]
