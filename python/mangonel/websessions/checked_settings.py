"""The checked settings that running code needs: limits, codec, keys, clock, listener.

`WebSessions` adds the access to the store. Knows no store, no flow and no framework; waits for nothing.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from mangonel._arguments import expect
from mangonel.websessions import abuse, cookies
from mangonel.websessions.agents import check_parser
from mangonel.websessions.codecs import codec_named
from mangonel.websessions.cookies import CookiePolicy
from mangonel.websessions.csrf import origins_of
from mangonel.websessions.errors import UsageError
from mangonel.websessions.events import WARNINGS, Event, to_logging
from mangonel.websessions.record import Record, all_but_data
from mangonel.websessions.sealing import KeyRing
from mangonel.websessions.settings import (
    Content,
    Cookie,
    Key,
    Lifetime,
    Outages,
    Protection,
    Users,
    keys_of,
    limits,
    longest,
    one_of,
    seconds,
)

if TYPE_CHECKING:
    from mangonel.websessions.faces import AsyncFace, BlockingFace
    from mangonel.websessions.predecessors import Predecessor
    from mangonel.websessions.session import RequestView

__all__ = ["CheckedSettings", "checked", "new_key"]

Data = TypeVar("Data")

log = logging.getLogger("mangonel.websessions")

# The types that BSON has, besides JSON's. A UUID is sent as text: BSON has two byte orders for it and needs a choice.
NATIVE = (bytes, datetime)

POLICIES = ("log", "challenge", "destroy")
SID_BYTES = 8


class CheckedSettings(Generic[Data]):
    """The checked settings, as attributes. Subclasses have the faces."""

    asynchronous: AsyncFace
    blocking: BlockingFace

    def __init__(
        self,
        lifetime: Lifetime,
        cookie: Cookie,
        content: Content,
        protection: Protection,
        users: Users,
        outages: Outages,
        *,
        model: type[Data] | None,
        is_stateless: bool,
        trust_forwarded: bool,
        predecessors: Sequence[Predecessor],
        events: Callable[[Event], None] | None,
        clock: Callable[[], float],
    ) -> None:
        self.idle, self.absolute, self.renew, self.grace, self.touch_after = limits(lifetime)
        self.asked_longest = lifetime.remember
        # The duration of "permanent" in Flask. None: the longest.
        self.permanent: float | None = None
        self.longest = longest(lifetime.remember, self.absolute, lifetime.aal)
        self.is_stateless = is_stateless
        self.predecessors = tuple(expect("predecessors", predecessors, Sequence, "a list"))
        for each in self.predecessors:
            if not hasattr(each, "cookie"):
                raise TypeError(
                    f'expected predecessors of mangonel.websessions for "predecessors", got {type(each).__name__}'
                )
        if is_stateless and self.predecessors:
            raise UsageError(
                "predecessors= needs a store that remembers the cookies that were taken over; a cookie is no store"
            )
        signing, sealing = keys_of(protection.sign, "sign"), keys_of(protection.seal, "seal")
        self._signing = _bytes(signing)
        self.has_devices = users.devices
        self.place = _function(users.place, "place")
        self.on_new_device = _function(users.on_new_device, "on_new_device")
        self.on_theft = _function(users.on_theft, "on_theft")
        _check_devices(users, is_stateless)
        self.use_cookie(cookie)
        self.codec = codec_named(content.codec)
        self.max_bytes = _checked_size(content.max_bytes)
        self.merge = dict(content.merge or {})
        self.model = model if model is None else expect("model", model, type, "a class")
        self._is_pydantic = hasattr(model, "model_validate") and hasattr(model, "model_dump")
        self.blank = self._blank()
        self.ring = KeyRing(sealing) if sealing else None
        if is_stateless and self.ring is None:
            raise UsageError("websessions in cookies need seal=; mangonel.websessions.new_key() makes a key")
        if is_stateless and users.max_per_user is not None:
            raise UsageError(
                "max_per_user needs a store that can find a user's websessions; a cookie is no store"
            )
        self.trust_forwarded = trust_forwarded
        if isinstance(protection.bind, str):
            raise UsageError(f"expected bind as names of signals, as bind=({protection.bind!r},), got a str")
        self.bind = tuple(protection.bind)
        self._policies = _policies(self.bind, protection.on_mismatch)
        secrets = keys_of(protection.bind_secret, "bind_secret") or sealing or signing
        if self.bind and not secrets:
            raise UsageError(
                "bind= needs a secret that all workers share: bind_secret=, seal= or sign=; "
                "mangonel.websessions.new_key() makes one"
            )
        self._bind_salts = [
            sha256(b"mangonel websession bind" + secret).digest() for secret in _bytes(secrets)
        ]
        self.on_reuse = one_of(protection.on_reuse, "on_reuse", ("destroy", "log"))
        self.trusted_origins = origins_of(protection.trusted_origins)
        self.timeout = seconds(outages.timeout, "timeout")
        self.on_store_error = one_of(outages.on_store_error, "on_store_error", ("raise", "anonymous"))
        self.save_on_error = outages.save_on_error
        self.max_per_user = most = users.max_per_user
        if not (most is None or callable(most) or (isinstance(most, int) and most > 0)):
            raise UsageError(f"expected max_per_user as a number above zero, got {most!r}")
        self.over_limit = one_of(users.over_limit, "over_limit", ("evict-oldest", "refuse"))
        self.clock = clock
        self._guessing = abuse.Guessing(
            protection.guess_limit, seconds(protection.guess_window, "guess_window")
        )
        self.listens = events is not None
        self._tell = _function(events, "events") or to_logging(everything=False)
        self._was_told_insecure = False
        self.epochs_apart = users.epochs is not None

    def use_cookie(self, cookie: Cookie) -> None:
        """Set the cookie's settings, before the first request.

        Args:
            cookie: the settings.

        Raises:
            UsageError: browsers would refuse them.

        Example:
            >>> WebSessions("memory:").use_cookie(Cookie(samesite="Strict"))
        """
        if not isinstance(cookie.secure, int):
            raise UsageError(f"expected secure to be True or False, got {cookie.secure!r}")
        self.cookie = CookiePolicy(
            cookie,
            sign=self._signing,
            is_payload=self.is_stateless,
            older=[each.cookie for each in self.predecessors],
            has_devices=self.has_devices,
        )
        self.cookie_settings = cookie
        self.clear_site_data = cookie.clear_site_data

    def now(self) -> float:
        """The time in whole milliseconds, which every store keeps exactly."""
        return int(self.clock() * 1000) / 1000

    def expiry(self, now: float, deadline: float, extra: Mapping[str, Any] | None) -> float:
        """Return when a websession ends unless it is used again.

        Args:
            now: seconds since the epoch.
            deadline: its absolute limit, in seconds since the epoch.
            extra: the package's own values of the websession, which may include an idle limit.

        Example:
            >>> sessions.expiry(1_000.0, 2_000.0, None)
            2000.0
        """
        idle = self.idle
        if extra is not None:
            idle = float(extra.get("idle") or extra.get("remember") or idle)
        expires = now + idle
        return expires if expires < deadline else deadline

    def lasts(self, extra: Mapping[str, Any] | None) -> float:
        """Return the absolute limit in seconds.

        Args:
            extra: the package's own values of the websession, which may mark the login as remembered.

        Example:
            >>> sessions.lasts({"remember": 86_400.0})
            86400.0
        """
        return float(extra.get("remember") or self.absolute) if extra is not None else self.absolute

    def remembered(self, remember: Any) -> float:
        """Return how many seconds a login is remembered.

        Args:
            remember: True, seconds, timedelta or text such as "14d".

        Raises:
            UsageError: longer than allowed.

        Example:
            >>> WebSessions("memory:").remembered("14d")
            1209600.0
        """
        found = self.longest if remember is True else seconds(remember, "remember")
        if found > self.longest:
            raise UsageError(
                f"expected remember of at most {self.longest:.0f} s, got {found:.0f}; "
                "Lifetime(remember=) sets the limit"
            )
        return found

    def new_token(self) -> str:
        """Return a new token."""
        return cookies.new_token()

    def new_sid(self) -> bytes:
        """Return a new name for a websession in logs and listings."""
        return token_bytes(SID_BYTES)

    def sealed(self, record: Record, plain: bytes) -> Record:
        """Return the record with its data in the stored form.

        Args:
            record: the rest of the record, to which the seal is bound.
            plain: the encoded data.

        Example:
            >>> record = Record(bytes(32), b"", 1, 0.0, 9e9, 9e9)
            >>> sessions.sealed(record, b"plain").data
            b'plain'
        """
        data = plain if self.ring is None else self.ring.seal(plain, all_but_data(record))
        return replace(record, data=data)

    def unsealed(self, record: Record) -> bytes:
        """Return a record's plain data; ValueError if no key opens it, or if the record was changed.

        Args:
            record: the stored record.

        Example:
            >>> sessions.unsealed(Record(bytes(32), b"plain", 1, 0.0, 9e9, 9e9))
            b'plain'
        """
        if self.ring is None or self.is_stateless:
            return record.data
        return self.ring.unseal(record.data, all_but_data(record))

    def emit(self, kind: str, tag: str = "", **details: Any) -> None:
        """Pass an event to the listener. Its exceptions are only logged, since they must not fail the request.

        Args:
            kind: the kind of event.
            tag: the websession's name for logs.
            details: more fields of the event.

        Example:
            >>> events = RecordingEvents()
            >>> WebSessions("memory:", events=events).emit("created", "a1b2")
            >>> events.kinds()
            ['created']
        """
        if not self.listens and kind not in WARNINGS:
            return
        try:
            self._tell(Event(kind, tag, self.now(), **details))
        except Exception:
            log.exception("the listener of websession events failed")

    def note_guess(self, request_view: RequestView) -> None:
        """Count an unknown id.

        Args:
            request_view: the request with the id.

        Example:
            >>> sessions.note_guess(RequestView())
        """
        network = (
            abuse.network_of(request_view.signals("address")) if request_view.signals is not None else ""
        )
        if self._guessing.note(network, self.now()):
            self.emit("guessing", network=network)

    def tell_insecure(self) -> None:
        """Warn once that a Secure cookie cannot be used over plain http."""
        if not self._was_told_insecure:
            self._was_told_insecure = True
            self.emit(
                "insecure",
                reason="plain http and secure=True: no cookie is set or believed; behind a proxy that ends TLS use "
                "trust_forwarded=True, for development secure=False",
            )

    def signals_of(self, request_view: RequestView) -> dict[str, str]:
        """Return the digests of the binding signals of a request.

        Args:
            request_view: a request.

        Example:
            >>> sessions.signals_of(RequestView())
            {}
        """
        return abuse.digests(self.bind, request_view.signals, self._bind_salts[0]) if self.bind else {}

    def still_has(self, request_view: RequestView, signal: str, digest: str) -> bool:
        """Return whether a request still has the signal of a digest, with any of the secrets.

        Args:
            request_view: a request.
            signal: "user_agent" or "network".
            digest: the digest from the login.

        Example:
            >>> sessions.still_has(RequestView(), "network", "")
            True
        """
        for salt in self._bind_salts:
            seen = abuse.digests((signal,), request_view.signals, salt)
            if signal not in seen or seen[signal] == digest:
                return True
        return not self._bind_salts

    def mismatch_policy(self, signal: str) -> str:
        """Return the policy for a changed signal.

        Args:
            signal: "user_agent" or "network".

        Example:
            >>> sessions.mismatch_policy("user_agent")
            'log'
        """
        return self._policies.get(signal, "log")

    def epoch_key(self, user: str) -> bytes:
        """Return the key of a user's epoch.

        Args:
            user: the name passed to `login`.

        Example:
            >>> len(sessions.epoch_key("ada"))
            32
        """
        return sha256(b"mangonel websession epoch\0" + user.encode()).digest()

    if TYPE_CHECKING:

        def epochs_of(self, store: Any) -> Any: ...

    # Typed data.

    def encodable(self, data: Any) -> Any:
        """Return a model's values in a form that the codec accepts.

        Args:
            data: the content of a websession.

        Example:
            >>> sessions.encodable({"n": 1})
            {'n': 1}
        """
        return self.to_builtins(data) if self.codec.name == "bson" or self._is_pydantic else data

    def to_builtins(self, data: Any) -> dict[str, Any]:
        """Return a model's values as a dict.

        Args:
            data: the content of a websession.

        Example:
            >>> sessions.to_builtins({"n": 1})
            {'n': 1}
        """
        if self._is_pydantic:
            # Without computed values, and by the names used for reading. Only MessagePack has times with their zone.
            mode = "python" if self.codec.name == "msgpack" else "json"
            data = data.model_dump(mode=mode, by_alias=True, round_trip=True)
            if mode == "json":
                return data
        if self.codec.name == "bson":
            return msgspec.to_builtins(data, builtin_types=NATIVE)
        return self.codec.decode(self.codec.encode(data))

    def from_builtins(self, value: dict[str, Any]) -> Any:
        """Return a model's values from a dict; ValueError if they do not fit.

        Args:
            value: the dict from the codec.

        Example:
            >>> import msgspec
            >>> class Shop(msgspec.Struct):
            ...     cart: list[str] = []
            >>> WebSessions("memory:", model=Shop).from_builtins({"cart": ["tea"]}).cart
            ['tea']
        """
        assert self.model is not None
        if self._is_pydantic:
            return self.model.model_validate(value)
        return msgspec.convert(value, self.model, strict=self.codec.name != "json")

    def _blank(self) -> bytes:
        if self.model is None:
            return self.codec.encode({})
        try:
            fresh = self.model()
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"expected a default for every field of {self.model.__name__}: {error}"
            ) from None
        return self.codec.encode(self.encodable(fresh))


def checked(sessions: Any, where: str) -> Any:
    """Return the argument of a framework, if it is a `WebSessions`.

    Args:
        sessions: the argument.
        where: how to pass it, for the message.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(sessions, CheckedSettings):
        raise UsageError(
            f"expected {where} with sessions=WebSessions(…), got {type(sessions).__name__}"
            + ("; a store's URL goes into WebSessions" if isinstance(sessions, str) else "")
        )
    return sessions


def _function(value: Any, name: str) -> Any:
    """Return a setting that is a function or None.

    Raises:
        UsageError: it cannot be called.
    """
    if value is not None and not callable(value):
        raise UsageError(f"expected {name} as a function, got {type(value).__name__}")
    return value


def _checked_size(most: Any) -> int:
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise UsageError(f"expected max_bytes as a number of bytes above zero, as 65_536, got {most!r}")
    return most


def _check_devices(users: Users, is_stateless: bool) -> None:
    """Refuse settings of devices that would fail at a login, or have no effect."""
    for name in ("place", "on_new_device", "on_theft"):
        given = getattr(users, name)
        if given is not None and not callable(given):
            raise UsageError(f"expected {name} as a function, got {type(given).__name__}")
        if given is not None and not users.devices:
            raise UsageError(f"{name}= is about devices, which are not kept; give devices=True as well")
    if users.devices and is_stateless:
        raise UsageError("devices=True needs a store that keeps them; a cookie is no store")
    if users.devices:
        check_parser()


def _bytes(keys: list[Key]) -> list[bytes]:
    return [key.encode() if isinstance(key, str) else key for key in keys]


def _policies(bind: tuple[str, ...], on_mismatch: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(on_mismatch, str):
        policy = one_of(on_mismatch, "on_mismatch", POLICIES)
        # Visitors change networks often, so a changed address ends nothing unless the policy names it.
        return {signal: "log" if signal == "network" else policy for signal in bind}
    for signal, policy in on_mismatch.items():
        one_of(policy, f"on_mismatch[{signal!r}]", POLICIES)
        if signal not in bind:
            raise UsageError(f"on_mismatch names {signal!r}, which bind does not")
    return {signal: on_mismatch.get(signal, "log") for signal in bind}


def new_key() -> str:
    """Return a new key for `seal` or `sign`, as text for a configuration file."""
    return urlsafe_b64encode(token_bytes(32)).decode()
