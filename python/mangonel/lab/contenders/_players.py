"""The tasks of the benchmarking specification for each contender, and file transfers, written as users would.

A player is made in a worker or a helper process, from a contender's id; only then is the driver imported. A method
repeats its task a given number of times, so no code of the lab runs between two operations.

Run as `python -m mangonel.lab.contenders._players DESCRIPTOR`, this is a helper: a process with its own client that
handles files of the parallel tasks beside other helpers, two at a time. The task starts it before the clock runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from mangonel.lab import protocol, registry
from mangonel.lab.contender import Document, Target
from mangonel.lab.contenders._faces import AtOnce, named, play, wait
from mangonel.lab.contenders._pymongo_like import uri_with
from mangonel.lab.contenders._raw_files import RawFiles
from mangonel.lab.contenders.raw import RawSocket
from mangonel.lab.experiment import Bench, Size

CORPUS = "perftest_corpus"  # the collection that a task writes to
BUCKET = "perftest_fs"
LINES = "perftest_lines"  # the collection that is exported
CHUNK = 5000
AT_A_TIME = 2  # files that a helper handles at a time


class Player:
    """A client with PyMongo's names on an event loop: the methods of the tasks.

    `hello` and `find_one` repeat that many times and return the last result, `find_many` and `count` return the number
    of documents, bulk writes their result, `upload` the file's id. A file from disk has its name as its id. `buckets`
    is the class of buckets, as "module:name", or "" if files have methods of their own.
    """

    def __init__(self, client: Any, buckets: str, target: Target, bucket: str) -> None:
        is_ours = buckets.startswith("mangonel")
        self._driver = importlib.import_module("mangonel" if is_ours else "pymongo")
        self._text = importlib.import_module("mangonel.bson.json_util" if is_ours else "bson.json_util")
        self._client = client
        self._database = self._client[target.database]
        self._corpus = self._database[CORPUS]
        self._tweets = self._database[target.collection]
        self._lines = self._database[LINES]
        self._name = bucket
        self._bucket = self._open_bucket(buckets)

    def _open_bucket(self, buckets: str) -> Any:
        return named(buckets)(self._database, self._name)

    async def hello(self, times: int) -> Any:
        for _ in range(times):
            reply = await self._database.command("hello", True)
        return reply

    async def find_one(self, times: int) -> Any:
        for number in range(1, times + 1):
            found = await self._tweets.find_one({"_id": number})
        return found

    async def find_many(self) -> int:
        count = 0
        async for _ in await wait(self._tweets.find({})):
            count += 1
        return count

    async def insert_each(self, documents: list[Document]) -> None:
        for document in documents:
            await self._corpus.insert_one(document)

    async def create(self) -> None:
        """Recreate the collection that tasks write to."""
        await wait(self._corpus.drop())
        await wait(self._database.create_collection(CORPUS))

    async def count(self) -> Any:
        return await wait(self._corpus.count_documents({}))

    async def insert_many(self, documents: list[Document]) -> None:
        await wait(self._corpus.insert_many(documents))

    def models(self, documents: list[Document], database: str = "", *, mixed: bool = False) -> list[Any]:
        """Return an insert per document, and a replacement and deletion if `mixed`; a client uses ten collections."""
        driver: Any = self._driver
        found: list[Any] = []
        for number, document in enumerate(documents):
            name = f"{database}.{CORPUS}" + (f"_{number % 10}" if mixed else "")
            where = {"namespace": name} if database else {}
            found.append(driver.InsertOne(document, **where))
            if mixed:
                found.append(driver.ReplaceOne({}, dict(document), **where))
                found.append(driver.DeleteOne({}, **where))
        return found

    async def bulk_write(self, models: list[Any]) -> Any:
        return await wait(self._corpus.bulk_write(models))

    async def client_bulk_write(self, models: list[Any]) -> Any:
        return await wait(self._client.bulk_write(models))

    async def upload(self, data: bytes, name: str = "gridfstest") -> Any:
        return await wait(self._bucket.upload_from_stream(name, data))

    async def download(self, file_id: Any) -> Any:
        source = await wait(self._bucket.open_download_stream(file_id))
        return await wait(source.read())

    async def read_by_id(self, file_id: Any, times: int) -> list[bytes]:
        return [await wait(self.download(file_id)) for _ in range(times)]

    async def read_by_name(self, name: str, times: int) -> list[bytes]:
        found = []
        for _ in range(times):
            source = await wait(self._bucket.open_download_stream_by_name(name))
            found.append(await wait(source.read()))
        return found

    def content(self, found: bytes) -> bytes:
        """Return the bytes of a file that was read; only a lower bound has to decode them."""
        return found

    async def upload_each(self, name: str, data: bytes, times: int) -> list[Any]:
        return [await wait(self.upload(data, name)) for _ in range(times)]

    async def download_over(self, file_id: Any, connections: int) -> Any:
        return await wait(self._bucket.download(file_id, connections))

    async def remove(self, file_id: Any) -> None:
        await wait(self._bucket.delete(file_id))

    async def empty_bucket(self) -> None:
        """Leave one file of one byte in the bucket, so that its indexes exist."""
        for name in ("files", "chunks"):
            await wait(self._database[f"{self._name}.{name}"].drop())
        await wait(self.upload(b"x", "small"))

    async def stored(self) -> list[tuple[Any, int]]:
        """Return id and length of the files in the bucket, except the small one."""
        cursor = self._database[f"{self._name}.files"].find({"length": {"$gt": 1}})
        return [(file["_id"], file["length"]) for file in await wait(cursor.to_list(None))]

    async def fill_lines(self, document: Document, count: int) -> None:
        """Store the documents to export, unless they are stored."""
        if await wait(self._lines.count_documents({})) == count:
            return
        await wait(self._lines.drop())
        for start in range(0, count, CHUNK):
            numbers = range(start, min(count, start + CHUNK))
            await wait(self._lines.insert_many([{"_id": number, **document} for number in numbers]))

    async def import_file(self, path: str) -> None:
        """Insert the documents of a JSON lines file, in any order."""
        loads = self._text.loads
        with open(path, encoding="utf-8") as file:
            documents = [loads(line) for line in file]
        await wait(self._corpus.insert_many(documents, ordered=False))

    async def export_file(self, start: int, count: int, path: str) -> None:
        """Write `count` documents from a position on to a JSON lines file, flushed to disk."""
        dumps = self._text.dumps
        found = await wait(self._lines.find({"_id": {"$gte": start, "$lt": start + count}}))
        with open(path, "w", encoding="utf-8") as file:
            async for document in found:
                file.write(dumps(document) + "\n")
            await self._sync(file)

    async def upload_file(self, path: str) -> None:
        with open(path, "rb") as file:
            await wait(self._bucket.upload_from_stream_with_id(os.path.basename(path), "photo", file))

    async def download_file(self, file_id: Any, path: str) -> None:
        with open(path, "wb") as file:
            await wait(self._bucket.download_to_stream(file_id, file))
            await wait(self._sync(file))

    async def close(self) -> None:
        await wait(self._client.close())

    async def _sync(self, file: Any) -> None:
        await asyncio.to_thread(_sync, file)


class BlockingPlayer(AtOnce, Player):
    def hello(self, times: int) -> Any:
        for _ in range(times):
            reply = self._database.command("hello", True)
        return reply

    def find_one(self, times: int) -> Any:
        for number in range(1, times + 1):
            found = self._tweets.find_one({"_id": number})
        return found

    def find_many(self) -> Any:
        count = 0
        for _ in self._tweets.find({}):
            count += 1
        return count

    def insert_each(self, documents: list[Document]) -> Any:
        for document in documents:
            self._corpus.insert_one(document)

    def export_file(self, start: int, count: int, path: str) -> Any:
        dumps = self._text.dumps
        found = self._lines.find({"_id": {"$gte": start, "$lt": start + count}})
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(dumps(document) + "\n" for document in found)
            _sync(file)

    def _sync(self, file: Any) -> Any:
        _sync(file)


class OurPlayer(BlockingPlayer):
    """Plays on this driver, which has its own functions for JSON lines."""

    def import_file(self, path: str) -> Any:
        named("mangonel.jsonl:import_jsonl")(self._corpus, path, threads=1)

    def export_file(self, start: int, count: int, path: str) -> Any:
        query = {"_id": {"$gte": start, "$lt": start + count}}
        named("mangonel.jsonl:export_jsonl")(self._lines, path, filter=query, mode="relaxed")
        with open(path, "rb") as file:
            _sync(file)


class OurAsyncPlayer(Player):
    async def import_file(self, path: str) -> None:
        await named("mangonel.jsonl:aimport_jsonl")(self._corpus, path)

    async def export_file(self, start: int, count: int, path: str) -> None:
        query = {"_id": {"$gte": start, "$lt": start + count}}
        await named("mangonel.jsonl:aexport_jsonl")(self._lines, path, filter=query, mode="relaxed")
        with open(path, "rb") as file:
            await self._sync(file)


class ByChunkPlayer(BlockingPlayer):
    """PyMongo with the way it read files until 2019: one `find_one` for each chunk."""

    def download(self, file_id: Any) -> Any:
        file = self._database[self._name].files.find_one(file_id)
        chunks = self._database[self._name].chunks
        count = -(-file["length"] // file["chunkSize"])
        return b"".join(chunks.find_one({"files_id": file_id, "n": n})["data"] for n in range(count))


class MongojetPlayer(Player):
    """mongojet's own methods; it has no bulk_write, and transfers files in one piece."""

    def _open_bucket(self, buckets: str) -> Any:
        return self._database.gridfs_bucket(bucket_name=self._name)

    async def hello(self, times: int) -> Any:
        for _ in range(times):
            reply = await self._database.run_command({"hello": True})
        return reply

    async def upload(self, data: bytes, name: str = "gridfstest") -> Any:
        return (await self._bucket.put(data, name))["file_id"]

    async def download(self, file_id: Any) -> Any:
        return await self._bucket.get_by_id(file_id)

    async def stored(self) -> list[tuple[Any, int]]:
        files = await self._database[f"{self._name}.files"].find_many({"length": {"$gt": 1}})
        return [(file["_id"], file["length"]) for file in files]

    async def upload_file(self, path: str) -> None:
        with open(path, "rb") as file:
            await self._bucket.put(file.read(), "photo", os.path.basename(path))

    async def download_file(self, file_id: Any, path: str) -> None:
        data = await self._bucket.get_by_id(file_id)
        with open(path, "wb") as file:
            file.write(data)
            await self._sync(file)


class RawPlayer(RawFiles):
    """The lower bound: a socket that requests chunks in batches of the server's size, and discards them."""

    def __init__(self, target: Target, bucket: str) -> None:
        super().__init__(target, bucket)
        self._socket = RawSocket(dataclasses.replace(target, collection=f"{bucket}.chunks"))

    def download(self, file_id: Any) -> bytes:
        """Return the replies' length as bytes; their content is not read."""
        return struct.pack("<q", self._socket.drain({"filter": {"files_id": file_id}, "sort": {"n": 1}}))

    def close(self) -> None:
        super().close()
        self._socket.close()


def _sync(file: Any) -> None:
    """Flush written data to disk: the specification requires it within the measured time."""
    file.flush()
    os.fsync(file.fileno())


OURS, THEIRS, MOTORS = "mangonel.gridfs:", "gridfs:", "motor.motor_asyncio:AsyncIOMotor"
# By contender: the player, the class of its clients, and the class of its buckets.
PLAYERS: dict[str, tuple[type[Player], str, str]] = {
    "mangonel": (OurPlayer, "mangonel:MongoClient", f"{OURS}GridFSBucket"),
    "mangonel-asyncio": (OurAsyncPlayer, "mangonel:AsyncMongoClient", f"{OURS}AsyncGridFSBucket"),
    "mangonel-uvloop": (OurAsyncPlayer, "mangonel:AsyncMongoClient", f"{OURS}AsyncGridFSBucket"),
    "pymongo": (BlockingPlayer, "pymongo:MongoClient", f"{THEIRS}GridFSBucket"),
    "by-chunk": (ByChunkPlayer, "pymongo:MongoClient", f"{THEIRS}GridFSBucket"),
    "pymongo-async": (Player, "pymongo:AsyncMongoClient", f"{THEIRS}AsyncGridFSBucket"),
    "motor": (Player, f"{MOTORS}Client", f"{MOTORS}GridFSBucket"),
    "mongojet": (MongojetPlayer, "mongojet:create_client", ""),
}


async def open_player(contender: str, target: Target, bucket: str = BUCKET) -> Any:
    """Return a contender's player, connected, on its event loop if it has one. KeyError: it has no such tasks."""
    if contender == "raw-socket":
        return RawPlayer(target, bucket)
    player, client, buckets = PLAYERS[contender]
    return player(await wait(named(client)(uri_with(target))), buckets, target, bucket)


@contextlib.contextmanager
def _helping(order: protocol.Message) -> Iterator[Callable[[protocol.Message], protocol.Message]]:
    """Answer messages of the form {"verb": NAME, "items": [[argument, …], …]}."""
    bench = Bench(registry.contender(order["contender"]), Target(**order["target"]), Size(), 0)
    player = play(bench, open_player(bench.contender.id, bench.target))

    def answer(message: protocol.Message) -> protocol.Message:
        before, act = time.process_time_ns(), getattr(player, message["verb"])
        bench.drive(lambda item: act(*item), message["items"], AT_A_TIME)
        return {"event": "done", "cpu_ns": time.process_time_ns() - before}

    # As many connections as files are handled at a time.
    answer({"verb": "hello", "items": [[3]] * AT_A_TIME})
    yield answer
    bench.run(player.close())
    bench.close()


if __name__ == "__main__":
    sys.exit(protocol.serve(_helping))
