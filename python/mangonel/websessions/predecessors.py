"""Reads the sessions that another package has stored, so that its visitors stay logged in.

`WebSessions(…, predecessors=[FlaskSession(…)])`; `takeover.py` has the flow. Each reader knows a cookie, its format and
its store. Nothing here unpickles.
"""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from mangonel.websessions.cookies import BLANKS
from mangonel.websessions.errors import UsageError

__all__ = ["DjangoSessions", "FlaskSession", "Predecessor", "StarletteSessions"]

Values = dict[str, Any]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


class Predecessor:
    """The base of readers: the settings of the old cookie. Your own reader overrides `read_flow` and `forget_flow`.

    Args:
        until: the end of the old cookie's acceptance, as an aware datetime.
        cookie: name of the old cookie.
        user: the key of the user's name among the old values; with it, the websession is logged in. None: it never is.
        convert: called with the old values, returns the new ones. None: they stay.
        path, domain: attributes of the old cookie, which the browser needs to remove it.

    Raises:
        UsageError: a time without zone, or an invalid cookie name.
    """

    def __init__(
        self,
        *,
        until: datetime,
        cookie: str,
        user: str | None = None,
        convert: Callable[[Values], Values] | None = None,
        path: str = "/",
        domain: str | None = None,
    ) -> None:
        if not isinstance(until, datetime) or until.tzinfo is None:
            raise UsageError(
                f"expected until as a datetime with a zone, as datetime(2030, 1, 1, tzinfo=UTC), got {until!r}"
            )
        if not _NAME.fullmatch(cookie):
            raise UsageError(f"expected cookie to be a token of RFC 6265, got {cookie!r}")
        self.until = until.timestamp()
        self.cookie = cookie
        self.user = user
        self.convert = convert
        where = f"; Path={path}" + (f"; Domain={domain}" if domain else "")
        self.take_back = f"{cookie}={where}; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"

    def value_in(self, header: str) -> str | None:
        """Return the old cookie's value in a Cookie header.

        Args:
            header: the header.

        Example:
            >>> from datetime import UTC, datetime
            >>> Predecessor(until=datetime(2030, 1, 1, tzinfo=UTC), cookie="session").value_in("a=1; session=x")
            'x'
        """
        for part in header.split(";"):
            name, _, value = part.partition("=")
            if name.strip(BLANKS) == self.cookie:
                return value.strip(BLANKS).strip('"') or None
        return None

    async def read_flow(self, value: str, waits: bool) -> Values | None:
        """Return the values of a session; None if the cookie names none, was forged, or has expired.

        Args:
            value: the old cookie's value.
            waits: whether this runs on an event loop, and may wait there.

        Raises:
            Exception: the old store does not answer; the visitor gets a 503.

        Example:
            >>> class Files(Predecessor):
            ...     async def read_flow(self, value, waits):
            ...         path = Path("sessions", value)
            ...         return json.loads(path.read_text()) if value.isalnum() and path.exists() else None
        """
        raise NotImplementedError

    async def forget_flow(self, value: str, waits: bool) -> None:
        """Remove the old session, which has moved.

        Args:
            value: the old cookie's value.
            waits: whether this runs on an event loop, and may wait there.

        Raises:
            Exception: the old store does not answer; the visitor gets a 503.

        Example:
            >>> class Files(Predecessor):
            ...     async def forget_flow(self, value, waits):
            ...         Path("sessions", value).unlink(missing_ok=True)
        """


class FlaskSession(Predecessor):
    """The sessions of Flask-Session 0.6 and newer in Redis or MongoDB, serialized as MessagePack or JSON.

    Sessions that an older version has pickled are not read; Flask-Session 0.8 rewrites each at its next request.

    Args:
        url: "redis://localhost/0", or "mongodb://localhost/flask_session".
        until, convert, path, domain: as for `Predecessor`.
        cookie: SESSION_COOKIE_NAME.
        prefix: SESSION_KEY_PREFIX.
        collection: SESSION_MONGODB_COLLECT.
        secret: the application's secret key, if it sets SESSION_USE_SIGNER.
        user: the key of the user's name; the default is Flask-Login's.

    Raises:
        UsageError: the URL is of another engine.
    """

    def __init__(
        self,
        url: str,
        *,
        until: datetime,
        cookie: str = "session",
        prefix: str = "session:",
        collection: str = "sessions",
        secret: str | bytes | None = None,
        user: str | None = "_user_id",
        convert: Callable[[Values], Values] | None = None,
        path: str = "/",
        domain: str | None = None,
    ) -> None:
        super().__init__(until=until, cookie=cookie, user=user, convert=convert, path=path, domain=domain)
        scheme = url.partition(":")[0]
        if scheme not in ("redis", "rediss", "unix", "mongodb", "mongodb+srv"):
            raise UsageError(f"expected a URL of redis: or mongodb:, got {scheme}:")
        self._is_redis = not scheme.startswith("mongodb")
        self._prefix, self._collection = prefix, collection
        self._signer: Any = None
        if secret is not None:
            from itsdangerous import Signer

            self._signer = Signer(secret, salt="flask-session", key_derivation="hmac")
        self._clients = _Clients(url, self._is_redis)

    async def read_flow(self, value: str, waits: bool) -> Values | None:
        """As `Predecessor.read_flow`."""
        key = self._key(value)
        if key is None:
            return None
        client = self._clients.client(waits)
        if self._is_redis:
            stored = await client.get(key) if waits else client.get(key)
        else:
            store = client.get_default_database("flask_session")[self._collection]
            found = await store.find_one({"id": key}) if waits else store.find_one({"id": key})
            if found is None or found["expiration"].replace(tzinfo=UTC) <= datetime.now(UTC):
                return None
            stored = found["val"]
        values = _decoded(stored) if stored is not None else None
        if values is not None:
            values.pop("_permanent", None)
        return values

    async def forget_flow(self, value: str, waits: bool) -> None:
        """As `Predecessor.forget_flow`."""
        key = self._key(value)
        client = self._clients.client(waits)
        if self._is_redis:
            done = client.delete(key)
        else:
            done = client.get_default_database("flask_session")[self._collection].delete_one({"id": key})
        if waits:
            await done

    def _key(self, value: str) -> str | None:
        if self._signer is None:
            return self._prefix + value
        from itsdangerous import BadSignature

        try:
            return self._prefix + str(self._signer.unsign(value).decode())
        except (BadSignature, ValueError):
            return None


class StarletteSessions(Predecessor):
    """The signed cookies of Starlette's, and so FastAPI's, own `SessionMiddleware`. Needs itsdangerous, as they do.

    Args:
        secret: its `secret_key`.
        until, user, convert, domain: as for `Predecessor`.
        cookie: its `session_cookie`.
        max_age: its `max_age` in seconds; None: its cookies last until the browser closes.
        path: its `path`.
    """

    def __init__(
        self,
        secret: str,
        *,
        until: datetime,
        cookie: str = "session",
        max_age: int | None = 14 * 24 * 60 * 60,
        user: str | None = None,
        convert: Callable[[Values], Values] | None = None,
        path: str = "/",
        domain: str | None = None,
    ) -> None:
        super().__init__(until=until, cookie=cookie, user=user, convert=convert, path=path, domain=domain)
        from itsdangerous import TimestampSigner

        self._signer = TimestampSigner(str(secret))
        self._max_age = max_age

    async def read_flow(self, value: str, waits: bool) -> Values | None:
        """As `Predecessor.read_flow`."""
        from itsdangerous import BadSignature

        try:
            data = self._signer.unsign(value.encode(), max_age=self._max_age)
            found = json.loads(b64decode(data))
        except (BadSignature, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class DjangoSessions(Predecessor):
    """The sessions of one of Django's own engines, inside a Django project, whose settings are needed.

    Args:
        engine: the old SESSION_ENGINE: "django.contrib.sessions.backends.db", "….cache", "….cached_db" or
            "….signed_cookies".
        until, convert, path, domain: as for `Predecessor`.
        cookie: the old SESSION_COOKIE_NAME.
    """

    def __init__(
        self,
        engine: str = "django.contrib.sessions.backends.db",
        *,
        until: datetime,
        cookie: str = "sessionid",
        convert: Callable[[Values], Values] | None = None,
        path: str = "/",
        domain: str | None = None,
    ) -> None:
        super().__init__(
            until=until, cookie=cookie, user="_auth_user_id", convert=convert, path=path, domain=domain
        )
        self._engine = engine

    async def read_flow(self, value: str, waits: bool) -> Values | None:
        """As `Predecessor.read_flow`."""
        store = self._store(value)
        values: Values = await store.aload() if waits else store.load()
        values = dict(values)
        values.pop("_session_expiry", None)
        return values or None

    async def forget_flow(self, value: str, waits: bool) -> None:
        """As `Predecessor.forget_flow`."""
        if self._engine.endswith("signed_cookies"):
            return
        store = self._store(value)
        if waits:
            await store.adelete(value)
        else:
            store.delete(value)

    def _store(self, value: str) -> Any:
        from importlib import import_module

        return import_module(self._engine).SessionStore(value)


class _Clients:
    """The clients of an old store: one for threads, and one for each event loop."""

    def __init__(self, url: str, is_redis: bool) -> None:
        self._url = url
        self._is_redis = is_redis
        self._blocking: Any = None
        self._on_loops: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def client(self, waits: bool) -> Any:
        if not waits:
            if self._blocking is None:
                self._blocking = self._made(False)
            return self._blocking
        loop = asyncio.get_running_loop()
        if loop not in self._on_loops:
            self._on_loops[loop] = self._made(True)
        return self._on_loops[loop]

    def _made(self, waits: bool) -> Any:
        if self._is_redis:
            import redis
            import redis.asyncio

            kind: Any = redis.asyncio.Redis if waits else redis.Redis
            return kind.from_url(self._url)
        from mangonel import AsyncMongoClient, MongoClient

        return AsyncMongoClient(self._url) if waits else MongoClient(self._url, connect=False)


def _decoded(stored: bytes) -> Values | None:
    for decode in (msgspec.msgpack.decode, msgspec.json.decode):
        try:
            found = decode(stored)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        if isinstance(found, Mapping):
            return dict(found)
    return None
