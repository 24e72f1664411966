"""The websession of one request: a plain dict of plain values, and what may be done to it.

Waits for nothing: what is asked for here is done by the flows when the answer is about to leave. Nothing has to be
remembered about nested changes, since they are found by comparing encoded bytes.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mangonel.websessions.errors import CSRFError, EncodeError, SessionTooLarge, UsageError, WebSessionError

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions
    from mangonel.websessions.record import Record

__all__ = ["Flash", "Visit", "WebSession"]

Data = TypeVar("Data")

# What the package itself keeps in a websession goes under one key, which is encoded only when there is something.
RESERVED = "_websession"
CSRF_BYTES = 16

# What a commit has to do.
NOTHING, TOUCH, WRITE, INSERT, ROTATE, END = range(6)


class Flash(tuple[str, str]):
    """A message that is read once: `kind` and `text`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """What kind of message, as "info"."""
        return self[0]

    @property
    def text(self) -> str:
        """The message."""
        return self[1]


class Visit:
    """What a websession wants to know of a request.

    Args:
        cookie: the Cookie header, or None.
        is_secure: whether it came over TLS, as far as the server knows.
        signals: returns "user_agent", "address" or an application's own signal, or None where there is none.
        takes_cookies: False where the answer cannot carry Set-Cookie any more, as in a WebSocket.
    """

    __slots__ = ("cookie", "is_secure", "signals", "takes_cookies")

    def __init__(
        self,
        cookie: str | None = None,
        is_secure: bool = True,
        signals: Callable[[str], str | None] | None = None,
        takes_cookies: bool = True,
    ) -> None:
        self.cookie = cookie
        self.is_secure = is_secure
        self.signals = signals
        self.takes_cookies = takes_cookies


class WebSession(dict[str, Any], Generic[Data]):
    """The websession of one request: a dict; with a model, the typed values are in `data`.

    Attributes:
        accessed: whether somebody has looked at it in this request.
        challenged: a binding signal changed and the policy is "challenge": `user` is None until `reauthenticated()`.
        degraded: the store did not answer and the policy is "anonymous": empty, and nothing will be saved.
    """

    # What every request reads or sets is a slot: in a subclass of dict that is several times cheaper than the rest.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_base",
        "_cookie",
        "_extra",
        "_model",
        "_record",
        "_sessions",
        "_user",
        "_visit",
        "accessed",
    )
    _record: Record | None
    _extra: dict[str, Any] | None
    _model: Any
    _user: str | None
    _cookie: str | None

    # Class attributes, not set in __init__: most requests need none of them.
    challenged = False
    degraded = False
    permanent = False  # Flask asks; how long a websession lasts is not the cookie's business
    modified = True  # for frameworks that ask; whether something changed is found out when it matters
    _face: Any = None
    _promised: str | None = None
    _alias: bytes | None = None
    _encoded = b""
    _change = ""
    _kept: tuple[str, ...] | None = None
    _label: str | None = None
    _is_ended = False
    _is_due = False
    _has_closed = False
    _headers_left = False
    _clear_site_data = False

    def __init__(self, sessions: WebSessions[Any], visit: Visit) -> None:
        self._sessions = sessions
        self._visit = visit
        self._base = sessions.blank
        self._record = self._extra = self._model = self._user = self._cookie = None
        self.accessed = False

    # What it says about itself.

    @property
    def new(self) -> bool:
        """Whether nothing of it is stored."""
        return self._record is None

    @property
    def user(self) -> str | None:
        """Who logged in, or None."""
        return None if self.challenged else self._user

    @property
    def created(self) -> float | None:
        """When it began or its user last logged in, in seconds since the epoch."""
        return self._record.created if self._record is not None else None

    @property
    def expires(self) -> float | None:
        """When it ends unless used, as stored."""
        return self._record.expires if self._record is not None else None

    @property
    def deadline(self) -> float | None:
        """When it ends whether used or not."""
        return self._record.deadline if self._record is not None else None

    @property
    def tag(self) -> str:
        """A name for logs and listings, which opens nothing. The same over renewals; "" before it is stored."""
        return self._record.sid.hex() if self._record is not None else ""

    @property
    def label(self) -> str | None:
        """What listings call it; set it as "Firefox on Linux"."""
        return self._label

    @label.setter
    def label(self, label: str | None) -> None:
        if label != self._label:
            self._label = label
            self._is_due = True

    @property
    def data(self) -> Data:
        """The typed values, or without a model the websession itself."""
        if self._sessions.model is None:
            return self  # type: ignore[return-value]
        if self._model is None:
            self._model = self._sessions.model()
        value: Data = self._model
        return value

    @data.setter
    def data(self, value: Data) -> None:
        if self._sessions.model is None:
            self.clear()
            self.update(value)  # type: ignore[call-overload]
        else:
            self._model = value

    def mark_accessed(self) -> None:
        """Note that somebody looked; Starlette calls it."""
        self.accessed = True

    # Changes of privilege.

    def login(self, user: str, keep: Iterable[str] = ()) -> None:
        """Make it this user's: a new id, the old one dead, both limits start again.

        Args:
            user: how the application names the user; stored as it is, for listings and revocation.
            keep: the keys that survive; everything else of the time before the login is dropped.

        Raises:
            UsageError: no user.

        Example:
            >>> websession.login("ada", keep=("cart",))
            >>> websession.user
            'ada'
        """
        self._check_cookie_can_leave("login()")
        if not isinstance(user, str) or not user:
            raise UsageError(f"expected the user as a non-empty str, got {type(user).__name__}")
        self._kept = tuple(keep)
        if self._sessions.model is None:
            for key in [key for key in self if key not in self._kept]:
                del self[key]
        else:
            fresh = self._sessions.model()
            for key in self._kept:
                setattr(fresh, key, getattr(self.data, key))
            self._model = fresh
        self._extra = None
        self._user = user
        self.challenged = False
        self._is_ended = False
        self._bind()
        self._change = "login"

    def reauthenticated(self) -> None:
        """Note that the user proved again who they are: a new id, the data kept, both limits start again."""
        self._check_cookie_can_leave("reauthenticated()")
        self.challenged = False
        self._bind()
        self._change = self._change or "reauthenticated"

    def rotate(self) -> None:
        """Take a new id because privileges changed. The data and the absolute limit stay, the old id is dead."""
        self._check_cookie_can_leave("rotate()")
        if self._extra:
            self._extra.pop("csrf", None)
        self._change = self._change or "rotated"

    def destroy(self) -> None:
        """End it, here and in the browser; whatever runs in parallel cannot bring it back."""
        self.clear()
        self._model = None
        self._extra = None
        self._user = None
        self._change = ""
        self._is_ended = True

    def invalidate(self) -> None:
        """End it, as `destroy()`; the name that an older Tornado used."""
        self.destroy()

    def refresh(self, duration: Any = None, new_session_id: bool = False) -> None:
        """Prolong it now, as an older Tornado named it.

        Args:
            duration: an idle limit of this websession only, as seconds, timedelta or "30m"; the absolute limit stays.
            new_session_id: take a new id as well, as `rotate()`.

        Example:
            >>> websession.refresh("30m")
        """
        from mangonel.websessions.settings import seconds

        if duration is not None:
            self._set_extra("idle", seconds(duration, "duration"))
        self._is_due = True
        if new_session_id:
            self.rotate()

    # Messages that are read once, and tokens.

    def flash(self, text: str, kind: str = "info") -> None:
        """Keep a message for whoever calls `flashes()` first, usually the next page.

        Args:
            text: what it says.
            kind: such as info, success or error; pages colour by it.

        Example:
            >>> websession.flash("Saved", "success")
            >>> [message.text for message in websession.flashes()]
            ['Saved']
        """
        self._set_extra("flash", [*(self._extra or {}).get("flash", ()), [kind, text]])

    def flashes(self) -> list[Flash]:
        """Return the messages and forget them."""
        if not self._extra or "flash" not in self._extra:
            return []
        return [Flash(message) for message in self._extra.pop("flash")]

    def csrf_token(self) -> str:
        """Return a token for forms, different each time; it dies with a login or a rotation, not with a renewal."""
        secret = (self._extra or {}).get("csrf")
        if secret is None:
            secret = urlsafe_b64encode(token_bytes(CSRF_BYTES)).decode()
            self._set_extra("csrf", secret)
        mask = token_bytes(CSRF_BYTES)
        masked = bytes(a ^ b for a, b in zip(mask, urlsafe_b64decode(secret), strict=True))
        return urlsafe_b64encode(mask + masked).decode().rstrip("=")

    def check_csrf(self, token: str | None, fetch_site: str | None = None) -> None:
        """Check a token from a form or a header, and what the browser says about where the request comes from.

        Args:
            token: what the request carries, or None.
            fetch_site: its Sec-Fetch-Site header, or None.

        Raises:
            CSRFError: answer 403; nothing was changed.

        Example:
            >>> websession.check_csrf(websession.csrf_token(), "same-origin")
        """
        if fetch_site == "cross-site":
            raise CSRFError("the request comes from another site")
        secret = (self._extra or {}).get("csrf")
        if not token or not isinstance(secret, str):
            raise CSRFError("expected a CSRF token of this websession, got none")
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            raw = b""
        if len(raw) != 2 * CSRF_BYTES:
            raise CSRFError("the CSRF token is malformed")
        plain = bytes(a ^ b for a, b in zip(raw[:CSRF_BYTES], raw[CSRF_BYTES:], strict=True))
        if not hmac.compare_digest(plain, urlsafe_b64decode(secret)):
            raise CSRFError("the CSRF token belongs to another websession, or to before the login")

    # Outside of an answer: WebSockets, server-sent events, long jobs.

    def save(self) -> Any:
        """Store it now. A coroutine on an event loop; its value is None.

        Raises:
            StoreError: the store did not answer.
            UsageError: it is new and its cookie can no longer be sent.
        """
        return (self._face or self._sessions.asynchronous).save(self)

    def reload(self) -> Any:
        """Read it again, dropping changes. A coroutine on an event loop; False when it has ended meanwhile."""
        return (self._face or self._sessions.asynchronous).reload(self)

    def __repr__(self) -> str:
        state = "ended" if self._is_ended else "new" if self._record is None else f"tag={self.tag}"
        return f"<WebSession {state}>"

    __str__ = __repr__

    __hash__ = object.__hash__  # type: ignore[assignment]

    # For the flows and the frameworks.

    def _set_extra(self, name: str, value: Any) -> None:
        if self._extra is None:
            self._extra = {}
        self._extra[name] = value

    def _bind(self) -> None:
        sessions = self._sessions
        if sessions.bind:
            self._set_extra("bind", sessions.signals_of(self._visit))

    def _check_cookie_can_leave(self, what: str) -> None:
        if self._headers_left or not self._visit.takes_cookies:
            raise UsageError(f"{what} needs a new cookie, and the headers of this answer have left already")

    def _builtins(self) -> dict[str, Any]:
        """The values as the codec would decode them; for merges."""
        return self._sessions.codec.decode(self._encode())

    def _encode(self) -> bytes:
        sessions = self._sessions
        codec = sessions.codec
        value: Any = self
        try:
            if sessions.model is not None:
                if self._model is None and not self._extra:
                    return sessions.blank
                value = sessions.to_builtins(self.data) if self._extra else sessions.encodable(self.data)
            elif RESERVED in self:
                raise EncodeError(f"the key {RESERVED!r} is taken; name yours otherwise")
            if self._extra:
                value = {**value, RESERVED: self._extra}
            encoded = codec.encode(value)
        except WebSessionError:
            raise
        except Exception as error:
            raise codec.blame(value if isinstance(value, dict) else {}, error) from error
        if len(encoded) > sessions.max_bytes:
            self._refuse_size(encoded)
        return encoded

    def _refuse_size(self, encoded: bytes) -> None:
        codec = self._sessions.codec
        values = codec.decode(encoded)
        largest = max(values, key=lambda key: len(codec.encode({key: values[key]})))
        raise SessionTooLarge(
            f"the websession takes {len(encoded)} bytes, the limit is {self._sessions.max_bytes}; "
            f"the largest part is {largest!r}"
        )

    def _fill(self, plain: bytes, value: dict[str, Any]) -> None:
        """Take over what was decoded from `plain`."""
        extra = value.pop(RESERVED, None)
        self._base = plain
        self._extra = extra if type(extra) is dict else None
        if self._sessions.model is None:
            if self:
                self.clear()
            self.update(value)
        else:
            self._model = self._sessions.from_builtins(value)

    def _decide(self) -> int:
        """What a commit has to do; asks nobody."""
        record = self._record
        if record is None and not self and not self._extra and not self._user and self._model is None:
            return NOTHING  # a reader who is nobody
        if self.degraded:
            return NOTHING
        encoded = self._encoded = self._encode()
        if self._is_ended and record is not None:
            return END
        if self._change and (record is not None or self._user is not None):
            return ROTATE if self._can_set_cookie() else NOTHING
        if record is None:
            return INSERT if encoded != self._sessions.blank and self._can_set_cookie() else NOTHING
        if encoded != self._base:
            return WRITE
        sessions = self._sessions
        expires = sessions.expiry(sessions.now(), record.deadline, self._extra)
        if self._is_due or expires - record.expires >= sessions.touch_after:
            return WRITE if self._label != record.label or record.prev is not None else TOUCH
        return NOTHING

    def _can_set_cookie(self) -> bool:
        sessions = self._sessions
        if sessions.cookie.secure and not self._visit.is_secure:
            sessions.tell_insecure()
            return False
        if (self._headers_left and self._promised is None) or not self._visit.takes_cookies:
            sessions.emit("discarded", reason="the headers had left before something was stored")
            return False
        return True

    def _promise(self) -> None:
        """The headers leave before the commit, in a streamed answer: settle the cookie, which takes no store."""
        plan = self._decide()
        sessions = self._sessions
        if sessions.is_stateless:
            if plan != NOTHING:
                from mangonel.websessions.stateless import commit

                commit(sessions, self, plan)
        elif plan in (INSERT, ROTATE):
            self._promised = sessions.new_token()
            self._cookie = sessions.cookie.give(self._promised, sessions.absolute)
        elif plan == END:
            self._cookie = sessions.cookie.take_back()
        self._headers_left = True

    def _discard(self) -> None:
        """Forget what this request changed, because the answer is an error. An end stays an end."""
        if self._is_ended or self._promised is not None:
            return
        self._change = ""
        if self._record is None:
            self.clear()
            self._model = None
            self._extra = None
            return
        self._user = self._record.user
        self._label = self._record.label
        self._fill(self._base, self._sessions.codec.decode(self._base))

    def _headers(self) -> list[tuple[str, str]]:
        """The headers for this answer: Set-Cookie with what must go with it. Empty for most."""
        if self._cookie is None:
            return []
        headers = [("Set-Cookie", self._cookie), ("Cache-Control", "no-store"), ("Vary", "Cookie")]
        if self._clear_site_data:
            headers.append(("Clear-Site-Data", self._sessions.clear_site_data))
        return headers
