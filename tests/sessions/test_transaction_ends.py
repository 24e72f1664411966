"""How a transaction starts and ends: with and without options and commands, in its block, within a time limit."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel import WriteConcern, errors
from sessions.sent import deployment
from tools.faces import Face
from tools.scripted_server import Reply


def commit_in_block(face: Face, session: Any, things: Any) -> None:
    """Insert a document in the block of a transaction."""

    async def run() -> None:
        async with session.start_transaction():
            await things.insert_one({}, session=session)

    def run_blocking() -> None:
        with session.start_transaction():
            things.insert_one({}, session=session)

    face.wait((run if face.is_async else run_blocking)())


def test_a_transaction_without_commands_ends_without_one_and_is_not_counted(face: Face) -> None:
    with deployment("replica set") as server:
        client = face.client(server.uri, metrics=True)
        session = client.start_session()
        for end in (session.commit_transaction, session.abort_transaction):
            session.start_transaction()
            assert face.run(end) is None
            assert not session.in_transaction
        assert client.metrics().operations == ()
        assert server.received("commitTransaction") == server.received("abortTransaction") == []


def test_a_commit_whose_coroutine_is_not_awaited_changes_nothing(face: Face) -> None:
    if not face.is_async:
        pytest.skip("nothing is awaited")
    with deployment("replica set") as server:
        session = face.client(server.uri).start_session()
        session.start_transaction()
        session.commit_transaction().close()
        assert session.in_transaction


def test_an_error_of_a_commits_connection_does_not_ask_to_run_the_transaction_again(face: Face) -> None:
    with deployment("replica set") as server:
        labels = ["TransientTransactionError", "UnknownTransactionCommitResult"]
        refused = {"ok": 0, "code": 189, "errmsg": "primary stepped down", "errorLabels": labels}
        server.on("commitTransaction", refused)
        client = face.client(server.uri)
        session = client.start_session()
        session.start_transaction()
        face.wait(client.db.things.insert_one({}, session=session))
        with pytest.raises(errors.ConnectionFailure) as caught:
            face.run(session.commit_transaction)
        assert not caught.value.has_error_label("TransientTransactionError")
        assert caught.value.has_error_label("UnknownTransactionCommitResult")
        face.wait(client.close())


@pytest.mark.parametrize("code", [251, 189, 64])
def test_errors_of_an_abort_are_not_raised(face: Face, code: int) -> None:
    with deployment("replica set") as server:
        server.on("abortTransaction", {"ok": 0, "code": code, "errmsg": "no"})
        client = face.client(server.uri)
        session = client.start_session()
        session.start_transaction()
        face.wait(client.db.things.insert_one({}, session=session))
        assert face.run(session.abort_transaction) is None
        with pytest.raises(errors.InvalidOperation, match="Cannot call abortTransaction twice"):
            face.run(session.abort_transaction)
        face.wait(client.close())


def test_a_block_commits_within_the_limit_of_its_session(face: Face) -> None:
    with deployment("replica set") as server:
        server.on("commitTransaction", Reply({"ok": 1}, delay=5))
        client = face.client(server.uri)
        session = client.start_session(default_timeout_ms=300)
        with pytest.raises(errors.PyMongoError) as caught:
            commit_in_block(face, session, client.db.things)
        assert caught.value.timeout
        face.wait(client.close())


def test_options_of_one_transaction_are_not_those_of_the_next(face: Face) -> None:
    with deployment("replica set") as server:
        client = face.client(server.uri, w=2)
        starts: list[dict[str, Any]] = [
            {},
            {"write_concern": WriteConcern(1), "max_commit_time_ms": 77},
            {},
            {"max_commit_time_ms": 5_000_000_000},
        ]
        for options in starts:
            session = client.start_session()
            session.start_transaction(**options)
            face.wait(client.db.things.insert_one({}, session=session))
            face.run(session.commit_transaction)
        sent = [request.command for request in server.received("commitTransaction")]
        assert [(each["writeConcern"], each.get("maxTimeMS")) for each in sent] == [
            ({"w": 2}, None),
            ({"w": 1}, 77),
            ({"w": 2}, None),
            ({"w": 2}, 5_000_000_000),
        ]
        face.wait(client.close())
