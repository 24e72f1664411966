"""insert_many on both faces: batches, ids, errors, and what it does with odd iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymongo.write_concern
import pytest

from driver.outcomes import outcome
from mangonel import AsyncMongoClient, errors
from mangonel.bson import ObjectId, encode
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.bson.son import SON
from mangonel.server import Server
from mangonel.write_concern import WriteConcern
from tools.faces import Face
from tools.scripted_server import Close, Hang, Reply, Request, ScriptedServer


def test_documents_without_an_id_get_one_that_the_result_names(face: Face, collection: Any) -> None:
    documents: list[Any] = [{"a": 1}, {"_id": 5}, SON({"b": 2}), {"_id": None}]

    result = face.wait(collection.insert_many(documents))

    assert result.acknowledged
    assert result.inserted_ids == [document["_id"] for document in documents]
    assert isinstance(documents[0]["_id"], ObjectId)
    assert face.wait(collection.find_one({"a": 1}))["_id"] == documents[0]["_id"]


def test_id_of_a_raw_document_is_not_among_the_inserted(face: Face, collection: Any, oracle: Any) -> None:
    from bson.raw_bson import RawBSONDocument as TheirRaw

    encoded = encode({"_id": 7})

    ours = face.wait(collection.insert_many([{"_id": 1}, RawBSONDocument(encoded), {"_id": 2}]))
    theirs = oracle.insert_many([{"_id": 1}, TheirRaw(encoded), {"_id": 2}])

    assert ours.inserted_ids == theirs.inserted_ids == [1, 2]


@pytest.mark.parametrize("make", [tuple, iter, lambda items: (item for item in items), dict.values])
def test_any_iterable_is_taken(make: Callable[[Any], Any], face: Face, collection: Any) -> None:
    items: Any = [{"_id": number} for number in range(5)]
    if make is dict.values:
        items = dict(enumerate(items))

    result = face.wait(collection.insert_many(make(items)))

    assert result.inserted_ids == [0, 1, 2, 3, 4]


BROKEN: dict[str, tuple[list[Any], bool]] = {
    "ordered duplicate": ([{"_id": 1}, {"_id": 2}, {"_id": 1}, {"_id": 3}], True),
    "unordered duplicates": (
        [{"_id": 1}, {"_id": 1, "x": 1}, {"_id": 2}, {"_id": 1, "x": 2}, {"_id": 3}],
        False,
    ),
    "array as an id": ([{"_id": 1}, {"_id": [1]}, {"_id": 2}], True),
    "document over the limit": ([{"_id": 1}, {"_id": 2, "x": "y" * 16_777_216}, {"_id": 3}], False),
}


@pytest.mark.parametrize("name", BROKEN)
def test_errors_and_counts_are_those_of_pymongo(name: str, face: Face, collection: Any, oracle: Any) -> None:
    documents, ordered = BROKEN[name]

    ours = outcome(lambda: face.wait(collection.insert_many(documents, ordered)))
    theirs = outcome(lambda: oracle.insert_many(documents, ordered))

    assert ours[0] == "BulkWriteError"
    assert ours == theirs
    assert face.collect(collection.find({}, {"_id": 1})) == list(oracle.find({}, {"_id": 1}))


WRONG: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda c: c.insert_many([]),
    "None": lambda c: c.insert_many(None),
    "one document": lambda c: c.insert_many({"_id": 1}),
    "int": lambda c: c.insert_many(5),
    "a list in the list": lambda c: c.insert_many([{"_id": 1}, []]),
    "an int from a generator": lambda c: c.insert_many(item for item in [{"_id": 1}, 5]),
    "str": lambda c: c.insert_many("abc"),
    "an empty generator": lambda c: c.insert_many(iter(())),
    "a value that is no BSON": lambda c: c.insert_many([{"_id": 1}, {"a": object()}]),
    "an integer over 64 bits": lambda c: c.insert_many([{"_id": 1 << 64}]),
    "a key that is no string": lambda c: c.insert_many([{1: 2}]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument_raises_what_pymongo_raises_and_stores_nothing(
    name: str, face: Face, collection: Any, oracle: Any
) -> None:
    call = WRONG[name]

    with pytest.raises(Exception) as theirs:
        call(oracle)
    with pytest.raises(Exception) as ours:
        face.wait(call(collection))

    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert face.wait(collection.find_one()) is None


def test_error_of_the_generator_itself_comes_through(face: Face, collection: Any) -> None:
    def documents() -> Iterator[dict[str, Any]]:
        yield {"_id": 1}
        raise KeyError("the source broke")

    with pytest.raises(KeyError, match="the source broke"):
        face.wait(collection.insert_many(documents()))


def answers(request: Request) -> Reply:
    return Reply({"ok": 1, "n": len(request.documents)})


def test_documents_are_split_by_the_server_s_count(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 3
    scripted_server.on("insert", answers)
    client = face.client(scripted_server.uri)

    result = face.wait(client.a.b.insert_many([{"_id": number} for number in range(8)]))

    sizes = [len(request.documents) for request in scripted_server.received("insert")]
    assert sizes == [3, 3, 2]
    assert result.inserted_ids == list(range(8))


def test_documents_are_split_by_the_server_s_message_size(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["maxMessageSizeBytes"] = 100_000
    scripted_server.on("insert", answers)
    client = face.client(scripted_server.uri)

    face.wait(client.a.b.insert_many([{"_id": number, "x": "y" * 30_000} for number in range(7)]))

    requests = scripted_server.received("insert")
    assert [doc["_id"] for request in requests for doc in request.documents] == list(range(7))
    assert [len(request.documents) for request in requests] == [2, 2, 2, 1]


def test_a_long_comment_leaves_less_room_for_documents(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.hello["maxMessageSizeBytes"] = 100_000
    scripted_server.on("insert", answers)
    client = face.client(scripted_server.uri)
    documents = [{"_id": number, "x": "y" * 30_000} for number in range(3)]

    face.wait(client.a.b.insert_many(documents, comment="c" * 40_000))

    assert [len(request.documents) for request in scripted_server.received("insert")] == [1, 1, 1]


def test_indexes_count_over_all_batches(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 2
    broken = {"index": 1, "code": 11000, "errmsg": "E11000"}
    scripted_server.once("insert", {"ok": 1, "n": 1, "writeErrors": [dict(broken)]}, {"ok": 1, "n": 2})
    scripted_server.once("insert", {"ok": 1, "n": 0, "writeErrors": [{**broken, "index": 0}]})
    client = face.client(scripted_server.uri)
    documents = [{"_id": number} for number in range(5)]

    with pytest.raises(errors.BulkWriteError) as caught:
        face.wait(client.a.b.insert_many(documents, ordered=False))

    details = caught.value.details
    assert details["nInserted"] == 3
    assert [(error["index"], error["op"]) for error in details["writeErrors"]] == [
        (1, {"_id": 1}),
        (4, {"_id": 4}),
    ]


def test_ordered_insert_stops_at_the_batch_with_an_error(face: Face, scripted_server: ScriptedServer) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 2
    error = {"index": 0, "code": 11000, "errmsg": "E11000"}
    scripted_server.once("insert", {"ok": 1, "n": 2}, {"ok": 1, "n": 0, "writeErrors": [error]})
    client = face.client(scripted_server.uri)

    with pytest.raises(errors.BulkWriteError) as caught:
        face.wait(client.a.b.insert_many([{"_id": number} for number in range(6)]))

    assert caught.value.details["writeErrors"][0]["index"] == 2
    assert len(scripted_server.received("insert")) == 2


def test_write_concern_errors_of_all_batches_are_collected(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 1
    failed = {"code": 64, "errmsg": "waiting timed out"}
    scripted_server.on("insert", {"ok": 1, "n": 1, "writeConcernError": failed})
    client = face.client(scripted_server.uri)

    with pytest.raises(errors.BulkWriteError) as caught:
        face.wait(client.a.b.insert_many([{"_id": 1}, {"_id": 2}]))

    assert caught.value.details["writeConcernErrors"] == [failed, failed]
    assert caught.value.details["nInserted"] == 2


def test_each_batch_is_retried_with_its_own_transaction_number(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello.update(maxWriteBatchSize=2, setName="rs0", hosts=[scripted_server.address])
    scripted_server.once("insert", {"ok": 1, "n": 2}, Close(), {"ok": 1, "n": 1})
    client = face.client(scripted_server.uri)

    face.wait(client.a.b.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3}]))

    numbers = [request.command["txnNumber"] for request in scripted_server.received("insert")]
    assert numbers[1] == numbers[2] == numbers[0] + 1


def test_unordered_unacknowledged_insert_waits_for_nothing(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 2
    scripted_server.on("insert", {"ok": 1})
    client = face.client(scripted_server.uri, w=0)

    result = face.wait(client.a.b.insert_many([{"_id": number} for number in range(5)], ordered=False))

    assert not result.acknowledged
    assert result.inserted_ids == list(range(5))
    requests = scripted_server.wait_for("insert", 3)
    assert all(request.is_unacknowledged for request in requests)
    assert all(request.command["writeConcern"] == {"w": 0} for request in requests)
    assert all("lsid" not in request.command for request in requests)


def test_ordered_unacknowledged_insert_waits_for_all_but_the_last_command(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["maxWriteBatchSize"] = 2
    scripted_server.on("insert", answers)
    client = face.client(scripted_server.uri, w=0)

    face.wait(client.a.b.insert_many([{"_id": number} for number in range(5)]))

    requests = scripted_server.wait_for("insert", 3)
    assert [request.is_unacknowledged for request in requests] == [False, False, True]
    assert [len(request.documents) for request in requests] == [2, 2, 1]


def test_ordered_unacknowledged_insert_split_by_size_still_stops_at_an_error(
    face: Face, scripted_server: ScriptedServer
) -> None:
    scripted_server.hello["maxMessageSizeBytes"] = 100_000
    error = {"index": 0, "code": 11000, "errmsg": "E11000"}
    scripted_server.on("insert", {"ok": 1, "n": 0, "writeErrors": [error]})
    client = face.client(scripted_server.uri, w=0)

    face.wait(client.a.b.insert_many([{"_id": number, "x": "y" * 30_000} for number in range(6)]))

    (only,) = scripted_server.received("insert")
    assert [document["_id"] for document in only.documents] == [0, 1]


def test_unacknowledged_insert_over_the_limit_is_refused_here(
    face: Face, collection: Any, oracle: Any
) -> None:
    documents = [{"_id": 1, "x": "y" * 16_777_216}]
    unsure = collection.with_options(write_concern=WriteConcern(w=0))
    their_unsure = oracle.with_options(write_concern=pymongo.write_concern.WriteConcern(w=0))

    with pytest.raises(Exception) as theirs:
        their_unsure.insert_many(documents)
    with pytest.raises(errors.DocumentTooLarge):
        face.wait(unsure.insert_many(documents))

    assert type(theirs.value).__name__ == "DocumentTooLarge"


def test_fifty_thousand_documents_arrive(face: Face, collection: Any) -> None:
    documents = [{"_id": number, "name": f"user {number}"} for number in range(50_000)]

    result = face.wait(collection.insert_many(documents))

    assert len(result.inserted_ids) == 50_000
    last = face.wait(collection.find_one({"_id": 49_999}))
    assert last == {"_id": 49_999, "name": "user 49999"}


@pytest.mark.enough(1)
def test_more_documents_than_one_command_takes_arrive_from_a_generator(face: Face, collection: Any) -> None:
    count = 100_003

    result = face.wait(collection.insert_many({"_id": number} for number in range(count)))

    assert result.inserted_ids == list(range(count))
    assert face.wait(collection.find_one(sort=[("_id", -1)])) == {"_id": count - 1}


def test_inserts_of_several_tasks_do_not_mix(database_name: str, server: Server) -> None:
    import asyncio

    async def scenario() -> list[Any]:
        async with AsyncMongoClient(server.uri) as client:
            things = client[database_name].things
            results = await asyncio.gather(
                *(things.insert_many([{"task": task} for _ in range(2000)]) for task in range(8))
            )
            counts = [await things.count_documents({"task": task}) for task in range(8)]
            assert len({id for result in results for id in result.inserted_ids}) == 16_000
            return counts

    assert asyncio.run(scenario()) == [2000] * 8


def test_cancelled_insert_closes_its_connection(scripted_server: ScriptedServer) -> None:
    import asyncio

    scripted_server.on("insert", Hang())

    async def scenario() -> None:
        async with AsyncMongoClient(scripted_server.uri) as client:
            task = asyncio.create_task(client.a.b.insert_many([{"_id": 1}]))
            await asyncio.to_thread(scripted_server.wait_for, "insert")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(scripted_server.wait_for_open, 0)

    asyncio.run(scenario())
