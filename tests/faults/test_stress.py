"""Everything at once that a process does to its driver: signal handlers that raise at random moments, threads that end,
cursors and operations that are dropped, forks, and an exit with work in flight. Nothing but these exceptions comes out.

`MANGONEL_STRESS_SECONDS` is how long all programs together take (default 20).
"""

from __future__ import annotations

import os
import re

import pytest

from faults import programs
from tools.scripted_server import ScriptedServer

FACES = ["fused", "reference", "asyncio"]
OURS = re.compile("Fatal|FATAL|SystemError|panicked|borrowed")
SECONDS = float(os.environ.get("MANGONEL_STRESS_SECONDS", "20")) / len(FACES)

HEAD = """
import asyncio, gc, os, random, signal, sys, threading, time
from mangonel import AsyncMongoClient, MongoClient

end = time.monotonic() + float(sys.argv[2])
dice = random.Random(int(sys.argv[3]))
failed = []

class Alarm(Exception):
    pass

def ring(*_):
    raise Alarm

def ignore(unraisable):
    "An alarm in a finalizer has nowhere to go; what one does to `threading` and `asyncio` is their own affair."
    error = unraisable.exc_value
    if isinstance(error, SystemError) or "borrow" in str(error) or "mangonel" in f"{unraisable.object!r}":
        if not isinstance(error, Alarm):
            failed.append(repr(unraisable))

def set_alarm():
    signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0002, 0.01))

def fork(client):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        try:
            assert client.shop.orders.find_one() is not None
        except BaseException as error:
            sys.stderr.write(f"in the child: {error!r}")
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def thread_failed(failure):
    if not issubclass(failure.exc_type, (Alarm, SystemExit)):
        failed.append(repr(failure.exc_value))

sys.unraisablehook, threading.excepthook = ignore, thread_failed
signal.signal(signal.SIGALRM, ring)
"""
BLOCKING = (
    HEAD
    + """
client = MongoClient(sys.argv[1], maxPoolSize=4)
orders = client.shop.orders

def read(count):
    while count:
        cursor = orders.find({}, batch_size=2)
        next(cursor) if dice.random() < 0.5 else list(cursor)
        count -= 1
    sys.exit()

for _ in range(2):
    threading.Thread(target=read, args=(-1,), daemon=True).start()
while time.monotonic() < end and not failed:
    try:
        threading.Thread(target=read, args=(2,), daemon=True).start()
        set_alarm()
        for _ in range(20):
            list(orders.find({}, batch_size=2))
            next(orders.find({}, batch_size=2))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        pass
    if dice.random() < 0.02:
        fork(client)
assert orders.find_one() is not None
assert not failed, failed[:3]
"""
)
ASYNCIO = (
    HEAD
    + """
async def read(orders):
    while True:
        async for _ in orders.find({}, batch_size=2):
            if dice.random() < 0.2:
                break

async def main(count):
    client = AsyncMongoClient(sys.argv[1], maxPoolSize=4)
    tasks = [asyncio.create_task(read(client.shop.orders)) for _ in range(6)]
    for _ in range(count):
        await asyncio.sleep(0.01)
        dice.choice(tasks).cancel()
        tasks.append(asyncio.create_task(read(client.shop.orders)))

def work():
    asyncio.run(main(10**6))

def settle(loop, tasks):
    "An alarm inside `call_soon` loses what was to be called: asyncio never goes on with such a task."
    while tasks:
        try:
            return loop.run_until_complete(asyncio.wait(tasks, timeout=0.2))
        except RuntimeError as error:
            # An alarm between the end of `main` and that of the loop's run: asyncio leaves the stop that `main` asked
            # for to this run. Each is met once.
            if str(error) != "Event loop stopped before Future completed.":
                raise

def run():
    loop = asyncio.new_event_loop()
    try:
        set_alarm()
        loop.run_until_complete(main(5))
    except Alarm:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        settle(loop, tasks)
        loop.close()

# All modules are there before the first alarm: an import that it ends leaves other threads half a module.
asyncio.run(main(1))
threading.Thread(target=work, daemon=True).start()
while time.monotonic() < end and not failed:
    try:
        run()
    except Alarm:
        pass
    gc.collect()
assert not failed, failed[:3]
"""
)


@pytest.fixture(scope="module")
def server() -> ScriptedServer:
    def batch(name: str, id: int) -> dict[str, object]:
        return {"ok": 1, "cursor": {"id": id, "ns": "shop.orders", name: [{"_id": 1}, {"_id": 2}]}}

    with ScriptedServer() as server:
        server.on("find", batch("firstBatch", 5))
        server.on("getMore", batch("nextBatch", 0))
        yield server


@pytest.mark.parametrize("face", FACES)
def test_a_process_under_stress_raises_nothing_of_its_own_and_ends_well(
    server: ScriptedServer, face: str
) -> None:
    program = ASYNCIO if face == "asyncio" else BLOCKING
    impl = "reference" if face == "reference" else "fused"
    ended = programs.run(
        program,
        server.uri,
        str(SECONDS),
        "1",
        timeout=SECONDS + 60,
        MANGONEL_IMPL=impl,
        PYTHONWARNINGS="ignore",
    )
    # asyncio's own log of tasks that an alarm ended says nothing of the driver.
    said = "" if face == "asyncio" and not OURS.search(ended.stderr) else ended.stderr
    assert (ended.returncode, said[-3000:]) == (0, "")
