"""Events in the life of a process and its server: forks, spawned workers, signals, many clients, a sudden death."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import mangonel
from mangonel import AsyncMongoClient, MongoClient, server
from mangonel._faces.sockets import is_patched_by_gevent
from mangonel.errors import AutoReconnect, ServerSelectionTimeoutError
from tools.faces import (
    EMPTY,
    TIMEOUT,
    Face,
    connections_of,
    eventually,
    found,
    new_loop,
    open_sockets,
    pool_sizes,
)
from tools.interrupts import places, press_ctrl_c
from tools.scripted_server import Close, Hang, Raw, Reply, ScriptedServer

FOLDERS = (str(Path(mangonel.__file__).parent),)


def _spawned(uri: str, is_async: bool, results: Any) -> None:
    """Runs in a process of its own, which imports everything again."""
    if is_async:

        async def ask() -> Any:
            async with AsyncMongoClient(uri) as client:
                return await client.shop.orders.find_one()

        results.put(asyncio.run(ask()))
    else:
        with MongoClient[Any](uri) as client:
            results.put(client.shop.orders.find_one())


def test_spawned_workers_have_clients_of_their_own(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", found({"_id": 1}))
    client = face.client(scripted_server.uri)
    face.run(client.shop.orders.find_one)
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    workers = [
        context.Process(target=_spawned, args=(scripted_server.uri, face.is_async, results)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(TIMEOUT)
        assert worker.exitcode == 0
    assert [results.get() for _ in workers] == [{"_id": 1}] * 2
    assert len(connections_of(scripted_server, "find")) == 3


def _filled_in_child(client: Any, is_async: bool, results: Any) -> None:
    if is_async:

        async def wait() -> None:
            await client.shop.orders.find_one()
            await asyncio.to_thread(eventually, lambda: pool_sizes(client)[0] == 3)

        asyncio.run(wait())
    else:
        client.shop.orders.find_one()
        eventually(lambda: pool_sizes(client)[0] == 3)
    results.put(pool_sizes(client)[0])


def test_the_pool_of_a_forked_child_is_looked_after_too(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, minPoolSize=3)
    face.run(client.shop.orders.find_one)
    eventually(lambda: pool_sizes(client)[0] == 3)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_filled_in_child, args=(client, face.is_async, results))
    child.start()
    child.join(2 * TIMEOUT)
    assert child.exitcode == 0
    assert results.get() == 3
    assert pool_sizes(client)[0] == 3
    face.run(client.shop.orders.find_one)


def test_ctrl_c_ends_a_loop_and_its_connection(loop_name: str, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", Hang())

    async def tick() -> None:
        # A Ctrl-C between the interpreter's check and the loop's wait is noticed when the loop wakes up next.
        while True:
            await asyncio.sleep(0.05)

    async def ask() -> None:
        ticking = asyncio.create_task(tick())
        # Dropped with the task without being closed.
        await AsyncMongoClient(scripted_server.uri).shop.orders.find_one()
        ticking.cancel()

    def interrupt() -> None:
        scripted_server.wait_for("find")
        press_ctrl_c()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with (
        pytest.raises(KeyboardInterrupt),
        asyncio.Runner(loop_factory=lambda: new_loop(loop_name)) as runner,
    ):
        runner.run(ask())
    thread.join()
    gc.collect()
    eventually(lambda: scripted_server.open_connections == 0)


@pytest.mark.parametrize("make", [MongoClient, AsyncMongoClient])
def test_ctrl_c_in_the_finalizer_of_a_client_reaches_the_program(
    make: Any, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_patched_by_gevent():
        pytest.skip("a signal interrupts the greenlet that runs: here the one that sends it")
    scripted_server.on("find", EMPTY)
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: lost.append(report.object))

    def drop() -> None:
        client = make(scripted_server.uri)
        value = client.shop.orders.find_one()
        if make is AsyncMongoClient:
            runner.run(value)

    def drop_at(place: int) -> None:
        places(drop, FOLDERS, place, in_finalizers=True)
        eventually(lambda: False, "KeyboardInterrupt")

    with asyncio.Runner() as runner:
        drop()
        count = places(drop, FOLDERS, in_finalizers=True)
        assert count > 3
        # The first place is before the finalizer's first line, so it can do nothing there.
        for at in range(2, count + 1):
            with pytest.raises(KeyboardInterrupt):
                drop_at(at)
    assert not lost
    eventually(lambda: scripted_server.open_connections == 0)


def test_many_clients_at_once_end_without_a_trace(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    warm = face.client(scripted_server.uri)
    face.run(warm.shop.orders.find_one)
    face.run(warm.close)
    eventually(lambda: not scripted_server._open)
    sockets, threads = open_sockets(), threading.active_count()
    clients = [face.client(scripted_server.uri, minPoolSize=1) for _ in range(60)]
    running = [face.start(client.shop.orders.find_one) for client in clients]
    assert [future.result(TIMEOUT) for future in running] == [None] * 60
    for client in clients:
        face.run(client.close)
    eventually(lambda: open_sockets() <= sockets, "every socket to be closed")
    eventually(lambda: not scripted_server._open, "every connection to be closed")
    eventually(lambda: threading.active_count() <= threads, "every thread to end")


def test_a_server_that_is_killed_and_comes_back_is_used_again(face: Face) -> None:
    with server.start() as deployment:
        member = deployment.members[0]
        client = face.client(
            f"mongodb://{member.address}/?directConnection=true&serverSelectionTimeoutMS=500&journal=true",
            retryReads=False,
        )
        orders = client.shop.orders

        def find_in_the_end() -> Any:
            """The short limit may pass before the server has been checked."""
            end = time.monotonic() + TIMEOUT
            while True:
                try:
                    return face.run(orders.find_one)
                except (AutoReconnect, ServerSelectionTimeoutError):
                    assert time.monotonic() < end

        assert find_in_the_end() is None
        face.run(lambda: orders.insert_many([{"_id": number} for number in range(300)]))
        cursor = orders.find(batch_size=10)
        assert face.next(cursor) == {"_id": 0}
        os.kill(member.pid or 0, signal.SIGKILL)
        eventually(lambda: not member.is_running)
        for _ in range(9):
            face.next(cursor)
        with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
            face.next(cursor)
        with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
            face.run(orders.find_one)
        member.restart()
        assert find_in_the_end() == {"_id": 0}
        assert pool_sizes(client)[1:] == (0, 0, 0)


def test_a_blocking_client_looks_at_its_servers_at_once_unless_told_otherwise(
    blocking_face: Face, scripted_server: ScriptedServer
) -> None:
    client = blocking_face.client(scripted_server.uri)
    eventually(lambda: len(client.nodes) == 1)
    asked = len(scripted_server.requests)
    later = blocking_face.client(scripted_server.uri, connect=False)
    time.sleep(0.1)
    assert later.nodes == frozenset()
    assert len(scripted_server.requests) == asked


def test_an_asyncio_client_looks_at_its_servers_with_the_first_operation(
    async_face: Face, scripted_server: ScriptedServer
) -> None:
    client = async_face.client(scripted_server.uri)
    time.sleep(0.1)
    assert scripted_server.requests == []
    async_face.run(lambda: client.admin.command("ping"))


@pytest.mark.parametrize(
    "reply", [{"ok": 1, "x": b""}, Raw(b"\x10\x00\x00\x00"), Reply(b"\x05\x00"), Close()]
)
def test_closing_a_client_raises_nothing(face: Face, scripted_server: ScriptedServer, reply: Any) -> None:
    for name in ("endSessions", "killCursors"):
        scripted_server.on(name, reply)
    scripted_server.on("find", found({"_id": 1}, id=7))
    client = face.client(scripted_server.uri)
    cursor = client.shop.orders.find()
    face.next(cursor)
    del cursor
    face.run(client.close)
    assert client._core.is_closed


def test_closing_a_client_raises_nothing_when_its_goodbye_cannot_be_made(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mangonel.bson.errors import InvalidBSON

    def fail(*_: Any) -> Any:
        raise InvalidBSON("no document")

    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri)
    face.run(client.shop.orders.find_one)
    monkeypatch.setattr(type(client), "_end_sessions", fail)
    face.run(client.close)
    assert client._core.is_closed
