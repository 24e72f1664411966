"""Websessions in their cookie, sealed with AES-GCM: no store, no store call, and no way to end one early.

Both limits are inside the seal and are enforced. A logout removes the cookie, but a copy of it works until the absolute
limit, unless `epochs=` names a store in which `revoke_user` can record the end. Every change sends the cookie again; of
two parallel changes the last response wins. Browsers keep at most 4096 bytes.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from mangonel.websessions.content import adopt, largest_key
from mangonel.websessions.errors import SessionTooLarge, UsageError
from mangonel.websessions.follow import epoch_flow, is_revoked_flow, replace
from mangonel.websessions.machine import END, INSERT, ROTATE, TOUCH
from mangonel.websessions.record import Record, pack_record, unpack_record
from mangonel.websessions.session import WebSession

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.session import RequestView
    from mangonel.websessions.stores.protocol import Store

__all__ = ["commit", "epoch_at_login_flow", "load_stateless_flow"]

COOKIE_LIMIT = 4096


async def load_stateless_flow(
    sessions: CheckedSettings[Any], store: Store, request_view: RequestView
) -> WebSession[Any]:
    """Return the websession in the cookie of a request, or an empty one."""
    session: WebSession[Any] = WebSession(sessions, request_view)
    policy = sessions.cookie
    candidates = policy.candidates(request_view.cookie)
    if candidates is None:
        return session
    if policy.secure and not request_view.is_secure:
        sessions.tell_insecure()
        return session
    for _, token, _ in candidates:
        record = _opened(sessions, token)
        if record is None:
            continue
        now = sessions.now()
        if not now < min(record.expires, record.deadline):
            sessions.emit("expired", record.sid.hex())
            continue
        if sessions.epochs_apart and await is_revoked_flow(sessions, store, record):
            sessions.emit("rejected", record.sid.hex(), reason="revoked")
            continue
        if adopt(session, record):
            return session
        session = WebSession(sessions, request_view)
    return session


def commit(session: WebSession[Any], plan: int) -> None:
    """Put the websession into the cookie to send; waits for nothing.

    Raises:
        SessionTooLarge: it does not fit into a cookie; nothing was sent.
        UsageError: no cookie can be sent any more.
    """
    sessions = session.state.sessions
    if not session.state.can_take_cookie:
        if plan == TOUCH:
            return
        raise UsageError(
            "a websession in its cookie is stored by the headers of an answer, and these have left: nothing of this "
            "change was stored; change it before, or keep websessions in a store"
        )
    now = sessions.now()
    old = session.state.record
    if plan == END:
        session.state.record = None
        session.state.cookie = sessions.cookie.take_back()
        session.state.clear_site_data = bool(sessions.clear_site_data)
        sessions.emit("destroyed", old.sid.hex() if old is not None else "")
        session.state.had_end = False
        if session.state.encoded == sessions.blank:
            return
        session.state.is_ended = False
        plan, old = INSERT, None
    change = session.state.change
    if old is None or plan == ROTATE:
        starts_again = old is None or change != "rotated"
        created = now if starts_again or old is None else old.created
        deadline = now + sessions.lasts(session.state.extra) if starts_again or old is None else old.deadline
        epoch = session.state.epoch if change == "login" else old.epoch if old is not None else 0
        sid = sessions.new_sid()
        fresh = Record(b"", b"", 1, created, 0.0, deadline, issued=now, sid=sid, epoch=epoch)
    else:
        fresh = replace(old, version=old.version + 1)
    fresh = replace(
        fresh,
        data=session.state.encoded,
        user=session.state.user,
        label=session.state.label,
        expires=sessions.expiry(now, fresh.deadline, session.state.extra),
    )
    assert sessions.ring is not None
    sealed = sessions.ring.seal(pack_record(fresh), sessions.cookie.purpose)
    cookie = sessions.cookie.give(
        urlsafe_b64encode(sealed).rstrip(b"=").decode(), fresh.deadline - now, session.state.extra
    )
    if len(cookie) > COOKIE_LIMIT:
        _refuse(session, len(cookie))
    session.state.record, session.state.base, session.state.cookie = fresh, session.state.encoded, cookie
    session.state.change, session.state.kept, session.state.is_due = "", None, False
    session.state.had_end = False
    told = change if plan == ROTATE else "created" if plan == INSERT else "saved"
    sessions.emit(
        told, session.state.tag, user=fresh.user if plan == ROTATE else None, bytes=len(session.state.encoded)
    )


async def epoch_at_login_flow(sessions: CheckedSettings[Any], store: Store, session: WebSession[Any]) -> None:
    """Record the user's epoch for the cookie of a login, if users can be revoked."""
    state = session.state
    if sessions.epochs_apart and state.change == "login" and state.user is not None:
        state.epoch = await epoch_flow(sessions, store, state.user)


def _opened(sessions: CheckedSettings[Any], token: str | None) -> Record | None:
    if token is None:
        sessions.emit("rejected", reason="malformed")
        return None
    assert sessions.ring is not None
    try:
        sealed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return unpack_record(b"", sessions.ring.unseal(sealed, sessions.cookie.purpose))
    except ValueError:
        sessions.emit("rejected", reason="sealed")
        return None


def _refuse(session: WebSession[Any], size: int) -> None:
    state = session.state
    raise SessionTooLarge(
        f"the websession's cookie would take {size} bytes, browsers keep {COOKIE_LIMIT}; "
        f"the largest part is {largest_key(state.sessions, state.encoded)!r}; a store has no such limit"
    )
