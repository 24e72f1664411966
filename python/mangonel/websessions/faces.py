"""Runs the flows: one face awaits its store, the other calls a blocking store whose coroutines never suspend.

Knows no framework. Handles a store's errors: each causes an event, then becomes StoreError.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from _thread import RLock
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mangonel._core import blocking_method
from mangonel.websessions import stateless
from mangonel.websessions.commit import commit_flow
from mangonel.websessions.devices import Device, devices_flow, forget_flow
from mangonel.websessions.errors import StoreError, Unsupported, UsageError, WebSessionError
from mangonel.websessions.load import alive_flow, load_flow, reload_flow
from mangonel.websessions.machine import END, NOTHING, ROTATE, decide
from mangonel.websessions.person import erase_flow, export_flow
from mangonel.websessions.remember import remembered_flow
from mangonel.websessions.session import WebSession
from mangonel.websessions.stateless import load_stateless_flow
from mangonel.websessions.stores._threads import flows_of
from mangonel.websessions.stores.memory import MemoryStore
from mangonel.websessions.takeover import take_over_flow
from mangonel.websessions.timeouts import SharedTimeout
from mangonel.websessions.users import Handle, of_flow, revoke_flow, revoke_user_flow

if TYPE_CHECKING:
    from mangonel.websessions.checked_settings import CheckedSettings
    from mangonel.websessions.session import RequestView
    from mangonel.websessions.stores.protocol import BlockingStore, Store

__all__ = ["AsyncFace", "BlockingFace"]

T = TypeVar("T")

# Websessions with connections that a forked child must not share with its parent.
_faces: weakref.WeakSet[_Face] = weakref.WeakSet()


class _Face:
    """The flows of both faces, each defined once."""

    waits: bool

    def __init__(self, sessions: CheckedSettings[Any], store: Any, epochs: Any) -> None:
        self._sessions = sessions
        self._given = store
        self._given_epochs = epochs
        self.title = store.split(":", 1)[0] if isinstance(store, str) else type(store).__name__
        self._store: Any = None
        # The store's flows, if they do not depend on the loop. None: call `store()`.
        self._ready: Any = None
        self._epochs: Any = None
        # The time limit of a request's calls, for stores that wait on a loop.
        self._is_instant = True
        self._timeout: Any = None
        _faces.add(self)

    def store(self) -> Any:
        """Return the store's flows."""
        raise NotImplementedError

    def epochs(self, store: Any) -> Any:
        """Return the store of users' epochs."""
        return self._epochs if self._epochs is not None else store

    def forget(self) -> None:
        """In a forked child, drop connections that belong to the parent."""

    def _fail(self, error: Exception, session: WebSession[Any] | None = None) -> StoreError:
        sessions = self._sessions
        sessions.emit(
            "store_error", session.state.tag if session is not None else "", reason=type(error).__name__
        )
        from mangonel.websessions.stores.tls import advice

        text = f"the {self.title} store failed: {type(error).__name__}: {error}"
        more = advice(error, self._given)
        return StoreError(f"{text}; {more}" if more else text)

    def _may_hide(self, plan: int) -> bool:
        # Ending a websession, or changing its user, must not appear to have succeeded.
        return self._sessions.on_store_error == "anonymous" and plan not in (END, ROTATE)

    def _degraded(self, request_view: RequestView) -> WebSession[Any]:
        session: WebSession[Any] = WebSession(self._sessions, request_view)
        session.state.degraded = True
        return session

    def anonymous(self, request_view: RequestView) -> WebSession[Any]:
        """Return the empty websession of a request without our cookie."""
        session: WebSession[Any] = WebSession(self._sessions, request_view)
        session.state.face = self
        return session

    async def _load_flow(self, request_view: RequestView) -> WebSession[Any]:
        """Return the websession of a request.

        Raises:
            StoreError: the store did not answer; answer 503 and change no cookie.
        """
        sessions = self._sessions
        try:
            load = load_stateless_flow if sessions.is_stateless else load_flow
            store = self._ready if self._ready is not None else self.store()
            if self._is_instant:
                session = await load(sessions, store, request_view)
                if session.state.record is None and (sessions.has_devices or sessions.predecessors):
                    session = await self._otherwise_flow(store, session)
            else:
                with self._timeout:
                    session = await load(sessions, store, request_view)
                    if session.state.record is None and (sessions.has_devices or sessions.predecessors):
                        session = await self._otherwise_flow(store, session)
        except WebSessionError:
            raise
        except Exception as error:
            if not hasattr(request_view, "cookie"):
                raise TypeError(
                    f'expected a RequestView for "request_view", got {type(request_view).__name__}'
                ) from None
            failure = self._fail(error)
            if sessions.on_store_error == "raise":
                raise failure from error
            session = self._degraded(request_view)
        session.state.face = self
        return session

    async def _otherwise_flow(self, store: Any, session: WebSession[Any]) -> WebSession[Any]:
        """Return the websession that another cookie of the request leads to; the given one if none does."""
        sessions = self._sessions
        if sessions.has_devices:
            session = await remembered_flow(sessions, store, session)
        if sessions.predecessors and session.state.record is None:
            session = await take_over_flow(sessions, store, session, self.waits)
        return session

    async def _commit_flow(self, session: WebSession[Any], plan: int | None = None) -> None:
        """Store the changes; then the websession's headers contain the cookie to send, if any.

        Raises:
            StoreError: the store did not answer; answer 503 and change no cookie.
        """
        if plan is None:
            if not isinstance(session, WebSession):
                raise TypeError(f'expected a WebSession for "session", got {type(session).__name__}')
            plan = decide(session)
        if plan == NOTHING:
            return
        if self._sessions.is_stateless:
            await self._told(stateless.epoch_at_login_flow(self._sessions, self.store(), session))
            stateless.commit(session, plan)
            return
        try:
            store = self._ready if self._ready is not None else self.store()
            state = session.state
            if not self.waits:
                record = state.record
                # Threads that share a request take turns, too.
                with state.__dict__.setdefault("lock", RLock()):
                    if state.record is not record:
                        plan = decide(session)
                    await commit_flow(self._sessions, store, session, plan)
            elif self._is_instant:
                await commit_flow(self._sessions, store, session, plan)
            else:
                task = asyncio.current_task()
                if state.writer is not None and state.writer is not task:
                    await _turn_flow(session)
                    plan = decide(session)
                state.writer = task
                try:
                    with self._timeout:
                        await commit_flow(self._sessions, store, session, plan)
                finally:
                    _pass_on(session)
        except WebSessionError:
            session.state.cookie = session.state.device_cookie = None
            raise
        except Exception as error:
            failure = self._fail(error, session)
            session.state.cookie = session.state.device_cookie = None
            if not self._may_hide(plan):
                raise failure from error

    async def _save_flow(self, session: WebSession[Any]) -> None:
        """Store the websession now."""
        plan = decide(session)
        await self._commit_flow(session, plan)
        if plan != END:
            session.state.check_not_gone()

    async def _reload_flow(self, session: WebSession[Any]) -> bool:
        """Read the websession again."""
        if self.waits and session.state.writer is not None:
            await _turn_flow(session)
        session.state.writer = asyncio.current_task() if self.waits else None
        try:
            return await self._told(reload_flow(self._sessions, self.store(), session))
        finally:
            _pass_on(session)

    async def _is_alive_flow(self, session: WebSession[Any]) -> bool:
        """Return whether a websession is still alive with the same user; changes nothing in it."""
        return await self._told(alive_flow(self._sessions, self.store(), session))

    async def _of_flow(self, user: str, current: WebSession[Any] | None = None) -> list[Handle]:
        """Return a user's websessions."""
        return await self._told(of_flow(self._sessions, self.store(), user, current))

    async def _revoke_flow(self, handle: Handle) -> bool:
        """End one websession."""
        return await self._told(revoke_flow(self._sessions, self.store(), handle.user, handle.id))

    async def _revoke_user_flow(self, user: str, except_: WebSession[Any] | None = None) -> int:
        """End a user's websessions."""
        return await self._told(revoke_user_flow(self._sessions, self.store(), user, except_))

    async def _devices_flow(self, user: str, current: WebSession[Any] | None = None) -> list[Device]:
        """Return a user's devices."""
        return await self._told(devices_flow(self._sessions, self.store(), user, current))

    async def _forget_flow(self, device: Device) -> int:
        """Log a device out and forget it."""
        return await self._told(forget_flow(self._sessions, self.store(), device))

    async def _export_flow(self, user: str) -> dict[str, Any]:
        """Return the stored data of a user."""
        return await self._told(export_flow(self._sessions, self.store(), user))

    async def _erase_flow(self, user: str) -> int:
        """Remove the stored data of a user."""
        return await self._told(erase_flow(self._sessions, self.store(), user))

    async def _setup_flow(self) -> None:
        """Make the schema."""
        store = self.store()
        for each in (store, self._epochs):
            if hasattr(each, "setup"):
                await each.setup()

    async def _purge_flow(self, batch: int = 1000) -> int:
        """Remove expired records batch by batch."""
        store: Any = self.store()
        if not hasattr(store, "purge"):
            raise Unsupported(
                f"the {self.title} store has nothing to purge: its engine removes expired records"
            )
        total = 0
        while removed := await store.purge(self._sessions.now(), batch):
            total += removed
            if removed < batch:
                break
        return total

    async def _stats_flow(self) -> dict[str, int]:
        """Return figures about the store."""
        store: Any = self.store()
        if not hasattr(store, "stats"):
            raise Unsupported(f"the {self.title} store cannot count its records")
        return await store.stats(self._sessions.now())

    async def _run_flow(self, flow: Callable[[CheckedSettings[Any], Any], Coroutine[Any, Any, T]]) -> T:
        """Run a flow of another module on the store."""
        return await self._told(flow(self._sessions, self.store()))

    async def _told(self, flow: Coroutine[Any, Any, T]) -> T:
        """Await a flow; an error of the store becomes StoreError."""
        try:
            return await flow
        except WebSessionError:
            raise
        except Exception as error:
            raise self._fail(error) from error


class AsyncFace(_Face):
    """Awaits the flows on an event loop."""

    waits = True

    load = _Face._load_flow
    commit = _Face._commit_flow
    save = _Face._save_flow
    reload = _Face._reload_flow
    is_alive = _Face._is_alive_flow
    of = _Face._of_flow
    revoke = _Face._revoke_flow
    revoke_user = _Face._revoke_user_flow
    devices = _Face._devices_flow
    forget_device = _Face._forget_flow
    export = _Face._export_flow
    erase = _Face._erase_flow
    setup = _Face._setup_flow
    purge = _Face._purge_flow
    stats = _Face._stats_flow
    run = _Face._run_flow

    def __init__(self, sessions: CheckedSettings[Any], store: Any, epochs: Any) -> None:
        super().__init__(sessions, store, epochs)
        # A store that never waits needs no limit, which would add half the cost of everything else.
        self._is_instant = isinstance(store, MemoryStore) or (
            isinstance(store, str) and store.startswith(("memory:", "cookie:"))
        )
        self._loop: Any = None
        # Stores opened for a URL, by event loop: a client's sockets belong to one loop.
        self._opened: list[tuple[weakref.ref[Any], Any, Any]] = []

    def store(self) -> Store:
        """Return the store for the running loop and this process."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._enter(loop)
        return self._store

    async def aclose(self) -> None:
        """Close the store that was opened for a URL on this loop."""
        loop = asyncio.get_running_loop()
        mine = [entry for entry in self._opened if entry[0]() is loop]
        self._opened = [entry for entry in self._opened if entry[0]() is not loop]
        self._loop = self._store = self._epochs = None
        for _, store, epochs in mine:
            for opened, given in ((store, self._given), (epochs, self._given_epochs)):
                if isinstance(given, str) and hasattr(opened, "aclose"):
                    await opened.aclose()

    def forget(self) -> None:
        """Reopen the store in a forked child."""
        self._loop = self._store = self._epochs = None
        self._opened = []

    def check_thread(self, what: str) -> None:
        """Refuse use in a thread without a loop, where a coroutine would never run.

        Raises:
            UsageError: the thread has none, as in a `def` endpoint of FastAPI.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                f"{what} has to be awaited on the event loop, and this function runs in a thread of its own; "
                "make it `async def`, or leave it to the end of the request, which stores the changes"
            ) from None

    def _enter(self, loop: Any) -> None:
        self._opened = [entry for entry in self._opened if entry[0]() is not None]
        entry = next((entry for entry in self._opened if entry[0]() is loop), None)
        if entry is None:
            entry = (weakref.ref(loop), _opened(self._given), _opened(self._given_epochs))
            self._opened.append(entry)
        self._loop, (_, self._store, self._epochs) = loop, entry
        # One for each loop; waiting tasks of an earlier loop keep theirs.
        self._timeout = SharedTimeout(loop, self._sessions.timeout)


class BlockingFace(_Face):
    """Runs the flows in the calling thread, on stores that never suspend. Threads may share its store."""

    waits = False

    load = blocking_method(_Face._load_flow)
    commit = blocking_method(_Face._commit_flow)
    save = blocking_method(_Face._save_flow)
    reload = blocking_method(_Face._reload_flow)
    is_alive = blocking_method(_Face._is_alive_flow)
    of = blocking_method(_Face._of_flow)
    revoke = blocking_method(_Face._revoke_flow)
    revoke_user = blocking_method(_Face._revoke_user_flow)
    devices = blocking_method(_Face._devices_flow)
    forget_device = blocking_method(_Face._forget_flow)
    export = blocking_method(_Face._export_flow)
    erase = blocking_method(_Face._erase_flow)
    setup = blocking_method(_Face._setup_flow)
    purge = blocking_method(_Face._purge_flow)
    stats = blocking_method(_Face._stats_flow)
    run = blocking_method(_Face._run_flow)

    def __init__(self, sessions: CheckedSettings[Any], store: Any, epochs: Any) -> None:
        super().__init__(sessions, store, epochs)
        self._own: Any = None  # the store with blocking methods

    def store(self) -> Any:
        """Return the store's flows for this process."""
        if self._store is None:
            if self._given_epochs is not None:
                self._epochs = flows_of(_blocking(self._given_epochs))
            self._own = _blocking(self._given)
            self._store = self._ready = flows_of(self._own)
        return self._store

    def close(self) -> None:
        """Close the store that was opened for a URL."""
        store = self._own
        self.forget()
        if isinstance(self._given, str) and hasattr(store, "close"):
            store.close()

    def forget(self) -> None:
        """Reopen the store in a forked child."""
        self._own = self._store = self._ready = self._epochs = None

    def check_thread(self, what: str) -> None:
        """As `AsyncFace.check_thread`; every thread is allowed."""


async def _turn_flow(session: WebSession[Any]) -> None:
    """Wait until no other task of the request stores its websession: otherwise each would merge half-stored changes."""
    state = session.state
    while state.writer is not None:
        turn = asyncio.get_running_loop().create_future()
        state.waiting = (*state.waiting, turn)
        await turn


def _pass_on(session: WebSession[Any]) -> None:
    state = session.state
    waiting, state.writer, state.waiting = state.waiting, None, ()
    for turn in waiting:
        if not turn.done():
            turn.set_result(None)


def _opened(given: Any) -> Any:
    if isinstance(given, str):
        from mangonel.websessions.stores.urls import open_store

        return open_store(given)
    return given


def _blocking(given: Any) -> BlockingStore:
    if isinstance(given, str):
        from mangonel.websessions.stores.urls import open_blocking

        return open_blocking(given)
    # A store with both faces has the blocking one as `blocking`.
    return getattr(given, "blocking", given)


def _forget_all() -> None:
    for face in list(_faces):
        face.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
