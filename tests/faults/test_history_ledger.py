"""Audited accounts during step-downs of the primary: the total stays the same, and each change has one entry."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import pytest

from mangonel.odm import Connection, Versioned, acting_as, connect, inc
from mangonel.odm import Version as Counter
from mangonel.server import Server, start
from mangonel.server.replica_set import NOT_PRIMARY
from mangonel.server.wire import CommandError

pytestmark = [pytest.mark.no_sample, pytest.mark.timeout(600)]

STEP_DOWNS = 2
# Between two step-downs, and after the last one.
CHANGES = 40
START = 1000
NUMBERS = range(4)


class Purse(Versioned):
    id: int  # type: ignore[assignment]
    cents: int = START
    rev: Annotated[int, Counter] = 0


class Worker:
    """A thread or a task that moves money, and the replies that it got."""

    def __init__(self, db: Connection, name: str) -> None:
        self.db = db
        self.name = name
        self.chance = random.Random(name)
        # Acknowledged changes of purses.
        self.done = 0

    def step(self) -> tuple[int, int, int]:
        """Return two purses, and the amount to move from one to the other."""
        one, other = self.chance.sample(NUMBERS, 2)
        return one, other, self.chance.randint(1, 9)

    def run(self, is_over: threading.Event) -> None:
        """Move money on the blocking face."""
        with acting_as(self.name):
            while not is_over.wait(0.02):
                self.db.run(partial(self.chance.choice([self.move, self.shift]), *self.step()))
                self.done += 2

    def move(self, one: int, other: int, cents: int) -> None:
        source, target = Purse.get(one), Purse.get(other)
        source.cents -= cents
        target.cents += cents
        source.save()
        target.save()

    def shift(self, one: int, other: int, cents: int) -> None:
        Purse.find(Purse.id == one).update(inc(Purse.cents, -cents))
        Purse.find(Purse.id == other).update(inc(Purse.cents, cents))

    async def arun(self, is_over: threading.Event) -> None:
        """Move money on asyncio."""
        with acting_as(self.name):
            while not is_over.is_set():
                await self.db.arun(partial(self.chance.choice([self.amove, self.ashift]), *self.step()))
                self.done += 2
                await asyncio.sleep(0.02)

    async def amove(self, one: int, other: int, cents: int) -> None:
        source, target = await Purse.aget(one), await Purse.aget(other)
        source.cents -= cents
        target.cents += cents
        await source.asave()
        await target.asave()

    async def ashift(self, one: int, other: int, cents: int) -> None:
        await Purse.find(Purse.id == one).aupdate(inc(Purse.cents, -cents))
        await Purse.find(Purse.id == other).aupdate(inc(Purse.cents, cents))


@pytest.fixture
def db() -> Iterator[tuple[Connection, Server]]:
    with start(replica_set=3) as members:
        made = connect(members.uri, database="ledger", w="majority")
        yield made, members
        made.close()
        asyncio.run(made.aclose())


def step_down(members: Server) -> None:
    """Let the primary step down as soon as a secondary has everything."""
    try:
        members.wait_until_settled(timeout=120).run_command({"replSetStepDown": 5, "force": True}, timeout=60)
    except CommandError as error:
        # Under load the set may elect another primary by itself, which counts as a change of primary too.
        if error.code not in NOT_PRIMARY:
            raise


def test_each_change_has_one_entry_while_primaries_step_down(db: tuple[Connection, Server]) -> None:
    connection, members = db
    Purse.insert_many([Purse(id=number) for number in NUMBERS])
    blocking = [Worker(connection, f"thread {number}") for number in range(2)]
    tasks = [Worker(connection, f"task {number}") for number in range(2)]
    is_over, errors = threading.Event(), list[BaseException]()

    async def every() -> None:
        await asyncio.gather(*(worker.arun(is_over) for worker in tasks))
        await connection.aclose()

    def kept(run: Callable[[], Any]) -> None:
        try:
            run()
        except BaseException as error:
            errors.append(error)
            is_over.set()

    runs: list[Callable[[], Any]] = [lambda: asyncio.run(every())]
    runs += [partial(worker.run, is_over) for worker in blocking]
    threads = [threading.Thread(target=kept, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()

    def done() -> int:
        return sum(worker.done for worker in (*blocking, *tasks))

    try:
        for number in range(STEP_DOWNS + 1):
            wanted = done() + CHANGES
            end = time.monotonic() + 120
            while done() < wanted and not errors:
                assert time.monotonic() < end, f"{done()} changes after 120 s"
                time.sleep(0.05)
            if number < STEP_DOWNS:
                step_down(members)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(150)
    assert not errors, errors
    purses = {purse.id: purse for purse in Purse.find().all()}
    assert sum(purse.cents for purse in purses.values()) == START * len(NUMBERS)
    entries = 0
    for id, purse in purses.items():
        history = Purse.history_of(id)
        assert [one.number for one in history] == list(range(1, len(history) + 1))
        states = [one.document.cents for one in history if one.document is not None]
        assert [one.changes["cents"] for one in history[1:]] == list(pairwise(states))
        assert states[-1] == purse.cents
        assert {one.by for one in history[1:]} <= {worker.name for worker in (*blocking, *tasks)}
        entries += len(history) - 1
    assert entries == done()
