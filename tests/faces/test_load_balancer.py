"""Behind a load balancer, on every face: no monitoring, and dependent commands share one connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mangonel.bson import ObjectId
from mangonel.errors import AutoReconnect, ConfigurationError, OperationFailure
from tools.faces import EMPTY, Face, connections_of, eventually, found, pool_sizes
from tools.scripted_server import Close, Request, ScriptedServer

SERVICES = [ObjectId(b"a" * 12), ObjectId(b"b" * 12)]


@pytest.fixture
def balancer(scripted_server: ScriptedServer) -> ScriptedServer:
    """A load balancer that sends every second connection to the other service."""

    def hello(request: Request) -> dict[str, Any]:
        service = SERVICES[request.connection % 2]
        return {**scripted_server._hello(request), "msg": "isdbgrid", "serviceId": service}

    scripted_server.on("hello", hello)
    scripted_server.on("find", EMPTY)
    return scripted_server


def uri_of(server: ScriptedServer) -> str:
    return f"mongodb://{server.address}/?loadBalanced=true"


def test_hello_says_so_and_nothing_is_watched(
    face: Face, balancer: ScriptedServer, observers: Callable[[], int]
) -> None:
    client = face.client(uri_of(balancer))
    assert face.run(lambda: client.shop.orders.find_one()) is None
    assert [request.command["loadBalanced"] for request in balancer.received("hello")] == [True]
    assert observers() == 0
    (request,) = balancer.received("find")
    assert "lsid" in request.command


def test_a_server_that_is_no_service_is_refused(face: Face, scripted_server: ScriptedServer) -> None:
    client = face.client(uri_of(scripted_server))
    with pytest.raises(ConfigurationError, match="expected a serviceId"):
        face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: pool_sizes(client) == (0, 0, 0, 0))


def test_a_cursor_stays_on_its_connection_and_gives_it_back(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("find", found({"_id": 1}, id=9))
    balancer.once("getMore", found({"_id": 2}, id=9, batch="nextBatch"))
    balancer.once("getMore", found({"_id": 3}, batch="nextBatch"))
    cursor = client.shop.orders.find()
    assert face.next(cursor) == {"_id": 1}
    assert pool_sizes(client)[:2] == (0, 1)
    # Other operations use another connection meanwhile.
    face.run(lambda: client.shop.command("ping"))
    assert pool_sizes(client)[:2] == (1, 1)
    assert [face.next(cursor), face.next(cursor)] == [{"_id": 2}, {"_id": 3}]
    assert connections_of(balancer, "getMore") == connections_of(balancer, "find")
    assert pool_sizes(client)[:2] == (2, 0)


def test_closing_a_cursor_kills_it_where_it_lives(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("find", found({"_id": 1}, id=9))
    cursor = client.shop.orders.find()
    face.next(cursor)
    face.run(cursor.close)
    assert connections_of(balancer, "killCursors") == connections_of(balancer, "find")
    assert pool_sizes(client)[:2] == (1, 0)


def test_a_cursor_that_is_dropped_is_killed_where_it_lives(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("find", found({"_id": 1}, id=9))
    cursor = client.shop.orders.find()
    face.next(cursor)
    # The next command of another operation takes another connection.
    face.run(lambda: client.shop.command("ping"))
    del cursor
    eventually(lambda: pool_sizes(client)[:2] == (2, 0))
    assert connections_of(balancer, "killCursors") == connections_of(balancer, "find")
    assert [request.command["cursors"] for request in balancer.received("killCursors")] == [[9]]


def test_a_cursor_that_is_dropped_after_its_connection_broke_holds_none(
    face: Face, balancer: ScriptedServer
) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("find", found({"_id": 1}, id=9))
    balancer.on("killCursors", Close())
    cursor = client.shop.orders.find()
    face.next(cursor)
    del cursor
    eventually(lambda: pool_sizes(client)[:2] == (0, 0))
    face.run(lambda: client.shop.command("ping"))
    assert pool_sizes(client)[:2] == (1, 0)


def rest(face: Face) -> None:
    """A connection that was idle for a second is checked before use; asyncio notices a closed connection at once."""
    if not face.is_async:
        time.sleep(1.05)


def test_a_cursor_whose_connection_was_closed_fails_before_anything_is_sent(
    face: Face, balancer: ScriptedServer
) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("find", found({"_id": 1}, id=9))
    cursor = client.shop.orders.find()
    face.next(cursor)
    balancer.close_connections()
    rest(face)
    with pytest.raises(AutoReconnect, match="connection"):
        face.next(cursor)
    assert not balancer.received("getMore")
    assert not cursor.alive
    eventually(lambda: pool_sizes(client)[:2] == (0, 0))
    face.run(lambda: client.shop.command("ping"))


def test_a_change_stream_resumes_when_its_connection_was_closed(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer))
    token = {"_data": "01"}
    balancer.on("aggregate", found({"_id": token, "operationType": "insert"}, id=9))
    stream = face.run(client.shop.orders.watch)
    assert face.next(stream)["_id"] == token
    balancer.close_connections()
    rest(face)
    balancer.on("aggregate", found({"_id": {"_data": "02"}, "operationType": "insert"}, id=10))
    assert face.next(stream)["_id"] == {"_data": "02"}
    second = balancer.received("aggregate")[1]
    assert second.command["pipeline"][0]["$changeStream"]["resumeAfter"] == token
    assert not balancer.received("getMore")
    face.run(stream.close)


def test_a_transaction_whose_connection_was_closed_has_to_run_again(
    face: Face, balancer: ScriptedServer
) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("insert", {"ok": 1, "n": 1})
    balancer.on("abortTransaction", {"ok": 1})
    session = client.start_session()
    session.start_transaction()
    face.run(lambda: client.shop.orders.insert_one({"_id": 1}, session=session))
    balancer.close_connections()
    rest(face)
    with pytest.raises(AutoReconnect) as raised:
        face.run(lambda: client.shop.orders.insert_one({"_id": 2}, session=session))
    assert raised.value.has_error_label("TransientTransactionError")
    assert len(balancer.received("insert")) == 1
    face.run(session.abort_transaction)
    face.run(session.end_session)
    eventually(lambda: pool_sizes(client)[1] == 0)


def test_a_commit_whose_connection_was_closed_is_sent_on_another_one(
    face: Face, balancer: ScriptedServer
) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("insert", {"ok": 1, "n": 1})
    balancer.on("commitTransaction", {"ok": 1})
    session = client.start_session()
    session.start_transaction()
    face.run(lambda: client.shop.orders.insert_one({"_id": 1}, session=session))
    balancer.close_connections()
    rest(face)
    face.run(session.commit_transaction)
    face.run(session.end_session)
    (commit,) = balancer.received("commitTransaction")
    assert connections_of(balancer, "insert") != {commit.connection}


def test_a_cursor_whose_getmore_fails_gives_its_connection_back(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("find", found({"_id": 1}, id=9))
    balancer.on("getMore", {"ok": 0, "code": 43, "errmsg": "cursor id 9 not found"})
    cursor = client.shop.orders.find()
    face.next(cursor)
    with pytest.raises(OperationFailure):
        face.next(cursor)
    eventually(lambda: pool_sizes(client)[1] == 0)


def test_an_error_clears_the_connections_of_its_service_only(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer), retryReads=False)
    balancer.on("find", found({"_id": 1}, id=9))
    balancer.on("getMore", found({"_id": 2}, batch="nextBatch"))
    cursors = [client.shop.orders.find() for _ in range(4)]
    for cursor in cursors:
        face.next(cursor)
    # Two connections to each service: 0 and 2, 1 and 3. The last one checked in is the first one used.
    for cursor in cursors:
        face.next(cursor)
    assert pool_sizes(client)[:2] == (4, 0)
    balancer.once("find", Close())
    with pytest.raises(AutoReconnect):
        face.run(lambda: client.shop.orders.find_one())
    assert pool_sizes(client)[:2] == (2, 0)
    balancer.on("find", EMPTY)
    face.run(lambda: client.shop.orders.find_one())
    assert balancer.received("find")[-1].connection in (0, 2)


def test_a_transaction_stays_on_its_connection(face: Face, balancer: ScriptedServer) -> None:
    client = face.client(uri_of(balancer))
    balancer.on("insert", {"ok": 1, "n": 1})
    balancer.on("commitTransaction", {"ok": 1})
    session = client.start_session()
    session.start_transaction()
    face.run(lambda: client.shop.orders.insert_one({"_id": 1}, session=session))
    face.run(lambda: client.shop.command("ping"))
    face.run(lambda: client.shop.orders.insert_one({"_id": 2}, session=session))
    face.run(session.commit_transaction)
    face.run(session.end_session)
    assert len(connections_of(balancer, "insert") | connections_of(balancer, "commitTransaction")) == 1
    assert connections_of(balancer, "ping").isdisjoint(connections_of(balancer, "insert"))
    assert pool_sizes(client)[:2] == (2, 0)
