"""What frameworks call when a response leaves: it sets the cookie's headers, and ends late changes.

Waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mangonel.websessions import stateless
from mangonel.websessions.errors import UsageError, WebSessionError
from mangonel.websessions.late import let_go
from mangonel.websessions.machine import END, INSERT, NOTHING, ROTATE, check_not_moved, decide, discard

if TYPE_CHECKING:
    from mangonel.websessions.session import WebSession

__all__ = [
    "REASONS",
    "headers_of",
    "last_plan",
    "late_plan",
    "one_vary",
    "promise",
    "stream_headers",
    "take_headers",
]

# Reason phrases of our statuses.
REASONS = {403: "Forbidden", 409: "Conflict", 500: "Internal Server Error", 503: "Service Unavailable"}


def promise(session: WebSession[Any], status: int = 200) -> None:
    """Decide on the cookie before the commit, without the store: in a streamed response the headers leave first."""
    state = session.state
    if status >= 500 and not state.sessions.save_on_error:
        discard(session)
    plan = decide(session)
    sessions = state.sessions
    if sessions.is_stateless:
        if plan == ROTATE and state.change == "login" and sessions.epochs_apart:
            raise UsageError(
                "login() looks for the user's revocations before its cookie leaves; "
                "call it, and session.save(), before the first flush()"
            )
        if plan != NOTHING:
            stateless.commit(session, plan)
    elif plan in (INSERT, ROTATE):
        if plan == INSERT:
            check_not_moved(state)
        state.promised = sessions.new_token()
        state.cookie = sessions.cookie.give(state.promised, sessions.lasts(state.extra), state.extra)
    elif plan == END:
        state.cookie = sessions.cookie.take_back()
    state.headers_left = True


def last_plan(session: WebSession[Any], status: int = 500) -> int:
    """Return the commit's plan for a response with this status, or for a handler that failed without a response.

    Raises:
        StoreError: the websession was not loaded, but should end or change its user.
        EncodeError, SessionTooLarge: its values cannot be stored, so the response is an error: call again with its
            status.
    """
    state = session.state
    if status >= 500 and not state.sessions.save_on_error:
        discard(session)
    state.was_answered = True
    try:
        return decide(session)
    except WebSessionError:
        if status < 500 or state.degraded:
            raise
    # Values that cannot be stored are dropped, even with `save_on_error`.
    discard(session)
    return decide(session)


def headers_of(session: WebSession[Any]) -> list[tuple[str, str]]:
    """Return the headers for this response: Set-Cookie and its companions. Empty for most."""
    state = session.state
    if state.cookie is None and state.csrf_cookie is None and state.device_cookie is None:
        # Content made for this visitor must not be cached for others, whether or not there is a websession.
        return [("Vary", "Cookie")] if session.accessed else []
    found = [
        ("Set-Cookie", cookie)
        for cookie in (state.cookie, state.old_cookie, state.csrf_cookie, state.device_cookie)
        if cookie is not None
    ]
    found += [("Cache-Control", state.sessions.cookie.cache_control), ("Vary", "Cookie")]
    if state.clear_site_data:
        found.append(("Clear-Site-Data", state.sessions.clear_site_data))
    return found


def stream_headers(session: WebSession[Any], control: str | None) -> list[tuple[str, str]]:
    """Return the headers for an answer that leaves before its body is made, while the websession may still be read.

    Args:
        session: the request's. If caches may give the answer to others, reading the session raises from now on.
        control: the application's own Cache-Control; None: it has none.
    """
    was_accessed = session.accessed
    added = take_headers(session)
    is_ours = any(name == "Cache-Control" for name, _ in added)
    is_read = is_ours or control is None or was_accessed or _is_private(control)
    let_go(session, is_read=is_read)
    if is_ours or not is_read:
        return added
    return [("Cache-Control", "private"), ("Vary", "Cookie")] if control is None else [("Vary", "Cookie")]


def one_vary(given: Iterable[str], ours: str) -> str:
    """Return one Vary header of those that an answer has and ours: nginx before 1.23 heeds only the last one."""
    names = [name.strip() for each in given for name in each.split(",")]
    return ", ".join(dict.fromkeys([*filter(None, names), ours]))


def _is_private(control: str) -> bool:
    """Whether a Cache-Control keeps an answer from caches that visitors share."""
    directives = {part.partition("=")[0].strip().lower() for part in control.split(",")}
    return not directives.isdisjoint(("private", "no-store"))


def late_plan(session: WebSession[Any], status: int) -> int:
    """Return the plan to commit after the whole answer has left, for example changes of a background task.

    Raises:
        UsageError: the websession is new, and no cookie can be sent any more.
        WebSessionError: as `last_plan`.
    """
    session.state.headers_left = True
    return last_plan(session, status)


def take_headers(session: WebSession[Any]) -> list[tuple[str, str]]:
    """Return the headers for a response that leaves now; no other response carries the cookies."""
    found = headers_of(session)
    state = session.state
    state.cookie = state.csrf_cookie = state.old_cookie = state.device_cookie = None
    return found
