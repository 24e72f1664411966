"""Methods on asyncio are coroutine functions wherever PyMongo Async's are, and return coroutines.

Frameworks ask the first before they call (background tasks, mocks, retrying decorators) and `create_task` the second.
"""

from __future__ import annotations

import asyncio
import collections.abc
import functools
import inspect
import unittest.mock

import gridfs.asynchronous
import pymongo
import pytest
from pymongo.asynchronous import change_stream, client_session, collection, command_cursor, cursor, database

import mangonel
import mangonel.api
import mangonel.gridfs

CLASSES = [
    pymongo.AsyncMongoClient,
    database.AsyncDatabase,
    collection.AsyncCollection,
    cursor.AsyncCursor,
    cursor.AsyncRawBatchCursor,
    command_cursor.AsyncCommandCursor,
    command_cursor.AsyncRawBatchCommandCursor,
    change_stream.AsyncChangeStream,
    change_stream.AsyncCollectionChangeStream,
    change_stream.AsyncDatabaseChangeStream,
    change_stream.AsyncClusterChangeStream,
    client_session.AsyncClientSession,
    gridfs.asynchronous.AsyncGridFS,
    gridfs.asynchronous.AsyncGridFSBucket,
    gridfs.asynchronous.AsyncGridIn,
    gridfs.asynchronous.AsyncGridOut,
    gridfs.asynchronous.AsyncGridOutCursor,
]


def _delete(client: object) -> object:
    driver = mangonel if isinstance(client, mangonel.AsyncMongoClient) else pymongo
    return driver.DeleteOne({"a": 2})


# Calls that may be repeated many times, one after another and side by side.
CALLS = {
    "find_one": lambda client, name: client[name].c.find_one({}),
    "insert_one": lambda client, name: client[name].c.insert_one({}),
    "insert_many": lambda client, name: client[name].c.insert_many([{}, {}]),
    "update_one": lambda client, name: client[name].c.update_one({}, {"$set": {"a": 1}}),
    "delete_many": lambda client, name: client[name].c.delete_many({"a": 2}),
    "find_one_and_update": lambda client, name: client[name].c.find_one_and_update({}, {"$set": {"a": 1}}),
    "bulk_write": lambda client, name: client[name].c.bulk_write([_delete(client)]),
    "count_documents": lambda client, name: client[name].c.count_documents({}),
    "estimated_document_count": lambda client, name: client[name].c.estimated_document_count(),
    "distinct": lambda client, name: client[name].c.distinct("a"),
    "aggregate": lambda client, name: client[name].c.aggregate([]),
    "aggregate_raw_batches": lambda client, name: client[name].c.aggregate_raw_batches([]),
    "list_indexes": lambda client, name: client[name].c.list_indexes(),
    "create_index": lambda client, name: client[name].c.create_index("a"),
    "drop": lambda client, name: client[name].other.drop(),
    "to_list": lambda client, name: client[name].c.find().to_list(),
    "distinct of a cursor": lambda client, name: client[name].c.find().distinct("a"),
    "rewind": lambda client, name: client[name].c.find().rewind(),
    "close of a cursor": lambda client, name: client[name].c.find().close(),
    "explain": lambda client, name: client[name].c.find().explain(),
    "command": lambda client, name: client[name].command("ping"),
    "list_collection_names": lambda client, name: client[name].list_collection_names(),
    "list_collections": lambda client, name: client[name].list_collections(),
    "server_info": lambda client, name: client.server_info(),
    "list_databases": lambda client, name: client.list_databases(),
    "end_session": lambda client, name: client.start_session().end_session(),
    "start_transaction": lambda client, name: client.start_session().start_transaction(),
    "aconnect": lambda client, name: client.aconnect(),
}


def ours_of(theirs: type) -> type:
    package = mangonel.gridfs if theirs.__name__.startswith("AsyncGrid") else mangonel.api
    return getattr(package, theirs.__name__)


def is_coroutine_function(owner: type, name: str) -> tuple[bool, bool]:
    method = inspect.getattr_static(owner, name)
    method = getattr(method, "__func__", method)
    return inspect.iscoroutinefunction(method), asyncio.iscoroutinefunction(method)


@pytest.mark.parametrize("theirs", CLASSES, ids=lambda theirs: theirs.__name__)
def test_what_is_a_coroutine_function_in_pymongo_is_one_here_and_nothing_else(theirs):
    # A native `__anext__` saves a coroutine for each document; no framework inspects it.
    names = [name for name in dir(theirs) if not name.startswith("_") or name in ("__aenter__", "__aexit__")]
    ours = ours_of(theirs)
    common = [name for name in names if hasattr(ours, name)]
    assert {name: is_coroutine_function(ours, name) for name in common} == {
        name: is_coroutine_function(theirs, name) for name in common
    }


def test_bound_methods_and_partials_are_coroutine_functions():
    client = mangonel.AsyncMongoClient("localhost:1")
    method = client.shop.orders.insert_one
    assert inspect.iscoroutinefunction(method)
    assert inspect.iscoroutinefunction(functools.partial(method, {"a": 1}))


def test_methods_of_the_blocking_face_are_no_coroutine_functions():
    for owner in (
        mangonel.api.Collection,
        mangonel.api.Database,
        mangonel.api.MongoClient,
        mangonel.api.Cursor,
    ):
        names = [name for name in dir(owner) if not name.startswith("__")]
        assert not any(inspect.iscoroutinefunction(getattr(owner, name)) for name in names if name[0] != "_")


def test_a_marked_method_keeps_its_signature_and_its_documentation():
    shared = mangonel.api.Collection.find_one_and_update
    marked = mangonel.api.AsyncCollection.find_one_and_update
    assert inspect.signature(marked) == inspect.signature(shared)
    assert (marked.__doc__, marked.__name__) == (shared.__doc__, shared.__name__)


def test_an_autospec_of_a_collection_has_methods_to_await():
    mock = unittest.mock.create_autospec(mangonel.api.AsyncCollection, instance=True)
    mock.find_one.return_value = {"_id": 1}
    assert asyncio.run(mock.find_one({})) == {"_id": 1}
    assert not inspect.isawaitable(mock.find({}))


def test_a_background_task_of_starlette_waits_for_a_method(server, database_name):
    background = pytest.importorskip("starlette.background")

    async def run():
        async with mangonel.AsyncMongoClient(server.uri) as client:
            orders = client[database_name].orders
            await background.BackgroundTask(orders.insert_one, {"_id": 1})()
            return await orders.find_one({})

    assert asyncio.run(run()) == {"_id": 1}


@pytest.mark.parametrize("driver", [pymongo, mangonel], ids=lambda driver: driver.__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_whatever_takes_a_coroutine_takes_what_a_method_returns(driver, call, server, database_name):
    async def run():
        async with driver.AsyncMongoClient(server.uri) as client:
            await client[database_name].c.insert_one({})
            ask = functools.partial(call, client, database_name)
            coroutine = ask()
            assert inspect.isawaitable(coroutine)
            assert asyncio.iscoroutine(coroutine)
            assert isinstance(coroutine, collections.abc.Coroutine)
            await coroutine
            await asyncio.create_task(ask(), name="named")
            await asyncio.wait_for(ask(), 60)
            await asyncio.gather(ask(), ask())
            await asyncio.shield(ask())
            async with asyncio.TaskGroup() as group:
                group.create_task(ask())
            loop = asyncio.get_running_loop()
            started = []
            waiting = loop.run_in_executor(
                None, lambda: started.append(asyncio.run_coroutine_threadsafe(ask(), loop))
            )
            await waiting
            await asyncio.wrap_future(started[0])

    asyncio.run(run())


@pytest.mark.parametrize("driver", [pymongo, mangonel], ids=lambda driver: driver.__name__)
def test_a_task_takes_the_next_document_of_a_cursor(driver, server, database_name):
    async def run():
        async with driver.AsyncMongoClient(server.uri) as client:
            await client[database_name].c.insert_many([{"_id": n} for n in range(5)])
            cursor = client[database_name].c.find({}, sort=["_id"])
            found = [
                await asyncio.create_task(cursor.__anext__()),
                await asyncio.create_task(anext(cursor)),
                await asyncio.wait_for(anext(cursor), 60),
                await asyncio.create_task(cursor.next()),
                *await asyncio.gather(cursor.__anext__()),
            ]
            with pytest.raises(StopAsyncIteration):
                await asyncio.create_task(cursor.next())
            return found

    assert [document["_id"] for document in asyncio.run(run())] == [0, 1, 2, 3, 4]


def test_a_document_that_is_never_awaited_can_be_closed_or_thrown_into(server, database_name):
    async def run():
        async with mangonel.AsyncMongoClient(server.uri) as client:
            await client[database_name].c.insert_many([{"_id": n} for n in range(9)])
            cursor = client[database_name].c.find({}, sort=["_id"])
            await cursor.next()
            unwanted = cursor.__anext__()
            unwanted.close()
            unwanted.close()
            with pytest.raises(RuntimeError, match="twice"):
                await unwanted
            with pytest.raises(KeyError, match="mine"):
                cursor.__anext__().throw(KeyError("mine"))
            with pytest.raises(KeyError):
                cursor.__anext__().throw(KeyError)
            for nothing in ((), (1,)):
                with pytest.raises(TypeError):
                    cursor.__anext__().throw(*nothing)

    asyncio.run(run())
