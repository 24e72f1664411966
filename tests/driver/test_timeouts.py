"""The limit of an operation's whole time, from the client's `timeoutMS` or a `timeout()` block, on both faces.

Spec: client-side-operations-timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mangonel
from mangonel import MongoClient
from mangonel._faces import deadline
from mangonel.errors import (
    AutoReconnect,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from tools.faces import eventually
from tools.interrupts import interrupt, places
from tools.scripted_server import Close, Hang, Reply, ScriptedServer

OVERLOADED = {
    "ok": 0,
    "code": 462,
    "errmsg": "busy",
    "errorLabels": ["SystemOverloadedError", "RetryableError"],
}


@pytest.fixture
def scripted(scripted_server: ScriptedServer) -> Iterator[ScriptedServer]:
    cursor = {"id": 0, "ns": "a.b", "firstBatch": [{"_id": 1}]}
    scripted_server.on("find", {"ok": 1, "cursor": cursor})
    scripted_server.on("insert", {"ok": 1, "n": 1})
    scripted_server.on("killCursors", {"ok": 1})
    return scripted_server


def timed(face: Any, operation: Any) -> tuple[PyMongoError, float]:
    """Return the error of an operation and the seconds that it took."""
    begun = time.monotonic()
    with pytest.raises(PyMongoError) as caught:
        face.wait(operation())
    return caught.value, time.monotonic() - begun


def test_a_server_that_never_answers_ends_with_the_clients_limit(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri, timeoutMS=3000)
    with mangonel.timeout(60):
        face.wait(client.a.b.find_one())
    scripted.on("find", Hang())
    error, seconds = timed(face, lambda: client.a.b.find_one())
    assert isinstance(error, NetworkTimeout)
    assert error.timeout
    assert 2 < seconds < 60


def test_a_block_limits_what_runs_in_it_and_nothing_after_it(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri)
    with mangonel.timeout(60):
        face.wait(client.a.b.find_one())
        face.wait(client.a.b.insert_one({}))
    face.wait(client.a.b.find_one())
    limits = [request.command.get("maxTimeMS") for request in scripted.received("find")]
    assert 30_000 < limits[0] <= 60_000
    assert limits[1] is None
    assert 30_000 < scripted.received("insert")[0].command["maxTimeMS"] <= 60_000


def test_a_block_overrides_the_clients_limit_and_only_shortens_an_outer_block(
    face: Any, scripted: ScriptedServer
) -> None:
    client = face.client(scripted.uri, timeoutMS=100_000)
    for outer, inner, least, most in [
        (900, None, 800_000, 900_000),
        (900, 2000, 800_000, 900_000),
        (900, 300, 200_000, 300_000),
        (None, None, 50_000, 100_000),
        (0, 700, 600_000, 700_000),
    ]:
        with mangonel.timeout(outer), mangonel.timeout(inner):
            face.wait(client.a.b.find_one())
        assert least < scripted.received("find")[-1].command["maxTimeMS"] <= most, (outer, inner)
    with mangonel.timeout(0):
        face.wait(client.a.b.find_one())
    assert "maxTimeMS" not in scripted.received("find")[-1].command


def test_a_spent_block_sends_nothing_and_says_what_to_do(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri)
    face.wait(client.a.b.find_one())
    with mangonel.timeout(0.001):
        time.sleep(0.01)
        error, _ = timed(face, lambda: client.a.b.find_one())
    assert isinstance(error, ExecutionTimeout)
    assert error.timeout
    assert error.code == 50
    assert "raise timeoutMS, or the argument of timeout()" in str(error)
    assert len(scripted.received("find")) == 1


def test_the_search_for_a_server_ends_with_the_limit(face: Any, nowhere: str) -> None:
    client = face.client(nowhere, timeoutMS=200)
    error, seconds = timed(face, lambda: client.a.b.find_one())
    assert isinstance(error, ServerSelectionTimeoutError)
    assert error.timeout
    assert re.search(r"within \d\.\d{1,3} s: ", str(error)), error
    assert seconds < 25


def test_the_wait_for_a_connection_ends_with_the_limit(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri, maxPoolSize=1)
    scripted.on("find", Hang())

    async def both() -> None:
        holder = asyncio.ensure_future(client.a.b.find_one())
        await asyncio.to_thread(scripted.wait_for, "find")
        try:
            with mangonel.timeout(2):
                await client.a.b.find_one()
        finally:
            holder.cancel()

    def with_threads() -> None:
        holder = threading.Thread(target=holding, daemon=True)
        holder.start()
        scripted.wait_for("find")
        with mangonel.timeout(2):
            client.a.b.find_one()

    def holding() -> None:
        with contextlib.suppress(PyMongoError):
            client.a.b.find_one()

    error, seconds = timed(face, both if face.is_async else with_threads)
    assert isinstance(error, WaitQueueTimeoutError)
    assert error.timeout
    assert seconds < 60


def test_all_commands_of_a_bulk_write_share_one_limit(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri, timeoutMS=60_000)
    scripted.on("insert", Reply({"ok": 1, "n": 1}, delay=0.3))
    scripted.on("update", {"ok": 1, "n": 1, "nModified": 1})
    requests = [mangonel.InsertOne({}), mangonel.UpdateOne({}, {"$set": {"a": 1}})]
    face.wait(client.a.b.bulk_write(requests))
    assert scripted.received("update")[0].command["maxTimeMS"] <= 59_700


def test_reads_are_tried_again_while_time_is_left(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri, timeoutMS=60_000)
    for _ in range(4):
        scripted.once("find", Close())
    assert face.wait(client.a.b.find_one()) == {"_id": 1}
    assert len(scripted.received("find")) == 5


def test_a_server_stops_its_own_work_in_time(face: Any, client: Any, database_name: str) -> None:
    collection = client[database_name].things
    face.wait(collection.insert_one({"_id": 1}))
    with mangonel.timeout(0.3):
        error, seconds = timed(face, lambda: collection.find_one({"$where": "sleep(5000) || true"}))
    assert error.timeout
    assert seconds < 60


def test_closing_a_cursor_reaches_the_server_after_the_block_is_spent(
    face: Any, scripted: ScriptedServer
) -> None:
    client = face.client(scripted.uri)
    scripted.on("find", {"ok": 1, "cursor": {"id": 77, "ns": "a.b", "firstBatch": [{"_id": 1}]}})
    cursor = client.a.b.find()
    face.wait(cursor.next())
    with mangonel.timeout(30):
        deadline._DEADLINE.set(time.monotonic() - 1)
        face.wait(cursor.close())
    assert scripted.received("killCursors")[0].command["cursors"] == [77]


# pytest would report the warning, with the flow that was interrupted before its first step.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="CPython looks for signals before it enters the block"
)
@pytest.mark.parametrize("option", ["timeoutMS", "timeout_ms", "timeout"])
def test_a_limit_ends_with_its_block_wherever_a_signal_handler_raises(
    scripted: ScriptedServer, option: str
) -> None:
    client: Any = MongoClient(scripted.uri, **({"timeoutMS": 60_000} if option == "timeoutMS" else {}))
    things: Any = client.a.b.with_options(timeout_ms=60_000) if option == "timeout_ms" else client.a.b

    def act() -> None:
        if option == "timeout":
            with mangonel.timeout(60):
                things.find({}).to_list()
        else:
            things.find({}).to_list()

    folders = (str(Path(mangonel.__file__).parent), __file__)
    act()
    count = places(act, folders)
    assert count > 10
    for at in range(1, count + 1):
        interrupt(act, at, folders)
        assert (deadline._DEADLINE.get(), deadline._SECONDS.get()) == (None, None), (
            f"at place {at} of {count}"
        )
    client.close()


@pytest.mark.parametrize(("wrong", "error"), [("5", TypeError), (-1, ValueError)])
def test_a_wrong_limit_is_refused_as_in_pymongo(wrong: Any, error: type[Exception]) -> None:
    pymongo = pytest.importorskip("pymongo")
    for module in (mangonel, pymongo):
        with pytest.raises(error):
            module.timeout(wrong)


def test_closing_a_client_does_not_wait_for_a_deployment_that_is_gone(face: Any) -> None:
    with ScriptedServer() as gone:
        gone.on("find", {"ok": 1, "cursor": {"id": 0, "ns": "a.b", "firstBatch": []}})
        client = face.client(gone.uri)
        face.wait(client.a.b.find_one())
    begun = time.monotonic()
    face.wait(client.close())
    assert time.monotonic() - begun < 20


# Overload. Spec: client-backpressure.


def test_an_overloaded_server_is_retried_until_it_answers(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri)
    for command in ("insert", "find"):
        for _ in range(2):
            scripted.once(command, OVERLOADED)
    face.wait(client.a.b.insert_one({}))
    assert face.wait(client.a.b.find_one()) == {"_id": 1}
    assert [len(scripted.received(name)) for name in ("insert", "find")] == [3, 3]


def test_an_option_sets_how_often_an_overloaded_server_is_retried(
    face: Any, scripted: ScriptedServer
) -> None:
    client = face.client(scripted.uri, max_adaptive_retries=0)
    scripted.on("find", OVERLOADED)
    error, _ = timed(face, lambda: client.a.b.find_one())
    assert isinstance(error, OperationFailure)
    assert error.has_error_label("SystemOverloadedError")
    assert len(scripted.received("find")) == 1


# Which error is reported. Spec: retryable-writes.


def test_a_retry_that_wrote_nothing_reports_the_first_error(face: Any, scripted: ScriptedServer) -> None:
    hello = {"setName": "rs0", "isWritablePrimary": True, "hosts": [scripted.uri.split("/")[2]]}
    scripted.hello.update(hello)
    client = face.client(scripted.uri, directConnection=True)
    scripted.once("insert", {"ok": 0, "code": 91, "errmsg": "first", "errorLabels": ["RetryableWriteError"]})
    labels = ["RetryableWriteError", "NoWritesPerformed"]
    scripted.once("insert", {"ok": 0, "code": 10107, "errmsg": "second", "errorLabels": labels})
    error, _ = timed(face, lambda: client.a.b.insert_one({}))
    assert "first" in str(error)


def test_a_wait_for_new_data_as_long_as_the_limit_is_refused(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri, timeoutMS=500)
    tailable = mangonel.CursorType.TAILABLE_AWAIT
    cursor = client.a.b.find(cursor_type=tailable).max_await_time_ms(500)
    error, _ = timed(face, cursor.next)
    assert "below the time limit of 500 ms, got 500" in str(error)
    assert not scripted.received("find")
    with mangonel.timeout(60):
        assert face.wait(client.a.b.find(cursor_type=tailable).max_await_time_ms(500).next()) == {"_id": 1}


@pytest.mark.parametrize("way", ["find", "aggregate", "watch", "cursor_command"])
def test_a_wait_for_new_data_is_compared_with_the_limit_by_every_method_that_opens_a_cursor(
    face: Any, scripted: ScriptedServer, way: str
) -> None:
    client = face.client(scripted.uri, timeoutMS=500)
    tailable = mangonel.CursorType.TAILABLE_AWAIT
    calls = {
        "find": lambda: client.a.b.find(cursor_type=tailable).max_await_time_ms(500).next(),
        "aggregate": lambda: client.a.b.aggregate([], maxAwaitTimeMS=500),
        "watch": lambda: client.a.b.watch(max_await_time_ms=500),
        "cursor_command": lambda: client.a.cursor_command({"find": "b"}, max_await_time_ms=500),
    }
    error, _ = timed(face, calls[way])
    assert "below the time limit of 500 ms, got 500" in str(error)
    assert not scripted.received("find")
    assert not scripted.received("aggregate")


def test_a_tailable_cursor_waits_no_longer_than_what_is_left_of_the_time(
    face: Any, scripted: ScriptedServer
) -> None:
    scripted.on("find", {"ok": 1, "cursor": {"id": 77, "ns": "a.b", "firstBatch": [{"_id": 1}]}})
    scripted.on("getMore", {"ok": 1, "cursor": {"id": 77, "ns": "a.b", "nextBatch": [{"_id": 2}]}})
    client = face.client(scripted.uri)
    tailable = mangonel.CursorType.TAILABLE_AWAIT
    cursor = client.a.b.find(cursor_type=tailable).max_await_time_ms(30_000)
    face.wait(cursor.next())
    with mangonel.timeout(20):
        face.wait(cursor.next())
    face.wait(cursor.next())
    cut, whole = (request.command["maxTimeMS"] for request in scripted.received("getMore"))
    assert 1_000 < cut <= 20_000
    assert whole == 30_000
    face.wait(cursor.close())


@pytest.mark.parametrize(
    ("kind", "is_sent"),
    [(mangonel.CursorType.TAILABLE_AWAIT, True), (mangonel.CursorType.TAILABLE, False)],
)
def test_the_server_gets_the_limit_of_a_tailable_find_only_if_it_awaits_data(
    face: Any, scripted: ScriptedServer, kind: int, is_sent: bool
) -> None:
    # Without awaitData the server would apply the limit to the whole life of the cursor.
    client = face.client(scripted.uri, timeoutMS=60_000)
    face.wait(client.a.b.find(cursor_type=kind).next())
    assert ("maxTimeMS" in scripted.received("find")[0].command) is is_sent


def test_a_cursor_whose_next_batch_is_refused_is_killed(face: Any, scripted: ScriptedServer) -> None:
    client = face.client(scripted.uri)
    scripted.on("find", {"ok": 1, "cursor": {"id": 77, "ns": "a.b", "firstBatch": [{"_id": 1}]}})
    scripted.on("getMore", {"ok": 0, "code": 2, "errmsg": "no"})
    cursor = client.a.b.find()
    face.wait(cursor.next())
    timed(face, cursor.next)
    assert scripted.wait_for("killCursors")[0].command["cursors"] == [77]


def test_a_limit_that_is_no_number_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="expected seconds of 0 or more, got nan"):
        mangonel.timeout(float("nan"))


# Out of time between two attempts. Spec: client-side-operations-timeout (retryability).

STEPPING_DOWN = {"ok": 0, "code": 91, "errmsg": "stepping down", "errorLabels": ["RetryableWriteError"]}
CALLS: dict[str, Any] = {
    "find": lambda c: c.a.b.find_one(),
    "insert": lambda c: c.a.b.insert_one({}),
    "bulk": lambda c: c.a.b.bulk_write([mangonel.InsertOne({})]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("action", "classes"),
    [
        (STEPPING_DOWN, (NetworkTimeout, NotPrimaryError)),
        (Close(), (NetworkTimeout, AutoReconnect)),
    ],
)
def test_an_operation_that_runs_out_of_time_after_an_attempt_times_out_and_keeps_that_attempts_error(
    face: Any, call: str, action: Any, classes: tuple[type[PyMongoError], type[PyMongoError]]
) -> None:
    hello = {"setName": "rs0", "isWritablePrimary": True}
    with ScriptedServer(hello=hello) as server:
        server.hello["hosts"] = [server.address]
        server.on("find", {"ok": 1, "cursor": {"id": 0, "ns": "a.b", "firstBatch": []}})
        client = face.client(server.address, replicaSet="rs0")
        face.wait(client.a.b.find_one())

        def fail(_: Any) -> Any:
            # From now on, a search for the primary finds none.
            server.hello.update(isWritablePrimary=False, secondary=True)
            return action

        for name in ("find", "insert"):
            server.on(name, fail)
        with mangonel.timeout(0.7):
            error, _ = timed(face, lambda: CALLS[call](client))
    timeout, cause = classes
    assert type(error) is timeout
    assert error.timeout
    assert type(error.__cause__) is cause
    assert str(error.__cause__) in str(error)
    assert "raise timeoutMS" in str(error)
    labels = "RetryableWriteError"
    assert error.has_error_label(labels) == error.__cause__.has_error_label(labels)
    assert pickle.loads(pickle.dumps(error)).timeout


def test_a_server_that_stepped_down_without_a_successor_is_reported_without_a_limit_too(face: Any) -> None:
    with ScriptedServer(hello={"setName": "rs0"}) as server:
        server.hello["hosts"] = [server.address]
        server.on("insert", {"ok": 1, "n": 1})
        client = face.client(server.address, replicaSet="rs0", serverSelectionTimeoutMS=700)

        def is_known() -> bool:
            with contextlib.suppress(ServerSelectionTimeoutError):
                face.wait(client.a.b.insert_one({}))
                return True
            return False

        # A busy machine may take longer than that limit to find the server.
        eventually(is_known, "the server to be known")

        def fail(_: Any) -> Any:
            server.hello.update(isWritablePrimary=False, secondary=True)
            return STEPPING_DOWN

        server.on("insert", fail)
        error, _ = timed(face, lambda: client.a.b.insert_one({}))
    assert isinstance(error, NotPrimaryError)
    assert not error.timeout
    assert error.has_error_label("RetryableWriteError")
