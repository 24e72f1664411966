"""mongojet's verbs: the official Rust driver on a thread of its own, PyMongo's bson for documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from mangonel.lab.contender import Batching, Target
from mangonel.lab.contenders._pymongo_like import AsyncAdapter, uri_with


class MongojetAdapter(AsyncAdapter):
    """The verbs where mongojet's names differ: its cursors come from a coroutine."""

    def __init__(self, target: Target) -> None:
        super().__init__(str, target)

    async def open(self) -> None:
        from mongojet import create_client

        # Dates without a zone, as the other drivers give them.
        self._use(await create_client(uri_with(self._target), tz_aware=False), self._target)

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

    async def _cursor(self, batching: Batching) -> Any:
        return await self._collection.find({}, **({"batch_size": batching.size} if batching.size else {}))
