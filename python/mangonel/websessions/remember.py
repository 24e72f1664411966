"""A remembered login: after the websession has ended, a cookie logs in with a token that is used once.

The browser has a series, which is its device, and a token; each such login replaces the token. A token that returns
after its successor was presented has been copied: the series ends, and `on_theft` is called. Parallel requests of one
browser bring the same token, so all of them get the websession of the first. Flows; knows no engine.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mangonel.websessions.agents import names_of
from mangonel.websessions.book import (
    Book,
    Known,
    change_flow,
    device_id,
    digest,
    locator_of,
    read_book,
    without_login,
)
from mangonel.websessions.content import adopt, encoded
from mangonel.websessions.devices import device_of, end_device_flow
from mangonel.websessions.errors import StoreError, TooManySessions
from mangonel.websessions.follow import ROUNDS, current_flow, end_flow, is_revoked_flow
from mangonel.websessions.hooks import call_hook
from mangonel.websessions.limit import evict_flow, limit_flow, limit_of
from mangonel.websessions.session import UNPROVED, WebSession
from mangonel.websessions.writes import new_record, put_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.stores.protocol import Store

__all__ = ["forget_remembered_flow", "remembered_flow"]


async def remembered_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any]
) -> WebSession[Any]:
    """Return the websession that a remembered login of the request leads to; the given one if there is none.

    Args:
        session: the request's, for which its own cookie found nothing.
    """
    request_view = session.state.request_view
    if (
        request_view.cookie is None
        or not request_view.takes_cookies
        or (sessions.cookie.secure and not request_view.is_secure)
        # Another websession would replace the one that the browser continues with.
        or session.state.has_moved
    ):
        return session
    secret, locator, token = sessions.cookie.device_in(request_view.cookie)
    if secret is None or locator is None or token is None:
        return session
    key, given = urlsafe_b64decode(locator + "="), digest(token)
    for _ in range(ROUNDS):
        now = sessions.now()
        book = read_book(sessions, await store.get(key))
        id = device_id(sessions, book.user, secret)
        known = book.devices.get(id)
        if known is None or not known.expects or not now < known.until:
            # The cookie stays: a newer one may be on its way to the browser.
            sessions.emit("rejected", reason="remember")
            if known is None:
                sessions.note_guess(request_view)
            return session
        was_lost = given == known.before and not known.seen and now - known.changed > sessions.grace
        if given == known.expects or was_lost:
            found = await _exchange_flow(sessions, store, session, key, book, id, known, secret, given, now)
            if found is not None:
                return found
            continue  # another request of this browser was faster
        if given == known.before and now - known.changed <= sessions.grace:
            return await _share_flow(sessions, store, session, known, now)
        if await _stolen_flow(sessions, store, key, book, id, known, now):
            return session
    raise StoreError(f"the user's devices were changed by others {ROUNDS} times")


async def forget_remembered_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], keep: bytes | None = None
) -> None:
    """Forget the remembered login of the request's browser, since a user logs out there, or another one logs in.

    Args:
        keep: key of the devices of the user who logs in, which the login itself changes.
    """
    secret, locator, _ = sessions.cookie.device_in(session.state.request_view.cookie)
    if secret is None or locator is None:
        return
    key = urlsafe_b64decode(locator + "=")
    if key != keep:
        await change_flow(
            sessions, store, key, lambda book: without_login(book, device_id(sessions, book.user, secret))
        )


async def _exchange_flow(
    sessions: CheckedSettings[Any],
    store: Store,
    session: WebSession[Any],
    key: bytes,
    book: Book,
    id: str,
    known: Known,
    secret: str,
    given: bytes,
    now: float,
) -> WebSession[Any] | None:
    """Log in with a token and replace it; None: another request was faster."""
    user, most = book.user, limit_of(sessions, book.user)
    fresh: WebSession[Any] = WebSession(sessions, session.state.request_view)
    state = fresh.state
    state.user, state.label = user, known.label
    state.extra = {UNPROVED: True, "device": id}
    if known.print:
        state.extra["print"] = known.print
    fresh._bind()
    created = now
    if most is not None:
        try:
            created = max(now, await limit_flow(sessions, store, user, most, None))
        except TooManySessions:
            return session
    plain = encoded(fresh)
    token, next_token = sessions.new_token(), sessions.new_token()
    deadline = now + sessions.absolute
    # With `prev`, the first request with this websession shows that the answer was not lost.
    record = new_record(fresh, token, plain, now, deadline, created=created, prev=key, epoch=known.epoch)
    was_put, _ = await put_flow(store, record, 0)
    if not was_put:
        return None
    signals = state.request_view.signals
    browser, system = names_of(signals("user_agent") or "") if signals is not None else ("", "")
    after = replace(
        known,
        browser=browser or known.browser,
        system=system or known.system,
        last=now,
        expects=digest(next_token),
        before=given,
        changed=now,
        session=record.key,
        seen=False,
    )
    changed = await change_flow(
        sessions,
        store,
        key,
        lambda book: book.having(id, after) if book.devices.get(id) == known else None,
    )
    if changed is None:
        await store.delete(record.key)
        return None
    if await is_revoked_flow(sessions, store, record):
        await store.delete(record.key)
        sessions.emit("rejected", record.sid.hex(), reason="revoked")
        return session
    if (
        given != known.expects
        and (lost := await current_flow(sessions, store, known.session, now)) is not None
    ):
        # The answer with this websession's id was lost, so only a copy can use it.
        await end_flow(sessions, store, lost, now)
    if most is not None and await evict_flow(sessions, store, record, most, now):
        return session
    if not adopt(fresh, record):
        return session
    state.cookie = sessions.cookie.give(token, deadline - now, state.extra)
    state.device_cookie = sessions.cookie.give_device(secret, locator_of(key), next_token)
    sessions.emit("remembered", state.tag, user=user)
    return fresh


async def _share_flow(
    sessions: CheckedSettings[Any], store: Store, session: WebSession[Any], known: Known, now: float
) -> WebSession[Any]:
    """Return the websession that another request of the same browser was given for the same token."""
    found = await current_flow(sessions, store, known.session, now)
    if found is None or await is_revoked_flow(sessions, store, found):
        return session
    if known.seen:
        # Treated like an id that a renewal has closed: the browser has the new cookies.
        session.state.trail = replace(found, data=b"", next=found.key, prev=None, issued=known.changed)
        session.state.trail = sessions.sealed(session.state.trail, b"")
        sessions.emit("rejected", found.sid.hex(), reason="renewed")
        return session
    fresh: WebSession[Any] = WebSession(sessions, session.state.request_view)
    return fresh if adopt(fresh, found) else session


async def _stolen_flow(
    sessions: CheckedSettings[Any], store: Store, key: bytes, book: Book, id: str, known: Known, now: float
) -> bool:
    """End a series whose old token came again; False: another request changed it meanwhile."""
    ends = sessions.on_reuse == "destroy"
    if ends:
        changed = await change_flow(
            sessions,
            store,
            key,
            lambda book: book.having(id, known.forgotten()) if book.devices.get(id) == known else None,
        )
        if changed is None:
            return False
        found = await current_flow(sessions, store, known.session, now) if known.session else None
        if found is not None:
            await end_flow(sessions, store, found, now)
        # Also end the device's other websessions, such as those of later logins with the series.
        if hasattr(store, "find"):
            await end_device_flow(sessions, store, book.user, id)
    sessions.emit("reused", reason="remember", user=book.user)
    call_hook(sessions.on_theft, device_of(book.user, id, known.forgotten() if ends else known))
    return True
