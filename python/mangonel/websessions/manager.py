"""`WebSessions`: an application's websessions: settings, checked when it starts, and access to the store.

Waits for nothing itself. The faces that run the flows are in `faces.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mangonel.websessions.checked_settings import CheckedSettings, Data
from mangonel.websessions.dependency import current_session, fresh_session
from mangonel.websessions.errors import UsageError
from mangonel.websessions.events import Event
from mangonel.websessions.faces import AsyncFace, BlockingFace
from mangonel.websessions.settings import (
    Content,
    Cookie,
    Lifetime,
    Outages,
    Protection,
    Users,
    grouped,
)
from mangonel.websessions.stores._threads import NeverSuspends
from mangonel.websessions.stores.meter import Meter

if TYPE_CHECKING:
    from mangonel.websessions.devices import Device
    from mangonel.websessions.predecessors import Predecessor
    from mangonel.websessions.session import WebSession
    from mangonel.websessions.users import Handle

__all__ = ["WebSessions"]

# Schemes of stores that cannot keep users' epochs, and why.
FORGETFUL = {
    "memory": "ends with its process, and with it every revocation",
    "cookie": "stores nothing",
    "memcached": "forgets revocations when it is full or restarted",
}


class WebSessions(CheckedSettings[Data]):
    """An application's websessions.

        WebSessions("mongodb://localhost/app", lifetime=Lifetime(idle="1h"), cookie=Cookie(samesite="Strict"))

    Args:
        store: a URL such as "mongodb://localhost/app", or a store object.
        lifetime: a `Lifetime`: limits and renewal.
        cookie: a `Cookie`, or just its name.
        content: a `Content`: codec, size, merges.
        protection: a `Protection`: keys, binding, guesses.
        users: a `Users`: limits per user, epochs.
        outages: an `Outages`: behaviour when the store fails.
        model: a msgspec.Struct, dataclass or pydantic model with defaults: `session.data` is an instance.
        predecessors: readers of `mangonel.websessions.predecessors`, whose cookies are taken over.
        trust_forwarded: trust X-Forwarded-Proto, X-Forwarded-For and X-Forwarded-Host, because your own proxy sets
            them; of several values of the first two, the last one.
        events: called with each Event. By default warnings go to the logger "mangonel.websessions".
        clock: seconds since the epoch.
        single: a single setting by name, such as `idle="1h"`, if its group is not given.

    Raises:
        UsageError: the settings make no sense.
    """

    def __init__(
        self,
        store: Any,
        *,
        lifetime: Lifetime | None = None,
        cookie: Cookie | str | None = None,
        content: Content | None = None,
        protection: Protection | None = None,
        users: Users | None = None,
        outages: Outages | None = None,
        model: type[Data] | None = None,
        predecessors: Sequence[Predecessor] = (),
        trust_forwarded: bool = False,
        events: Callable[[Event], None] | None = None,
        clock: Callable[[], float] = time.time,
        **single: Any,
    ) -> None:
        _check_store(store)
        name = cookie if isinstance(cookie, str) else None
        given = (lifetime, None if name is not None else cookie, content, protection, users, outages)
        groups = grouped(given, single)
        if name is not None:
            groups[1] = replace(groups[1], name=name)
        epochs = groups[4].epochs
        if epochs is not None:
            _check_store(epochs)
            _check_durable(epochs)
        super().__init__(
            *groups,
            model=model,
            is_stateless=isinstance(store, str) and store.startswith("cookie:"),
            predecessors=predecessors,
            trust_forwarded=trust_forwarded,
            events=events,
            clock=clock,
        )
        self.asynchronous = AsyncFace(self, store, epochs)
        self.blocking = BlockingFace(self, store, epochs)

    @classmethod
    def from_tornado_settings(cls, settings: Mapping[str, Any]) -> WebSessions[Any]:
        """Return websessions for the settings of the Tornado fork: `session_storage`, `session_age` and so on.

        docs/websessions/migration.md describes the current meaning of each.

        Args:
            settings: the application's settings.

        Raises:
            UsageError: a setting has a meaningless value.

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
            user: the name passed to `login`.
            current: the caller's websession; its handle has `is_current`.

        Raises:
            Unsupported: the engine cannot search by user.

        Example:
            >>> await WebSessions("memory:").of("ada")
            []
        """
        return await self.asynchronous.of(user, current)

    async def revoke(self, handle: Handle) -> bool:
        """End one of a user's websessions; return False if it had ended already.

        Args:
            handle: a handle from `of`.

        Raises:
            StoreError: the store does not answer; whether it ended is unknown.

        Example:
            >>> [await sessions.revoke(handle) for handle in await sessions.of("ada")]
            []
        """
        return await self.asynchronous.revoke(handle)

    async def revoke_user(self, user: str, except_: WebSession[Any] | None = None) -> int:
        """End all websessions of a user, including those being created; return how many there were.

        Args:
            user: the name passed to `login`.
            except_: a websession to keep, usually the caller's.

        Raises:
            StoreError: the store does not answer; whether they ended is unknown.
            Unsupported: the engine cannot search by user.

        Example:
            >>> await sessions.revoke_user("ada")
            0
        """
        return await self.asynchronous.revoke_user(user, except_)

    async def devices(self, user: str, current: WebSession[Any] | None = None) -> list[Device]:
        """Return the devices in which a user has logged in, the one used last first; with `Users(devices=True)`.

        Args:
            user: the name passed to `login`.
            current: the caller's websession; its device has `is_current`.

        Raises:
            Unsupported: devices are not kept.
            StoreError: the store does not answer.

        Example:
            >>> sessions = WebSessions("memory:", devices=True)
            >>> [f"{device.browser} on {device.system}" for device in await sessions.devices("ada")]
            []
        """
        return await self.asynchronous.devices(user, current)

    async def forget_device(self, device: Device) -> int:
        """Log a device out, its remembered login included, and forget it; return how many websessions ended.

        Args:
            device: a device from `devices`.

        Raises:
            Unsupported: devices are not kept, or the engine cannot list a user's websessions; then the device is
                forgotten, and its open websessions last until their limits.
            StoreError: the store does not answer; whether it was logged out is unknown.

        Example:
            >>> sessions = WebSessions("memory:", devices=True)
            >>> [await sessions.forget_device(device) for device in await sessions.devices("ada")]
            []
        """
        return await self.asynchronous.forget_device(device)

    async def export(self, user: str) -> dict[str, Any]:
        """Return the stored data of a user: websessions with their values, and devices; all of it is JSON.

        Args:
            user: the name passed to `login`.

        Raises:
            Unsupported: the engine cannot search by user.
            UsageError: a websession is sealed with a key that is not among those of `seal=`.

        Example:
            >>> await WebSessions("memory:").export("ada")
            {'user': 'ada', 'websessions': []}
        """
        return await self.asynchronous.export(user)

    async def erase(self, user: str) -> int:
        """End a user's websessions and remove all that is stored of them; return how many websessions ended.

        Only the number of the user's revocations remains, under a hash of the name, as long as it is needed.

        Args:
            user: the name passed to `login`.

        Raises:
            StoreError: the store does not answer; how much was removed is unknown. Call it again.
            Unsupported: the engine cannot search by user.

        Example:
            >>> await WebSessions("memory:").erase("ada")
            0
        """
        return await self.asynchronous.erase(user)

    async def setup(self) -> None:
        """Create tables and indexes, if the engine has any. May be called again."""
        await self.asynchronous.setup()

    async def purge(self) -> int:
        """Remove expired records, unless the engine does that itself; return how many."""
        return await self.asynchronous.purge()

    async def aclose(self) -> None:
        """Close the connections that were opened for a URL."""
        await self.asynchronous.aclose()

    def init_flask(self, app: Any, *, csrf: bool = False, revalidate: Any = None) -> None:
        """Make `flask.session` one of these websessions.

        Args:
            app: a Flask application.
            csrf: check every request that may change something; see `csrf_exempt` in the same module.
            revalidate: how often to check whether the websession of an event stream has ended, in seconds or as text
                such as "60s"; the stream ends at its next event. None: never.

        Raises:
            UsageError: `revalidate` is no duration, or Flask's cookie settings contradict these.

        Example:
            >>> import flask
            >>> sessions.init_flask(flask.Flask("shop"))
        """
        from mangonel.websessions.frameworks.flask import init_flask

        init_flask(app, self, csrf=csrf, revalidate=revalidate)

    @property
    def current(self) -> Callable[..., Any]:
        """A FastAPI dependency: `Annotated[WebSession[Data], Depends(sessions.current)]`."""
        return current_session

    def fresh(self, within: Any) -> Callable[..., Any]:
        """Return a FastAPI dependency: the websession, if its user has proved their identity within a time.

        Args:
            within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

        Raises:
            UsageError: `within` is no duration. The dependency raises `NotFresh`, which is answered 403.

        Example:
            >>> async def pay(session=Depends(sessions.fresh("10m"))):
            ...     return session.user
        """
        return fresh_session(within)

    # For the flows.

    def epochs_of(self, store: Any) -> Any:
        """Return the store of users' epochs for a store; None if users cannot be revoked.

        Args:
            store: a store with asynchronous methods.

        Example:
            >>> sessions.epochs_of(MemoryStore()) is None
            False
        """
        if not self.epochs_apart:
            return store if hasattr(store, "find") else None
        inner = store.store if isinstance(store, Meter) else store
        face = self.blocking if isinstance(inner, NeverSuspends) else self.asynchronous
        return face.epochs(store)

    def __repr__(self) -> str:
        return f"<WebSessions {self.asynchronous.title}>"


def _check_durable(epochs: Any) -> None:
    """Refuse a store for epochs that forgets them, or that other workers do not share."""
    scheme = epochs.partition(":")[0] if isinstance(epochs, str) else ""
    if scheme in FORGETFUL:
        raise UsageError(
            f"expected epochs as the URL of a durable store that all workers share, got {scheme}:, which "
            f"{FORGETFUL[scheme]}; a database will do, as mongodb://localhost/app or sqlite:///epochs.db"
        )


def _check_store(store: Any) -> None:
    """Refuse a store that would fail at the first visitor."""
    if isinstance(store, str):
        from mangonel.websessions.stores.urls import check_url

        check_url(store)
        return
    kind = type(store).__name__
    remedy = ""
    # Recognised by name: these objects have every attribute.
    if kind.endswith("Collection"):
        remedy = "; a collection goes into MongoStore(…)"
    elif kind.endswith(("Client", "Database")):
        remedy = "; of a client that the application has, give MongoStore(client.app.websessions)"
    elif all(callable(getattr(store, name, None)) for name in ("get", "put", "touch", "delete")):
        return
    raise UsageError(f"expected a store's URL or a store, got {kind}{remedy}")
