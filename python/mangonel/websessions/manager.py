"""`WebSessions`: the settings of an application's websessions, checked when it starts, and the way to its store.

Holds what the flows ask for; waits for nothing itself. The faces that run the flows are in `faces.py`.
"""

from __future__ import annotations

import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mangonel.websessions import abuse, cookies
from mangonel.websessions.codecs import codec_named
from mangonel.websessions.cookies import CookiePolicy
from mangonel.websessions.errors import UsageError
from mangonel.websessions.events import WARNINGS, Event, to_logging
from mangonel.websessions.faces import AsyncFace, BlockingFace
from mangonel.websessions.sealing import KeyRing
from mangonel.websessions.settings import limits, seconds
from mangonel.websessions.stores.meter import Meter
from mangonel.websessions.stores.protocol import Immediate

if TYPE_CHECKING:
    from mangonel.websessions.session import Visit, WebSession
    from mangonel.websessions.users import Handle

__all__ = ["WebSessions"]

Data = TypeVar("Data")

log = logging.getLogger("mangonel.websessions")

POLICIES = ("log", "challenge", "destroy")
SID_BYTES = 8


class WebSessions(Generic[Data]):
    """An application's websessions.

    Args:
        store: a URL as "mongodb://localhost/app", or a store object.
        idle: a websession ends so long after its last use: seconds, timedelta or text as "30m". Default 30 minutes.
        absolute: and so long after it began or its user logged in. Default 12 hours.
        renew: its id changes so often; None: never. Default 15 minutes.
        grace: the old id is served so long after a renewal, in case the answer was lost. Default 30 seconds.
        touch_after: uses are stored when they move the idle limit by this much. Default a tenth of `idle`.
        aal: an assurance level of NIST SP 800-63B, 1 to 3, whose limits become the defaults.
        cookie: its name; default `__Host-sid`, `__Secure-sid` with a domain or path, `sid` without Secure.
        path, domain, samesite, partitioned: the cookie's attributes.
        secure: False for development over plain http only.
        persistent: let the cookie outlive the browser.
        trust_forwarded: believe X-Forwarded-Proto and X-Forwarded-For, because a proxy of ours sets them.
        model: a msgspec.Struct or dataclass with defaults: `session.data` is one of these.
        codec: "msgpack", "json" or "bson".
        seal: AES keys of 16 to 32 bytes, newest first: data is encrypted at rest.
        sign: secrets, newest first: cookies carry an HMAC and junk never reaches the store.
        bind: signals to compare with those of the login, from "user_agent" and "network".
        on_mismatch: "log", "challenge" or "destroy", or a mapping by signal. "network" is only logged unless named.
        bind_secret: salt of the signals' digests; default is made from `seal` or `sign`, or for one process only.
        timeout: what a request may wait for the store when it begins, and again when it ends. Default 5 seconds; on
            an event loop only, in threads the clients' own limits hold.
        on_store_error: "raise", answered with 503, or "anonymous": an empty websession that is not saved.
        save_on_error: store changes although the answer is a 5xx.
        max_bytes: limit of the encoded websession.
        max_per_user: how many websessions a user may have; None: any number.
        over_limit: "evict-oldest" or "refuse".
        merge: by key, a function of (base, mine, theirs) for parallel changes of one key.
        epochs: a durable store for users' epochs, where `store` cannot list a user's websessions; it is asked whenever
            a user's websession is loaded.
        clear_site_data: value of the Clear-Site-Data header of a logout, as '"cache", "storage"'; "" for none.
        guess_limit, guess_window: unknown ids from one network within so many seconds that make a `guessing` event.
        events: called with each Event. Default: warnings go to the logger "mangonel.websessions".
        clock: seconds since the epoch.

    Raises:
        UsageError: settings that cannot be meant.
    """

    def __init__(
        self,
        store: Any,
        *,
        idle: Any = None,
        absolute: Any = None,
        renew: Any = "15m",
        grace: Any = "30s",
        touch_after: Any = None,
        aal: int | None = None,
        cookie: str | None = None,
        path: str = "/",
        domain: str | None = None,
        secure: bool = True,
        samesite: str = "Lax",
        partitioned: bool = False,
        persistent: bool = False,
        trust_forwarded: bool = False,
        model: type[Data] | None = None,
        codec: str = "msgpack",
        seal: bytes | str | Sequence[bytes | str] | None = None,
        sign: bytes | str | Sequence[bytes | str] | None = None,
        bind: Iterable[str] = (),
        on_mismatch: str | Mapping[str, str] = "log",
        bind_secret: bytes | str | None = None,
        timeout: Any = "5s",
        on_store_error: str = "raise",
        save_on_error: bool = False,
        max_bytes: int = 65_536,
        max_per_user: int | None = None,
        over_limit: str = "evict-oldest",
        merge: Mapping[str, Callable[[Any, Any, Any], Any]] | None = None,
        epochs: Any = None,
        clear_site_data: str = "",
        guess_limit: int = 20,
        guess_window: Any = 60,
        events: Callable[[Event], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        _check_store(store)
        if epochs is not None:
            _check_store(epochs)
        chosen = limits(idle, absolute, renew, grace, touch_after, aal)
        self.idle, self.absolute, self.renew, self.grace, self.touch_after = chosen
        self.is_stateless = is_stateless = isinstance(store, str) and store.startswith("cookie:")
        signing, sealing = _keys(sign), _keys(seal)
        self.cookie = CookiePolicy(
            name=cookie,
            path=path,
            domain=domain,
            secure=secure,
            samesite=samesite,
            partitioned=partitioned,
            persistent=persistent,
            sign=[_bytes(key) for key in signing],
            is_payload=is_stateless,
        )
        self.codec = codec_named(codec)
        self.model = model
        self.blank = self._blank()
        self.ring = KeyRing(sealing) if sealing else None
        if is_stateless and self.ring is None:
            raise UsageError("websessions in cookies need seal=; mangonel.websessions.new_key() makes a key")
        if is_stateless and max_per_user is not None:
            raise UsageError("max_per_user needs a store that can look for a user, and a cookie is none")
        self.trust_forwarded = trust_forwarded
        self.bind = tuple(bind)
        self._policies = _policies(self.bind, on_mismatch)
        secret = (
            _bytes(bind_secret) if bind_secret else b"".join(_bytes(key) for key in (sealing or signing)[-1:])
        )
        self._bind_salt = (
            sha256(b"mangonel websession bind" + secret).digest() if secret else abuse.random_salt()
        )
        self.timeout = seconds(timeout, "timeout")
        self.on_store_error = _one_of(on_store_error, "on_store_error", ("raise", "anonymous"))
        self.save_on_error = save_on_error
        self.max_bytes = max_bytes
        if max_per_user is not None and max_per_user < 1:
            raise UsageError(f"expected max_per_user above zero, got {max_per_user}")
        self.max_per_user = max_per_user
        self.over_limit = _one_of(over_limit, "over_limit", ("evict-oldest", "refuse"))
        self.merge = dict(merge or {})
        self.clear_site_data = clear_site_data
        self.clock = clock
        self.after_epoch = 0.0
        self._guessing = abuse.Guessing(guess_limit, seconds(guess_window, "guess_window"))
        self.listens = events is not None
        self._tell = events or to_logging(everything=False)
        self._was_told_insecure = False
        self.epochs_apart = epochs is not None
        self.asynchronous = AsyncFace(self, store, epochs)
        self.blocking = BlockingFace(self, store, epochs)

    @classmethod
    def from_tornado_settings(cls, settings: Mapping[str, Any]) -> WebSessions[Any]:
        """Return websessions for the settings that a fork of Tornado had: `session_storage`, `session_age` and so on.

        See docs/websessions/migration.md for what each one means today.

        Args:
            settings: the application's.

        Raises:
            UsageError: a setting has a value that means nothing.

        Example:
            >>> settings = {"session_storage": "memory:", "session_age": 600, "cookie_secret": "s" * 32}
            >>> WebSessions.from_tornado_settings(settings).idle
            600.0
        """
        from mangonel.websessions.migration import arguments_of

        return cls(**arguments_of(settings))

    # For applications, on an event loop; `blocking` has the same names for threads.

    async def of(self, user: str, current: WebSession[Any] | None = None) -> list[Handle]:
        """Return a user's websessions, the newest first.

        Args:
            user: as it was given to `login`.
            current: the websession that asks; its handle has `is_current`.

        Raises:
            Unsupported: the engine cannot look for a user.

        Example:
            >>> await WebSessions("memory:").of("ada")
            []
        """
        return await self.asynchronous.of(user, current)

    async def revoke(self, handle: Handle) -> bool:
        """End one of a user's websessions; False when it had ended already.

        Args:
            handle: one that `of` returned.

        Raises:
            StoreError: the store does not answer; nothing is known of the end.

        Example:
            >>> [await sessions.revoke(handle) for handle in await sessions.of("ada")]
            []
        """
        return await self.asynchronous.revoke(handle)

    async def revoke_user(self, user: str, except_: WebSession[Any] | None = None) -> int:
        """End all websessions of a user, those included that are just being made; return how many there were.

        Args:
            user: as it was given to `login`.
            except_: one that goes on, usually the one that asks.

        Raises:
            StoreError: the store does not answer; nothing is known of the end.
            Unsupported: the engine cannot look for a user.

        Example:
            >>> await sessions.revoke_user("ada")
            0
        """
        return await self.asynchronous.revoke_user(user, except_)

    async def setup(self) -> None:
        """Make tables and indexes, where the engine has any. May be called again."""
        await self.asynchronous.setup()

    async def purge(self) -> int:
        """Remove what has expired, where the engine does not do that itself; return how many."""
        return await self.asynchronous.purge()

    async def aclose(self) -> None:
        """Close the connections that were opened for a URL."""
        await self.asynchronous.aclose()

    def init_flask(self, app: Any) -> None:
        """Let `flask.session` be one of these websessions.

        Args:
            app: a Flask application.

        Example:
            >>> import flask
            >>> sessions.init_flask(flask.Flask("shop"))
        """
        from mangonel.websessions.frameworks.flask import init_flask

        init_flask(app, self)

    @property
    def current(self) -> Callable[..., Any]:
        """A FastAPI dependency: `Annotated[WebSession[Data], Depends(sessions.current)]`."""
        from mangonel.websessions.frameworks import asgi

        dependency: Callable[..., Any] = asgi.current_session
        return dependency

    # For the flows.

    def now(self) -> float:
        """The time in whole milliseconds, which every store keeps exactly."""
        return int(self.clock() * 1000) / 1000

    def expiry(self, now: float, deadline: float, extra: Mapping[str, Any] | None) -> float:
        """Return when a websession ends unless used again.

        Args:
            now: seconds since the epoch.
            deadline: its absolute limit, likewise.
            extra: what the websession keeps beside its data, perhaps an idle limit of its own.

        Example:
            >>> sessions.expiry(1_000.0, 2_000.0, None)
            2000.0
        """
        idle = self.idle
        if extra is not None and "idle" in extra:
            idle = float(extra["idle"])
        expires = now + idle
        return expires if expires < deadline else deadline

    def new_token(self) -> str:
        """Return a new token."""
        return cookies.new_token()

    def new_sid(self) -> bytes:
        """Return a new name for a websession in logs and listings."""
        return token_bytes(SID_BYTES)

    def sealed(self, plain: bytes, key: bytes) -> bytes:
        """Return the data as it is stored under a key.

        Args:
            plain: the encoded data.
            key: the record's key, which the seal is bound to.

        Example:
            >>> sessions.sealed(b"plain", bytes(32))
            b'plain'
        """
        return plain if self.ring is None else self.ring.seal(plain, key)

    def unsealed(self, data: bytes, key: bytes) -> bytes:
        """Return stored data as it was; ValueError when no key opens it.

        Args:
            data: what is stored.
            key: the record's key.

        Example:
            >>> sessions.unsealed(b"plain", bytes(32))
            b'plain'
        """
        return data if self.ring is None or self.is_stateless else self.ring.unseal(data, key)

    def emit(self, kind: str, tag: str = "", **details: Any) -> None:
        """Tell the listener. What it raises is logged, since no visitor can help it.

        Args:
            kind: what happened.
            tag: the websession's name for logs.
            details: further fields of the event.

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

    def note_guess(self, visit: Visit) -> None:
        """Count an unknown id.

        Args:
            visit: the request that had it.

        Example:
            >>> sessions.note_guess(Visit())
        """
        network = abuse.network_of(visit.signals("address")) if visit.signals is not None else ""
        if self._guessing.note(network, self.now()):
            self.emit("guessing", network=network)

    def tell_insecure(self) -> None:
        """Say once that a Secure cookie cannot be used over plain http."""
        if not self._was_told_insecure:
            self._was_told_insecure = True
            self.emit(
                "insecure",
                reason="plain http and secure=True: no cookie is set or believed; behind a proxy that ends TLS use "
                "trust_forwarded=True, for development secure=False",
            )

    def signals_of(self, visit: Visit) -> dict[str, bytes]:
        """Return the digests of the binding signals of a request.

        Args:
            visit: a request.

        Example:
            >>> sessions.signals_of(Visit())
            {}
        """
        return abuse.digests(self.bind, visit.signals, self._bind_salt)

    def mismatch_policy(self, signal: str) -> str:
        """Return what to do when a signal changed.

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
            user: as it was given to `login`.

        Example:
            >>> len(sessions.epoch_key("ada"))
            32
        """
        return sha256(b"mangonel websession epoch\0" + user.encode()).digest()

    def epochs_of(self, store: Any) -> Any:
        """Return the store of users' epochs that goes with a store; None where nobody could be revoked.

        Args:
            store: a store behind the asynchronous names.

        Example:
            >>> sessions.epochs_of(MemoryStore()) is None
            False
        """
        if not self.epochs_apart:
            return store if hasattr(store, "find") else None
        inner = store.store if isinstance(store, Meter) else store
        face = self.blocking if isinstance(inner, Immediate) else self.asynchronous
        return face.epochs(store)

    # Typed data.

    def encodable(self, data: Any) -> Any:
        """Return a model's values in a form that the codec takes.

        Args:
            data: what a websession holds.

        Example:
            >>> sessions.encodable({"n": 1})
            {'n': 1}
        """
        return self.to_builtins(data) if self.codec.name == "bson" else data

    def to_builtins(self, data: Any) -> dict[str, Any]:
        """Return a model's values as a dict.

        Args:
            data: what a websession holds.

        Example:
            >>> sessions.to_builtins({"n": 1})
            {'n': 1}
        """
        if self.codec.name == "bson":
            import msgspec

            value: dict[str, Any] = msgspec.to_builtins(data, builtin_types=_NATIVE)
            return value
        return self.codec.decode(self.codec.encode(data))

    def from_builtins(self, value: dict[str, Any]) -> Any:
        """Return a model's values from a dict; ValueError when they do not fit.

        Args:
            value: what the codec read.

        Example:
            >>> import msgspec
            >>> class Shop(msgspec.Struct):
            ...     cart: list[str] = []
            >>> WebSessions("memory:", model=Shop).from_builtins({"cart": ["tea"]}).cart
            ['tea']
        """
        import msgspec

        assert self.model is not None
        return msgspec.convert(value, self.model, strict=self.codec.name != "json")

    def _blank(self) -> bytes:
        if self.model is None:
            return self.codec.encode({})
        try:
            fresh = self.model()
        except TypeError as error:
            raise UsageError(
                f"expected a default for every field of {self.model.__name__}: {error}"
            ) from None
        return self.codec.encode(self.encodable(fresh))

    def __repr__(self) -> str:
        return f"<WebSessions {self.asynchronous.title}>"


def checked(sessions: Any, where: str) -> WebSessions[Any]:
    """Return what a framework was given, if it is websessions.

    Args:
        sessions: what was given.
        where: how to give it, for the message.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(sessions, WebSessions):
        raise UsageError(
            f"expected {where} with sessions=WebSessions(…), got {type(sessions).__name__}"
            + ("; a store's URL goes into WebSessions" if isinstance(sessions, str) else "")
        )
    return sessions


def _check_store(store: Any) -> None:
    """Refuse at the start what would fail at the first visitor."""
    if isinstance(store, str):
        from mangonel.websessions.stores.urls import check_url

        check_url(store)
        return
    kind = type(store).__name__
    remedy = ""
    # These have every attribute that one may ask for.
    if kind.endswith("Collection"):
        remedy = "; a collection goes into MongoStore(…)"
    elif kind.endswith(("Client", "Database")):
        remedy = "; of a client that the application has, give MongoStore(client.app.websessions)"
    elif all(callable(getattr(store, name, None)) for name in ("get", "put", "touch", "delete")):
        return
    raise UsageError(f"expected a store's URL or a store, got {kind}{remedy}")


def _native() -> tuple[type, ...]:
    import datetime
    import uuid

    return bytes, datetime.datetime, uuid.UUID


_NATIVE = _native()


def _keys(keys: bytes | str | Sequence[bytes | str] | None) -> list[bytes | str]:
    if keys is None:
        return []
    return [keys] if isinstance(keys, bytes | str) else list(keys)


def _bytes(key: bytes | str) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"expected {name} to be one of {', '.join(allowed)}, got {value!r}")
    return value


def _policies(bind: tuple[str, ...], on_mismatch: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(on_mismatch, str):
        policy = _one_of(on_mismatch, "on_mismatch", POLICIES)
        # Visitors change networks on every train; an address alone ends nothing unless that was asked for by name.
        return {signal: "log" if signal == "network" else policy for signal in bind}
    for signal, policy in on_mismatch.items():
        _one_of(policy, f"on_mismatch[{signal!r}]", POLICIES)
        if signal not in bind:
            raise UsageError(f"on_mismatch names {signal!r}, which bind does not")
    return {signal: on_mismatch.get(signal, "log") for signal in bind}


def new_key() -> str:
    """Return a new key for `seal` or `sign`, as text for a configuration file."""
    return urlsafe_b64encode(token_bytes(32)).decode()
