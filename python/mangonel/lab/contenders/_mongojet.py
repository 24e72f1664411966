"""mongojet's verbs: the official Rust driver on a thread of its own, PyMongo's bson for documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from mangonel.lab.contender import Batching, Document, Target
from mangonel.lab.contenders._pymongo_like import uri_with


class MongojetAdapter:
    """The verbs of `contender.py` in mongojet's names: its cursors come from a coroutine."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: Any = None
        self._collection: Any = None

    async def open(self) -> None:
        from mongojet import create_client

        # Dates without a zone, as the other drivers give them.
        self._client = await create_client(uri_with(self._target), tz_aware=False)
        self._collection = self._client[self._target.database][self._target.collection]

    async def insert_one(self, document: Document) -> Any:
        return await self._collection.insert_one(document)

    async def insert_many(self, documents: list[Document]) -> Any:
        return await self._collection.insert_many(documents)

    async def find_one(self, key: int) -> Any:
        return await self._collection.find_one({"_id": key})

    async def find_list(self, limit: int) -> Any:
        return await self._collection.find_many({}, limit=limit)

    async def iterate(self, batching: Batching) -> int:
        count = 0
        async for _ in await self._cursor(batching):
            count += 1
        return count

    async def documents(self, batching: Batching) -> AsyncIterator[Mapping[str, Any]]:
        async for document in await self._cursor(batching):
            yield document

    async def to_list(self) -> list[Any]:
        documents: list[Any] = await self._collection.find_many({})
        return documents

    def decoded(self, result: Any) -> Any:
        return result

    async def close(self) -> None:
        await self._client.close()

    async def _cursor(self, batching: Batching) -> Any:
        options = {"batch_size": batching.size} if batching.size else {}
        return await self._collection.find({}, **options)
