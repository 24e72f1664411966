"""The work of the comparison on asyncio and uvloop, written as a user of the driver would write it."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any

from members import BASE, BUCKET, FILE_NAME, KEYS, expect, member

IDLE_S = 20.0  # the lab's own time limit
PIPELINE = [{"$match": {"_id": {"$lt": 10}}}, {"$project": {"name": 1, "n": 1}}]


class Work:
    """A client on its own loop and the verbs of the protocol, as in `blocking.py`."""

    def __init__(self, name: str, row: str) -> None:
        self.name = name
        self.driver: Any = importlib.import_module(name)
        self.data = b""
        factory = importlib.import_module("uvloop").new_event_loop if row.endswith("uvloop") else None
        self._runner = asyncio.Runner(loop_factory=factory)
        self._idle: Any = None
        self._file_id: Any = None

    def open(self, uri: str, database: str, collection: str, scratch: str) -> None:
        self._uri = uri
        self._run(self._open(database, collection, scratch))

    async def _open(self, database: str, collection: str, scratch: str) -> None:
        self.client = self.driver.AsyncMongoClient(self._uri)
        self.db = self.client[database]
        self.members = self.db[collection]
        self.scratch = self.db[scratch]
        gridfs: Any = importlib.import_module("mangonel.gridfs" if self.name == "mangonel" else "gridfs")
        bucket = gridfs.AsyncGridFSBucket
        self.files, self.bucket = bucket(self.db, BUCKET), bucket(self.db, scratch)
        await self.client.admin.command("ping")

    def _run(self, steps: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(steps)

    def close(self) -> None:
        self._run(self.client.close())
        self._runner.close()

    def idle(self, connections: int) -> None:
        """Open another client that keeps this many connections."""

        async def steps() -> None:
            before = len(os.listdir("/proc/self/fd"))
            self._idle = self.driver.AsyncMongoClient(self._uri, minPoolSize=connections)
            await self._idle.admin.command("ping")
            # The loop opens the connections, and it does not run between requests.
            until = time.monotonic() + IDLE_S
            while len(os.listdir("/proc/self/fd")) < before + connections and time.monotonic() < until:
                await asyncio.sleep(0.02)

        self._run(steps())

    def ready(self, verb: str) -> Callable[[int], None]:
        """Return the method of a verb, its preparations done."""
        call = getattr(self, verb)
        return lambda count: self._run(call(count))

    def clear(self, verb: str, count: int) -> None:
        """Empty the scratch collection, and put in the documents that a verb needs there `count` times."""
        self._run(self._clear(verb, count))

    async def _clear(self, verb: str, count: int) -> None:
        if verb == "gridfs_upload":
            if self._file_id is not None:
                await self.bucket.delete(self._file_id)
                self._file_id = None
            return
        await self.scratch.drop()
        if verb in ("update_one", "bulk_write_10"):
            await self.scratch.insert_many([{"_id": number, **member(number)} for number in range(BASE)])
        if verb == "change_stream":
            async with await self.scratch.watch() as stream:
                self._token = stream.resume_token
            await self.scratch.insert_many([member(number) for number in range(count)])

    def answer(self, verb: str) -> str:
        """Return the result of a verb as extended JSON, for the comparison between all programs."""
        text: Any = importlib.import_module(
            "mangonel.bson.json_util" if self.name == "mangonel" else "bson.json_util"
        )
        return str(text.dumps(self._run(self._read(verb)), json_options=text.CANONICAL_JSON_OPTIONS))

    async def _read(self, verb: str) -> Any:
        if verb in ("find_one", "find_one_100"):
            return [await self.members.find_one({"_id": 77})]
        if verb in ("find_30", "find_100", "find_1000"):
            return await self.members.find({}, limit=int(verb.rpartition("_")[2])).to_list()
        if verb == "aggregate":
            return await (await self.members.aggregate(PIPELINE)).to_list()
        await self._clear(verb, 1)
        await getattr(self, verb)(1)
        return []

    # The verbs. Every answer is checked.

    async def find_one(self, count: int) -> None:
        members = self.members
        for number in range(count):
            key = number % KEYS
            expect("n", (await members.find_one({"_id": key}))["n"], key)

    async def find_30(self, count: int) -> None:
        await self._find(count, 30)

    async def find_100(self, count: int) -> None:
        await self._find(count, 100)

    async def find_1000(self, count: int) -> None:
        await self._find(count, 1000)

    async def _find(self, count: int, limit: int) -> None:
        expected = limit * (limit - 1) // 2
        for _ in range(count):
            documents = await self.members.find({}, limit=limit).to_list()
            expect("sum of n", sum(each["n"] for each in documents), expected)

    async def find_one_100(self, count: int) -> None:
        """Ask with a hundred tasks."""
        await asyncio.gather(*(self.find_one(count // 100) for _ in range(100)))

    async def find_one_tasks_5000(self, count: int) -> None:
        await asyncio.gather(*(self.find_one(count // 5000) for _ in range(5000)))

    async def insert_one(self, count: int) -> None:
        for number in range(count):
            expect("acknowledged", (await self.scratch.insert_one(member(number))).acknowledged, True)

    async def insert_many_10(self, count: int) -> None:
        await self._insert_many(count, 10)

    async def insert_many_1000(self, count: int) -> None:
        await self._insert_many(count, 1000)

    async def _insert_many(self, count: int, size: int) -> None:
        for _ in range(count):
            result = await self.scratch.insert_many([member(number) for number in range(size)])
            expect("ids", len(result.inserted_ids), size)

    async def update_one(self, count: int) -> None:
        for number in range(count):
            change = {"$set": {"age": 100 + number}}
            expect(
                "modified", (await self.scratch.update_one({"_id": number % BASE}, change)).modified_count, 1
            )

    async def bulk_write_10(self, count: int) -> None:
        update = self.driver.UpdateOne
        for number in range(count):
            result = await self.scratch.bulk_write(
                [update({"_id": key}, {"$set": {"age": 100 + number}}) for key in range(10)]
            )
            expect("modified", result.modified_count, 10)

    async def aggregate(self, count: int) -> None:
        for _ in range(count):
            documents = await (await self.members.aggregate(PIPELINE)).to_list()
            expect("sum of n", sum(each["n"] for each in documents), 45)

    async def iterate(self, count: int) -> None:
        """Read that many documents one by one, with the default batches."""
        total = 0
        async for each in self.members.find({}, limit=count):
            total += each["n"]
        expect("sum of n", total, count * (count - 1) // 2)

    async def change_stream(self, count: int) -> None:
        total = 0
        async with await self.scratch.watch(resume_after=self._token) as stream:
            for _ in range(count):
                total += (await stream.next())["fullDocument"]["n"]
        expect("sum of n", total, count * (count - 1) // 2)

    async def gridfs_upload(self, count: int) -> None:
        for _ in range(count):
            self._file_id = await self.bucket.upload_from_stream(FILE_NAME, self.data)

    async def gridfs_download(self, count: int) -> None:
        for _ in range(count):
            stream = await self.files.open_download_stream_by_name(FILE_NAME)
            expect("same bytes", await stream.read() == self.data, True)
