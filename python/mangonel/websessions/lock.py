"""Serialises the requests of a websession: `async with session.lock():`, or `with` in threads.

Polls at growing intervals; the flows are in `turns.py`. Knows no engine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mangonel._core import run_now
from mangonel.websessions.content import encoded
from mangonel.websessions.errors import LockTimeout, Unsupported, UsageError
from mangonel.websessions.turns import release_flow, take_flow

if TYPE_CHECKING:
    from mangonel.websessions.record import Record
    from mangonel.websessions.session import WebSession

__all__ = ["Lock"]

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1


class Lock:
    """The result of `session.lock()`.

    Args:
        session: the request's websession.
        wait: seconds to wait for other holders.
        hold: seconds after which the lock expires.
    """

    def __init__(self, session: WebSession[Any], wait: float, hold: float) -> None:
        if session.state.sessions.is_stateless:
            raise Unsupported("a websession in a cookie cannot be locked; use a store")
        self._session = session
        self._wait = wait
        self._hold = hold
        self._mine: Record | None = None

    async def __aenter__(self) -> WebSession[Any]:
        return await self._enter_flow(self._face("async with", True))

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self._exit_flow(error)

    def __enter__(self) -> WebSession[Any]:
        return run_now(self._enter_flow(self._face("with", False)))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        run_now(self._exit_flow(error))

    async def _enter_flow(self, face: Any) -> WebSession[Any]:
        if (sid := self._sid()) is not None:
            for pause in self._pauses():
                self._mine = await face._run_flow(
                    lambda sessions, store: take_flow(sessions, store, sid, self._hold)
                )
                if self._mine is not None:
                    break
                if face.waits:
                    await asyncio.sleep(pause)
                else:
                    time.sleep(pause)
            try:
                found = self._session.reload()
                if face.waits:
                    await found
            except BaseException:
                await self._release_flow()
                raise
        return self._session

    async def _exit_flow(self, error: Any) -> None:
        if self._mine is None:
            return
        try:
            if error is None and not self._session.state.is_gone:
                saved = self._session.save()
                if saved is not None:
                    await saved
        finally:
            was_mine = await self._release_flow()
        if not was_mine and error is None:
            raise LockTimeout(
                f"the lock ended by itself after {self._hold:g} s, before the block did; give lock() a longer hold"
            )

    def _own_face(self) -> Any:
        return self._session.state.face or self._session.state.sessions.asynchronous

    def _face(self, words: str, waits: bool) -> Any:
        face = self._own_face()
        if face.waits != waits:
            raise UsageError(
                f"expected `{'async with' if face.waits else 'with'} session.lock()`, got `{words}`"
            )
        return face

    def _sid(self) -> bytes | None:
        """The name of the locked websession; None if it is new: no other request has it."""
        state = self._session.state
        if state.record is None:
            return None
        if encoded(self._session) != state.base or state.change or state.is_ended:
            raise UsageError("the websession was changed before its lock was taken; change it inside")
        return state.record.sid

    def _pauses(self) -> Iterator[float]:
        end, pause = time.monotonic() + self._wait, FIRST_PAUSE
        while True:
            yield pause * random.uniform(0.5, 1.0)
            if time.monotonic() > end:
                raise LockTimeout(
                    f"another request of this websession has held its lock for {self._wait:g} s"
                )
            pause = min(pause * 1.5, LONGEST_PAUSE)

    async def _release_flow(self) -> bool:
        mine, self._mine = self._mine, None
        assert mine is not None
        return bool(
            await self._own_face()._run_flow(lambda sessions, store: release_flow(sessions, store, mine))
        )
