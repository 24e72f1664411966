"""Background work of pools: connections are kept ready, and idle ones are closed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel._faces import monitors
from mangonel.errors import ServerSelectionTimeoutError
from tools.faces import EMPTY, Face, eventually, pool_sizes
from tools.scripted_server import Close, ScriptedServer


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "_UPKEEP_PERIOD_S", 0.02)


def test_as_many_connections_as_asked_for_are_kept_ready(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    # Closed connections make the server unknown until its next check.
    client = face.client(scripted_server.uri, minPoolSize=4, heartbeatFrequencyMS=500)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (4, 0, 0, 0))
    scripted_server.close_connections()
    eventually(lambda: scripted_server.accepted > 5)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (4, 0, 0, 0))


def test_a_large_pool_is_filled_without_pauses(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_server.on("find", EMPTY)
    monkeypatch.setattr(monitors, "_UPKEEP_PERIOD_S", 3600)
    client = face.client(scripted_server.uri, minPoolSize=20)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (20, 0, 0, 0))


def test_nothing_is_kept_ready_before_the_first_operation(
    face: Face, scripted_server: ScriptedServer
) -> None:
    face.client(scripted_server.uri, minPoolSize=4, connect=False)
    time.sleep(0.1)
    assert scripted_server.accepted == 0


def test_a_pool_behind_a_load_balancer_is_filled_too(face: Face, scripted_server: ScriptedServer) -> None:
    from mangonel.bson import ObjectId

    scripted_server.hello.update(serviceId=ObjectId(), msg="isdbgrid")
    scripted_server.on("find", EMPTY)
    client = face.client(f"mongodb://{scripted_server.address}/?loadBalanced=true&minPoolSize=3")
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (3, 0, 0, 0))


def test_connections_that_cannot_be_made_ready_hurt_nobody(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, minPoolSize=3, heartbeatFrequencyMS=500)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (3, 0, 0, 0))
    scripted_server.on_connect(*[Close()] * 6)
    scripted_server.close_connections()
    assert face.run(lambda: client.shop.orders.find_one()) is None
    eventually(lambda: pool_sizes(client) == (3, 0, 0, 0))


def test_idle_connections_are_closed_without_anybody_asking(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, maxIdleTimeMS=100)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (0, 0, 0, 0))
    scripted_server.wait_for_open(0)


def test_idle_connections_are_replaced_by_as_many_as_are_to_be_ready(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, maxIdleTimeMS=100, minPoolSize=2)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: scripted_server.accepted > 8)
    eventually(lambda: pool_sizes(client)[0] == 2)


def test_the_thread_ends_with_its_client(
    face: Face, scripted_server: ScriptedServer, observers: Callable[[], int]
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri, minPoolSize=2)
    face.run(lambda: client.shop.orders.find_one())
    assert observers() > 0
    face.run(client.close)
    eventually(lambda: observers() == 0, "the threads to end")


@pytest.fixture
def black_hole() -> Iterator[tuple[str, int]]:
    """An address that neither accepts nor refuses connections: its queue of connections is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers: list[Any] = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        fillers.append(filler)
    yield listener.getsockname()
    for filler in fillers:
        filler.close()
    listener.close()


def test_a_connect_to_nowhere_takes_no_longer_than_its_own_limit(
    face: Face, black_hole: tuple[str, int]
) -> None:
    client = face.client(
        f"mongodb://{black_hole[0]}:{black_hole[1]}/?loadBalanced=true",
        connectTimeoutMS=300,
        serverSelectionTimeoutMS=300,
    )
    begun = time.monotonic()
    with pytest.raises(ServerSelectionTimeoutError, match="last attempt"):
        face.run(lambda: client.shop.orders.find_one())
    assert time.monotonic() - begun < 20
