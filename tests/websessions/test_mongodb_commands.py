"""The MongoDB store repeats its own writes and shares commands between requests, without changing any result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.errors import AutoReconnect, NotPrimaryError, OperationFailure
from mangonel.server import Server
from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import ENDED
from mangonel.websessions.stores._threads import flows_of
from mangonel.websessions.stores.mongodb import MongoStore
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import a_record
from mangonel.websessions.writes import changed
from mangonel.write_concern import WriteConcern

WRITES = (
    "insert_one",
    "insert_many",
    "replace_one",
    "_replace_checked",
    "bulk_write",
    "update_one",
    "delete_many",
)


class Trouble:
    """A collection whose next writes fail, either before or after they are stored."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self.losing: list[tuple[bool, Exception]] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._collection, name)
        if name not in WRITES or not self.losing:
            return call
        arrives, error = self.losing.pop(0)

        async def awaited(*arguments: Any, **keywords: Any) -> Any:
            if arrives:
                await call(*arguments, **keywords)
            raise error

        return awaited


def put_between(store: Any, collection: Any) -> None:
    """Make the flows of a blocking or asyncio store use `collection`, whose methods are awaited."""
    store._plain = store._sure = store._documents.plain = store._documents.sure = collection
    store.waits = True


async def troubled(url: str, side: str) -> tuple[Any, Trouble]:
    """Return the flows of a store, which are the same on both sides."""
    store: Any = open_store(url) if side == "asynchronous" else flows_of(open_blocking(url))
    trouble = Trouble(store._plain)
    put_between(store, trouble)
    return store, trouble


SIDES = pytest.mark.parametrize("side", ["asynchronous", "blocking"])
LOST = pytest.mark.parametrize("arrives", [True, False], ids=["after it arrived", "before it arrived"])


@SIDES
@LOST
async def test_a_write_whose_answer_is_lost_counts_once(
    side: str, arrives: bool, store_url: Callable[[str], str]
) -> None:
    store, trouble = await troubled(store_url("mongodb"), side)
    record = a_record(user="ada")
    trouble.losing = [(arrives, AutoReconnect("the connection broke"))]
    assert await store.put(record, 0)
    fresh = changed(record, data=b"fresh")
    trouble.losing = [(arrives, NotPrimaryError("stepping down", {"code": 10107}))]
    assert await store.put(fresh, 1)
    assert await store.get(record.key) == fresh
    trouble.losing = [(arrives, AutoReconnect("the connection broke"))]
    assert await store.touch(record.key, record.expires + 1)
    ended = changed(fresh, data=b"", next=ENDED)
    trouble.losing = [(arrives, OperationFailure("stepping down", 189))]
    assert await store.put(ended, 2)
    trouble.losing = [(arrives, AutoReconnect("the connection broke"))]
    await store.delete(record.key)
    assert await store.get(record.key) is None


@SIDES
async def test_a_repeated_write_does_not_win_over_what_others_wrote(
    side: str, store_url: Callable[[str], str]
) -> None:
    url = store_url("mongodb")
    store, trouble = await troubled(url, side)
    others: Any = open_blocking(url)
    record = a_record()
    assert others.put(record, 0)
    trouble.losing = [(False, AutoReconnect("the connection broke"))]
    assert not await store.put(changed(record, version=1, data=b"mine"), 0)
    theirs = changed(record, data=b"theirs")
    assert others.put(theirs, 1)
    trouble.losing = [(False, AutoReconnect("the connection broke"))]
    assert not await store.put(changed(record, data=b"mine"), 1)
    assert await store.get(record.key) == theirs


@SIDES
async def test_a_write_is_repeated_once_and_only_where_that_may_help(
    side: str, store_url: Callable[[str], str]
) -> None:
    store, trouble = await troubled(store_url("mongodb"), side)
    trouble.losing = [(False, AutoReconnect("the connection broke"))] * 2
    with pytest.raises(AutoReconnect):
        await store.put(a_record(), 0)
    for error in (OperationFailure("not authorised", 13), OperationFailure("no such option", 72)):
        trouble.losing = [(False, error)]
        with pytest.raises(OperationFailure):
            await store.put(a_record(), 0)
        assert trouble.losing == []


@pytest.mark.parametrize(("option", "repeats"), [("", True), ("&retryWrites=true", False)])
def test_the_drivers_own_retries_can_be_had_instead(
    option: str, repeats: bool, store_url: Callable[[str], str]
) -> None:
    store = open_blocking(store_url("mongodb") + option)
    assert store.flows._repeats is repeats
    assert store.flows._client.options.retry_writes is not repeats
    store.close()


class Counting(Trouble):
    """A collection that counts its commands."""

    def __init__(self, collection: Any) -> None:
        super().__init__(collection)
        self.commands: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in (*WRITES, "find_one", "find"):
            self.commands.append(name)
        return super().__getattr__(name)


async def counted(url: str) -> tuple[Any, Counting]:
    store: Any = open_store(url)
    await store.setup()  # and the connections are there
    counting = Counting(store._plain)
    put_between(store, counting)
    return store, counting


async def test_inserts_that_come_at_once_share_commands_and_hear_of_their_own(
    store_url: Callable[[str], str],
) -> None:
    url = store_url("mongodb")
    store, counting = await counted(url)
    records = [a_record() for _ in range(100)]
    others: Any = open_blocking(url)
    taken = set(range(7, 100, 10))
    for number in taken:
        assert others.put(changed(records[number], version=1, data=b"theirs"), 0)
    written = await asyncio.gather(*(store.put(record, 0) for record in records))
    assert [number for number, done in enumerate(written) if not done] == sorted(taken)
    assert len(counting.commands) <= 6
    for number, record in enumerate(records):
        found = await store.get(record.key)
        assert found.data == (b"theirs" if number in taken else record.data)


async def test_an_insert_that_comes_alone_is_sent_alone(store_url: Callable[[str], str]) -> None:
    store, counting = await counted(store_url("mongodb"))
    for _ in range(3):
        assert await store.put(a_record(), 0)
    assert counting.commands == ["insert_one"] * 3


@LOST
async def test_a_batch_whose_answer_is_lost_counts_once(
    arrives: bool, store_url: Callable[[str], str]
) -> None:
    store, counting = await counted(store_url("mongodb"))
    records = [a_record() for _ in range(20)]
    # The first two are sent alone; the third command is the batch.
    nothing = asyncio.ensure_future(asyncio.gather(*(store.put(record, 0) for record in records)))
    await asyncio.sleep(0)
    counting.losing = [(arrives, AutoReconnect("the connection broke"))]
    assert all(await nothing)
    assert "insert_many" in counting.commands
    for record in records:
        assert await store.get(record.key) == record


async def test_everybody_in_a_batch_hears_of_its_failure_and_the_next_one_is_sent(
    store_url: Callable[[str], str],
) -> None:
    store, counting = await counted(store_url("mongodb"))
    batch = asyncio.gather(*(store.put(a_record(), 0) for _ in range(10)), return_exceptions=True)
    await asyncio.sleep(0)
    counting.losing = [(False, OperationFailure("not authorised", 13))]
    results = await batch
    assert results[:2] == [True, True]
    assert all(isinstance(result, OperationFailure) for result in results[2:])
    assert await store.put(a_record(), 0)


async def test_who_gave_up_waiting_for_a_batch_takes_nobody_along(store_url: Callable[[str], str]) -> None:
    store, _ = await counted(store_url("mongodb"))
    tasks = [asyncio.ensure_future(store.put(a_record(), 0)) for _ in range(10)]
    await asyncio.sleep(0)
    tasks[5].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results.pop(5), asyncio.CancelledError)
    assert results == [True] * 9
    assert store._inserts._busy == 0


async def test_known_visitors_who_come_at_once_share_loads_and_writes(
    store_url: Callable[[str], str],
) -> None:
    url = store_url("mongodb")
    store, counting = await counted(url)
    records = [a_record() for _ in range(100)]
    await asyncio.gather(*(store.put(record, 0) for record in records))
    counting.commands.clear()
    keys = [record.key for record in records]
    absent = a_record().key
    assert await asyncio.gather(*map(store.get, [*keys, absent, keys[0]])) == [*records, None, records[0]]
    assert len(counting.commands) <= 6
    others: Any = open_blocking(url)
    taken = set(range(7, 100, 10))
    for number in taken:
        assert others.put(changed(records[number], data=b"theirs"), 1)
    counting.commands.clear()
    news = [changed(record, data=b"ours") for record in records]
    written = await asyncio.gather(*(store.put(record, 1) for record in news))
    assert [number for number, done in enumerate(written) if not done] == sorted(taken)
    assert len(counting.commands) <= 8
    for number, record in enumerate(await asyncio.gather(*map(store.get, keys))):
        assert record.data == (b"theirs" if number in taken else b"ours")


@LOST
async def test_known_visitors_who_come_back_at_once_share_what_prolongs_them(
    arrives: bool, store_url: Callable[[str], str]
) -> None:
    store, counting = await counted(store_url("mongodb"))
    records = [a_record() for _ in range(50)]
    await asyncio.gather(*(store.put(record, 0) for record in records))
    keys = [record.key for record in records]
    later = records[0].expires + 60
    await store.delete(*keys[::10])
    counting.commands.clear()
    first = asyncio.ensure_future(asyncio.gather(*(store.touch(key, later) for key in keys)))
    await asyncio.sleep(0)
    counting.losing = [(arrives, AutoReconnect("the connection broke"))]
    assert await first == [number % 10 != 0 for number in range(50)]
    assert len(counting.commands) <= 7
    for number, record in enumerate(await asyncio.gather(*map(store.get, keys))):
        assert (record is not None and record.expires == later) is (number % 10 != 0)


@LOST
async def test_a_batch_of_writes_whose_answer_is_lost_counts_once(
    arrives: bool, store_url: Callable[[str], str]
) -> None:
    store, counting = await counted(store_url("mongodb"))
    records = [a_record() for _ in range(20)]
    await asyncio.gather(*(store.put(record, 0) for record in records))
    news = [changed(record, data=b"second") for record in records]
    for expected in (1, 1):
        nothing = asyncio.ensure_future(
            asyncio.gather(*(store.put(record, expected) for record in news[:10]))
        )
        await asyncio.sleep(0)
        counting.losing = [(arrives, AutoReconnect("the connection broke"))]
        assert all(await nothing)
        news = news[10:]
    assert "bulk_write" in counting.commands
    found = await asyncio.gather(*(store.get(record.key) for record in records))
    assert {record.data for record in found} == {b"second"}


async def test_who_was_first_in_a_batch_knows_it_although_the_next_one_was_quick(
    store_url: Callable[[str], str],
) -> None:
    """Otherwise the write would merge again, and its increment would count twice."""
    url = store_url("mongodb")
    store: Any = open_store(url)
    others: Any = open_blocking(url)
    collection = store._plain
    next_one: list[Any] = []

    class Quick:
        """A collection to which another client writes right after a batch."""

        def __getattr__(self, name: str) -> Any:
            call = getattr(collection, name)
            if name != "bulk_write":
                return call

            async def called(*arguments: Any, **keywords: Any) -> Any:
                try:
                    return await call(*arguments, **keywords)
                finally:
                    assert others.put(next_one.pop(), 2)

            return called

    store._plain = Quick()
    for number, first in enumerate((False, True)):
        record, gone, alone = a_record(), a_record(), a_record()
        for each in (record, gone, alone):
            await store.put(each, 0)
        await store.delete(gone.key)
        news = [
            changed(each, data=bytes([number])) for number, each in enumerate((record, record, gone, alone))
        ]
        earlier = changed(record, data=b"earlier")
        if first:
            assert others.put(earlier, 1)
        next_one.append(changed(earlier if first else news[0], data=b"next"))
        results = await store._write_many([store._documents.write(each, 1) for each in news])
        assert results == [not first, False, False, True]
        assert (await store.get(record.key)).data == b"next", number
    others.close()
    await store.aclose()


async def test_one_of_many_who_end_a_websession_at_once_has_ended_it(store_url: Callable[[str], str]) -> None:
    store, _ = await counted(store_url("mongodb"))
    record = a_record()
    await store.put(record, 0)
    traces = [changed(record, data=b"", next=ENDED) for _ in range(20)]
    assert sum(await asyncio.gather(*(store.put(trace, 1) for trace in traces))) == 1


async def test_a_client_that_the_application_shares_shares_commands_too(
    store_url: Callable[[str], str],
) -> None:
    opened: Any = open_store(store_url("mongodb"))
    counting = Counting(opened._plain)
    store = MongoStore(opened._plain)
    put_between(store, counting)
    records = [a_record() for _ in range(50)]
    assert all(await asyncio.gather(*(store.put(record, 0) for record in records)))
    assert len(counting.commands) <= 5
    await opened.aclose()


def test_a_collection_whose_writes_are_not_answered_is_refused(server: Server, database_name: str) -> None:
    with MongoClient(server.uri) as client:
        collection = client[database_name].get_collection("websessions", write_concern=WriteConcern(0))
        with pytest.raises(UsageError, match=r"got w=0"):
            MongoStore(collection)
        MongoStore(collection, durable=True)
