"""Transactions of a real replica set on both faces, and `with_transaction` with its pauses and its time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import DeleteOne, InsertOne, MongoClient, UpdateOne, WriteConcern, errors
from mangonel._shared.sessions import session as session_module
from mangonel.read_concern import ReadConcern
from mangonel.server import Server
from sessions.sent import deployment, failing
from tools.faces import Face


@pytest.fixture
def session(face: Face, client: Any) -> Any:
    made = client.start_session()
    yield made
    face.wait(made.end_session())


def in_a_transaction(client: Any) -> None:
    with client.start_session() as session:
        session.with_transaction(lambda session: client.shop.orders.insert_one({}, session=session))


def in_a_snapshot(client: Any) -> None:
    with client.start_session(snapshot=True) as session:
        client.shop.orders.find_one(session=session)


def confirmed_by_two(client: Any) -> None:
    client.shop.orders.with_options(write_concern=WriteConcern(2)).insert_one({})


@pytest.mark.parametrize(
    "work", [in_a_transaction, in_a_snapshot, confirmed_by_two, lambda client: client.shop.orders.watch()]
)
def test_a_standalone_server_is_told_with_the_remedy(standalone: Server, work: Callable[[Any], Any]) -> None:
    with (
        MongoClient[Any](standalone.uri) as client,
        pytest.raises(
            errors.OperationFailure, match="mongod is standalone: start it with --replSet"
        ) as raised,
    ):
        work(client)
    # The server's own message is kept unchanged.
    assert raised.value.details is not None
    assert "standalone" not in raised.value.details["errmsg"]


def test_nobody_sees_a_transaction_before_its_commit(face: Face, session: Any, collection: Any) -> None:
    face.wait(collection.insert_one({"_id": 0}))
    session.start_transaction(ReadConcern("snapshot"))
    face.wait(collection.insert_one({"_id": 1}, session=session))
    writes = [InsertOne({"_id": 2}), UpdateOne({"_id": 1}, {"$set": {"a": 1}}), DeleteOne({"_id": 0})]
    face.wait(collection.bulk_write(writes, session=session))
    face.wait(collection.insert_many([{"_id": n} for n in range(3, 9)], session=session))
    inside = face.collect(collection.find({}, session=session, batch_size=2).sort("_id"))
    outside = face.collect(collection.find())
    assert session.in_transaction
    face.wait(session.commit_transaction())

    assert [each["_id"] for each in inside] == list(range(1, 9))
    assert outside == [{"_id": 0}]
    assert face.wait(collection.count_documents({})) == 8
    assert not session.in_transaction


def test_block_commits_at_its_end_and_aborts_on_an_exception(
    face: Face, session: Any, collection: Any
) -> None:
    class Mine(Exception):
        pass

    async def run(number: int, error: Exception | None) -> None:
        async with session.start_transaction():
            await collection.insert_one({"_id": number}, session=session)
            if error is not None:
                raise error

    def run_blocking(number: int, error: Exception | None) -> None:
        with session.start_transaction():
            collection.insert_one({"_id": number}, session=session)
            if error is not None:
                raise error

    act = run if face.is_async else run_blocking
    face.wait(collection.insert_one({"_id": 0}))
    face.wait(act(1, None))
    with pytest.raises(Mine):
        face.wait(act(2, Mine()))

    assert sorted(each["_id"] for each in face.collect(collection.find())) == [0, 1]


def test_transaction_may_be_awaited_before_its_block(face: Face, session: Any, collection: Any) -> None:
    if not face.is_async:
        pytest.skip("nothing is awaited")

    async def run() -> None:
        async with await session.start_transaction():
            await collection.insert_one({"_id": 1}, session=session)

    face.wait(collection.insert_one({"_id": 0}))
    face.wait(run())
    assert face.wait(collection.count_documents({})) == 2


def test_ending_the_session_aborts(face: Face, client: Any, collection: Any) -> None:
    face.wait(collection.insert_one({"_id": 0}))
    session = client.start_session()
    session.start_transaction()
    face.wait(collection.insert_one({"_id": 1}, session=session))
    face.wait(session.end_session())

    assert face.wait(collection.count_documents({})) == 1
    face.wait(collection.insert_one({"_id": 1}))


def test_conflict_has_the_label_that_lets_it_be_run_again(
    face: Face, client: Any, session: Any, collection: Any
) -> None:
    face.wait(collection.insert_one({"_id": 1, "n": 0}))
    session.start_transaction()
    face.wait(collection.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session))
    other = client.start_session()
    other.start_transaction()

    with pytest.raises(errors.OperationFailure) as caught:
        face.wait(collection.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=other))

    assert caught.value.has_error_label("TransientTransactionError")
    face.wait(other.end_session())
    face.wait(session.commit_transaction())


def test_many_transactions_on_one_document_all_take_place(face: Face, client: Any, collection: Any) -> None:
    if not face.is_async:
        pytest.skip("the blocking face does the same one after the other")
    face.wait(collection.insert_one({"_id": 1, "n": 0}))

    async def add() -> None:
        async def callback(session: Any) -> None:
            found = await collection.find_one({"_id": 1}, session=session)
            await collection.update_one({"_id": 1}, {"$set": {"n": found["n"] + 1}}, session=session)

        async with client.start_session() as session:
            await session.with_transaction(callback)

    async def run() -> None:
        await asyncio.gather(*(add() for _ in range(10)))

    face.wait(run())
    assert face.wait(collection.find_one({"_id": 1}))["n"] == 10


def test_callback_may_be_plain_on_both_faces(face: Face, session: Any) -> None:
    assert face.wait(session.with_transaction(lambda given: given is session)) is True


def callback_of(face: Face, things: Any) -> Any:
    """Return a callback that inserts on either face; its attribute counts its calls."""

    async def inserting(session: Any) -> str:
        inserting.calls += 1  # type: ignore[attr-defined]
        await things.insert_one({}, session=session)
        return "done"

    def inserting_blocking(session: Any) -> str:
        inserting_blocking.calls += 1  # type: ignore[attr-defined]
        things.insert_one({}, session=session)
        return "done"

    made = inserting if face.is_async else inserting_blocking
    made.calls = 0  # type: ignore[attr-defined]
    return made


def test_pauses_between_tries_grow(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 1.0)
    with deployment("replica set") as server:
        server.once("commitTransaction", *[failing(251, "TransientTransactionError")] * 8)
        client = face.client(server.uri)
        callback = callback_of(face, client.db.things)
        session = client.start_session()
        pauses: list[float] = []
        port = client._port
        original = port.pause

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            await original(0)

        port.pause = pause
        assert face.wait(session.with_transaction(callback)) == "done"

        assert callback.calls == 9
        assert pauses == pytest.approx([0.005 * 1.5**n for n in range(1, 9)])
        face.wait(client.close())


def test_time_limit_ends_the_tries_with_the_last_error(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    with deployment("replica set") as server:
        server.on("insert", failing(112, "TransientTransactionError"))
        client = face.client(server.uri)
        monkeypatch.setattr(session_module, "_RETRY_LIMIT", 0.3)
        begun = time.monotonic()

        with pytest.raises(errors.NetworkTimeout) as caught:
            face.wait(client.start_session().with_transaction(callback_of(face, client.db.things)))

        assert time.monotonic() - begun < 60
        assert caught.value.has_error_label("TransientTransactionError")
        assert isinstance(caught.value.__cause__, errors.OperationFailure)
        face.wait(client.close())


def test_commit_of_unknown_result_is_sent_until_it_is_known(face: Face) -> None:
    with deployment("replica set") as server:
        # Each attempt of the exchange sends two commands.
        server.once("commitTransaction", *[failing(91, "RetryableWriteError")] * 5)
        client = face.client(server.uri)
        callback = callback_of(face, client.db.things)

        assert face.wait(client.start_session().with_transaction(callback)) == "done"

        assert callback.calls == 1
        assert len(server.received("commitTransaction")) == 6
        face.wait(client.close())


def test_coroutine_function_is_refused_where_nothing_would_run_it(
    face: Face, client: Any, collection: Any
) -> None:
    if face.is_async:
        pytest.skip("asyncio awaits it")
    ran = []

    async def insert(session: Any) -> None:
        ran.append(collection.insert_one({}, session=session))

    session = client.start_session()
    with pytest.raises(
        TypeError, match=r"without async .*, got 'insert', which returns a coroutine; use Async"
    ):
        session.with_transaction(insert)
    assert not session.in_transaction
    assert ran == []


def test_cancelled_callback_aborts(face: Face, client: Any, collection: Any) -> None:
    if not face.is_async:
        pytest.skip("only a task can be cancelled")
    face.wait(collection.insert_one({"_id": 0}))

    async def callback(session: Any) -> None:
        await collection.insert_one({"_id": 1}, session=session)
        await asyncio.sleep(30)

    async def run() -> None:
        async with client.start_session() as session:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.with_transaction(callback), 0.5)
            assert not session.in_transaction
            await collection.insert_one({"_id": 1})

    face.wait(run())


def test_first_command_sent_again_after_overload_starts_the_transaction(face: Face) -> None:
    with deployment("replica set") as server:
        server.once("insert", failing(462, "SystemOverloadedError", "RetryableError"))
        client = face.client(server.uri)
        session = client.start_session()
        session.start_transaction()
        face.wait(client.db.things.insert_one({}, session=session))
        face.wait(client.db.things.insert_one({}, session=session))
        face.wait(session.commit_transaction())

        starts = [each.command.get("startTransaction") for each in server.received("insert")]
        assert starts == [True, True, None]
        assert "writeConcern" not in server.received("commitTransaction")[0].command
        face.wait(client.close())


def test_line_lost_before_the_first_command_leaves_the_start_to_its_second_attempt(face: Face) -> None:
    with deployment("replica set") as server:
        client = face.client(server.uri)
        face.wait(client.db.things.find_one({}))
        server.close_connections()
        # A connection that was idle for a second is checked before its next use.
        time.sleep(1.1)
        session = client.start_session()
        session.start_transaction()

        face.wait(client.db.things.insert_one({}, session=session))

        (insert,) = server.received("insert")
        assert insert.command["startTransaction"] is True
        face.wait(client.close())
