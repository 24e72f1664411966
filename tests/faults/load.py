"""A program that reads and writes without pause while its deployment fails, and reports the outcomes.

    python load.py mangonel URI DATABASE

Eight threads on the blocking face and 64 tasks on asyncio share the work, for mangonel or for pymongo. Each worker owns
one counter document, which it raises by one with every step, and inserts one document for every step; both with
majority. So a lost write is a missing document, and a write applied twice is a counter that is ahead. It runs until its
standard input closes, then prints one JSON object: steps, errors, unacknowledged steps, and the longest operation.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

THREADS, TASKS = 8, 64
PAUSE_S = {"thread": 0.02, "task": 0.1}
# With a time limit an operation is retried as often as time allows, not once: two faults may hit one write.
OPTIONS = {"w": "majority", "heartbeatFrequencyMS": 1000, "connectTimeoutMS": 2000, "timeoutMS": 60_000}


@dataclass
class Tally:
    """The observations of one worker."""

    worker: str
    steps: int = 0  # acknowledged, both writes
    unknown: list[int] = field(default_factory=list)  # steps that raised, with unknown outcome
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # replies that do not match the request
    longest: float = 0.0  # seconds that one operation took
    longest_at: float = 0.0  # when it started, as time.time()
    operations: int = 0

    def note(self, begun: float) -> None:
        spent = time.monotonic() - begun
        self.operations += 1
        if spent > self.longest:
            self.longest, self.longest_at = spent, time.time() - spent

    def fail(self, step: int, error: Exception) -> None:
        self.unknown.append(step)
        text = f"step {step}: {type(error).__name__}: {str(error)[:300]}"
        self.errors.append(f"{text} {sorted(getattr(error, '_error_labels', ()))}")

    def check(self, step: int, found: Any) -> None:
        if found is None or found["_id"] != {"worker": self.worker, "step": step}:
            self.wrong.append(f"step {step}: expected the document just written, got {found}")


def thread(database: Any, tally: Tally, stop: threading.Event) -> None:
    step = 0
    while not stop.is_set():
        step += 1
        try:
            begun = time.monotonic()
            database.steps.insert_one({"_id": {"worker": tally.worker, "step": step}})
            tally.note(begun)
            begun = time.monotonic()
            database.counters.update_one({"_id": tally.worker}, {"$inc": {"n": 1}}, upsert=True)
            tally.note(begun)
            begun = time.monotonic()
            found = database.steps.find_one({"_id": {"worker": tally.worker, "step": step}})
            tally.note(begun)
            tally.check(step, found)
            tally.steps += 1
        except Exception as error:
            tally.fail(step, error)
        time.sleep(PAUSE_S["thread"])


async def task(database: Any, tally: Tally, stop: threading.Event) -> None:
    step = 0
    while not stop.is_set():
        step += 1
        try:
            begun = time.monotonic()
            await database.steps.insert_one({"_id": {"worker": tally.worker, "step": step}})
            tally.note(begun)
            begun = time.monotonic()
            await database.counters.update_one({"_id": tally.worker}, {"$inc": {"n": 1}}, upsert=True)
            tally.note(begun)
            begun = time.monotonic()
            found = await database.steps.find_one({"_id": {"worker": tally.worker, "step": step}})
            tally.note(begun)
            tally.check(step, found)
            tally.steps += 1
        except Exception as error:
            tally.fail(step, error)
        await asyncio.sleep(PAUSE_S["task"])


async def run_tasks(
    driver: Any, uri: str, database: str, tallies: list[Tally], stop: threading.Event
) -> None:
    client = driver.AsyncMongoClient(uri, **OPTIONS)
    await asyncio.gather(*(task(client[database], tally, stop) for tally in tallies))
    await client.close()


def main() -> None:
    name, uri, database = sys.argv[1:4]
    driver = importlib.import_module(name)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    client = driver.MongoClient(uri, **OPTIONS)
    tallies = [Tally(f"thread {number}") for number in range(THREADS)]
    threads = [threading.Thread(target=thread, args=(client[database], tally, stop)) for tally in tallies]
    for each in threads:
        each.start()
    task_tallies = [Tally(f"task {number}") for number in range(TASKS)]
    asyncio.run(run_tasks(driver, uri, database, task_tallies, stop))
    for each in threads:
        each.join()
    client.close()
    print(json.dumps([asdict(tally) for tally in tallies + task_tallies]))


if __name__ == "__main__":
    main()
