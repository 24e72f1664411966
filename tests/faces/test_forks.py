"""Forked children start over: own connections, own sessions, own ids; the parent notices nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

from mangonel.bson import ObjectId
from tools.faces import EMPTY, TIMEOUT, Face, connections_of, found, pool_sizes
from tools.forks import in_child
from tools.scripted_server import Hang, ScriptedServer

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def run_in_child(face: Face, call: Callable[[], Any]) -> Any:
    """Run a call in a forked child, on a loop of its own when the face needs one."""
    if not face.is_async:
        return call()

    async def steps() -> Any:
        return await call()

    return asyncio.run(steps())


def test_a_forked_child_uses_connections_and_sessions_of_its_own(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", EMPTY)
    client = face.client(scripted_server.uri)
    face.run(client.shop.orders.find_one)
    parent_connections = connections_of(scripted_server, "find")
    in_child(lambda: run_in_child(face, client.shop.orders.find_one))
    assert face.run(client.shop.orders.find_one) is None
    first, second, third = scripted_server.received("find")
    assert second.connection not in parent_connections
    assert third.connection == first.connection
    assert second.command["lsid"] != first.command["lsid"] == third.command["lsid"]
    assert pool_sizes(client) == (1, 0, 0, 0)


def test_each_of_several_equal_clients_starts_over_in_a_child(
    face: Face, scripted_server: ScriptedServer
) -> None:
    # Clients of one deployment are equal, and each has its own connections.
    scripted_server.on("find", EMPTY)
    clients = [face.client(scripted_server.uri) for _ in range(3)]
    for client in clients:
        face.run(client.shop.orders.find_one)
    parent_connections = connections_of(scripted_server, "find")
    assert len(parent_connections) == 3
    for client in clients:
        in_child(lambda client=client: run_in_child(face, client.shop.orders.find_one))
    received = scripted_server.received("find")
    assert len(received) == 6
    assert not {request.connection for request in received[3:]} & set(parent_connections)


def test_object_ids_of_parent_and_child_differ_in_their_random_part(face: Face) -> None:
    ids = [in_child(lambda: [ObjectId().binary for _ in range(3)]) for _ in range(3)]
    ids.append([ObjectId().binary])
    assert len({each[4:9] for family in ids for each in family}) == 4


def test_a_child_that_ends_leaves_the_parents_cursor_and_connection_alone(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}, id=55))
    scripted_server.on("getMore", found({"_id": 2}, batch="nextBatch"))
    client = face.client(scripted_server.uri)
    holder = {"cursor": client.shop.orders.find()}
    assert face.next(holder["cursor"]) == {"_id": 1}

    def drop_everything() -> None:
        import gc
        import time

        holder.clear()
        gc.collect()
        time.sleep(0.1)

    in_child(drop_everything)
    assert scripted_server.received("killCursors") == []
    assert face.next(holder["cursor"]) == {"_id": 2}


def test_the_session_of_the_parents_cursor_is_not_used_by_a_child(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}, id=55))
    client = face.client(scripted_server.uri)
    holder = {"cursor": client.shop.orders.find()}
    face.next(holder["cursor"])

    def drop_and_find() -> None:
        holder.clear()
        run_in_child(face, client.shop.orders.find_one)

    in_child(drop_and_find)
    first, second = scripted_server.received("find")
    assert first.command["lsid"] != second.command["lsid"]


def test_a_fork_while_a_reply_is_owed_disturbs_nobody(face: Face, scripted_server: ScriptedServer) -> None:
    import threading

    gate = threading.Event()

    def slow(_: Any) -> Any:
        gate.wait(TIMEOUT)
        return found({"_id": 1})

    scripted_server.on("find", EMPTY)
    scripted_server.once("find", slow)
    client = face.client(scripted_server.uri)
    call = face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find")
    in_child(lambda: run_in_child(face, client.shop.orders.find_one))
    gate.set()
    assert call.result(TIMEOUT) == {"_id": 1}


def test_a_child_of_a_client_at_its_limit_has_an_empty_pool(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", Hang())
    client = face.client(scripted_server.uri, maxPoolSize=1)
    face.start(client.shop.orders.find_one)
    scripted_server.wait_for("find")
    face.start(client.shop.orders.find_one)
    scripted_server.on("find", EMPTY)
    in_child(lambda: run_in_child(face, client.shop.orders.find_one))


def test_a_closed_client_stays_closed_in_a_child(face: Face, scripted_server: ScriptedServer) -> None:
    from mangonel.errors import InvalidOperation

    client = face.client(scripted_server.uri)
    face.run(client.close)

    def use() -> None:
        with pytest.raises(InvalidOperation):
            run_in_child(face, client.shop.orders.find_one)

    in_child(use)


def _find(client: Any, is_async: bool) -> Any:
    return asyncio.run(_awaited(client)) if is_async else client.shop.orders.find_one()


async def _awaited(client: Any) -> Any:
    return await client.shop.orders.find_one()


def _work(client: Any, is_async: bool, results: Any) -> None:
    results.put([_find(client, is_async) for _ in range(3)])


def test_forked_workers_of_multiprocessing_use_the_parents_client(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.on("find", found({"_id": 1}))
    client = face.client(scripted_server.uri)
    face.run(client.shop.orders.find_one)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    workers = [context.Process(target=_work, args=(client, face.is_async, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert [results.get() for _ in workers] == [[{"_id": 1}] * 3] * 3
    for worker in workers:
        worker.join(TIMEOUT)
        assert worker.exitcode == 0
    assert face.run(client.shop.orders.find_one) == {"_id": 1}
    # Every loop has its own connections, and each call of an asyncio worker here runs in a new loop.
    assert len(connections_of(scripted_server, "find")) == 1 + 3 * (3 if face.is_async else 1)
