"""Adapters for drivers with PyMongo's names (this one, PyMongo, Motor), which differ by client class; and mongojet.

`contender.py` describes most methods. In addition: `transact` inserts documents one by one in a transaction with its
own session; `mark` returns the current resume token, and `changes` the given number of changes after it; `command` runs
a command without arguments on `admin`, for checks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from mangonel.lab.contender import Batching, Document, Target
from mangonel.lab.contenders._faces import wait

EXHAUST_CURSOR = 64  # CursorType.EXHAUST


def with_option(uri: str, option: str) -> str:
    """Return a URI with one more option, given as "name=value"."""
    return f"{uri}{'&' if '?' in uri else '?' if uri.count('/') > 2 else '/?'}{option}"


def uri_with(target: Target) -> str:
    """Return the target's URI with its write concern, as a user would set it once for all writes."""
    return target.uri if "w=" in target.uri else with_option(target.uri, f"w={target.write_concern}")


class _Adapter:
    _client: Any
    _collection: Any

    def _use(self, client: Any, target: Target) -> None:
        self._client = client
        self._collection = client[target.database][target.collection]

    def documents(self, batching: Batching) -> Any:
        options: dict[str, Any] = {"batch_size": batching.size} if batching.size else {}
        if batching.exhaust:
            options["cursor_type"] = EXHAUST_CURSOR
        cursor = self._collection.find({}, **options)
        return cursor.prefetch() if batching.prefetch else cursor

    def decoded(self, result: Any) -> Any:
        # It consists of documents already.
        return result


class BlockingAdapter(_Adapter):
    def __init__(self, make_client: Callable[[str], Any], target: Target) -> None:
        self._use(make_client(uri_with(target)), target)

    def insert_one(self, document: Document) -> Any:
        return self._collection.insert_one(document)

    def insert_many(self, documents: list[Document]) -> Any:
        return self._collection.insert_many(documents)

    def find_one(self, key: int) -> Any:
        return self._collection.find_one({"_id": key})

    def find_list(self, limit: int) -> Any:
        return self._collection.find({}, limit=limit).to_list()

    def iterate(self, batching: Batching) -> int:
        count = 0
        for _ in self.documents(batching):
            count += 1
        return count

    def to_list(self) -> list[Any]:
        return self._collection.find({}).to_list()

    def transact(self, documents: list[Document]) -> None:
        def insert(session: Any) -> None:
            for document in documents:
                self._collection.insert_one(document, session=session)

        with self._client.start_session() as session:
            session.with_transaction(insert)

    def mark(self) -> Any:
        with self._collection.watch() as stream:
            return stream.resume_token

    def changes(self, token: Any, count: int) -> list[Any]:
        with self._collection.watch(resume_after=token) as stream:
            # `range` is the first argument of `zip`: otherwise this would wait for one change too many.
            return [change for _, change in zip(range(count), stream, strict=False)]

    def command(self, name: str) -> Any:
        return self._client.admin.command(name)

    def close(self) -> None:
        self._client.close()


class AsyncAdapter(_Adapter):
    def __init__(self, make_client: Callable[[str], Any], target: Target) -> None:
        self._make_client = make_client
        self._target = target

    async def open(self) -> None:
        # Created inside the loop that will use it.
        self._use(self._make_client(uri_with(self._target)), self._target)

    async def insert_one(self, document: Document) -> Any:
        return await self._collection.insert_one(document)

    async def insert_many(self, documents: list[Document]) -> Any:
        return await self._collection.insert_many(documents)

    async def find_one(self, key: int) -> Any:
        return await self._collection.find_one({"_id": key})

    async def find_list(self, limit: int) -> Any:
        return await self._collection.find({}, limit=limit).to_list(limit)

    async def iterate(self, batching: Batching) -> int:
        count = 0
        async for _ in self.documents(batching):
            count += 1
        return count

    async def to_list(self) -> list[Any]:
        return await self._collection.find({}).to_list(None)

    async def transact(self, documents: list[Document]) -> None:
        async def insert(session: Any) -> None:
            for document in documents:
                await self._collection.insert_one(document, session=session)

        async with self._client.start_session() as session:
            await session.with_transaction(insert)

    async def mark(self) -> Any:
        async with await self._collection.watch() as stream:
            return stream.resume_token

    async def changes(self, token: Any, count: int) -> list[Any]:
        found = []
        async with await self._collection.watch(resume_after=token) as stream:
            async for change in stream:
                found.append(change)
                if len(found) == count:
                    break
        return found

    async def command(self, name: str) -> Any:
        return await self._client.admin.command(name)

    async def close(self) -> None:
        # Motor's close returns nothing awaitable.
        await wait(self._client.close())


class MongojetAdapter(AsyncAdapter):
    """mongojet's methods with other names: its cursors come from a coroutine."""

    def __init__(self, target: Target) -> None:
        super().__init__(str, target)

    async def open(self) -> None:
        from mongojet import create_client

        # Dates without a time zone, as the other drivers return them.
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
        return await self._collection.find_many({})

    async def _cursor(self, batching: Batching) -> Any:
        return await self._collection.find({}, **({"batch_size": batching.size} if batching.size else {}))
