"""Transactions on a sharded cluster stay on one mongos; two scripted servers play the routers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sessions.sent import deployment, failing
from tools.faces import Face, eventually
from tools.scripted_server import Close, ScriptedServer


@pytest.fixture
def routers() -> Iterator[list[ScriptedServer]]:
    with deployment("mongos") as one, deployment("mongos") as other:
        yield [one, other]


@pytest.fixture
def cluster(face: Face, routers: list[ScriptedServer]) -> Any:
    """A client that knows both routers and uses either, whatever its latency."""
    hosts = ",".join(router.address for router in routers)
    client = face.client(f"mongodb://{hosts}/", localThresholdMS=10_000, heartbeatFrequencyMS=500)
    face.run(lambda: client.admin.command("ping"))
    eventually(lambda: len(client.nodes) == 2, "both routers known")
    return client


def numbers(router: ScriptedServer, name: str) -> list[int]:
    """Return the transactions in which the router got this command."""
    return [request.command["txnNumber"] for request in router.received(name)]


def test_all_commands_of_a_transaction_go_to_one_router(
    face: Face, cluster: Any, routers: list[ScriptedServer]
) -> None:
    things = cluster.db.things
    session = cluster.start_session()
    addresses = {router.address for router in routers}
    pinned: list[str] = []
    # Both routers are equally likely, so chance almost never leaves one out.
    while len(pinned) < 12 or (set(pinned) != addresses and len(pinned) < 64):
        session.start_transaction()
        for _ in range(3):
            face.wait(things.insert_one({}, session=session))
        pinned.append(session._handle.pinned_server)
        face.wait(session.commit_transaction())
    assert set(pinned) == addresses

    places = []
    for router in routers:
        commits = numbers(router, "commitTransaction")
        assert numbers(router, "insert") == [number for number in commits for _ in range(3)]
        assert all("recoveryToken" in each.command for each in router.received("commitTransaction"))
        places.append(set(commits))
    assert places[0].isdisjoint(places[1])
    assert places[0] | places[1] == set(range(1, len(pinned) + 1))
    face.wait(session.end_session())


def test_commit_is_finished_by_the_other_router_when_the_first_is_gone(
    face: Face, cluster: Any, routers: list[ScriptedServer]
) -> None:
    session = cluster.start_session()
    session.start_transaction()
    face.wait(cluster.db.things.insert_one({}, session=session))
    first, second = sorted(routers, key=lambda router: not router.received("insert"))
    first.on("commitTransaction", Close())

    face.wait(session.commit_transaction())

    assert len(first.received("commitTransaction")) == 1
    (retried,) = second.received("commitTransaction")
    assert retried.command["recoveryToken"] == {"recoveryShardId": "one"}
    assert retried.command["writeConcern"] == {"w": "majority", "wtimeout": 10_000}
    face.wait(session.end_session())


def test_session_is_free_again_after_a_transient_error(
    face: Face, cluster: Any, routers: list[ScriptedServer]
) -> None:
    for router in routers:
        router.once("update", failing(112, "TransientTransactionError"))
    session = cluster.start_session()
    session.start_transaction()
    face.wait(cluster.db.things.insert_one({}, session=session))
    assert session._handle.pinned_server is not None

    with pytest.raises(Exception, match="no"):
        face.wait(cluster.db.things.update_one({}, {"$set": {"a": 1}}, session=session))

    assert session.in_transaction
    assert session._handle.pinned_server is None
    face.wait(session.end_session())


def test_session_is_free_again_after_the_transaction(
    face: Face, cluster: Any, routers: list[ScriptedServer]
) -> None:
    session = cluster.start_session()
    for end in ("commit_transaction", "abort_transaction"):
        session.start_transaction()
        face.wait(cluster.db.things.insert_one({}, session=session))
        face.wait(getattr(session, end)())
        face.wait(cluster.db.things.find_one({}, session=session))
        assert session._handle.pinned_server is None
    face.wait(session.end_session())
