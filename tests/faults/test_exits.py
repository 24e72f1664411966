"""A process exits silently with 0, in any state of its daemon threads.

`MANGONEL_EXITS` sets how often each program runs (default 3).
"""

from __future__ import annotations

import os

import pytest

from faults import programs
from tools.scripted_server import ScriptedServer

TRIES = int(os.environ.get("MANGONEL_EXITS", "3"))

BLOCKING = """
import sys, threading, time
from mangonel import MongoClient
orders = MongoClient(sys.argv[1]).shop.orders

def work(count):
    while count:
        list(orders.find({}, batch_size=2))
        count -= 1
    sys.exit(3)

def start(*counts):
    for count in counts:
        threading.Thread(target=work, args=(count,), daemon=True).start()
    time.sleep(0.1)
"""
ASYNCIO = """
import asyncio, sys, threading, time
from mangonel import AsyncMongoClient

def work(loop_factory):
    async def read(orders):
        while True:
            async for _ in orders.find({}, batch_size=2):
                pass

    async def main():
        orders = AsyncMongoClient(sys.argv[1]).shop.orders
        await asyncio.gather(*(read(orders) for _ in range(5)))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())

def start(loop_factory):
    for _ in range(2):
        threading.Thread(target=work, args=(loop_factory,), daemon=True).start()
    time.sleep(0.3)
"""
# A user's class that is being encoded: Python code below Rust, below Python.
CODEC = """
import threading, time
from collections import UserDict
from mangonel.bson import encode

def work():
    while True:
        encode(UserDict({"a": UserDict({"b": 1})}))

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""

PROGRAMS = {
    "blocking": BLOCKING + "start(-1, -1, -1, -1)",
    "threads-that-exit": BLOCKING + "start(1, 2, 20, -1, -1)",
    "asyncio": ASYNCIO + "start(None)",
    "uvloop": ASYNCIO + "import uvloop\nstart(uvloop.new_event_loop)",
    "codec": CODEC,
}


@pytest.fixture(scope="module")
def server() -> ScriptedServer:
    def batch(name: str, id: int) -> dict[str, object]:
        return {"ok": 1, "cursor": {"id": id, "ns": "shop.orders", name: [{"_id": 1}, {"_id": 2}]}}

    with ScriptedServer() as server:
        server.on("find", batch("firstBatch", 5))
        server.on("getMore", batch("nextBatch", 0))
        yield server


@pytest.mark.parametrize("impl", ["fused", "reference"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_with_busy_daemon_threads_ends_well(server: ScriptedServer, name: str, impl: str) -> None:
    if impl == "reference" and name in ("asyncio", "uvloop", "codec"):
        pytest.skip("the implementation is chosen for blocking clients only")
    if name == "uvloop":
        pytest.importorskip("uvloop")
    for _ in range(TRIES):
        programs.must_end_well(programs.run(PROGRAMS[name], server.uri, MANGONEL_IMPL=impl))
