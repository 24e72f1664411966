"""The asyncio face: a coroutine wherever something may wait, so a forgotten await is an error."""

import asyncio

from mangonel import AsyncMongoClient, MongoClient
from mangonel.asynchronous.collection import AsyncCollection
from mangonel.bson.raw_bson import RawBSONDocument


async def main() -> None:
    client = AsyncMongoClient("mongodb://localhost")
    reveal_type(client)  # R: AsyncMongoClient[dict[str, Any]]
    reveal_type(client.shop)  # R: AsyncDatabase[dict[str, Any]]
    orders: AsyncCollection = client.shop.orders

    reveal_type(await orders.find_one({}))  # R: dict[str, Any] | None
    reveal_type(await asyncio.wait_for(orders.find_one(), 1))  # R: dict[str, Any] | None
    task = asyncio.create_task(orders.find_one())
    reveal_type(await task)  # R: dict[str, Any] | None
    reveal_type(orders.find({}, {"total": 1}))  # R: AsyncCursor[dict[str, Any]]
    async for order in orders.find().sort("total").limit(3):
        reveal_type(order)  # R: dict[str, Any]
    async with orders.find() as cursor:
        reveal_type(await cursor.next())  # R: dict[str, Any]
        reveal_type(await cursor.to_list(5))  # R: list[dict[str, Any]]
    reveal_type(await orders.find_raw_batches({}).next())  # R: bytes

    reveal_type((await orders.insert_one({"total": 1})).inserted_id)  # R: Any
    reveal_type((await orders.update_many({}, {"$inc": {"total": 1}})).matched_count)  # R: int
    reveal_type(await orders.aggregate([]))  # R: AsyncCommandCursor[dict[str, Any]]
    async for group in await orders.aggregate([]):
        reveal_type(group)  # R: dict[str, Any]
    reveal_type(await orders.count_documents({}))  # R: int
    reveal_type(await client.shop.command("ping"))  # R: dict[str, Any]

    raw: AsyncMongoClient[RawBSONDocument] = AsyncMongoClient(document_class=RawBSONDocument)
    reveal_type(await raw.shop.orders.find_one())  # R: RawBSONDocument | None
    async with AsyncMongoClient() as other:
        reveal_type(other)  # R: AsyncMongoClient[dict[str, Any]]

    # A forgotten await.
    orders.find_one({})  # E: Value of type "Coroutine[Any, Any, dict[str, Any] | None]" must be used
    orders.insert_one({})  # E: Value of type "Coroutine[Any, Any, InsertOneResult]" must be used
    client.close()  # E: Value of type "Coroutine[Any, Any, None]" must be used
    orders.find_one({})["total"]  # E: Value of type "Coroutine[Any, Any, dict[str, Any] | None]" is not indexable
    orders.insert_one({}).inserted_id  # E: "Coroutine[Any, Any, InsertOneResult]" has no attribute "inserted_id"
    async for _ in orders.aggregate([]):  # E: has no attribute "__aiter__" (not async iterable)
        pass

    # A session of the other face.
    async with client.start_session() as session:
        await orders.find_one({}, session=session)
        await orders.insert_one({"total": 1}, session=session)
    blocking = MongoClient().start_session()
    await orders.insert_one({}, session=blocking)  # E: incompatible type "ClientSession"
    await client.shop.command("ping", session=blocking)  # E: matches argument types "str", "ClientSession"

    # The other face's ways.
    for _ in orders.find():  # E: "AsyncCursor[dict[str, Any]]" has no attribute "__iter__"
        pass
    orders.find()[0]  # E: Value of type "AsyncCursor[dict[str, Any]]" is not indexable
    with client:  # E: "AsyncMongoClient[dict[str, Any]]" has no attribute "__enter__"
        pass
    await MongoClient().shop.orders.find_one()  # E: Incompatible types in "await"
