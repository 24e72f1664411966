"""Motor's names and habits, on this driver."""

from __future__ import annotations

import pytest

INSTALL = "import mangonel.compat; mangonel.compat.install_as_motor()\n"


def test_motors_habits_hold_on_asyncio(program, place):
    program(
        INSTALL
        + """
import asyncio, os
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorCommandCursor, AsyncIOMotorGridFSBucket
from motor.core import AgnosticCollection

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"], io_loop=asyncio.get_running_loop())
    assert client.get_io_loop() is asyncio.get_running_loop()
    db = client[os.environ["TEST_DATABASE"]]
    things = db.things
    assert isinstance(things, AgnosticCollection)
    await things.insert_many([{"_id": n} for n in range(250)])

    cursor = things.find().sort("_id").batch_size(100)
    seen = []
    while await cursor.fetch_next:
        seen.append(cursor.next_object()["_id"])
    assert seen == list(range(250)) and cursor.next_object() is None

    assert await things.find().to_list(length=0) == []
    assert len(await things.find().to_list(length=10)) == 10
    assert len(await things.find().to_list(None)) == 250

    # Not awaited; its batches go on after the first.
    totals = things.aggregate([{"$sort": {"_id": 1}}], batchSize=100)
    assert isinstance(totals, AsyncIOMotorCommandCursor) and totals.alive and totals.collection == things
    assert [total["_id"] async for total in totals] == list(range(250))
    assert await things.aggregate([{"$count": "n"}]).to_list(None) == [{"n": 250}]
    assert [index["name"] async for index in things.list_indexes()] == ["_id_"]
    half = things.aggregate([], batchSize=10)
    assert await half.fetch_next and half.next_object() is not None
    await half.close()
    # What has arrived can be read on, as in PyMongo.
    assert half.alive and len(await half.to_list(None)) == 9 and not half.alive
    try:
        await things.aggregate([{"$nothing": 1}]).to_list(None)
    except Exception as error:
        assert type(error).__name__ == "OperationFailure"
    else:
        raise AssertionError

    async with await client.start_session() as session:
        async with session.start_transaction():
            await things.insert_one({"_id": "t"}, session=session)
    async with things.watch(max_await_time_ms=50) as stream:
        assert await stream.try_next() is None
        await things.delete_one({"_id": "t"})
        assert (await stream.next())["operationType"] == "delete"
    # The stream is open from here on, not from the first wait.
    async with things.watch() as stream:
        await things.insert_one({"_id": "u"})
        await things.delete_one({"_id": "u"})
        assert (await asyncio.wait_for(stream.next(), 30))["operationType"] == "insert"

    called = asyncio.get_running_loop().create_future()
    got = []
    def each(document, error):
        if document is None:
            called.set_result(error)
        else:
            got.append(document)
    things.find().each(each)
    assert await called is None and len(got) == 250

    bucket = AsyncIOMotorGridFSBucket(db)
    source = bucket.open_upload_stream("greeting")
    await source.write(b"hello")
    await source.close()
    stored = await bucket.open_download_stream(source._id)
    assert await stored.read() == b"hello"
    files = bucket.find()
    assert await files.fetch_next and files.next_object().filename == "greeting"
    client.close()

asyncio.run(main())
"""
    )


def test_motors_names_serve_a_tornado_coroutine(program, place):
    program(
        INSTALL
        + """
import os
from tornado import gen
from tornado.ioloop import IOLoop
import motor

@gen.coroutine
def main():
    client = motor.MotorClient(os.environ["TEST_URI"])
    assert client.get_io_loop() is IOLoop.current()
    things = client[os.environ["TEST_DATABASE"]].things
    yield things.insert_one({"_id": 1})
    cursor = things.find()
    while (yield cursor.fetch_next):
        assert cursor.next_object() == {"_id": 1}
    client.close()

IOLoop.current().run_sync(main)
"""
    )


def test_lists_and_callbacks_come_on_tornados_loop(program, place):
    program(
        INSTALL
        + """
import os
from tornado import gen
from tornado.ioloop import IOLoop
import motor

@gen.coroutine
def main():
    client = motor.MotorClient(os.environ["TEST_URI"], io_loop=IOLoop.current())
    things = client[os.environ["TEST_DATABASE"]].things
    yield things.insert_many([{"_id": n} for n in range(3)])
    assert len((yield things.find().to_list(None))) == 3
    assert (yield things.aggregate([{"$count": "n"}]).to_list(10)) == [{"n": 3}]
    got, called = [], gen.Future()
    def each(document, error):
        called.set_result(error) if document is None else got.append(document)
    things.find().each(each)
    assert (yield called) is None and len(got) == 3
    client.close()

IOLoop.current().run_sync(main)
"""
    )


def test_batch_size_of_an_aggregation_counts_from_its_first_batch(program, place):
    program(
        INSTALL
        + """
import asyncio, os
from bson import decode_all
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.monitoring import CommandListener

class Sizes(CommandListener):
    sizes = []
    def started(self, event):
        if event.command_name == "aggregate":
            self.sizes.append(event.command["cursor"].get("batchSize"))
    def succeeded(self, event): pass
    def failed(self, event): pass

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"], event_listeners=[Sizes()])
    db = client[os.environ["TEST_DATABASE"]]
    await db.things.insert_many([{"_id": n} for n in range(4)])
    assert len(await db.things.aggregate([]).batch_size(3).to_list(None)) == 4
    assert len(await db.things.aggregate([], batchSize=2).to_list(None)) == 4
    raw = db.things.aggregate_raw_batches([]).batch_size(3)
    assert [len(decode_all(batch)) for batch in await raw.to_list(None)] == [3, 1]
    assert len(await db.aggregate([{"$documents": [{}] * 2}]).batch_size(1).to_list(None)) == 2
    # As in PyMongo, the first batch of raw ones is always empty.
    assert Sizes.sizes == [3, 2, 0, 1], Sizes.sizes
    client.close()

asyncio.run(main())
"""
    )


def test_motors_habits_hold_for_stored_files(program, place):
    program(
        INSTALL
        + """
import asyncio, os
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket, AsyncIOMotorGridOut

class Handler:
    written = b""
    def write(self, piece):
        self.written += piece
    def flush(self):
        return None

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    db = client[os.environ["TEST_DATABASE"]]
    bucket = AsyncIOMotorGridFSBucket(db, collection="texts")
    assert bucket.collection.name == "texts"
    file_id = await bucket.upload_from_stream("lines", b"a\\nb\\nc", chunk_size_bytes=2)
    # Chunks, not lines.
    stored = await AsyncIOMotorGridOut(bucket.collection, file_id).open()
    assert stored.length == 5 and [chunk async for chunk in stored] == [b"a\\n", b"b\\n", b"c"]
    handler = Handler()
    await (await bucket.open_download_stream(file_id)).stream_to_handler(handler)
    assert handler.written == b"a\\nb\\nc"
    client.close()

asyncio.run(main())
"""
    )


def test_values_are_encrypted_by_motors_class(program, place):
    pytest.importorskip("pymongocrypt")
    program(
        INSTALL
        + """
import asyncio, os
from bson.codec_options import CodecOptions
from motor import MotorClientEncryption
from motor.core import AgnosticClientEncryption
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorClientEncryption, AsyncIOMotorCursor

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    vault = os.environ["TEST_DATABASE"] + ".keys"
    keys = {"local": {"key": bytes(96)}}
    loop = asyncio.get_running_loop()
    async with AsyncIOMotorClientEncryption(keys, vault, client, CodecOptions(), loop) as encryption:
        assert isinstance(encryption, AgnosticClientEncryption) and encryption.get_io_loop() is loop
        key_id = await encryption.create_data_key("local", key_alt_names=["a"])
        way = "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic"
        value = await encryption.encrypt("secret", way, key_alt_name="a")
        assert await encryption.decrypt(value) == "secret"
        found = await encryption.get_keys()
        assert isinstance(found, AsyncIOMotorCursor)
        assert [key["_id"] for key in await found.to_list(None)] == [key_id]
    assert issubclass(MotorClientEncryption, AgnosticClientEncryption)
    client.close()

asyncio.run(main())
"""
    )


def test_a_client_may_be_closed_when_its_loop_is_gone(program, place):
    program(
        INSTALL
        + """
import asyncio, os
from motor.motor_asyncio import AsyncIOMotorClient

loop = asyncio.new_event_loop()
client = AsyncIOMotorClient(os.environ["TEST_URI"], io_loop=loop)
loop.run_until_complete(client.admin.command("ping"))
loop.close()
client.close()
"""
    )


def test_motors_names_run_on_uvloop(program, place):
    program(
        "import pytest; uvloop = pytest.importorskip('uvloop')\n"
        + INSTALL
        + """
import asyncio, os
from motor.motor_asyncio import AsyncIOMotorClient

async def main():
    assert "uvloop" in type(asyncio.get_running_loop()).__module__
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    things = client[os.environ["TEST_DATABASE"]].things
    await things.insert_many([{"_id": n} for n in range(250)])
    assert len(await things.find().batch_size(100).to_list(None)) == 250
    cursor = things.find().sort("_id")
    assert await cursor.fetch_next and cursor.next_object() == {"_id": 0}
    assert [each["n"] async for each in things.aggregate([{"$count": "n"}])] == [250]
    client.close()

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""
    )


def test_what_is_plain_in_motor_takes_effect_without_an_await(program, place):
    program(
        "import warnings; warnings.simplefilter('error')\n"
        + INSTALL
        + """
import asyncio, os
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket
from pymongo.errors import InvalidOperation

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    db = client[os.environ["TEST_DATABASE"]]
    await db.things.insert_many([{"_id": n} for n in range(5)])
    cursor = db.things.find(batch_size=2)
    assert await cursor.fetch_next and cursor.next_object() == {"_id": 0}
    assert cursor.rewind() is cursor
    assert [each["_id"] async for each in cursor] == [*range(5)]
    tailable = db.things.find()
    assert tailable.add_option(2) is tailable
    try:
        await tailable.to_list(None)
    except Exception as error:
        assert "tailable" in str(error)
    else:
        raise AssertionError

    bucket = AsyncIOMotorGridFSBucket(db, chunk_size_bytes=4)
    id = await bucket.upload_from_stream("letters", b"abcdefghijklmnop")
    source = await bucket.open_download_stream(id)
    assert await source.read(2) == b"ab"
    assert source.seek(9) == 9 and await source.read(2) == b"jk"
    assert source.seek(-11, os.SEEK_CUR) == 0 and await source.read(1) == b"a"
    assert source.seek(-1, os.SEEK_END) == 15 and await source.read() == b"p"
    assert source.seek(1) == 1 and await source.read(6) == b"bcdefg"
    assert source.close() is None and source.closed
    client.close()
    # A task closes it.
    try:
        while True:
            await db.things.find_one()
    except InvalidOperation:
        pass

asyncio.run(main())
"""
    )


def test_a_property_of_motor_has_a_value_and_nothing_to_await(program, place):
    program(
        INSTALL
        + """
import asyncio, inspect, os
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    # The tests' server is a replica set of one.
    address = client.address
    assert client.primary == address, (client.primary, address)
    assert client.is_primary is True and client.is_mongos is False
    assert client.secondaries == set() and client.arbiters == set()

    db = client[os.environ["TEST_DATABASE"]]
    await db.things.insert_many([{} for n in range(5)])
    assert client.nodes == {address}
    bucket = AsyncIOMotorGridFSBucket(db)
    writer = bucket.open_upload_stream("letters")
    await writer.write(b"abc")
    await writer.close()
    reader = await bucket.open_download_stream_by_name("letters")
    found = db.things.find(batch_size=2)
    results = db.things.aggregate([], batchSize=2)
    files = bucket.find()
    for cursor in (found, results, files):
        assert await cursor.fetch_next
    async with await client.start_session() as session, db.things.watch() as stream:
        opened = [client, session, db, db.things, bucket, writer, reader, found, results, files, stream]
        for each in opened:
            for name in dir(type(each)):
                if name.startswith("_") or name == "fetch_next":
                    continue
                if isinstance(inspect.getattr_static(each, name), property):
                    value = getattr(each, name)
                    assert not inspect.isawaitable(value), (type(each), name)
        assert reader.length == 3
    for cursor in (found, results, files):
        await cursor.close()
    await client.close()

asyncio.run(main())
"""
    )


def test_subclasses_that_are_made_of_a_delegate_are_what_it_names(program, place):
    program(
        INSTALL
        + """
import asyncio, os
from motor.core import AgnosticBase, AgnosticBaseProperties
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorCollection, AsyncIOMotorDatabase
from pymongo import WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database

class Client(AsyncIOMotorClient):
    def __getitem__(self, name):
        return Shop(self, name)

class Shop(AsyncIOMotorDatabase):
    def __init__(self, client, name, **options):
        self._client = client
        super(AgnosticBaseProperties, self).__init__(Database(client.delegate, name, **options))

    def __getitem__(self, name):
        return Things(self, name)

class Things(AsyncIOMotorCollection):
    def __init__(self, database, name, write_concern=None, delegate=None):
        if delegate is None:
            delegate = Collection(database.delegate, name, write_concern=write_concern)
        super(AgnosticBaseProperties, self).__init__(delegate)
        self.database = database

    def __getitem__(self, name):
        return Things(self.database, f"{self.name}.{name}", delegate=self.delegate[name])

    async def first(self):
        return await self.find_one(sort=[("_id", 1)])

async def main():
    client = Client(os.environ["TEST_URI"], maxPoolSize=3)
    assert client.delegate is client.delegate and client.delegate.options.pool_options.max_pool_size == 3
    shop = client[os.environ["TEST_DATABASE"]]
    assert type(shop) is Shop and isinstance(shop, AgnosticBase) and shop.client is client
    things = Things(shop, "things", write_concern=WriteConcern(w="majority"))
    assert things.database is shop and things.write_concern.document == {"w": "majority"}
    assert type(things.parts) is Things and things.parts.full_name == f"{shop.name}.things.parts"
    await things.insert_one({"_id": 1})
    assert await things.first() == {"_id": 1}
    assert things.delegate.find_one() == {"_id": 1}
    try:
        super(AgnosticBaseProperties, things).__init__(things.delegate.database.client.other.things)
        from pymongo import MongoClient
        super(AgnosticBaseProperties, things).__init__(MongoClient(connect=False).other.things)
    except TypeError as error:
        assert "`delegate` of a client of Motor" in str(error), error
    else:
        raise AssertionError
    await client.close()
    try:
        things.delegate.find_one()
    except Exception as error:
        assert "close" in str(error), error
    else:
        raise AssertionError

asyncio.run(main())
"""
    )
