"""The interpreter ends at once and silently, in any state of a client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.faces import EMPTY, found
from tools.scripted_server import Hang, Reply, ScriptedServer

BLOCKING = """
import sys
from mangonel import MongoClient
client = MongoClient(sys.argv[1])
orders = client.shop.orders
"""
ASYNCIO = """
import asyncio, sys
from mangonel import AsyncMongoClient
client = AsyncMongoClient(sys.argv[1])
orders = client.shop.orders
"""
THREAD = """
import threading, time
threading.Thread(target=orders.find_one, args=({"slow": 1},), daemon=True).start()
time.sleep(0.2)
"""
# Keeps the interpreter in its last phase, with the lock released, until the slow reply has arrived.
LAST_WORDS = """
class Slow:
    def __del__(self):
        self.sleep(0.5)
slow = Slow()
slow.sleep = time.sleep
"""

PROGRAMS = {
    "client-never-used": BLOCKING,
    "client-open": BLOCKING + "orders.find_one()",
    "client-closed": BLOCKING + "orders.find_one(); client.close()",
    "cursor-open": BLOCKING + "cursor = orders.find({'open': 1}); next(cursor)",
    "prefetch-under-way": BLOCKING + "cursor = orders.find({'open': 1}, prefetch=True); next(cursor)",
    "cursor-dropped": BLOCKING + "next(orders.find({'open': 1}))",
    "daemon-thread-waiting": BLOCKING + THREAD,
    "daemon-thread-answered-at-the-end": BLOCKING + THREAD + LAST_WORDS,
    "daemon-thread-in-the-queue": BLOCKING
    + "client = MongoClient(sys.argv[1], maxPoolSize=1); orders = client.shop.orders"
    + THREAD
    + "threading.Thread(target=orders.find_one, daemon=True).start(); time.sleep(0.1)",
    "reference-cycle": BLOCKING + "orders.find_one(); client.me = None; x = [client, orders]; x.append(x)",
    "exit-in-a-thread-that-uses-it": BLOCKING + "orders.find_one(); sys.exit(0)",
    "pools-looked-after": BLOCKING
    + "client = MongoClient(sys.argv[1], minPoolSize=5, maxIdleTimeMS=10000); client.shop.orders.find_one()",
    "many-clients": BLOCKING
    + "clients = [MongoClient(sys.argv[1], minPoolSize=2) for _ in range(20)]\n"
    + "for client in clients: client.shop.orders.find_one()",
    "asyncio-pools-looked-after": ASYNCIO
    + """
async def main():
    client = AsyncMongoClient(sys.argv[1], minPoolSize=5, maxIdleTimeMS=10000)
    await client.shop.orders.find_one()
asyncio.run(main())
""",
    "asyncio-never-used": ASYNCIO,
    "asyncio-open": ASYNCIO + "asyncio.run(orders.find_one())",
    "asyncio-open-made-inside": """
import asyncio, sys
from mangonel import AsyncMongoClient
async def main():
    client = AsyncMongoClient(sys.argv[1])
    await client.shop.orders.find_one()
asyncio.run(main())
""",
    "asyncio-cursor-open": ASYNCIO
    + """
async def main():
    global cursor
    cursor = orders.find({'open': 1})
    await cursor.next()
asyncio.run(main())
""",
    "asyncio-prefetch-under-way": ASYNCIO
    + """
async def main():
    global cursor
    cursor = orders.find({'open': 1}, prefetch=True)
    await cursor.next()
asyncio.run(main())
""",
    "asyncio-task-pending": ASYNCIO
    + """
async def main():
    task = asyncio.create_task(orders.find_one({'slow': 1}))
    await asyncio.sleep(0.1)
asyncio.run(main())
""",
    "asyncio-client-gone-and-its-port-kept-by-a-traceback": """
import asyncio, atexit, sys
from mangonel import AsyncMongoClient
from mangonel._faces import monitors
atexit.register(lambda: monitors._running and print("monitors are still running"))
async def main():
    global failure
    try:
        async with asyncio.timeout(0.1):
            await AsyncMongoClient(sys.argv[1]).shop.orders.find_one({'slow': 1})
    except TimeoutError as error:
        failure = error
asyncio.run(main())
""",
    "asyncio-loop-left-open": ASYNCIO
    + """
loop = asyncio.new_event_loop()
loop.run_until_complete(orders.find_one())
""",
    "asyncio-loop-closed-with-prefetch": ASYNCIO
    + """
loop = asyncio.new_event_loop()
cursor = orders.find({'open': 1}, prefetch=True)
loop.run_until_complete(cursor.next())
loop.close()
""",
    "uvloop-open": ASYNCIO
    + """
import uvloop
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(orders.find_one())
""",
}


@pytest.fixture(scope="module")
def server() -> ScriptedServer:
    with ScriptedServer() as server:

        def answer(request: object) -> object:
            filter = request.command["filter"]  # type: ignore[attr-defined]
            if "slow" in filter:
                return Reply(EMPTY, delay=0.4)
            return found({"_id": 1}, id=5) if "open" in filter else EMPTY

        server.on("find", answer)
        server.on("getMore", Hang())
        yield server


@pytest.mark.parametrize("impl", ["fused", "reference"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_interpreter_exits_cleanly_and_fast(server: ScriptedServer, name: str, impl: str) -> None:
    if "asyncio" in name and impl == "reference":
        pytest.skip("the implementation is chosen for blocking clients only")
    if name.startswith("uvloop"):
        pytest.importorskip("uvloop")
    if name.startswith("uvloop") and impl == "reference":
        pytest.skip("the implementation is chosen for blocking clients only")
    environment = {
        **os.environ,
        "MANGONEL_IMPL": impl,
        "PYTHONPATH": str(_package()),
        "PYTHONFAULTHANDLER": "1",
    }
    # Joining a thread that waits for a reply, or for its next check of the server, would not end in time.
    uri = f"{server.uri}&heartbeatFrequencyMS=300000"
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAMS[name], uri],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


LOGGED = """
import logging
logging.basicConfig(level=logging.DEBUG)
def kept(): "Functions of a program hold its names, so that its client stays until modules are gone."
"""


@pytest.mark.parametrize(
    "program",
    [LOGGED + BLOCKING + "orders.find_one()", LOGGED + ASYNCIO + "asyncio.run(orders.find_one())"],
    ids=["blocking", "asyncio"],
)
def test_the_log_of_a_client_that_outlives_the_modules_ends_without_a_traceback(server, program) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program, server.uri],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(_package())},
        check=False,
    )
    assert ended.returncode == 0
    assert "Command succeeded" in ended.stderr
    assert "Traceback" not in ended.stderr


def _package() -> Path:
    import mangonel

    return Path(mangonel.__file__).parent.parent
