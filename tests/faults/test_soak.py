"""Mixed work on both faces, cancellations and dropped cursors: memory, sockets, threads and server cursors stay flat.

A short form by default; `make soak` runs it for 15 minutes and prints the figures.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mangonel import AsyncMongoClient, DeleteMany, InsertOne, MongoClient, UpdateOne, timeout
from mangonel.errors import PyMongoError
from mangonel.server import Server

SECONDS = float(os.environ.get("MANGONEL_SOAK_SECONDS", "30"))
THREADS, TASKS = 4, 24
SEEDS = 600
# Steps until each worker has played each kind, including the memory that this takes.
WARM = 1000


@dataclass
class Sample:
    """The resources of the process and its server at one moment."""

    memory_kib: int
    descriptors: int
    threads: int
    server_cursors: int
    server_connections: int

    @classmethod
    def take(cls, server: Server) -> Sample:
        with open("/proc/self/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        metrics = server.members[0].run_command({"serverStatus": 1}, timeout=30)
        return cls(
            int(fields["VmRSS"].split()[0]),
            len(os.listdir("/proc/self/fd")),
            threading.active_count(),
            int(metrics["metrics"]["cursor"]["open"]["total"]),
            int(metrics["connections"]["current"]),
        )


def something_to_do(chance: random.Random) -> str:
    kinds = [
        "insert",
        "find_one",
        "read",
        "drop_cursor",
        "close_cursor",
        "aggregate",
        "bulk",
        "modify",
        "too_late",
        "client",
    ]
    return chance.choices(kinds, [8, 8, 4, 3, 2, 2, 2, 3, 1, 0.1])[0]


def step_in_thread(client: MongoClient[Any], uri: str, chance: random.Random) -> None:
    things = client.soak.things
    kind = something_to_do(chance)
    number = chance.randrange(SEEDS)
    if kind == "insert":
        things.insert_one({"seed": -1, "text": "x" * chance.randrange(5000)})
    elif kind == "find_one":
        things.find_one({"seed": number})
    elif kind == "read":
        things.find({"seed": {"$gte": number}}, batch_size=50).to_list()
    elif kind == "drop_cursor":
        next(things.find({"seed": {"$gte": 0}}, batch_size=10))
    elif kind == "close_cursor":
        with things.find({"seed": {"$gte": 0}}, batch_size=10) as cursor:
            next(cursor)
    elif kind == "aggregate":
        things.aggregate([{"$match": {"seed": {"$gte": 0}}}, {"$sample": {"size": 120}}]).to_list()
    elif kind == "bulk":
        things.bulk_write(
            [
                InsertOne({"seed": -2}),
                UpdateOne({"seed": number}, {"$inc": {"n": 1}}),
                DeleteMany({"seed": {"$lt": 0}}),
            ]
        )
    elif kind == "modify":
        things.find_one_and_update({"seed": number}, {"$inc": {"n": 1}})
    elif kind == "too_late":
        with timeout(0.002):
            things.find_one({"$where": "sleep(1) || false"})
    else:
        with MongoClient(uri) as another:
            another.soak.things.find_one({"seed": number})


async def step_in_task(client: AsyncMongoClient[Any], uri: str, chance: random.Random) -> None:
    things = client.soak.things
    kind = something_to_do(chance)
    number = chance.randrange(SEEDS)
    if kind == "insert":
        await things.insert_one({"seed": -1, "text": "x" * chance.randrange(5000)})
    elif kind == "find_one":
        await things.find_one({"seed": number})
    elif kind == "read":
        async for _ in things.find({"seed": {"$gte": number}}, batch_size=50):
            pass
    elif kind == "drop_cursor":
        await things.find({"seed": {"$gte": 0}}, batch_size=10).next()
    elif kind == "close_cursor":
        async with things.find({"seed": {"$gte": 0}}, batch_size=10) as cursor:
            await cursor.next()
    elif kind == "aggregate":
        await (
            await things.aggregate([{"$match": {"seed": {"$gte": 0}}}, {"$sample": {"size": 120}}])
        ).to_list()
    elif kind == "bulk":
        await things.bulk_write([InsertOne({"seed": -2}), UpdateOne({"seed": number}, {"$inc": {"n": 1}})])
    elif kind == "modify":
        await things.find_one_and_update({"seed": number}, {"$inc": {"n": 1}})
    elif kind == "too_late":
        with timeout(0.002):
            await things.find_one({"$where": "sleep(1) || false"})
    else:
        async with AsyncMongoClient(uri) as another:
            await another.soak.things.find_one({"seed": number})


async def cancelled_at_some_point(step: Any, chance: random.Random) -> None:
    task = asyncio.ensure_future(step)
    await asyncio.sleep(chance.uniform(0, 0.005))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Soak:
    """The workers, until `stop` is set."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.stop = threading.Event()
        self.steps = 0
        self.errors: list[str] = []

    def note(self, error: PyMongoError) -> None:
        if not error.timeout:
            self.errors.append(repr(error))

    def work_in_thread(self, client: MongoClient[Any], seed: int) -> None:
        chance = random.Random(seed)
        while not self.stop.is_set():
            try:
                step_in_thread(client, self.uri, chance)
            except PyMongoError as error:
                self.note(error)
            self.steps += 1
            time.sleep(0.002)

    async def work_in_task(self, client: AsyncMongoClient[Any], seed: int) -> None:
        chance = random.Random(seed)
        while not self.stop.is_set():
            step = step_in_task(client, self.uri, chance)
            try:
                await (cancelled_at_some_point(step, chance) if chance.random() < 0.2 else step)
            except PyMongoError as error:
                self.note(error)
            self.steps += 1
            await asyncio.sleep(0.01)

    async def run_tasks(self) -> None:
        async with AsyncMongoClient(self.uri, maxPoolSize=10) as client:
            await asyncio.gather(*(self.work_in_task(client, 1000 + number) for number in range(TASKS)))
            # A cursor in a reference cycle, such as that of a cancelled task, ends when it is collected; the rest a
            # moment later.
            gc.collect()
            await asyncio.sleep(4)

    def run(self, while_running: Callable[[], None]) -> None:
        with MongoClient(self.uri) as client:
            work = [
                threading.Thread(target=self.work_in_thread, args=(client, number))
                for number in range(THREADS)
            ]
            work.append(threading.Thread(target=lambda: asyncio.run(self.run_tasks())))
            for thread in work:
                thread.start()
            try:
                while_running()
            finally:
                self.stop.set()
                for thread in work:
                    thread.join(60)
            gc.collect()
            time.sleep(1)
            assert not any(thread.is_alive() for thread in work), "a worker hangs"


def settled(server: Server, before: Sample, seconds: float = 60.0) -> Sample:
    """Return the resources once closed sockets and killed cursors are gone, or the leftovers after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        gc.collect()
        sample = Sample.take(server)
        is_back = sample.server_cursors <= before.server_cursors and sample.descriptors <= before.descriptors
        if (is_back and sample.threads <= before.threads) or time.monotonic() > end:
            return sample
        time.sleep(0.2)


@pytest.mark.timeout(SECONDS + 300)
def test_nothing_grows_while_both_faces_work(
    standalone: Server, record_property: Callable[[str, object], None]
) -> None:
    with MongoClient(standalone.uri) as client:
        client.soak.things.drop()
        client.soak.things.insert_many({"seed": number, "text": "y" * 200} for number in range(SEEDS))
        client.soak.things.create_index("seed")
    gc.collect()
    before = Sample.take(standalone)
    soak, samples = Soak(standalone.uri), []

    def watch() -> None:
        end = time.monotonic() + 60
        while soak.steps < WARM:
            assert time.monotonic() < end, f"{soak.steps} steps in a minute"
            time.sleep(0.05)
        # On a busy machine a measurement takes time, too; the same number of them is compared.
        for _ in range(30):
            time.sleep(SECONDS / 30)
            samples.append(Sample.take(standalone))

    soak.run(watch)
    after = settled(standalone, before)
    early, late = samples[8:14], samples[-6:]
    memory = [max(sample.memory_kib for sample in part) for part in (early, late)]
    lines = [
        f"{soak.steps} steps in {SECONDS:.0f} s",
        f"memory after a third {memory[0]} KiB, at the end {memory[1]} KiB",
        f"most at once: {max(sample.descriptors for sample in samples)} descriptors, "
        f"{max(sample.threads for sample in samples)} threads, "
        f"{max(sample.server_cursors for sample in samples)} server cursors",
        f"before {before}",
        f"after {after}",
    ]
    print("\n".join(lines))
    record_property("soak", "; ".join(lines))
    assert not soak.errors, "\n".join(soak.errors[:10])
    assert memory[1] < memory[0] * 1.05 + 4096, "memory grows"
    assert after.descriptors <= before.descriptors + 1, "sockets are left"
    assert after.threads <= before.threads, "threads are left"
    # A cursor whose opening was cancelled may survive if the server was too busy to be told (NOTES): one in ten
    # thousand. If the driver forgot them, one in ten would survive.
    assert after.server_cursors <= before.server_cursors + 1 + soak.steps // 10_000, "server cursors are left"
    # The number open at once depends on the machine: 73 in 125 000 steps at most. If the driver forgot them, each ten
    # steps would leave one.
    most_open = [max(sample.server_cursors for sample in part) for part in (early, late)]
    assert most_open[1] <= most_open[0] + 40 + soak.steps // 500, "server cursors grow"
