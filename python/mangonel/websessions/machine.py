"""The state of one request's websession, and the table that decides its commit. Waits for nothing, knows no store.

Only the request's calls and the differences from the stored record decide:

    stored   asked for                differs   the commit
    ───────  ───────────────────────  ────────  ─────────────────────────────────────────────────────
    nothing  to stay                  nothing   NOTHING  a reader without a login costs no call
    nothing  to stay                  values    INSERT   a new id
    nothing  login                    any       ROTATE   a new id, with a user
    nothing  an end                   values    INSERT   a farewell message
    a trail  an end                   any       END      of the websession that the given-up id led to
    a record to stay                  nothing   NOTHING
    a record to stay                  its time  TOUCH    only `expires` changes
    a record to stay                  values    WRITE    on the version that was read, or a merge
    a record login, rotate, proved    any       ROTATE   the old id ends, then everything under a new one
    a record an end                   any       END      and INSERT for a farewell message

The laws:
- Calls take precedence over differences: an end is never turned into a write, nor is a rotation.
- The last call counts: `login` after `destroy` is a login, `destroy` after `login` is an end.
- Nothing that needs a new cookie is started if no cookie can be sent any more.
- A websession that could not be loaded (`degraded`) is never written; ending it or changing its user is an error.
- A failed response stores no values and logs no user in. But an end stays an end, and a login or rotation still changes
  the id, so that a given-up id becomes invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mangonel.websessions.content import encoded, fill
from mangonel.websessions.errors import SessionMoved, StoreError, UsageError

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.record import Record
    from mangonel.websessions.session import RequestView, WebSession

__all__ = [
    "END",
    "INSERT",
    "NOTHING",
    "ROTATE",
    "TOUCH",
    "WRITE",
    "State",
    "check_not_moved",
    "decide",
    "decide_new",
    "discard",
]

# The plans of a commit.
NOTHING, TOUCH, WRITE, INSERT, ROTATE, END = range(6)

# The calls, and the differences.
STAY, CHANGE, LEAVE = range(3)
SAME, TIME, VALUES = range(3)

PLANS = {
    # (is stored, call, difference)
    (False, STAY, SAME): NOTHING,
    (False, STAY, TIME): NOTHING,
    (False, STAY, VALUES): INSERT,
    (False, CHANGE, SAME): ROTATE,
    (False, CHANGE, TIME): ROTATE,
    (False, CHANGE, VALUES): ROTATE,
    (False, LEAVE, SAME): NOTHING,
    (False, LEAVE, TIME): NOTHING,
    (False, LEAVE, VALUES): INSERT,
    (True, STAY, SAME): NOTHING,
    (True, STAY, TIME): TOUCH,
    (True, STAY, VALUES): WRITE,
    (True, CHANGE, SAME): ROTATE,
    (True, CHANGE, TIME): ROTATE,
    (True, CHANGE, VALUES): ROTATE,
    (True, LEAVE, SAME): END,
    (True, LEAVE, TIME): END,
    (True, LEAVE, VALUES): END,
}

# These give the browser a new cookie.
NEED_COOKIE = frozenset({INSERT, ROTATE})


class State:
    """A request's knowledge of its websession, for flows and frameworks. Refers to no websession.

    Attributes:
        sessions: the application's settings.
        request_view: the request.
        record: the stored record, as last seen. None: there is none.
        base: the encoded values in the store.
        encoded: the encoded values of this request, once a commit was decided.
        extra: the package's own values. None: there are none.
        model: the typed values, if there is a model.
        user, label: the values to store.
        change: "login", "reauthenticated" or "rotated"; "" if none was called.
        kept: the keys that survive a login.
        is_ended: an end was called, or found.
        is_gone: it ended by another request, or by an end that this request stored.
        had_end: an end was called, even if a login followed.
        is_due: the time of its last use must be stored.
        has_closed: this request presented the new id, so the old one is closed and need not be recorded.
        alias: key of the old id that led here. None: the record's own key did.
        trail: the trace, if the request's id was given up; only an end follows it.
        was_lost: the old id came again so late that the response with the new one must have been lost.
        cookie: the Set-Cookie header to send. None: none.
        csrf_secret: the secret of tokens, if it is not among the values; "" if the request's secret is void.
        old_cookie: the Set-Cookie header that removes a predecessor's cookie.
        csrf_cookie: the Set-Cookie header that sets or removes the cookie with that secret.
        device: the secret in the cookie of the browser's device, once a login has taken it.
        device_cookie: the Set-Cookie header for that cookie.
        remembers: the token of a login that is to be remembered, and for how many seconds.
        permanent: whether the cookie should outlive the browser, as in Flask. None: not set.
        counted: keys that `increment` changed; others' increments are added.
        epoch: the user's last revocation at login, for a websession kept in its cookie.
        promised: token of a cookie that was sent before its record was stored.
        headers_left: no cookie can be set any more.
        discarded: the encoded values that could not be stored, since no cookie could be sent with them.
        clear_site_data: whether to send the header Clear-Site-Data.
        challenged, degraded: as in the websession.
        was_answered: the response's commit has run, successfully or not.
        late_end: called with the websession if an end is called after the response. None: the framework notices.
        face: runs this websession's flows.
        writer: the task that stores it now, or reads it again. None: no task does.
        waiting: futures of the tasks that will store it next.
        lock: held by the thread that stores it; made for the first such thread.
    """

    # A request sets the first three; the others are class defaults, since most requests need few of them.
    sessions: CheckedSettings[Any]
    request_view: RequestView
    base: bytes
    record: Record | None = None
    extra: dict[str, Any] | None = None
    model: Any = None
    user: str | None = None
    cookie: str | None = None
    encoded = b""
    label: str | None = None
    change = ""
    kept: tuple[str, ...] | None = None
    is_ended = False
    had_end = False
    is_gone = False
    is_due = False
    has_closed = False
    alias: bytes | None = None
    trail: Record | None = None
    was_lost = False
    permanent: bool | None = None
    counted: frozenset[str] = frozenset()
    promised: str | None = None
    epoch = 0
    csrf_secret: str | None = None
    csrf_cookie: str | None = None
    device: str | None = None
    device_cookie: str | None = None
    remembers: tuple[str, float] | None = None
    old_cookie: str | None = None
    headers_left = False
    discarded = b""
    clear_site_data = False
    challenged = False
    degraded = False
    was_answered = False
    late_end: Callable[[Any], None] | None = None
    face: Any = None
    writer: Any = None
    waiting: tuple[Any, ...] = ()

    def check_not_gone(self) -> None:
        """Refuse to store a websession that has ended.

        Raises:
            UsageError: another request ended it, or this one did.
        """
        if self.is_gone:
            raise UsageError(
                "this websession has ended, so nothing of it can be saved; reload() said so, or a write did"
            )

    @property
    def has_moved(self) -> bool:
        """Whether the request's id was given up so recently that the next cookie may be on its way to the browser."""
        return self.trail is not None and self.sessions.now() - self.trail.issued <= self.sessions.grace

    @property
    def tag(self) -> str:
        """The websession's name for logs; "" before it is stored."""
        return self.record.sid.hex() if self.record is not None else ""

    def set_extra(self, name: str, value: Any) -> None:
        """Set one of the package's own values."""
        if self.extra is None:
            self.extra = {}
        self.extra[name] = value

    @property
    def can_take_cookie(self) -> bool:
        """Whether the response can still carry Set-Cookie."""
        return not self.headers_left and self.request_view.takes_cookies


def decide(session: WebSession[Any]) -> int:
    """Return the plan of the commit. Makes no call."""
    state = session.state
    record = state.record
    if state.degraded:
        if state.is_ended or state.change:
            raise StoreError(
                "the store did not answer when this request began, so nothing was ended or given a new id"
            )
        return NOTHING
    if (
        record is None
        and not dict.__len__(session)
        and not state.extra
        and not state.user
        and state.model is None
        and not (state.is_ended and state.trail is not None)
    ):
        return NOTHING  # the table's first row, without encoding anything
    state.encoded = encoded(session)
    if state.permanent is not None and (
        record is not None or state.user or state.encoded != state.sessions.blank
    ):
        _become_permanent(session, state.permanent)
    has_one = record is not None or (state.is_ended and state.trail is not None)
    call = STAY
    if state.is_ended:
        call = LEAVE
    elif state.change and (record is not None or state.user is not None):
        call = CHANGE
    is_other = state.encoded != (state.base if record is not None else state.sessions.blank)
    plan = PLANS[has_one, call, VALUES if is_other else _differs(state)]
    return plan if plan not in NEED_COOKIE or _can_give_cookie(state) else NOTHING


def decide_new(session: WebSession[Any]) -> int:
    """Return the plan that stores a new websession, even an empty one, if its cookie can be given."""
    state = session.state
    if state.degraded or state.record is not None:
        return NOTHING
    state.encoded = encoded(session)
    return INSERT if _can_give_cookie(state) else NOTHING


def _become_permanent(session: WebSession[Any], permanent: bool) -> None:
    """Make the cookie outlive the browser, or not; a stored websession gets a new id for that."""
    state = session.state
    if permanent == bool((state.extra or {}).get("remember")) or state.is_ended:
        return
    if permanent:
        state.set_extra("remember", state.sessions.permanent or state.sessions.longest)
    elif state.extra:
        state.extra.pop("remember")
    if state.record is not None and state.can_take_cookie:
        state.change = state.change or "rotated"
    state.encoded = encoded(session)


def check_not_moved(state: State) -> None:
    """Refuse a new websession to a browser that has, or is about to get, the cookie of the current one.

    Raises:
        SessionMoved: the request came with an id that was given up within the grace period.
    """
    if state.has_moved:
        raise SessionMoved(
            "this request came with an id that a login, a rotation or a renewal had just given up, so nothing of it "
            "was stored; sent again with the new cookie, it finds the websession"
        )


def _differs(state: State) -> int:
    """Return the difference from the store of a websession whose values are unchanged."""
    record, sessions = state.record, state.sessions
    if record is None:
        return SAME
    expires = sessions.expiry(sessions.now(), record.deadline, state.extra)
    if state.is_due or expires - record.expires >= sessions.touch_after:
        # A touch changes only `expires`, to which the seal is bound.
        moves_more = state.label != record.label or record.prev is not None or sessions.ring is not None
        return VALUES if moves_more else TIME
    return SAME


def _can_give_cookie(state: State) -> bool:
    sessions = state.sessions
    if sessions.cookie.secure and not state.request_view.is_secure:
        sessions.tell_insecure()
        return False
    if (state.headers_left and state.promised is None) or not state.request_view.takes_cookies:
        if state.encoded == state.discarded:
            return False  # reported before
        state.discarded = state.encoded
        raise UsageError(
            "a new websession needs a cookie, and no cookie could leave any more when something was put into it: "
            "nothing of that was stored; change it before the headers of the answer leave"
        )
    return True


def discard(session: WebSession[Any]) -> None:
    """Drop this request's changes, because the response is an error. A given-up id stays given up."""
    state = session.state
    record = state.record
    state.permanent = state.device_cookie = state.remembers = None
    if record is None and state.had_end and state.trail is not None:
        session.destroy()
        return
    if record is None:
        dict.clear(session)
        state.change, state.is_ended = "", False
        state.model = state.extra = state.user = state.label = None
        return
    if state.had_end:
        session.destroy()
        return
    state.user, state.label = record.user, record.label
    fill(session, state.base, state.sessions.codec.decode(state.base))
    if state.change:
        state.change, state.kept = "rotated", None
        if state.extra:
            state.extra.pop("csrf", None)
