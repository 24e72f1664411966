"""How each contender does the tasks of the driver benchmarking specification, as its users would write them.

A player is made inside a worker, or in one of its helpers, of a contender's id; the driver is imported then. A verb
does its task as often as it is told, so that nothing of the lab's stands between two operations.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangonel.lab.contender import Document, Target
from mangonel.lab.contenders._pymongo_like import uri_with

CORPUS = "perftest_corpus"  # what a task writes
BUCKET = "perftest_fs"
LINES = "perftest_lines"  # what is exported
CHUNK = 5000


@dataclass(frozen=True)
class Kit:
    """What a driver with PyMongo's names brings along."""

    client: Any
    bucket: Any
    insert_one: Any
    replace_one: Any
    delete_one: Any
    dumps: Callable[[Any], str]
    loads: Callable[[str], Any]


class BlockingPlayer:
    """A blocking client with PyMongo's names."""

    def __init__(self, kit: Kit, target: Target) -> None:
        self._kit = kit
        self._client = kit.client(uri_with(target))
        self._database = self._client[target.database]
        self._corpus = self._database[CORPUS]
        self._tweets = self._database[target.collection]
        self._lines = self._database[LINES]
        self._bucket = kit.bucket(self._database, BUCKET)

    def hello(self, times: int) -> Any:
        """Run the command so often; return its last reply."""
        for _ in range(times):
            reply = self._database.command("hello", True)
        return reply

    def find_one(self, times: int) -> Any:
        """Read the first documents one by one; return the last."""
        for number in range(1, times + 1):
            found = self._tweets.find_one({"_id": number})
        return found

    def find_many(self) -> int:
        """Read the collection; return how many documents it has."""
        count = 0
        for _ in self._tweets.find({}):
            count += 1
        return count

    def create(self) -> None:
        """Make the collection that tasks write to anew."""
        self._corpus.drop()
        self._database.create_collection(CORPUS)

    def count(self) -> int:
        """Return how many documents were written."""
        found: int = self._corpus.count_documents({})
        return found

    def insert_each(self, documents: list[Document]) -> None:
        """Insert the documents one by one."""
        for document in documents:
            self._corpus.insert_one(document)

    def insert_many(self, documents: list[Document]) -> None:
        """Insert the documents in one call."""
        self._corpus.insert_many(documents)

    def models(self, documents: list[Document], *, mixed: bool = False) -> list[Any]:
        """Return an insert of each document, and with `mixed` a replacement and a deletion behind it."""
        kit = self._kit
        if not mixed:
            return [kit.insert_one(document) for document in documents]
        groups = (
            (kit.insert_one(document), kit.replace_one({}, dict(document)), kit.delete_one({}))
            for document in documents
        )
        return [model for group in groups for model in group]

    def bulk_write(self, models: list[Any]) -> Any:
        """Do all of them in order; return the result."""
        return self._corpus.bulk_write(models)

    def client_models(self, documents: list[Document], database: str, *, mixed: bool = False) -> list[Any]:
        """Return the same for the client's bulk write, mixed ones over ten collections."""
        kit = self._kit
        found: list[Any] = []
        for number, document in enumerate(documents):
            name = f"{database}.{CORPUS}" + (f"_{number % 10}" if mixed else "")
            found.append(kit.insert_one(document, namespace=name))
            if mixed:
                found.append(kit.replace_one({}, dict(document), namespace=name))
                found.append(kit.delete_one({}, namespace=name))
        return found

    def client_bulk_write(self, models: list[Any]) -> Any:
        """Do all of them in order by the client; return the result."""
        return self._client.bulk_write(models)

    def upload(self, data: bytes) -> Any:
        """Store a file from memory; return its id."""
        return self._bucket.upload_from_stream("gridfstest", data)

    def download(self, file_id: Any) -> bytes:
        """Return a file."""
        found: bytes = self._bucket.open_download_stream(file_id).read()
        return found

    def empty_bucket(self) -> None:
        """Leave one file of one byte in the bucket, so that its indexes are there."""
        self._database[BUCKET].files.drop()
        self._database[BUCKET].chunks.drop()
        self._bucket.upload_from_stream("small", b"x")

    def stored(self) -> list[tuple[Any, int]]:
        """Return id and length of the files in the bucket, but for the small one."""
        files = self._database[BUCKET].files.find({"length": {"$gt": 1}}).to_list()
        return [(file["_id"], file["length"]) for file in files]

    def fill_lines(self, document: Document, count: int) -> None:
        """Store what is exported, unless it is there."""
        if self._lines.count_documents({}) == count:
            return
        self._lines.drop()
        for start in range(0, count, CHUNK):
            self._lines.insert_many(
                [{"_id": number, **document} for number in range(start, min(count, start + CHUNK))]
            )

    def import_file(self, path: str) -> None:
        """Insert the documents of a file of JSON lines, in any order."""
        loads = self._kit.loads
        with open(path, encoding="utf-8") as file:
            documents = [loads(line) for line in file]
        self._corpus.insert_many(documents, ordered=False)

    def export_file(self, start: int, count: int, path: str) -> None:
        """Write so many documents from a place on to a file of JSON lines, down to the disk."""
        dumps = self._kit.dumps
        found = self._lines.find({"_id": {"$gte": start, "$lt": start + count}})
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(dumps(document) + "\n" for document in found)
            sync(file)

    def upload_file(self, path: str) -> None:
        """Store a file from disk; its name is its id."""
        with open(path, "rb") as file:
            self._bucket.upload_from_stream_with_id(os.path.basename(path), "photo", file)

    def download_file(self, file_id: Any, path: str) -> None:
        """Write a stored file down to the disk."""
        with open(path, "wb") as file:
            self._bucket.download_to_stream(file_id, file)
            sync(file)

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class AsyncPlayer:
    """The same verbs on a client with PyMongo's asynchronous names."""

    def __init__(self, kit: Kit, target: Target) -> None:
        self._kit = kit
        self._client = kit.client(uri_with(target))
        self._database = self._client[target.database]
        self._corpus = self._database[CORPUS]
        self._tweets = self._database[target.collection]
        self._lines = self._database[LINES]
        self._bucket = kit.bucket(self._database, BUCKET)

    models = BlockingPlayer.models
    client_models = BlockingPlayer.client_models

    async def hello(self, times: int) -> Any:
        """Run the command so often; return its last reply."""
        for _ in range(times):
            reply = await self._database.command("hello", True)
        return reply

    async def find_one(self, times: int) -> Any:
        """Read the first documents one by one; return the last."""
        for number in range(1, times + 1):
            found = await self._tweets.find_one({"_id": number})
        return found

    async def find_many(self) -> int:
        """Read the collection; return how many documents it has."""
        count = 0
        async for _ in self._tweets.find({}):
            count += 1
        return count

    async def create(self) -> None:
        """Make the collection that tasks write to anew."""
        await self._corpus.drop()
        await self._database.create_collection(CORPUS)

    async def count(self) -> int:
        """Return how many documents were written."""
        found: int = await self._corpus.count_documents({})
        return found

    async def insert_each(self, documents: list[Document]) -> None:
        """Insert the documents one by one."""
        for document in documents:
            await self._corpus.insert_one(document)

    async def insert_many(self, documents: list[Document]) -> None:
        """Insert the documents in one call."""
        await self._corpus.insert_many(documents)

    async def bulk_write(self, models: list[Any]) -> Any:
        """Do all of them in order; return the result."""
        return await self._corpus.bulk_write(models)

    async def client_bulk_write(self, models: list[Any]) -> Any:
        """Do all of them in order by the client; return the result."""
        return await self._client.bulk_write(models)

    async def upload(self, data: bytes) -> Any:
        """Store a file from memory; return its id."""
        return await self._bucket.upload_from_stream("gridfstest", data)

    async def download(self, file_id: Any) -> bytes:
        """Return a file."""
        source = await self._bucket.open_download_stream(file_id)
        found: bytes = await source.read()
        return found

    async def empty_bucket(self) -> None:
        """Leave one file of one byte in the bucket, so that its indexes are there."""
        await self._database[BUCKET].files.drop()
        await self._database[BUCKET].chunks.drop()
        await self._bucket.upload_from_stream("small", b"x")

    async def stored(self) -> list[tuple[Any, int]]:
        """Return id and length of the files in the bucket, but for the small one."""
        files = await self._database[BUCKET].files.find({"length": {"$gt": 1}}).to_list(None)
        return [(file["_id"], file["length"]) for file in files]

    async def fill_lines(self, document: Document, count: int) -> None:
        """Store what is exported, unless it is there."""
        if await self._lines.count_documents({}) == count:
            return
        await self._lines.drop()
        for start in range(0, count, CHUNK):
            await self._lines.insert_many(
                [{"_id": number, **document} for number in range(start, min(count, start + CHUNK))]
            )

    async def import_file(self, path: str) -> None:
        """Insert the documents of a file of JSON lines, in any order."""
        loads = self._kit.loads
        with open(path, encoding="utf-8") as file:
            documents = [loads(line) for line in file]
        await self._corpus.insert_many(documents, ordered=False)

    async def export_file(self, start: int, count: int, path: str) -> None:
        """Write so many documents from a place on to a file of JSON lines, down to the disk."""
        dumps = self._kit.dumps
        found = self._lines.find({"_id": {"$gte": start, "$lt": start + count}})
        with open(path, "w", encoding="utf-8") as file:
            async for document in found:
                file.write(dumps(document) + "\n")
            await asyncio.to_thread(sync, file)

    async def upload_file(self, path: str) -> None:
        """Store a file from disk; its name is its id."""
        with open(path, "rb") as file:
            await self._bucket.upload_from_stream_with_id(os.path.basename(path), "photo", file)

    async def download_file(self, file_id: Any, path: str) -> None:
        """Write a stored file down to the disk."""
        with open(path, "wb") as file:
            await self._bucket.download_to_stream(file_id, file)
            await asyncio.to_thread(sync, file)

    async def close(self) -> None:
        """Close the client; Motor's close returns nothing to wait for."""
        waiting = self._client.close()
        if waiting is not None:
            await waiting


class MongojetPlayer(AsyncPlayer):
    """mongojet's own verbs; it has no bulk_write, and files go in and out in one piece."""

    def __init__(self, client: Any, target: Target) -> None:
        from bson import json_util

        self._client = client
        self._database = client[target.database]
        self._corpus = self._database[CORPUS]
        self._tweets = self._database[target.collection]
        self._lines = self._database[LINES]
        self._bucket = self._database.gridfs_bucket(bucket_name=BUCKET)
        self._kit = Kit(None, None, None, None, None, json_util.dumps, json_util.loads)

    async def hello(self, times: int) -> Any:
        """Run the command so often; return its last reply."""
        for _ in range(times):
            reply = await self._database.run_command({"hello": True})
        return reply

    async def find_many(self) -> int:
        """Read the collection; return how many documents it has."""
        count = 0
        async for _ in await self._tweets.find({}):
            count += 1
        return count

    async def upload(self, data: bytes) -> Any:
        """Store a file from memory; return its id."""
        return (await self._bucket.put(data, "gridfstest"))["file_id"]

    async def download(self, file_id: Any) -> bytes:
        """Return a file."""
        found: bytes = await self._bucket.get_by_id(file_id)
        return found

    async def empty_bucket(self) -> None:
        """Leave one file of one byte in the bucket, so that its indexes are there."""
        for name in ("files", "chunks"):
            await self._database[f"{BUCKET}.{name}"].drop()
        await self._bucket.put(b"x", "small")

    async def stored(self) -> list[tuple[Any, int]]:
        """Return id and length of the files in the bucket, but for the small one."""
        files = await self._database[f"{BUCKET}.files"].find_many({"length": {"$gt": 1}})
        return [(file["_id"], file["length"]) for file in files]

    async def export_file(self, start: int, count: int, path: str) -> None:
        """Write so many documents from a place on to a file of JSON lines, down to the disk."""
        dumps = self._kit.dumps
        found = await self._lines.find({"_id": {"$gte": start, "$lt": start + count}})
        with open(path, "w", encoding="utf-8") as file:
            async for document in found:
                file.write(dumps(document) + "\n")
            await asyncio.to_thread(sync, file)

    async def upload_file(self, path: str) -> None:
        """Store a file from disk; its name is its id."""
        with open(path, "rb") as file:
            await self._bucket.put(file.read(), "photo", os.path.basename(path))

    async def download_file(self, file_id: Any, path: str) -> None:
        """Write a stored file down to the disk."""
        data = await self._bucket.get_by_id(file_id)
        with open(path, "wb") as file:
            file.write(data)
            await asyncio.to_thread(sync, file)


def sync(file: Any) -> None:
    """Bring what was written down to the disk: the specification asks for that within the time."""
    file.flush()
    os.fsync(file.fileno())


async def open_player(contender: str, target: Target) -> Any:
    """Return a contender's player, connected; on its event loop where it has one.

    Raises:
        KeyError: nobody said how this contender does the tasks.
    """
    if contender == "mongojet":
        from mongojet import create_client

        return MongojetPlayer(await create_client(uri_with(target)), target)
    if contender in ("mangonel", "mangonel-asyncio"):
        import mangonel
        from mangonel import gridfs as ours
        from mangonel.bson import json_util as text

        models = (mangonel.InsertOne, mangonel.ReplaceOne, mangonel.DeleteOne)
        if contender == "mangonel":
            kit = Kit(mangonel.MongoClient, ours.GridFSBucket, *models, text.dumps, text.loads)
            return BlockingPlayer(kit, target)
        kit = Kit(mangonel.AsyncMongoClient, ours.AsyncGridFSBucket, *models, text.dumps, text.loads)
        return AsyncPlayer(kit, target)
    import pymongo
    from bson import json_util

    import gridfs

    functions = (json_util.dumps, json_util.loads)
    peers = (pymongo.InsertOne, pymongo.ReplaceOne, pymongo.DeleteOne)
    if contender == "pymongo":
        return BlockingPlayer(Kit(pymongo.MongoClient, gridfs.GridFSBucket, *peers, *functions), target)
    if contender == "pymongo-async":
        kit = Kit(pymongo.AsyncMongoClient, gridfs.AsyncGridFSBucket, *peers, *functions)
        return AsyncPlayer(kit, target)
    if contender == "motor":
        from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket

        return AsyncPlayer(Kit(AsyncIOMotorClient, AsyncIOMotorGridFSBucket, *peers, *functions), target)
    raise KeyError(f"no player for {contender!r}")
