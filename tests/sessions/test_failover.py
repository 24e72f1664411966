"""Change streams and transactions on a replica set of three whose primary is killed meanwhile, on both faces."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, WriteConcern
from mangonel.errors import ConnectionFailure
from mangonel.server import Server, start

CHANGES = 400
KILLED_AT = (100, 250)


@pytest.fixture(scope="module")
def trio() -> Iterator[Server]:
    """Three members; each test puts every member back into service."""
    with start(replica_set=3) as deployment:
        yield deployment


class Writer(threading.Thread):
    """Inserts numbered documents one by one with majority write concern, and kills primaries meanwhile."""

    def __init__(self, server: Server, database: str) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.database = database
        self.acknowledged: list[int] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with MongoClient(self.server.uri) as client:
                things = client[self.database].get_collection(
                    "things", write_concern=WriteConcern("majority")
                )
                for number in range(CHANGES):
                    if number in KILLED_AT:
                        self._fail_over()
                    things.insert_one({"_id": number})
                    self.acknowledged.append(number)
        except BaseException as error:
            self.error = error

    def _fail_over(self) -> None:
        member = self.server.wait_for_primary()
        member.kill()
        self.server.wait_for_primary()
        # The next failover needs a majority again.
        member.restart()


def follow(stream: Any) -> list[int]:
    """Read changes until the last one; continue after an error, as the stream promises."""
    numbers: list[int] = []
    while not numbers or numbers[-1] != CHANGES - 1:
        try:
            numbers.append(stream.next()["documentKey"]["_id"])
        except ConnectionFailure:
            assert stream.alive
    return numbers


async def follow_async(stream: Any) -> list[int]:
    """As `follow`, on asyncio."""
    numbers: list[int] = []
    while not numbers or numbers[-1] != CHANGES - 1:
        try:
            numbers.append((await stream.next())["documentKey"]["_id"])
        except ConnectionFailure:
            assert stream.alive
    return numbers


@pytest.mark.no_sample
@pytest.mark.timeout(180)
def test_no_change_is_lost_or_doubled_when_primaries_are_killed(trio: Server) -> None:
    database = "changes"

    async def read(writer: Writer) -> list[int]:
        client = AsyncMongoClient(trio.uri)
        async with client, await client[database].watch(max_await_time_ms=200) as stream:
            writer.start()
            return await follow_async(stream)

    with MongoClient(trio.uri) as client:
        client[database].create_collection("things")
        writer = Writer(trio, database)
        found: dict[str, list[int]] = {}
        with client[database].watch(max_await_time_ms=200) as stream:
            other = threading.Thread(target=lambda: found.update(asyncio=asyncio.run(read(writer))))
            other.start()
            found["blocking"] = follow(stream)
            other.join()
        writer.join()

    assert writer.error is None
    assert writer.acknowledged == list(range(CHANGES))
    assert found == {"blocking": list(range(CHANGES)), "asyncio": list(range(CHANGES))}


@pytest.mark.timeout(120)
def test_transactions_move_money_once_when_the_primary_is_killed(trio: Server) -> None:
    with MongoClient(trio.uri, w="majority") as client:
        accounts = client.bank.accounts
        accounts.drop()
        accounts.insert_many([{"_id": "a", "sum": 0}, {"_id": "b", "sum": 1000}])
        done = 0
        killed = threading.Event()

        def fail_over() -> None:
            member = trio.wait_for_primary()
            member.kill()
            trio.wait_for_primary()
            member.restart()
            killed.set()

        def move(session: Any) -> None:
            accounts.update_one({"_id": "b"}, {"$inc": {"sum": -1}}, session=session)
            accounts.update_one({"_id": "a"}, {"$inc": {"sum": 1}}, session=session)

        with client.start_session() as session:
            until = time.monotonic() + 180
            started = False
            while not killed.is_set() and time.monotonic() < until:
                session.with_transaction(move)
                done += 1
                if done == 50 and not started:
                    started = True
                    threading.Thread(target=fail_over, daemon=True).start()

        assert killed.is_set()
        assert {each["_id"]: each["sum"] for each in accounts.find()} == {"a": done, "b": 1000 - done}
