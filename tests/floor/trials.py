"""Run a flow, interrupt it at each of its steps, judge it, and run it once more undisturbed.

A `Way` is how it runs and waits: on asyncio, in this thread, in a greenlet, in virtual time or the machine's.
`MANGONEL_STEP=lost:3` plays one step.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import zlib
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import greenlet

from floor.flows import Flow
from mangonel._core import run_now
from mangonel.errors import PyMongoError
from mangonel.websessions import StoreError
from tools.faces import pool_sizes
from tools.message_proxy import BREAKS

# "early": during the wait. "late": after the result has arrived, which is then lost with the cancelled task.
CANCELS = ("early", "late")
# `make test` plays one of this many steps.
SAMPLE = 12
SECONDS = 20.0


class Way:
    """How a test's flows run: here to their ends, in the caller's thread; subclasses interrupt them.

    Attributes:
        kinds: the kinds of breaking it off, besides those of the network.
        breaks: those of the network.
        count: how many steps of these kinds the last run had.
        exceptions: what a flow that was broken off raises.
    """

    kinds: tuple[str, ...] = ()
    breaks = BREAKS
    exceptions: tuple[type[BaseException], ...] = ()

    def __init__(self) -> None:
        self.count = 0

    async def run(self, steps: Coroutine[Any, Any, Any], kind: str, at: int) -> Any:
        """Run the flow and interrupt it at this step, if the kind is one of `kinds`."""
        return run_now(steps)

    async def pause(self) -> None:
        time.sleep(0.005)

    def monotonic(self) -> float:
        return time.monotonic()

    def hurry(self, client: Any) -> None:
        """Do the deferred clean-up now."""
        background = client._abandoned_cursors._background
        while background._is_running and background._later:
            # The sweeps are due: all cursors that they kill are listed.
            background.run_later(background._later.popleft()[1])


class Tasks(Way):
    """In an asyncio task, which is cancelled at an await."""

    kinds = CANCELS
    exceptions = (asyncio.CancelledError,)

    async def run(self, steps: Coroutine[Any, Any, Any], kind: str, at: int) -> Any:
        awaits = Awaits(steps, at if kind in CANCELS else 0, kind == "late")
        try:
            return await awaits
        except asyncio.CancelledError:
            assert kind in CANCELS, "cancelled by the driver itself"
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            raise
        finally:
            self.count = awaits.count

    async def pause(self) -> None:
        await asyncio.sleep(0.005)


class Kills(Way):
    """In a gevent greenlet, which is killed while it waits."""

    kinds = ("early",)
    exceptions = (greenlet.GreenletExit,)

    async def run(self, steps: Coroutine[Any, Any, Any], kind: str, at: int) -> Any:
        import gevent

        flow = gevent.spawn(run_now, steps)
        count = 0

        def trace(event: str, ends: tuple[Any, Any]) -> None:
            nonlocal count
            if ends[0] is flow and not flow.dead:
                count += 1
                if kind in self.kinds and count == at:
                    flow.kill(block=False)

        former = greenlet.settrace(trace)
        try:
            told = flow.get()
        finally:
            greenlet.settrace(former)
            self.count = count
        if isinstance(told, greenlet.GreenletExit):
            raise told
        return told


class Awaits:
    """Awaits a coroutine, counts its suspensions, and cancels it at one of them.

    Args:
        steps: the coroutine.
        at: the await that is cancelled, from one; 0 cancels none.
        is_late: cancel after the result has come, before the coroutine has it.
    """

    def __init__(self, steps: Coroutine[Any, Any, Any], at: int = 0, is_late: bool = False) -> None:
        self._steps, self._at, self._is_late = steps, at, is_late
        self.count = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        task, error, value = asyncio.current_task(), None, None
        assert task is not None
        while True:
            try:
                waited = self._steps.send(value) if error is None else self._steps.throw(error)
            except StopIteration as end:
                return end.value
            self.count += 1
            is_it = self.count == self._at
            if is_it and not self._is_late:
                task.get_loop().call_soon(task.cancel)
            error = value = None
            try:
                value = yield waited
            except BaseException as raised:
                error = raised
            if is_it and self._is_late:
                error = asyncio.CancelledError()


class Trials:
    """The runs of one flow.

    Args:
        flow: the flow.
        network: counts and loses its commands: a `MessageProxy` or a `Wire`.
        admin: a blocking client of the server itself.
        way: how the flow runs.
    """

    def __init__(self, flow: Flow, network: Any, admin: Any, way: Way) -> None:
        self.flow, self.network, self.admin, self.way = flow, network, admin, way
        # Of the last undisturbed run.
        self.commands: list[str] = []
        # The last run's result, whether it ended normally, and its error.
        self.told: Any = None
        self.is_done, self.raised = False, ""

    async def play(self, kind: str, at: int) -> None:
        """Interrupt the flow at this step, and judge it."""
        is_cancel = kind in self.way.kinds
        await self.flow.prepare()
        self.network.break_at(kind, 0 if is_cancel else at)
        await self.run(kind, at)
        await self.is_over()
        commands, broken = list(self.network.commands), self.network.broken
        if not kind:
            self.commands = commands
        self.network.break_at("", 0)
        await self.judge(broken)
        if is_cancel and not self.is_done and commands:
            broken = commands[-1]
        await self.nothing_is_left(broken is not None and self.flow.may_leave_cursor(broken, kind))

    async def run(self, kind: str, at: int) -> None:
        """Run the flow; interrupt it at this step if this face supports the kind."""
        self.told, self.is_done, self.raised = None, False, ""
        try:
            self.told = await self.way.run(self.flow.run(), kind, at)
            self.is_done = True
        except self.way.exceptions:
            pass
        except (PyMongoError, StoreError) as error:
            # The text, not the error itself, whose frames hold cursors.
            self.raised = repr(error)

    async def judge(self, broken: str | None) -> None:
        """Raise AssertionError if the last run had no reason for its error, or contradicts the server's data.

        Args:
            broken: the command of it that the network lost, or None.
        """
        if self.raised:
            assert broken is not None, f"raised unprovoked: {self.raised}"
            assert not self.flow.survives(broken), f"{broken}: {self.raised}"
        await self.flow.judge(self.told, self.is_done)

    async def is_over(self) -> None:
        """Wait until no task or connection is in use and the server is idle; raise AssertionError if one stays.

        A command that was given up may reach the server long after its connection was closed.
        """
        gc.collect(0)
        await self._soon("tasks", lambda: self.flow.is_async and len(asyncio.all_tasks()) - 1)
        await self._soon("connections in use, being opened, waiting", self._in_use)
        await self._soon("commands on their way", lambda: not self.network.is_quiet())
        background, is_through = self.flow.client._abandoned_cursors._background, threading.Event()
        if background._is_running:
            self.way.hurry(self.flow.client)
            await self._soon("what is cleaned up later", lambda: len(background._later))
            # The server does one after another.
            background.run_later(lambda: is_through.set() or [])
            await self._soon("what is cleaned up in the background", lambda: not is_through.is_set())

    async def nothing_is_left(self, but_a_cursor: bool) -> None:
        """Wait until no task, connection, cursor or transaction is left over; raise AssertionError if one stays."""
        await self.is_over()
        open_on_server = self._open_after_sweep if but_a_cursor else self._open_on_server
        await self._soon("cursors and transactions on the server", open_on_server)

    def _in_use(self) -> tuple[int, ...]:
        found = pool_sizes(self.flow.client)[1:]
        return found if any(found) else ()

    def _open_after_sweep(self) -> list[Any]:
        self.admin.admin.command({"killAllSessions": []})
        return self._open_on_server()

    def _open_on_server(self) -> list[Any]:
        pipeline: list[Any] = [
            {"$currentOp": {"idleCursors": True, "idleSessions": True, "allUsers": True}},
            {"$match": {"$or": [
                {"type": "idleCursor", "ns": {"$regex": f"^{self.flow.database.name}\\."}},
                {"type": "idleSession", "transaction": {"$exists": True}},
            ]}},
        ]  # fmt: skip
        return [operation["type"] for operation in self.admin.admin.aggregate(pipeline)]

    async def _soon(self, what: str, left: Callable[[], Any]) -> None:
        end = self.way.monotonic() + SECONDS
        while found := left():
            assert self.way.monotonic() < end, f"left over: {what}: {found}"
            await self.way.pause()

    async def all(self, chosen: Callable[[str], bool]) -> list[str]:
        """Play each chosen step; return the failures."""
        wrong: list[str] = []
        # Cursors that other tests left on this server must not be blamed on a step.
        self.admin.admin.command({"killAllSessions": []})
        # The first run creates collections and indexes.
        await self.play("", 0)
        await self.play("", 0)
        counts = dict.fromkeys(self.way.breaks, len(self.commands))
        counts.update(dict.fromkeys(self.way.kinds, self.way.count))
        steps = [(kind, at) for kind, count in counts.items() for at in range(1, count + 1)]
        for kind, at in steps:
            if not chosen(f"{kind}:{at}"):
                continue
            try:
                await self.play(kind, at)
                await self.play("", 0)
            except AssertionError as error:
                first_line = str(error).partition("\n")[0]
                wrong.append(f"MANGONEL_STEP={kind}:{at} {first_line}")
                # Leftovers of one step must not be blamed on the next.
                self.admin.admin.command({"killAllSessions": []})
        return wrong


def choice(label: str, is_sample: bool, sample: int = SAMPLE) -> Callable[[str], bool]:
    """Return whether to play a step: the one of the environment variable, all, or in a sample one in so many."""
    wanted = os.environ.get("MANGONEL_STEP")

    def is_chosen(step: str) -> bool:
        if wanted:
            return step == wanted
        return not is_sample or zlib.crc32(f"{label} {step}".encode()) % sample == 0

    return is_chosen
