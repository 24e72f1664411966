"""The pool's limits and the order of its queue, with many concurrent threads or tasks."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from mangonel.errors import WaitQueueTimeoutError
from tools.faces import EMPTY, TIMEOUT, Face, connections_of, eventually, found, pool_sizes
from tools.scripted_server import Hang, Reply, Request, ScriptedServer

MANY = 500


def test_max_pool_size_holds_under_many_callers(face: Face, scripted_server: ScriptedServer) -> None:
    busy, most, lock = 0, 0, threading.Lock()

    def slow(_: Request) -> Any:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.001)
        with lock:
            busy -= 1
        return found({"_id": 1})

    scripted_server.on("find", slow)
    client = face.client(scripted_server.uri, maxPoolSize=7)
    calls = [face.start(client.shop.orders.find_one) for _ in range(MANY)]
    assert [call.result(TIMEOUT) for call in calls] == [{"_id": 1}] * MANY
    assert most <= 7
    assert len(connections_of(scripted_server, "find")) <= 7
    idle, *rest = pool_sizes(client)
    assert rest == [0, 0, 0]
    assert 1 <= idle <= 7


def test_max_connecting_holds_under_many_callers(face: Face, scripted_server: ScriptedServer) -> None:
    shaking, most, changed = 0, 0, threading.Condition()

    def slow(request: Request) -> Any:
        nonlocal shaking, most
        with changed:
            shaking += 1
            most = max(most, shaking)
            changed.notify_all()
            # The first one waits beside another.
            changed.wait_for(lambda: most > 1, TIMEOUT)
        time.sleep(0.01)
        with changed:
            shaking -= 1
        return scripted_server._default(request)

    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, maxPoolSize=30, maxConnecting=3)
    face.run(client.shop.orders.find_one)
    # The monitor has sent its hello.
    for name in ("isMaster", "hello"):
        scripted_server.on(name, slow)
    scripted_server.on("find", Reply(EMPTY, delay=0.05))
    calls = [face.start(client.shop.orders.find_one) for _ in range(60)]
    assert [call.result(TIMEOUT) for call in calls] == [None] * 60
    # A monitor may send hello at the same time.
    assert 2 <= most <= 4


def test_waiters_are_served_in_the_order_they_came(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    gate = threading.Event()

    def hold(_: Request) -> Any:
        gate.wait(TIMEOUT)
        return EMPTY

    scripted_server.once("find", hold)
    client = face.client(scripted_server.uri, maxPoolSize=1)
    calls = [face.start(client.shop.orders.find_one)]
    scripted_server.wait_for("find")
    for number in range(200):
        calls.append(face.start(lambda number=number: client.shop.orders.find_one({"number": number})))
        if not face.is_async:
            eventually(lambda number=number: pool_sizes(client)[3] == number + 1)
    eventually(lambda: pool_sizes(client) == (0, 1, 0, 200))
    gate.set()
    for call in calls:
        call.result(TIMEOUT)
    order = [request.command["filter"]["number"] for request in scripted_server.received("find")[1:]]
    assert order == list(range(200))
    assert pool_sizes(client) == (1, 0, 0, 0)


def test_wait_queue_timeout_names_the_limit(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", Hang())
    client = face.client(scripted_server.uri, maxPoolSize=1, waitQueueTimeoutMS=100)
    holder = face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find")
    # The message holds the actual wait, which may exceed the limit on a busy machine.
    with pytest.raises(
        WaitQueueTimeoutError, match=r"within [\d.]+ s: 1 in use.*raise maxPoolSize"
    ) as raised:
        face.run(client.shop.orders.find_one)
    assert 0.1 <= float(str(raised.value).partition("within ")[2].split()[0]) < 30
    assert pool_sizes(client) == (0, 1, 0, 0)
    assert not holder.done()


def test_threads_share_a_client(blocking_face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", lambda request: found({"_id": request.command["filter"]["n"]}))
    orders = blocking_face.client(scripted_server.uri, maxPoolSize=4).shop.orders

    def work(start: int) -> bool:
        return all(orders.find_one({"n": n}) == {"_id": n} for n in range(start, start + 25))

    calls = [blocking_face.start(lambda start=start: work(start)) for start in range(0, 500, 25)]
    assert all(call.result(TIMEOUT) for call in calls)
    assert len(connections_of(scripted_server, "find")) <= 4


def test_an_idle_connection_past_its_time_is_replaced(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, maxIdleTimeMS=50)
    face.run(client.shop.orders.find_one)
    time.sleep(0.1)
    face.run(client.shop.orders.find_one)
    assert len(connections_of(scripted_server, "find")) == 2
    # The new connection may have been idle for too long by now.
    assert pool_sizes(client) in ((1, 0, 0, 0), (0, 0, 0, 0))
