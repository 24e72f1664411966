"""Takes over the session of a predecessor: an old cookie is read once and leads to a new websession from then on.

The old cookie is treated as an id that a renewal has given up. A record under the hash of its value shows where the
websession continues. So concurrent requests share one websession, a lost response does no harm, a later copy of the
cookie is detected, and a logout or revocation ends it too. The record stays as long as the cookie is accepted.
Flows; knows no engine.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mangonel.websessions.content import adopt, encoded
from mangonel.websessions.errors import WebSessionError
from mangonel.websessions.follow import MOVED, epoch_flow
from mangonel.websessions.load import load_flow
from mangonel.websessions.record import Record
from mangonel.websessions.session import UNPROVED, WebSession
from mangonel.websessions.settings import checked_text
from mangonel.websessions.writes import new_record, next_writes, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.predecessors import Predecessor
    from mangonel.websessions.stores.protocol import Store

__all__ = ["take_over_flow"]

log = logging.getLogger("mangonel.websessions")


async def take_over_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], waits: bool
) -> WebSession[Any]:
    """Return the websession that an old cookie of the request leads to; the given one if there is none.

    Args:
        session: the request's, for which its own cookie found nothing.
        waits: whether this runs on an event loop.
    """
    request_view = session.state.request_view
    if (
        request_view.cookie is None
        or not request_view.takes_cookies
        or (sessions.cookie.secure and not request_view.is_secure)
    ):
        return session
    for each in sessions.predecessors:
        value = each.value_in(request_view.cookie) if sessions.now() < each.until else None
        if value is None:
            continue
        name = each.cookie.encode() + b"\0" + value.encode("utf-8", "surrogateescape")
        key = sha256(b"mangonel websession predecessor\0" + name).digest()
        if await store.get(key) is None:
            fresh = await _fresh_flow(
                sessions, WebSession(sessions, request_view), store, key, each, value, waits
            )
            if fresh is None:
                sessions.emit("rejected", reason="predecessor")
                sessions.note_guess(request_view)
                continue
            token, record = fresh
            found = await _store_flow(sessions, store, session, key, record, each)
            if found:
                session.state.cookie = sessions.cookie.give(
                    token, record.deadline - record.issued, session.state.extra
                )
                await each.forget_flow(value, waits)
                sessions.emit("taken_over", session.state.tag, user=record.user)
        if session.state.record is None:
            # Another request was faster, or the cookie comes again.
            session = await load_flow(sessions, store, request_view, key)
        if session.state.cookie is not None and each.cookie != sessions.cookie.name:
            session.state.old_cookie = each.take_back
        if session.state.record is not None:
            return session
    return session


async def _fresh_flow(
    sessions: CheckedSettings[Any],
    session: WebSession[Any],
    store: Store,
    key: bytes,
    each: Predecessor,
    value: str,
    waits: bool,
) -> tuple[str, Record] | None:
    """Return a token and a record with the old values; None if there are none, or they do not fit."""
    values = await each.read_flow(value, waits)
    if values is None:
        return None
    user = values.get(each.user) if each.user is not None else None
    if user is not None:
        user = checked_text(str(user), "the user")
        # The old cookie precedes any revocation, so any revocation ends its websession.
        if await epoch_flow(sessions, store, user):
            return None
    if each.convert is not None:
        values = each.convert(values)
    state = session.state
    state.user = user
    try:
        if sessions.model is not None:
            state.model = sessions.from_builtins(values)
        else:
            session.update(values)
        if user is not None:
            session._bind()
            state.set_extra(UNPROVED, True)
        plain = encoded(session)
    except (WebSessionError, ValueError) as error:
        log.error(
            "cannot take over a session of %s; convert= can change its values: %s", type(each).__name__, error
        )
        return None
    now, token = sessions.now(), sessions.new_token()
    return token, new_record(session, token, plain, now, now + sessions.absolute, prev=key)


async def _store_flow(
    sessions: CheckedSettings[Any],
    store: Store,
    session: WebSession[Any],
    key: bytes,
    record: Record,
    each: Predecessor,
) -> bool:
    """Store the record, and the trace from the old cookie to it; False: another request was faster."""
    was_put, _ = await put_flow(store, record, 0)
    if not was_put:
        return False
    trace = Record(
        key,
        b"",
        1,
        record.created,
        max(each.until, record.expires),
        max(each.until, record.deadline),
        next=record.key,
        issued=record.issued,
        sid=record.sid,
        label=MOVED,
        writes=next_writes(b""),
    )
    was_put, _ = await put_flow(store, sessions.sealed(trace, b""), 0)
    if not was_put or not adopt(session, record):
        await store.delete(record.key)
        return False
    return True
