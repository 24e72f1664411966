"""Clients leave no sockets, threads, server cursors or memory behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import tracemalloc
from typing import Any

import pytest

from mangonel import AsyncMongoClient
from mangonel.server import Server
from tools.faces import EMPTY, TIMEOUT, Face, eventually, found, new_loop, open_sockets, pool_sizes
from tools.scripted_server import ScriptedServer


def resident_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_clients_that_are_never_closed_leave_no_socket_and_no_thread(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    assert not face.is_async or face.loop
    threads = count_threads()

    def use_and_forget() -> Any:
        from mangonel import MongoClient

        client = (AsyncMongoClient if face.is_async else MongoClient)(scripted_server.uri)
        return client.shop.orders.find_one()

    for _ in range(200):
        assert face.run(use_and_forget) is None
    gc.collect()
    eventually(lambda: scripted_server.open_connections == 0, "all connections to be closed")
    # The server's threads end with their connections; the face's own loop stays. uvloop keeps a pool of four threads.
    eventually(lambda: count_threads() <= threads + 8, f"all but {threads} threads to end")


def killed_cursors(server: ScriptedServer) -> list[int]:
    return sorted(id for request in server.received("killCursors") for id in request.command["cursors"])


def test_dropped_cursors_are_killed_on_the_server(face: Face, scripted_server: ScriptedServer) -> None:
    ids = iter(range(100, 200))
    scripted_server.on("find", lambda _: found({"_id": 1}, id=next(ids)))
    client = face.client(scripted_server.uri)
    for number in range(100, 110):
        cursor = client.shop.orders.find()
        assert face.next(cursor) == {"_id": 1}
        del cursor
        gc.collect()
        eventually(lambda number=number: killed_cursors(scripted_server) == list(range(100, number + 1)))
    # Their server sessions were free again, so all used the same one. A kill uses another beside it, and the reply to
    # the last kill may still be on its way.
    assert len({bytes(r.command["lsid"]["id"]) for r in scripted_server.received("find")}) <= 3


def test_cursors_abandoned_while_one_is_killed_are_killed_together(
    face: Face, scripted_server: ScriptedServer
) -> None:
    ids = iter(range(1, 1000))
    scripted_server.on("find", lambda _: found({"_id": 1}, id=next(ids)))
    gate = threading.Event()
    scripted_server.on("killCursors", lambda _: gate.wait(TIMEOUT) and {"ok": 1})
    client = face.client(scripted_server.uri)
    for _ in range(300):
        assert face.next(client.shop.orders.find()) == {"_id": 1}
    gc.collect()
    gate.set()
    eventually(lambda: killed_cursors(scripted_server) == list(range(1, 301)))
    assert len(scripted_server.received("killCursors")) < 10


def test_a_closed_cursor_is_killed_once(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", found({"_id": 1}, id=7))
    client = face.client(scripted_server.uri)
    cursor = client.shop.orders.find()
    face.next(cursor)
    face.run(cursor.close)
    face.run(cursor.close)
    del cursor
    gc.collect()
    face.run(lambda: client.admin.command("ping"))
    assert len(scripted_server.received("killCursors")) == 1


def test_a_cursor_read_to_its_end_needs_no_killing(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", found({"_id": 1}, id=7))
    scripted_server.on("getMore", found({"_id": 2}, batch="nextBatch"))
    client = face.client(scripted_server.uri)
    assert len(face.collect(client.shop.orders.find())) == 2
    gc.collect()
    face.run(lambda: client.admin.command("ping"))
    assert scripted_server.received("killCursors") == []


@pytest.mark.plays_a_sample
def test_memory_stays_flat_over_many_operations(
    face: Face, standalone: Any, pytestconfig: pytest.Config
) -> None:
    count = 500 if pytestconfig.getoption("sample") else 2000
    client = face.client(standalone.uri, socketTimeoutMS=20_000)
    orders = client.faces_memory.orders
    face.run(orders.drop)
    face.run(lambda: orders.insert_many([{"_id": n, "text": "x" * 100} for n in range(50)]))

    async def work_async(count: int) -> None:
        for n in range(count):
            await orders.find_one({"_id": n % 50})
            if n % 50 == 0:
                assert len([document async for document in orders.find({}, batch_size=20)]) == 50

    def work_blocking(count: int) -> None:
        for n in range(count):
            orders.find_one({"_id": n % 50})
            if n % 50 == 0:
                assert len(list(orders.find({}, batch_size=20))) == 50

    work = work_async if face.is_async else work_blocking
    sockets = open_sockets()
    face.run(lambda: work(count))
    gc.collect()
    grown, more = [], []
    for _ in range(3):
        before, objects = resident_kib(), len(gc.get_objects())
        face.run(lambda: work(count))
        gc.collect()
        grown.append(resident_kib() - before)
        more.append(len(gc.get_objects()) - objects)
    print(f"{face.name}: {grown} KiB and {more} objects more after {count} operations each")
    # A leak of one small object per operation would be `count` objects each time, of 100 B each; leftovers of earlier
    # tests appear only once.
    assert min(more) < count // 4
    assert min(grown) < 600
    assert open_sockets() <= sockets + 1
    assert pool_sizes(client)[1:] == (0, 0, 0)


def test_errors_leave_no_memory_behind(face: Face, scripted_server: ScriptedServer) -> None:
    from mangonel.errors import OperationFailure

    scripted_server.on("find", {"ok": 0, "code": 1, "errmsg": "x" * 1000})
    orders = face.client(scripted_server.uri).shop.orders

    def fail() -> None:
        try:
            face.run(orders.find_one)
        except OperationFailure:
            return
        raise AssertionError("expected the find to fail")

    for _ in range(50):
        fail()
    scripted_server.requests.clear()
    gc.collect()
    tracemalloc.start()
    try:
        objects = len(gc.get_objects())
        for _ in range(300):
            fail()
        scripted_server.requests.clear()
        gc.collect()
        assert len(gc.get_objects()) - objects < 100
    finally:
        tracemalloc.stop()


def test_cancelled_tasks_leave_no_memory_behind(loop_name: str, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)

    async def steps() -> int:
        client = AsyncMongoClient(scripted_server.uri, maxPoolSize=2)

        async def turn() -> None:
            tasks = [asyncio.create_task(client.shop.orders.find_one()) for _ in range(6)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        for _ in range(30):
            await turn()
        scripted_server.requests.clear()
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(300):
            await turn()
        # The server ends the threads of closed connections with a delay.
        for _ in range(300):
            await asyncio.sleep(0.2)
            scripted_server.requests.clear()
            gc.collect()
            grown = len(gc.get_objects()) - before
            if grown < 900:
                break
        await client.close()
        return grown

    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        # 1800 operations, of which 900 were cancelled.
        assert runner.run(steps()) < 900


def test_a_find_that_is_cancelled_leaves_no_cursor_on_the_server(loop_name: str, standalone: Server) -> None:
    async def steps() -> None:
        async with AsyncMongoClient(standalone.uri) as client:
            orders = client.leaks.orders
            await orders.delete_many({})
            await orders.insert_many({"_id": number} for number in range(500))
            # Cancelled at every stage: before the send, during it, with the reply received, and in a later batch.
            for number in range(150):
                task = asyncio.create_task(orders.find({}, batch_size=10).to_list())
                await asyncio.sleep(number * 0.00005)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            gc.collect()
            # Cursors whose opening was under way at the cancellation are swept up a moment later.
            swept = f"no more than {before} open cursors"
            await asyncio.to_thread(eventually, lambda: open_cursors() <= before, swept)

    def open_cursors() -> int:
        status = standalone.members[0].run_command({"serverStatus": 1}, timeout=30)
        return int(status["metrics"]["cursor"]["open"]["total"])

    # Tests that cut connections leave cursors on the shared server.
    before = open_cursors()
    with asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner:
        runner.run(steps())
