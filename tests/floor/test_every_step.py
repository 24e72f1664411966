"""Each flow on each face, broken off at each of its steps: cancelled at every await, every command and answer lost.

A flow runs once to count its awaits and its commands. Then it runs again for each of them, and breaks off there. A real
mongod stands behind a proxy that knows commands, so a step is the same one in each run; the clock is the machine's.
`MANGONEL_STEP=lost:3` plays one.
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

import pytest

from floor.flows import FLOWS, Flow, wait
from mangonel import AsyncMongoClient, MongoClient, client_options
from mangonel._core import run_now
from mangonel._shared.client import abandoned_cursors
from mangonel.errors import PyMongoError
from mangonel.server import Server
from mangonel.websessions import StoreError
from tools.faces import LOOPS, new_loop, pool_sizes
from tools.message_proxy import BREAKS, MessageProxy

# "early": while it waits. "late": what it waited for has come, and is lost with the cancelled task.
CANCELS = ("early", "late")
FACES = ("fused", "reference", *LOOPS)
# Of the steps that a test has, `make test` plays one in so many.
SAMPLE = 12
SECONDS = 20.0


class Awaits:
    """Awaits a coroutine, counts how often it suspends, and cancels it at one of these times.

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
    """The runs of one flow on one face."""

    def __init__(self, flow: Flow, proxy: MessageProxy, admin: Any) -> None:
        self.flow, self.proxy, self.admin = flow, proxy, admin
        self.awaits = 0
        # Of the last run that nothing broke off.
        self.commands: list[str] = []

    async def play(self, kind: str, at: int) -> None:
        """Break the flow off there, judge it, and run it once more undisturbed."""
        flow, is_cancel = self.flow, kind in CANCELS
        await flow.prepare()
        self.proxy.break_at(kind, 0 if is_cancel else at)
        told, is_done, raised, steps = None, False, None, flow.run()
        try:
            if flow.is_async:
                awaits = Awaits(steps, at if is_cancel else 0, kind == "late")
                try:
                    told = await awaits
                finally:
                    self.awaits = awaits.count
            else:
                told = run_now(steps)
            is_done = True
        except asyncio.CancelledError:
            assert is_cancel, "cancelled by the driver itself"
            task = asyncio.current_task()
            assert task is not None
            while task.cancelling():
                task.uncancel()
        except (PyMongoError, StoreError) as error:
            # Not the error itself: its frames hold cursors.
            raised = repr(error)
        del steps
        await self.is_over()
        commands, broken = list(self.proxy.commands), self.proxy.broken
        if not kind:
            self.commands = commands
        self.proxy.break_at("", 0)
        if raised is not None:
            assert broken is not None, f"raised unprovoked: {raised}"
            assert not flow.survives(broken), f"{broken}: {raised}"
        await flow.judge(told, is_done)
        if is_cancel and not is_done and commands:
            broken = commands[-1]
        await self.nothing_is_left(broken is not None and flow.may_leave_cursor(broken, kind))

    async def is_over(self) -> None:
        """Wait until no task or connection is in use and the server is through; raise AssertionError if one stays.

        A command that was given up may reach the server long after its connection was closed.
        """
        gc.collect(0)
        await self._soon("tasks", lambda: self.flow.is_async and len(asyncio.all_tasks()) - 1)
        await self._soon("connections in use, being opened, waiting", self._in_use)
        await self._soon("commands on their way", lambda: not self.proxy.is_quiet())
        background, is_through = self.flow.client._abandoned_cursors._background, threading.Event()
        if background._is_running:
            # The time of the sweeps has come: what they kill is there.
            while background._later:
                background.run_later(background._later.popleft()[1])
            # It does one after another.
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
        end = time.monotonic() + SECONDS
        while found := left():
            assert time.monotonic() < end, f"left over: {what}: {found}"
            if self.flow.is_async:
                await asyncio.sleep(0.005)
            else:
                time.sleep(0.005)

    async def all(self, chosen: Callable[[str], bool]) -> list[str]:
        """Play each chosen step; return the failures."""
        wrong: list[str] = []
        # The first run creates collections and indexes.
        await self.play("", 0)
        await self.play("", 0)
        counts = dict.fromkeys(BREAKS, len(self.commands))
        if self.flow.is_async:
            counts.update(dict.fromkeys(CANCELS, self.awaits))
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
                # What one step left must not be blamed on the next.
                self.admin.admin.command({"killAllSessions": []})
        return wrong


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is looked at again at once; cursors of cancelled commands are swept when `is_over` says so."""
    monkeypatch.setattr(client_options, "MIN_HEARTBEAT_INTERVAL", 0.002)
    monkeypatch.setattr(abandoned_cursors, "_SWEEP_S", 3600.0)


@pytest.mark.plays_a_sample
@pytest.mark.timeout(900)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_is_broken_off_at_any_step_tells_the_truth_and_leaves_nothing(
    name: str,
    face: str,
    server: Server,
    database_name: str,
    haste: None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted, is_sample = os.environ.get("MANGONEL_STEP"), request.config.getoption("sample")
    if face == "reference":
        monkeypatch.setenv("MANGONEL_IMPL", "reference")

    def is_chosen(step: str) -> bool:
        if wanted:
            return step == wanted
        return not is_sample or zlib.crc32(f"{name} {face} {step}".encode()) % SAMPLE == 0

    with MongoClient(server.uri) as admin, MessageProxy(server.members[0].port) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"

        async def steps() -> list[str]:
            client = AsyncMongoClient(uri) if face in LOOPS else MongoClient(uri)
            try:
                trials = Trials(FLOWS[name](client, admin, database_name), proxy, admin)
                return await trials.all(is_chosen)
            finally:
                await wait(client.close())

        if face in LOOPS:
            with asyncio.Runner(loop_factory=lambda: new_loop(face)) as runner:
                wrong = runner.run(steps())
        else:
            wrong = run_now(steps())
        admin.drop_database(database_name)
    assert not wrong, f"{len(wrong)} steps:\n" + "\n".join(wrong)
