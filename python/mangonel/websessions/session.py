"""The websession of one request: a plain dict of plain values, with methods for login, logout and others.

Waits for nothing: calls are recorded in the `State` of `machine.py`, and the flows carry them out before the response
leaves. Nested changes need no marking: they are found by comparing encoded bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from secrets import randbits, token_bytes
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mangonel.websessions.csrf import check_token, masked, new_secret
from mangonel.websessions.errors import CSRFError, NotFresh, UsageError
from mangonel.websessions.machine import State
from mangonel.websessions.settings import checked_text, seconds

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.lock import Lock

__all__ = ["UNPROVED", "Flash", "RequestView", "WebSession"]

Data = TypeVar("Data")

SALT_BYTES = 8

# Calls that prove a user's identity.
PROOFS = frozenset({"login", "reauthenticated"})
# Key of the package's own value for a user who is known, but has proved nothing.
UNPROVED = "unproved"

# Types that every codec keeps exactly.
FLASH_BITS = 48


class Flash(tuple[str, str]):
    """A message that is shown once: `kind` and `text`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kind of message, such as "info"."""
        return self[0]

    @property
    def text(self) -> str:
        """The message."""
        return self[1]


class RequestView:
    """A websession's view of a request.

    Args:
        cookie: the Cookie header, or None.
        is_secure: whether it came over TLS, as far as the server knows.
        signals: returns the value of "user_agent", "address" or an application's own signal, or None.
        takes_cookies: False if the response cannot carry Set-Cookie any more, as in a WebSocket.
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
        accessed: whether it was accessed in this request.
        state: internal data of flows and frameworks; not for applications.
    """

    __slots__ = ("__dict__", "__weakref__", "accessed", "state")

    modified = True  # for frameworks that read it; the commit itself compares the values

    def __init__(self, sessions: CheckedSettings[Any], request_view: RequestView) -> None:
        # Set here, without a call: every request makes one.
        self.state = state = State()
        state.sessions, state.request_view, state.base = sessions, request_view, sessions.blank
        self.accessed = False

    # Whether it was accessed decides the caching headers.

    def __getitem__(self, key: str) -> Any:
        self.accessed = True
        return dict.__getitem__(self, key)

    def __contains__(self, key: object) -> bool:
        self.accessed = True
        return dict.__contains__(self, key)

    def __iter__(self) -> Iterator[str]:
        self.accessed = True
        return dict.__iter__(self)

    def __len__(self) -> int:
        self.accessed = True
        return dict.__len__(self)

    def __eq__(self, other: object) -> bool:
        self.accessed = True
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a value and return it, or the default.

        Args:
            key: name of the value.
            default: returned if there is no value; without it, that is a KeyError.

        Example:
            >>> websession.pop("n", 0)
            0
        """
        self.accessed = True
        return dict.pop(self, key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value, storing the default first if there is none.

        Args:
            key: name of the value.
            default: the default.

        Example:
            >>> websession.setdefault("cart", [])
            []
        """
        self.accessed = True
        return dict.setdefault(self, key, default)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default.

        Args:
            key: name of the value.
            default: returned if there is no value.

        Example:
            >>> websession.get("n", 0)
            0
        """
        self.accessed = True
        return dict.get(self, key, default)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return names and values."""
        self.accessed = True
        return dict.items(self)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return names."""
        self.accessed = True
        return dict.keys(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return values."""
        self.accessed = True
        return dict.values(self)

    # Properties.

    @property
    def new(self) -> bool:
        """Whether it is not stored yet."""
        self.accessed = True
        return self.state.record is None

    @property
    def user(self) -> str | None:
        """The name of the logged-in user, or None."""
        self.accessed = True
        return None if self.state.challenged else self.state.user

    @property
    def permanent(self) -> bool:
        """Whether the cookie outlives the browser; Flask's name for it. Setting it extends both limits of a new one."""
        if self.state.permanent is not None:
            return self.state.permanent
        return self.state.sessions.cookie.persistent or bool((self.state.extra or {}).get("remember"))

    @permanent.setter
    def permanent(self, value: bool) -> None:
        self.state.permanent = bool(value)

    @property
    def challenged(self) -> bool:
        """Whether a binding signal changed; then `user` is None until `reauthenticated()`."""
        return self.state.challenged

    @property
    def degraded(self) -> bool:
        """Whether the store did not answer and the policy is "anonymous": empty, and nothing will be saved."""
        return self.state.degraded

    @property
    def remembered(self) -> bool:
        """Whether the user was logged in by a cookie (remembered login, predecessor) and has proved nothing since."""
        return self.user is not None and bool((self.state.extra or {}).get(UNPROVED))

    @property
    def created(self) -> float | None:
        """When it began or its user last logged in, in seconds since the epoch."""
        self.accessed = True
        return self.state.record.created if self.state.record is not None else None

    @property
    def expires(self) -> float | None:
        """When it ends unless it is used, as stored."""
        self.accessed = True
        return self.state.record.expires if self.state.record is not None else None

    @property
    def deadline(self) -> float | None:
        """When it ends in any case."""
        self.accessed = True
        return self.state.record.deadline if self.state.record is not None else None

    @property
    def tag(self) -> str:
        """A name for logs and listings that grants no access. The same across renewals; "" before it is stored."""
        self.accessed = True
        return self.state.tag

    @property
    def label(self) -> str | None:
        """Its name in listings, such as "Firefox on Linux"; at most 255 characters that every engine can store."""
        self.accessed = True
        return self.state.label

    @label.setter
    def label(self, label: str | None) -> None:
        if label is not None:
            checked_text(label, "the label")
        if label != self.state.label:
            self.state.label = label
            self.state.is_due = True

    @property
    def data(self) -> Data:
        """The typed values; without a model, the websession itself."""
        self.accessed = True
        if self.state.sessions.model is None:
            return self  # type: ignore[return-value]
        if self.state.model is None:
            self.state.model = self.state.sessions.model()
        return self.state.model

    @data.setter
    def data(self, value: Data) -> None:
        if self.state.sessions.model is None:
            self.clear()
            self.update(value)  # type: ignore[call-overload]
        else:
            self.state.model = value

    def mark_accessed(self) -> None:
        """Record an access; Starlette calls it."""
        self.accessed = True

    # Changes of privilege.

    def login(
        self,
        user: str,
        keep: Iterable[str] = (),
        *,
        remember: Any = False,
        fingerprint: str | bytes | None = None,
    ) -> None:
        """Log a user in: take a new id, make the old one invalid, restart both limits.

        Args:
            user: the application's name of the user; stored unchanged, for listings and revocation.
            keep: the keys to keep; everything else from before the login is dropped.
            remember: make the cookie outlive the browser, and both limits this long, as "14d". True: as long as
                `Lifetime(remember=)` allows. With `Users(devices=True)` the limits stay: for this long, a second cookie
                logs in again, with a token that is used once.
            fingerprint: a value that changes with the user's password, such as its hash; see `check_fingerprint`. Only
                a salted digest is kept.

        Raises:
            UsageError: no user, or a longer time than `Lifetime(remember=)` allows.

        Example:
            >>> websession.login("ada", keep=("cart",))
            >>> websession.user
            'ada'
        """
        self._check_cookie_can_leave("login()")
        checked_text(user, "the user")
        self.state.kept = tuple(keep)
        if self.state.sessions.model is None:
            for key in [key for key in self if key not in self.state.kept]:
                del self[key]
        else:
            fresh = self.state.sessions.model()
            for key in self.state.kept:
                setattr(fresh, key, getattr(self.data, key))
            self.state.model = fresh
        self._drop_csrf()
        self.state.extra = None
        sessions = self.state.sessions
        lasts = sessions.remembered(remember) if remember else None
        if lasts is not None and not sessions.has_devices:
            self.state.set_extra("remember", lasts)
        self._keep_fingerprint(fingerprint)
        self.state.user = user
        self.state.challenged = False
        self.state.is_ended = self.state.is_gone = False
        self._bind()
        if sessions.has_devices:
            from mangonel.websessions.devices import take_device

            take_device(self, lasts)
        self.state.change = "login"

    def reauthenticated(self, *, fingerprint: str | bytes | None = None) -> None:
        """Record that the user proved their identity again: take a new id, keep the data, restart both limits.

        Args:
            fingerprint: the new one, if the password was changed.

        Example:
            >>> websession.reauthenticated(fingerprint="the new password's hash")
        """
        self._check_cookie_can_leave("reauthenticated()")
        self._drop_csrf()
        self._keep_fingerprint(fingerprint)
        self.state.challenged = False
        if self.state.extra:
            self.state.extra.pop(UNPROVED, None)
        self._bind()
        if self.state.change != "login":
            self.state.change = "reauthenticated"

    def fresh(self, within: Any) -> bool:
        """Return whether the user proved their identity within a time, by `login()` or `reauthenticated()`.

        A login by a remember-me cookie, or by the cookie of a predecessor, proves nothing.

        Args:
            within: the longest time since the proof, as seconds, timedelta or "10m".

        Example:
            >>> websession.login("ada")
            >>> websession.fresh("10m")
            True
        """
        limit = seconds(within, "within")
        state = self.state
        if self.user is None:
            return False
        if state.change in PROOFS:
            return True
        if state.record is None or (state.extra or {}).get(UNPROVED):
            return False
        return state.sessions.now() - state.record.created <= limit

    def check_fresh(self, within: Any) -> None:
        """Refuse a request whose user has not proved their identity within a time; see `fresh()`.

        Args:
            within: the longest time since the proof, as seconds, timedelta or "10m".

        Raises:
            NotFresh: ask for the password, then call `reauthenticated()`. Answered 403 if the application lets it pass.

        Example:
            >>> websession.login("ada")
            >>> websession.check_fresh("10m")
        """
        if not self.fresh(within):
            raise NotFresh(
                f"expected a proof of the user's identity within {seconds(within, 'within'):g} s, got "
                f"{'an older one' if self.user is not None else 'no logged-in user'}; "
                "ask for the password, then call reauthenticated(), or login() without a user"
            )

    def check_fingerprint(self, fingerprint: str | bytes) -> bool:
        """Return whether the user's password is still that of the login; if not, end the websession.

        Call it where the application loads the user. A login without a fingerprint matches none.

        Args:
            fingerprint: the user's current value, as passed to `login`.

        Example:
            >>> websession.login("ada", fingerprint="the password's hash")
            >>> websession.check_fingerprint("the password's hash")
            True
            >>> websession.check_fingerprint("the new password's hash"), websession.user
            (False, None)
        """
        self.accessed = True
        if self.state.user is None:
            return False
        kept = (self.state.extra or {}).get("print")
        if isinstance(kept, str):
            salt = kept[: 2 * SALT_BYTES]
            if hmac.compare_digest(kept, salt + _digest(salt, fingerprint)):
                return True
        self.destroy()
        return False

    def rotate(self) -> None:
        """Take a new id because privileges changed. Data and absolute limit stay; the old id becomes invalid."""
        self._check_cookie_can_leave("rotate()")
        self._drop_csrf()
        self.state.change = self.state.change or "rotated"

    def destroy(self) -> None:
        """End it, here and in the browser; no parallel request can revive it."""
        dict.clear(self)
        self._drop_csrf()
        self.state.model = None
        self.state.extra = None
        self.state.user = None
        self.state.change = ""
        self.state.is_ended = self.state.had_end = True
        if self.state.sessions.has_devices:
            self._forget_remembered()
        if self.state.late_end is not None:
            self.state.late_end(self)

    def invalidate(self) -> None:
        """End it, like `destroy()`; the name in an older Tornado."""
        self.destroy()

    def refresh(self, duration: Any = None, new_session_id: bool = False) -> None:
        """Extend it now; the name in an older Tornado.

        Args:
            duration: an idle limit for this websession only, as seconds, timedelta or "30m"; the absolute limit stays.
            new_session_id: also take a new id, as `rotate()` does.

        Example:
            >>> websession.refresh("30m")
        """
        if duration is not None:
            self.state.set_extra("idle", seconds(duration, "duration"))
        self.state.is_due = True
        if new_session_id:
            self.rotate()

    # Counters.

    def increment(self, key: str, by: float = 1) -> Any:
        """Add to a number so that parallel requests all count; return the value as far as this request knows.

        Args:
            key: name of the number; 0 if there is none. With a model, a field of it.
            by: the number to add.

        Raises:
            UsageError: the value is not a number.

        Example:
            >>> websession.increment("visits"), websession.increment("visits", 10)
            (1, 11)
        """
        typed = self.state.sessions.model is not None
        value = (getattr(self.data, key) if typed else self.get(key)) or 0
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"expected a number at {key!r} of the websession, got {type(value).__name__}")
        value += by
        if typed:
            setattr(self.data, key, value)
        else:
            self[key] = value
        self.state.counted |= {key}
        return value

    # Flash messages and tokens.

    def flash(self, text: str, kind: str = "info") -> None:
        """Keep a message for the next call of `flashes()`, usually by the next page.

        Args:
            text: the text.
            kind: such as info, success or error; pages may choose a colour for it.

        Example:
            >>> websession.flash("Saved", "success")
            >>> [message.text for message in websession.flashes()]
            ['Saved']
        """
        kept = (self.state.extra or {}).get("flash", ())
        self.state.set_extra("flash", [*kept, [kind, text, randbits(FLASH_BITS)]])

    def flashes(self) -> list[Flash]:
        """Return the messages and remove them."""
        self.accessed = True
        if not self.state.extra or "flash" not in self.state.extra:
            return []
        return [Flash(message[:2]) for message in self.state.extra.pop("flash")]

    def csrf_token(self) -> str:
        """Return a token for forms, different each time; a change of privilege invalidates it, a renewal does not."""
        self.accessed = True
        secret = self._csrf_secret()
        if secret is None:
            secret = new_secret()
            state = self.state
            if state.user is not None:
                state.set_extra("csrf", secret)
            else:
                # A visitor without a login has the secret in a cookie, and needs no record.
                self._check_cookie_can_leave("csrf_token()")
                state.csrf_secret = secret
                state.csrf_cookie = state.sessions.cookie.give_csrf(secret)
        return masked(secret)

    def check_csrf(self, token: str | None, fetch_site: str | None = None) -> None:
        """Check a token from a form or a header, and the browser's header about the request's origin.

        Args:
            token: the request's token, or None.
            fetch_site: its Sec-Fetch-Site header, or None.

        Raises:
            CSRFError: answer 403; nothing was changed.

        Example:
            >>> websession.check_csrf(websession.csrf_token(), "same-origin")
        """
        if fetch_site == "cross-site":
            raise CSRFError("the request comes from another site")
        check_token(token, self._csrf_secret())

    # Outside of a response: WebSockets, server-sent events, long jobs.

    def save(self) -> Any:
        """Store it now. A coroutine on an event loop; its result is None.

        Raises:
            StoreError: the store did not answer.
            UsageError: it is new and its cookie can no longer be sent, or it has ended while this request ran.
        """
        self.state.check_not_gone()
        return self._face("save()").save(self)

    def reload(self) -> Any:
        """Read it again, dropping changes. A coroutine on an event loop; False if it has ended."""
        return self._face("reload()").reload(self)

    def lock(self, wait: Any = "10s", hold: Any = "30s") -> Lock:
        """Let one request at a time into a block, which begins with `reload()` and ends with `save()`.

        Use it as `async with` on an event loop, as `with` in threads. Without it, requests run in parallel, and their
        changes are merged key by key. A websession that is not stored yet is not shared, so there is no waiting.

        Args:
            wait: how long to wait for other holders, as seconds, timedelta or "10s".
            hold: when the lock expires if the process dies.

        Raises:
            LockTimeout: other holders kept it for `wait`, or the block took longer than `hold`.
            UsageError: it was changed before the block.

        Example:
            >>> with websession.lock():  # async with, where requests are coroutines
            ...     websession["queue"] = [*websession.get("queue", ()), "order 66"]
        """
        from mangonel.websessions.lock import Lock

        return Lock(self, seconds(wait, "wait"), seconds(hold, "hold"))

    def __repr__(self) -> str:
        state = "ended" if self.state.is_ended else "new" if self.state.record is None else f"tag={self.tag}"
        return f"<WebSession {state}>"

    __str__ = __repr__

    __hash__ = object.__hash__  # type: ignore[assignment]

    def _face(self, what: str) -> Any:
        face = self.state.face or self.state.sessions.asynchronous
        face.check_thread(what)
        return face

    def _csrf_secret(self) -> str | None:
        state = self.state
        kept = (state.extra or {}).get("csrf")
        if isinstance(kept, str):
            return kept
        if state.user is not None:
            return None
        if state.csrf_secret is None:
            policy = state.sessions.cookie
            # A secret sent over plain http is not secret any more.
            is_believed = state.request_view.is_secure or not policy.secure
            state.csrf_secret = policy.csrf_secret(state.request_view.cookie) if is_believed else None
        return state.csrf_secret or None

    def _keep_fingerprint(self, fingerprint: str | bytes | None) -> None:
        if fingerprint is not None:
            salt = token_bytes(SALT_BYTES).hex()
            self.state.set_extra("print", salt + _digest(salt, fingerprint))

    def _drop_csrf(self) -> None:
        state = self.state
        if state.extra:
            state.extra.pop("csrf", None)
        state.csrf_cookie = None
        policy = state.sessions.cookie
        if state.can_take_cookie and policy.csrf_secret(state.request_view.cookie) is not None:
            state.csrf_cookie = policy.take_back_csrf()
        state.csrf_secret = ""

    def _bind(self) -> None:
        sessions = self.state.sessions
        if sessions.bind:
            self.state.set_extra("bind", sessions.signals_of(self.state.request_view))

    def _forget_remembered(self) -> None:
        """Remove the token of a remembered login from the browser's cookie; a commit removes it from the store."""
        state = self.state
        state.remembers = state.device = state.device_cookie = None
        policy = state.sessions.cookie
        secret, locator, _ = policy.device_in(state.request_view.cookie)
        if secret is not None and locator is not None and state.can_take_cookie:
            state.device_cookie = policy.give_device(secret)

    def _check_cookie_can_leave(self, what: str) -> None:
        if not self.state.can_take_cookie:
            raise UsageError(f"{what} needs a new cookie, and the headers of this answer have left already")


def _digest(salt: str, fingerprint: str | bytes) -> str:
    value = fingerprint.encode() if isinstance(fingerprint, str) else fingerprint
    return hmac.new(b"mangonel websession fingerprint" + salt.encode(), value, "sha256").hexdigest()[:32]
