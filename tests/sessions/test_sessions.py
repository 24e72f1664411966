"""Explicit sessions on both faces: their state, their end, and how they are bound."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import mangonel.asynchronous.client_session
import mangonel.client_session
from mangonel import MongoClient, WriteConcern, errors
from mangonel._shared.sessions.session import bound_session
from mangonel._shared.settings import BOUND
from mangonel.bson import Binary, Int64, Timestamp
from mangonel.client_session import SessionOptions, TransactionOptions
from mangonel.read_preferences import ReadPreference
from sessions.sent import deployment, sent
from tools.faces import Face
from tools.interrupts import interrupt, places


def test_session_has_one_id_until_it_ends(face: Face, client: Any, collection: Any) -> None:
    session = client.start_session()
    id = session.session_id
    face.wait(collection.insert_one({}, session=session))

    assert isinstance(id["id"], Binary)
    assert id["id"].subtype == 4
    assert session.session_id == id
    assert session.client is client
    face.wait(session.end_session())
    face.wait(session.end_session())
    assert session.has_ended
    with pytest.raises(errors.InvalidOperation, match="ended session"):
        session.session_id  # noqa: B018
    with pytest.raises(errors.InvalidOperation, match="ended session"):
        face.wait(collection.find_one({}, session=session))


def test_server_session_is_used_again_after_its_end(face: Face, client: Any) -> None:
    session = client.start_session()
    face.wait(client.admin.command("ping", session=session))
    id = session.session_id
    face.wait(session.end_session())

    assert client.start_session().session_id == id


def test_dropped_session_gives_its_server_session_back(face: Face, client: Any) -> None:
    session = client.start_session()
    face.wait(client.admin.command("ping", session=session))
    id = session.session_id
    del session
    gc.collect()

    assert client.start_session().session_id == id


def test_times_of_the_session_advance(face: Face, client: Any, collection: Any) -> None:
    session, other = client.start_session(), client.start_session()
    assert session.operation_time is None
    assert session.cluster_time is None
    face.wait(collection.insert_one({}, session=session))

    other.advance_operation_time(session.operation_time)
    other.advance_cluster_time(session.cluster_time)

    assert isinstance(other.operation_time, Timestamp)
    assert other.operation_time == session.operation_time
    assert other.cluster_time == session.cluster_time
    for wrong in (5, None, {"clusterTime": 5}, {}):
        with pytest.raises(TypeError):
            other.advance_cluster_time(wrong)
        with pytest.raises(TypeError):
            other.advance_operation_time(wrong)


def test_secondary_reads_what_the_session_wrote(face: Face, client: Any, collection: Any) -> None:
    # A set of one has no secondary. test_commands checks that the command carries the time for which the read waits.
    nearest = collection.with_options(read_preference=ReadPreference.NEAREST)
    session = client.start_session(causal_consistency=True)
    for number in range(20):
        face.wait(collection.insert_one({"_id": number}, session=session))
        assert face.wait(nearest.find_one({"_id": number}, session=session)) is not None
    face.wait(session.end_session())


def test_snapshot_session_reads_one_moment(face: Face, client: Any, collection: Any) -> None:
    majority = collection.with_options(write_concern=WriteConcern("majority"))
    face.wait(majority.insert_one({"_id": 1}))
    session = client.start_session(snapshot=True)
    assert face.wait(collection.count_documents({}, session=session)) == 1

    face.wait(majority.insert_one({"_id": 2}))

    assert face.wait(collection.count_documents({}, session=session)) == 1
    assert face.collect(collection.find({}, session=session)) == [{"_id": 1}]
    assert face.wait(collection.distinct("_id", session=session)) == [1]
    assert face.wait(collection.count_documents({})) == 2
    face.wait(session.end_session())


def test_writes_at_once_in_one_session_are_told_what_to_do(face: Face, client: Any, collection: Any) -> None:
    session = client.start_session()
    face.wait(collection.insert_one({}, session=session))
    face.wait(collection.insert_one({}, session=session))
    # As if it had begun before the other two and came after them.
    late = {"insert": collection.name, "documents": [{}], "txnNumber": Int64(0)}
    with pytest.raises(
        errors.OperationFailure, match="a session runs one operation at a time: await each"
    ) as caught:
        face.wait(collection.database.command(late, session=session))
    assert caught.value.code == 225
    face.wait(session.end_session())


def test_cursor_stays_in_its_session(face: Face, client: Any, collection: Any) -> None:
    face.wait(collection.insert_many([{"_id": n} for n in range(10)]))
    session = client.start_session()
    cursor = collection.find({}, session=session, batch_size=3)

    assert cursor.session is session
    assert cursor.clone().session is session
    assert len(face.collect(cursor)) == 10
    assert collection.find().session is None
    face.wait(session.end_session())


def test_cursor_of_an_ended_session_is_refused(face: Face, client: Any, collection: Any) -> None:
    session = client.start_session()
    cursor = collection.find({}, session=session)
    face.wait(session.end_session())

    with pytest.raises(errors.InvalidOperation, match="ended session"):
        face.collect(cursor)


def test_cursor_is_killed_in_its_session(face: Face) -> None:
    with deployment("replica set") as server:
        cursor = {"ok": 1, "cursor": {"id": 7, "ns": "db.things", "firstBatch": [{}]}}
        server.on("find", cursor)
        client = face.client(server.uri)
        for session in (client.start_session(), None):
            open_cursor = client.db.things.find({}, session=session)
            face.wait(open_cursor.next())
            face.wait(open_cursor.close())

        assert [(next(iter(each)), each["lsid"]) for each in sent(server)] == [
            ("find", 1),
            ("killCursors", 1),
            ("find", 2),
            ("killCursors", 2),
        ]
        face.wait(client.close())


def test_closing_the_client_ends_the_sessions_on_the_server(face: Face) -> None:
    with deployment("replica set") as server:
        client = face.client(server.uri)
        session = client.start_session()
        face.wait(client.db.things.find_one({}, session=session))
        id = session.session_id
        face.wait(session.end_session())
        face.wait(client.close())

        (request,) = server.received("endSessions")
        assert [bytes(each["id"]) for each in request.command["endSessions"]] == [bytes(id["id"])]


def test_session_cannot_be_copied(client: Any) -> None:
    session = client.start_session()

    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(session)


def test_session_of_another_client_is_refused(face: Face, client: Any, server: Any) -> None:
    session = face.client(server.uri).start_session()

    with pytest.raises(errors.InvalidOperation, match="that started it"):
        face.wait(client.db.things.find_one({}, session=session))
    with pytest.raises(errors.InvalidOperation, match="that started it"):
        face.wait(client.db.things.insert_many([{}], session=session))


def test_bound_session_is_that_of_all_operations_inside(face: Face, client: Any, collection: Any) -> None:
    session = client.start_session()

    def check() -> None:
        assert session.operation_time is None

    async def inside() -> None:
        async with session.bind(end_session=False):
            await collection.insert_one({"_id": 1})
            assert await collection.find_one({"_id": 1}) == {"_id": 1}
        # A session bound here is not bound in another task.
        time = session.operation_time
        assert time is not None
        await collection.insert_one({"_id": 2})
        assert session.operation_time == time

    check()
    if face.is_async:
        face.wait(inside())
    else:
        with session.bind(end_session=False):
            collection.insert_one({"_id": 1})
            assert collection.find_one({"_id": 1}) == {"_id": 1}
        time = session.operation_time
        assert time is not None
        collection.insert_one({"_id": 2})
        assert session.operation_time == time
    face.wait(session.end_session())


def test_session_bound_in_one_thread_is_not_bound_in_another(server: Any, database_name: str) -> None:
    with MongoClient(server.uri) as client, client.start_session() as session, session.bind():
        before = session.operation_time
        other = threading.Thread(target=client[database_name].things.insert_one, args=({},))
        other.start()
        other.join()

        assert session.operation_time == before
    assert session.has_ended


# A warning about the session's end, which was interrupted before its first step.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_interrupt_leaves_no_session_bound(server: Any) -> None:
    with MongoClient(server.uri) as client:

        def act() -> None:
            with client.start_session().bind() as session:
                assert bound_session() is session

        folders = (str(Path(mangonel.__file__).parent), __file__)
        count = places(act, folders)
        assert count > 5
        for at in range(1, count + 1):
            interrupt(act, at, folders)
            assert bound_session() is None, at
            assert not BOUND, at


def test_session_bound_in_one_task_is_not_bound_in_another(face: Face, client: Any, collection: Any) -> None:
    if not face.is_async:
        pytest.skip("only tasks run beside each other")

    async def both() -> None:
        session = client.start_session()
        bound, done = asyncio.Event(), asyncio.Event()

        async def inside() -> None:
            async with session.bind():
                bound.set()
                await done.wait()

        task = asyncio.ensure_future(inside())
        await bound.wait()
        await collection.insert_one({})
        assert session.operation_time is None
        done.set()
        await task
        assert session.has_ended

    face.wait(both())


def test_session_of_the_parent_is_ended_in_a_forked_child(server: Any) -> None:
    with MongoClient(server.uri) as client, client.start_session() as session:
        client.admin.command("ping", session=session)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                client.admin.command("ping", session=session)
            except errors.InvalidOperation:
                client.admin.command("ping")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        client.admin.command("ping", session=session)


def test_options_are_checked() -> None:
    assert SessionOptions().causal_consistency is True
    assert SessionOptions(snapshot=True).causal_consistency is False
    with pytest.raises(errors.ConfigurationError):
        SessionOptions(causal_consistency=True, snapshot=True)
    with pytest.raises(TypeError):
        SessionOptions(default_transaction_options={})  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError):
        TransactionOptions(write_concern=WriteConcern(w=0))
    for name in ("read_concern", "write_concern", "read_preference", "max_commit_time_ms"):
        with pytest.raises(TypeError):
            TransactionOptions(**{name: "5"})


def test_modules_have_the_names_of_the_field() -> None:
    assert mangonel.client_session.ClientSession.__name__ == "ClientSession"
    assert mangonel.asynchronous.client_session.AsyncClientSession.__name__ == "AsyncClientSession"
