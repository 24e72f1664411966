"""Events of a pool listener, in the specification's order."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel import errors, monitoring
from mangonel.server import Server
from monitoring.conftest import Connect
from monitoring.test_commands import fail_next
from tools.faces import Face, eventually
from tools.scripted_server import Hang, ScriptedServer


class Pools(monitoring.ConnectionPoolListener):
    """Keeps every event of pools, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    @property
    def story(self) -> list[str]:
        return [type(event).__name__.removesuffix("Event") for event in self.events]


for _name in vars(monitoring.ConnectionPoolListener):
    if not _name.startswith("_"):
        setattr(Pools, _name, lambda self, event: self.events.append(event))

FIRST_USE = [
    "ConnectionCheckOutStarted",
    "ConnectionCreated",
    "ConnectionReady",
    "ConnectionCheckedOut",
    "ConnectionCheckedIn",
]


def take_ready(pools: Pools, after: str) -> None:
    """Remove the single event that the pool is ready, which comes after the given event.

    The thread that watches the server tells it, and another thread may use the pool before it is told.
    """
    eventually(lambda: "PoolReady" in pools.story)
    place = pools.story.index("PoolReady")
    assert place > pools.story.index(after)
    del pools.events[place]


def test_first_operation_makes_a_pool_and_a_connection(
    face: Face, connect: Connect, database_name: str
) -> None:
    pools = Pools()
    client = connect(pools, maxPoolSize=7)
    face.run(lambda: client[database_name].things.find_one({}))

    take_ready(pools, "PoolCreated")
    assert pools.story == ["PoolCreated", *FIRST_USE]
    created, _, connection, ready, out, back = pools.events
    assert created.options == {"maxPoolSize": 7}
    assert connection.connection_id == ready.connection_id == out.connection_id == back.connection_id == 1
    assert 0 < ready.duration <= out.duration < 30
    assert {event.address for event in pools.events} == {created.address}


def test_second_operation_takes_the_connection_again(
    face: Face, connect: Connect, database_name: str
) -> None:
    pools = Pools()
    client = connect(pools)
    face.run(lambda: client[database_name].things.find_one({}))
    pools.events.clear()
    face.run(lambda: client[database_name].things.find_one({}))

    assert pools.story == ["ConnectionCheckOutStarted", "ConnectionCheckedOut", "ConnectionCheckedIn"]


def test_broken_connection_clears_the_pool_and_is_closed(
    face: Face, connect: Connect, server: Server, database_name: str
) -> None:
    pools = Pools()
    client = connect(pools)
    face.run(lambda: client[database_name].things.find_one({}))
    pools.events.clear()
    fail_next(server, "find", closeConnection=True)
    face.run(lambda: client[database_name].things.find_one({}))

    take_ready(pools, "PoolCleared")
    assert pools.story == [
        "ConnectionCheckOutStarted",
        "ConnectionCheckedOut",
        "PoolCleared",
        "ConnectionCheckedIn",
        "ConnectionClosed",
        *FIRST_USE,
    ]
    assert pools.events[4].reason == monitoring.ConnectionClosedReason.ERROR
    assert pools.events[2].interrupt_connections is False


def test_client_that_is_closed_closes_connections_and_then_pools(
    face: Face, connect: Connect, database_name: str
) -> None:
    pools = Pools()
    client = connect(pools)
    face.run(lambda: client[database_name].things.find_one({}))
    face.run(client.close)

    assert pools.story[-2:] == ["ConnectionClosed", "PoolClosed"]
    assert pools.events[-2].reason == monitoring.ConnectionClosedReason.POOL_CLOSED


def test_check_out_that_takes_too_long_fails_with_its_reason(
    face: Face, scripted_server: ScriptedServer
) -> None:
    pools = Pools()
    client = face.client(scripted_server.uri, maxPoolSize=1, waitQueueTimeoutMS=50, event_listeners=[pools])
    scripted_server.on("find", Hang())
    first = face.start(lambda: client.shop.orders.find_one({}))
    scripted_server.wait_for("find")
    with pytest.raises(errors.WaitQueueTimeoutError):
        face.run(lambda: client.shop.orders.find_one({}))

    failed = [e for e in pools.events if isinstance(e, monitoring.ConnectionCheckOutFailedEvent)]
    assert [event.reason for event in failed] == ["timeout"]
    assert failed[0].duration >= 0.05
    first.cancel()


def test_constructors_and_reprs_are_pymongos() -> None:
    theirs = pytest.importorskip("pymongo.monitoring")
    address = ("a.example", 27017)
    for name, arguments in {
        "PoolCreatedEvent": (address, {"maxPoolSize": 5}),
        "PoolReadyEvent": (address,),
        "PoolClearedEvent": (address, None, True),
        "PoolClosedEvent": (address,),
        "ConnectionCreatedEvent": (address, 3),
        "ConnectionReadyEvent": (address, 3, 0.5),
        "ConnectionClosedEvent": (address, 3, "stale"),
        "ConnectionCheckOutStartedEvent": (address,),
        "ConnectionCheckOutFailedEvent": (address, "timeout", 0.5),
        "ConnectionCheckedOutEvent": (address, 3, 0.5),
        "ConnectionCheckedInEvent": (address, 3),
    }.items():
        ours, their = getattr(monitoring, name)(*arguments), getattr(theirs, name)(*arguments)
        assert repr(ours) == repr(their)
        for attribute in dir(their):
            if not attribute.startswith("_"):
                assert getattr(ours, attribute) == getattr(their, attribute), (name, attribute)
    for reasons in ("ConnectionClosedReason", "ConnectionCheckOutFailedReason"):
        names = [name for name in dir(getattr(theirs, reasons)) if name[0] != "_"]
        for name in names:
            assert getattr(getattr(monitoring, reasons), name) == getattr(getattr(theirs, reasons), name)


def test_listener_of_a_check_out_may_use_the_only_connection_itself(
    server: Server, database_name: str
) -> None:
    from mangonel import MongoClient

    class Curious(Pools):
        found: Any = None

        def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
            super().connection_check_out_started(event)
            if self.found is None:
                self.found = False
                self.found = things.find_one({"_id": 1})

    pools = Curious()
    # Without a wait limit the test would hang, not fail.
    with MongoClient(server.uri, maxPoolSize=1, waitQueueTimeoutMS=60_000, event_listeners=[pools]) as client:
        things = client[database_name].things
        for _ in range(2):
            pools.found = True
            things.replace_one({"_id": 1}, {}, upsert=True)
            pools.events.clear()
            pools.found = None
            assert things.find_one({"_id": 1}) == pools.found == {"_id": 1}

    once = ["ConnectionCheckedOut", "ConnectionCheckedIn"]
    started = "ConnectionCheckOutStarted"
    assert pools.story[:6] == [started, started, *once, *once]


def test_listener_of_a_check_out_may_close_the_client(server: Server) -> None:
    from mangonel import MongoClient

    class Ending(Pools):
        def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
            super().connection_check_out_started(event)
            client.close()

    pools = Ending()
    client = MongoClient(server.uri, event_listeners=[pools])
    with pytest.raises(errors.InvalidOperation):
        client.admin.command("ping")

    assert "ConnectionCheckOutFailed" in pools.story
    assert "ConnectionCreated" not in pools.story
