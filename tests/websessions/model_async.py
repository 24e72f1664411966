"""The model of `model.py` on an asynchronous store: whole faces in tasks, whose calls to the store overlap.

A call has two gates, before it is made and before its result arrives, so that others can write in between. New
websessions are stored several at once, as a store may that shares commands between them; every other call waits until
these are through, so that a run can be played again: what they find must not depend on the server's haste.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from model import BROWSER, SERVER, Steps, WebSessionModel

from mangonel.websessions import RequestView, WebSession

# Turns of the loop in which calls are sent; their replies take longer.
ROUNDS = 3


class Played:
    """A coroutine in a task of its own that continues from gate to gate on command."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, store: Gated, coroutine: Coroutine[Any, Any, Any]
    ) -> None:
        self._loop = loop
        self._store = store
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._gate: asyncio.Future[None] | None = None
        self._arrived: asyncio.Future[None] | None = None
        self.will_insert = False
        self.is_inserting = False

    def send(self, value: None, /) -> None:
        """Continue to the next gate, or out of the current one and into a call that others may share."""
        if self.is_inserting:
            self._run()
        shares = self.will_insert
        self.go()
        if shares:
            self.spin()
        else:
            self._run()
        if self._task is not None and self._task.done():
            raise StopIteration(self._task.result())

    def go(self) -> None:
        """Open the gate; the loop has to run next."""
        if self._task is None:
            self._task = self._loop.create_task(self._coroutine)
            self._store.players[self._task] = self
            self._task.add_done_callback(lambda task: self._arrive())
        elif self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def spin(self) -> None:
        """Run everything in the loop that is ready."""
        for _ in range(ROUNDS):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()

    def close(self) -> None:
        """Cancel the flow, and wait until its task has ended."""
        if self._task is None:
            self._coroutine.close()
            return
        # Repeated, because redis-py continues when it is cancelled as its reply arrives.
        while not self._task.done():
            self._task.cancel()
            self._loop.run_until_complete(asyncio.wait([self._task], timeout=0.05))

    async def gate(self) -> None:
        """Wait at the gate until the test opens it."""
        self._gate = self._loop.create_future()
        self._arrive()
        await self._gate

    def _run(self) -> None:
        assert self._task is not None
        while not self._task.done() and (self._gate is None or self._gate.done()):
            self._arrived = self._loop.create_future()
            self._loop.run_until_complete(self._arrived)

    def _arrive(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


class Gated:
    """A store whose calls start and return on the model's command."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.repeats = 0
        self.players: dict[asyncio.Task[Any], Played] = {}
        self._inserting: set[asyncio.Future[None]] = set()

    async def get(self, key: bytes) -> Any:
        return await self._call(self.store.get, key)

    async def put(self, record: Any, expected: int) -> Any:
        if expected or record.next is not None:
            return await self._call(self._put, record, expected)
        player = self._player()
        player.will_insert = True
        await player.gate()
        player.will_insert, player.is_inserting = False, True
        through = asyncio.get_running_loop().create_future()
        self._inserting.add(through)
        try:
            result = await self._put(record, expected)
        finally:
            player.is_inserting = False
            self._inserting.discard(through)
            through.set_result(None)
        await player.gate()
        return result

    async def touch(self, key: bytes, expires: float) -> Any:
        return await self._call(self.store.touch, key, expires)

    async def delete(self, *keys: bytes) -> Any:
        return await self._call(self.store.delete, *keys)

    async def find(self, user: str) -> Any:
        return await self._call(self.store.find, user)

    async def _put(self, record: Any, expected: int) -> Any:
        is_repeated, self.repeats = self.repeats > 0, max(self.repeats - 1, 0)
        done = await self.store.put(record, expected)
        return await self.store.put(record, expected) if is_repeated else done

    async def _call(self, method: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        player = self._player()
        await player.gate()
        while self._inserting:
            await asyncio.wait(self._inserting)
        result = await method(*arguments)
        await player.gate()
        return result

    def _player(self) -> Played:
        task = asyncio.current_task()
        assert task is not None
        return self.players[task]


class AsyncWebSessionModel(WebSessionModel):
    """The machine; a subclass says which store, and on which loop."""

    loop: asyncio.AbstractEventLoop
    LOOKS = 3
    MOST_REQUESTS = 10

    @rule(browsers=st.lists(BROWSER, min_size=3, max_size=6), server=SERVER, lost=st.integers(-6, 6))
    def crowd(self, browsers: list[int], server: int, lost: int) -> None:
        """Strangers who all write to one server at once; one of them may give up."""
        requests = []
        for browser in browsers:
            request = self._begin(browser, server, None)
            self._go(request, 100)
            self._act(request, "write")
            self._answer(request)
            self._go(request, 1)
            requests.append(request)
        players = [request.flow for request in requests if isinstance(request.flow, Played)]
        for player in players:
            player.go()
        players[0].spin()
        if 0 <= lost < len(players):
            players[lost].close()
            self.requests.remove(requests[lost])

    @precondition(lambda self: self._running())
    @rule(most=st.integers(1, 6))
    def go_on_together(self, most: int) -> None:
        for request in self._running()[:most]:
            self._go(request, 1)

    def _stepping(self, store: Any) -> Any:
        return Gated(store)

    def _loading(self, server: int, request_view: RequestView) -> Steps:
        return self._played(self.servers[server].asynchronous.load(request_view))

    def _committing(self, server: int, session: WebSession[Any], plan: int) -> Steps:
        return self._played(self.servers[server].asynchronous.commit(session, plan))

    def _revoking(self, server: int, user: str) -> Steps:
        return self._played(self.servers[server].asynchronous.revoke_user(user))

    def _is_live(self, key: bytes) -> bool:
        record = self.loop.run_until_complete(self.store.store.get(key))
        return record is not None and record.is_live

    def _played(self, coroutine: Coroutine[Any, Any, Any]) -> Played:
        return Played(self.loop, self.store, coroutine)
