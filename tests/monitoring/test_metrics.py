"""The counts of `client.metrics()`, compared with listeners' events and with the servers' view."""

from __future__ import annotations

import gc
import os
from collections import Counter
from typing import Any

import bson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import MongoClient, errors, metrics, monitoring
from mangonel.gridfs import GridFSBucket
from mangonel.server import Server
from monitoring.conftest import Connect, Heard, kind
from monitoring.test_commands import fail_next
from monitoring.test_pools import Pools
from tools.faces import EMPTY, Face, eventually, found
from tools.scripted_server import Close, Hang, Reply, ScriptedServer


class Topologies(monitoring.TopologyListener):
    """Counts the changes of the deployment."""

    def __init__(self) -> None:
        self.changes = 0

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        pass

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        self.changes += 1

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        pass


def outcomes(counted: metrics.ClientMetrics) -> dict[tuple[str, str | None, str | None], int]:
    """Return the number of operations, by command, collection and error."""
    return {(each.name, each.collection, each.error): each.duration.count for each in counted.operations}


def test_operations_are_counted_by_name_place_and_outcome(
    face: Face, connect: Connect, server: Server, database_name: str
) -> None:
    client = connect(metrics=True)
    things = client[database_name]["things"]
    face.run(lambda: things.insert_many([{"_id": each} for each in range(3)]))
    for _ in range(2):
        face.run(lambda: things.find_one({"_id": 1}))
    face.collect(things.find({}, batch_size=2))
    with pytest.raises(errors.DuplicateKeyError):
        face.run(lambda: things.insert_one({"_id": 1}))
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: things.find_one({"$nope": 1}))
    fail_next(server, "find", closeConnection=True)
    face.run(lambda: things.find_one({}))

    counted = client.metrics()
    assert outcomes(counted) == {
        ("insert", "things", None): 1,
        ("find", "things", None): 4,
        ("getMore", "things", None): 1,
        ("insert", "things", "WriteError"): 1,
        ("find", "things", "OperationFailure"): 1,
    }
    assert {each.database for each in counted.operations} == {database_name}
    refused = next(each for each in counted.operations if each.error == "OperationFailure")
    assert refused.code == 2
    assert counted.retries == 1
    assert 0 < refused.duration.sum < 60


def test_client_that_does_not_count_says_how_to(face: Face, connect: Connect) -> None:
    with pytest.raises(errors.ConfigurationError, match="metrics=True"):
        connect().metrics()


def test_database_of_the_name_stays_what_it_is(face: Face, connect: Connect) -> None:
    client = connect(metrics=True)

    assert client.metrics == client["metrics"]
    assert client.metrics.requests.full_name == "metrics.requests"
    with pytest.raises(TypeError):
        client.other()


def test_bytes_are_those_on_the_wire(face: Face, scripted_server: ScriptedServer) -> None:
    client = face.client(scripted_server.uri, metrics=True)
    reply = found({"_id": 1, "text": "x" * 5000})
    scripted_server.on("find", reply)
    scripted_server.on("insert", {"ok": 1, "n": 1})
    face.run(lambda: client.shop.orders.find_one({}))
    before = client.metrics()
    face.run(lambda: client.shop.orders.find_one({}))
    face.run(lambda: client.shop.orders.insert_one({"_id": 1}))
    after = client.metrics()

    sent = [len(scripted_server.received(name)[-1].raw) for name in ("find", "insert")]
    replies = [21 + len(bson.encode(document)) for document in (reply, {"ok": 1, "n": 1})]
    assert after.bytes_sent - before.bytes_sent == sum(sent)
    assert after.bytes_received - before.bytes_received == sum(replies)
    # The handshake of the connection came before.
    assert before.bytes_sent > len(scripted_server.received("find")[0].raw)


def test_compressed_bytes_are_counted_as_they_are_sent(face: Face) -> None:
    with ScriptedServer(hello={"compression": ["zlib"]}) as server:
        client = face.client(server.uri + "&compressors=zlib", metrics=True)
        server.on("find", Reply(found({"text": "x" * 20_000}), compressor="zlib"))
        face.run(lambda: client.shop.orders.find_one({}))
        before = client.metrics()
        face.run(lambda: client.shop.orders.find_one({"text": "y" * 20_000}))
        after = client.metrics()

        assert after.bytes_sent - before.bytes_sent == len(server.received("find")[-1].raw) < 5000
        assert 0 < after.bytes_received - before.bytes_received < 5000
        face.run(client.close)


def test_unacknowledged_write_is_counted_with_its_bytes(face: Face, scripted_server: ScriptedServer) -> None:
    client = face.client(scripted_server.uri + "&w=0", metrics=True)
    face.run(lambda: client.shop.orders.insert_one({"_id": 1}))
    before = client.metrics()
    face.run(lambda: client.shop.orders.insert_one({"_id": 2}))
    after = client.metrics()

    raw = scripted_server.wait_for("insert", 2)[-1].raw
    assert after.bytes_sent - before.bytes_sent == len(raw)
    assert outcomes(after) == {("insert", "orders", None): 2}


def test_file_that_is_received_where_it_belongs_is_counted_whole(server: Server, database_name: str) -> None:
    data = os.urandom(1_000_000)
    with MongoClient(server.uri, metrics=True) as client:
        bucket = GridFSBucket(client[database_name])
        bucket.upload_from_stream("file", data)
        sent = client.metrics().bytes_sent
        before = client.metrics().bytes_received
        assert bucket.open_download_stream_by_name("file").read() == data
        received = client.metrics().bytes_received - before

    assert len(data) < sent < len(data) + 50_000
    assert len(data) < received < len(data) + 50_000


def test_cursors_are_open_until_their_end(face: Face, connect: Connect, database_name: str) -> None:
    client = connect(metrics=True)
    things = client[database_name]["things"]
    face.run(lambda: things.insert_many([{} for _ in range(9)]))
    read, closed, lost = (things.find({}, batch_size=2) for _ in range(3))
    for cursor in (read, closed, lost):
        face.next(cursor)
    assert client.metrics().open_cursors == 3
    face.collect(read)
    assert client.metrics().open_cursors == 2
    face.run(closed.close)
    assert client.metrics().open_cursors == 1
    del lost, cursor
    gc.collect()
    # The background or the next operation kills the cursor.
    face.run(lambda: things.find_one({}))
    eventually(lambda: client.metrics().open_cursors == 0)


def test_waiting_for_a_server_is_measured_and_its_end_counted(face: Face, nowhere: str) -> None:
    client = face.client(nowhere, serverSelectionTimeoutMS=50, metrics=True)
    with pytest.raises(errors.ServerSelectionTimeoutError):
        face.run(lambda: client.admin.command("ping"))

    counted = client.metrics()
    assert counted.selection_timeouts == 1
    assert counted.selection_time.count == 0
    assert outcomes(counted) == {("ping", None, "ServerSelectionTimeoutError"): 1}


def test_check_out_that_waits_is_measured(face: Face, scripted_server: ScriptedServer) -> None:
    client = face.client(scripted_server.uri, maxPoolSize=1, waitQueueTimeoutMS=50, metrics=True)
    scripted_server.on("find", Hang())
    first = face.start(lambda: client.shop.orders.find_one({}))
    scripted_server.wait_for("find")
    (pool,) = client.metrics().pools
    assert (pool.idle, pool.in_use, pool.pending, pool.waiting) == (0, 1, 0, 0)
    with pytest.raises(errors.WaitQueueTimeoutError):
        face.run(lambda: client.shop.orders.find_one({}))

    (pool,) = client.metrics().pools
    assert pool.check_outs_failed == {"timeout": 1, "poolClosed": 0, "connectionError": 0}
    assert pool.wait_time.count == pool.create_time.count == pool.created == 1
    first.cancel()


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_quantile_of_nothing_and_of_too_much(fraction: float) -> None:
    histogram = metrics.Histogram((0,) * 17, (0.0,) * 17)
    assert histogram.quantile(0.5) == 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        histogram.quantile(fraction)


def test_quantile_is_the_bound_of_its_bucket() -> None:
    counts = (8, 0, 1, *([0] * 13), 1)
    histogram = metrics.Histogram(counts, (0.0,) * 17)

    assert [histogram.quantile(fraction) for fraction in (0, 0.8, 0.9, 1)] == [1e-4, 1e-4, 5e-4, float("inf")]
    assert histogram.count == 10


def test_many_kinds_of_operations_are_counted_together(scripted_server: ScriptedServer) -> None:
    scripted_server.on("find", EMPTY)
    with MongoClient(scripted_server.uri, metrics=True) as client:
        for number in range(2100):
            client.shop[f"orders{number}"].find_one({})
        counted = client.metrics()

    rest = [each for each in counted.operations if each.name == "_OTHER"]
    assert [(each.database, each.collection) for each in rest] == [("_OTHER", None)]
    assert rest[0].duration.count == 100
    assert sum(each.duration.count for each in counted.operations) == 2100


# The driver's own endSessions for pooled sessions; the last of them may not have finished.
_IN_THE_BACKGROUND = ("endSessions", "killSessions")

# Reactions of a server to a command, and events between commands.
_STEPS = st.lists(
    st.sampled_from(
        [
            "find",
            "cursor",
            "refused",
            "overloaded",
            "write error",
            "broken",
            "broken twice",
            "cut",
            "late",
            "not primary",
            "lost",
        ]
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_counts_are_what_listeners_heard(face: Face, steps: list[str]) -> None:
    heard, pools, topologies = Heard(), Pools(), Topologies()
    results: Counter[str | None] = Counter()
    with ScriptedServer() as server:
        client = face.client(
            server.uri,
            event_listeners=[heard, pools, topologies],
            metrics=True,
            maxPoolSize=3,
            heartbeatFrequencyMS=500,
            serverSelectionTimeoutMS=20_000,
            socketTimeoutMS=20_000,
        )
        for step in steps:
            results[_play(face, server, client, step)] += 1
        face.run(client.close)
        # Background work may still have a connection, and publishes its last event only after it was counted.
        eventually(lambda: all(pool.created == sum(pool.closed.values()) for pool in client.metrics().pools))
        counted = client.metrics()
        eventually(
            lambda: pools.story.count("ConnectionClosed") == sum(pool.created for pool in counted.pools)
        )
        _agree(counted, heard, pools, topologies)
        seen: Counter[str | None] = Counter()
        for (name, _, error), count in outcomes(counted).items():
            if name not in _IN_THE_BACKGROUND:
                seen[error] += count
        # A cursor is two operations.
        results[None] += 2 * results.pop("cursor", 0)
        assert seen == +results


def _play(face: Face, server: ScriptedServer, client: Any, step: str) -> str | None:
    orders = client.shop.orders
    server.on("find", EMPTY)
    match step:
        case "cursor":
            server.once("find", found({"_id": 1}, id=7))
            server.once("getMore", found({"_id": 2}, batch="nextBatch"))
            face.collect(orders.find({}))
            return "cursor"
        case "refused":
            server.once("find", {"ok": 0, "code": 2, "errmsg": "no"})
        case "overloaded":
            labels = ["SystemOverloadedError", "RetryableError"]
            server.once("find", {"ok": 0, "code": 462, "errmsg": "busy", "errorLabels": labels})
        case "write error":
            server.once("insert", {"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000}]})
            with pytest.raises(errors.DuplicateKeyError):
                face.run(lambda: orders.insert_one({}))
            return "WriteError"
        case "broken":
            server.once("find", Close())
        case "broken twice":
            server.once("find", Close(), Close(reset=True))
        case "cut":
            server.once("find", Reply(EMPTY, cut=20))
        case "late":
            server.once("find", Reply(EMPTY, delay=0.01))
        case "not primary":
            server.once("find", {"ok": 0, "code": 10107, "errmsg": "not primary"})
        case "lost":
            server.close_connections()
    try:
        face.run(lambda: orders.find_one({}))
    except errors.PyMongoError as error:
        return type(error).__name__ if not isinstance(error, errors.OperationFailure) else "OperationFailure"
    return None


def _agree(counted: metrics.ClientMetrics, heard: Heard, pools: Pools, topologies: Topologies) -> None:
    story = Counter(pools.story)
    assert sum(pool.created for pool in counted.pools) == story["ConnectionCreated"]
    assert sum(pool.create_time.count for pool in counted.pools) == story["ConnectionReady"]
    assert sum(pool.wait_time.count for pool in counted.pools) == story["ConnectionCheckedOut"]
    for what, read in (
        ("ConnectionClosed", lambda pool: pool.closed),
        ("ConnectionCheckOutFailed", lambda pool: pool.check_outs_failed),
    ):
        reasons: Counter[str] = Counter()
        for pool in counted.pools:
            reasons.update(read(pool))
        told = Counter(event.reason for event in pools.events if type(event).__name__ == f"{what}Event")
        assert +reasons == told, what
    assert counted.topology_changes == topologies.changes
    commands = sum(kind(e) == "started" and e.command_name not in _IN_THE_BACKGROUND for e in heard.events)
    operations = sum(
        count for (name, *_), count in outcomes(counted).items() if name not in _IN_THE_BACKGROUND
    )
    # Each attempt is a command.
    assert commands == operations + counted.retries
    for pool in counted.pools:
        assert (pool.idle, pool.in_use, pool.pending, pool.waiting) == (0, 0, 0, 0)
        assert pool.created == sum(pool.closed.values())
    assert counted.open_cursors == 0


def test_counts_of_many_at_once_are_what_listeners_heard(
    face: Face, connect: Connect, database_name: str
) -> None:
    heard, pools, topologies = Heard(), Pools(), Topologies()
    client = connect(heard, pools, topologies, metrics=True, maxPoolSize=2)
    things = client[database_name]["things"]
    face.run(lambda: things.insert_many([{"_id": each} for each in range(10)]))
    started = [face.start(lambda: things.find_one({"_id": 1})) for _ in range(40)]
    for each in started:
        each.result(60)
    face.run(client.close)

    counted = client.metrics()
    _agree(counted, heard, pools, topologies)
    assert outcomes(counted)["find", "things", None] == len(started)
    assert sum(pool.created for pool in counted.pools) <= 2
