"""The work of the comparison on the blocking face, written as a user of the driver would write it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

from members import BASE, BUCKET, FILE_NAME, KEYS, Member, expect, member, plain

THREADS = 100
PIPELINE = [{"$match": {"_id": {"$lt": 10}}}, {"$project": {"name": 1, "n": 1}}]


class Work:
    """A client and the verbs of the protocol; each verb takes the number of repetitions and checks every answer."""

    def __init__(self, name: str, row: str) -> None:
        self.name = name
        self.driver: Any = importlib.import_module(name)
        self.data = b""
        self._is_typed = row.endswith("typed")
        self._into: dict[str, Any] = {"into": Member} if self._is_typed else {}
        self._idle: Any = None
        self._file_id: Any = None

    def open(self, uri: str, database: str, collection: str, scratch: str) -> None:
        self._uri = uri
        self.client = self.driver.MongoClient(uri)
        self.db = self.client[database]
        self.members = self.db[collection]
        self.scratch = self.db[scratch]
        self.files, self.bucket = self._bucket(BUCKET), self._bucket(scratch)
        self.client.admin.command("ping")

    def _bucket(self, name: str) -> Any:
        gridfs: Any = importlib.import_module("mangonel.gridfs" if self.name == "mangonel" else "gridfs")
        return gridfs.GridFSBucket(self.db, name)

    def close(self) -> None:
        self.client.close()

    def idle(self, connections: int) -> None:
        """Open another client that keeps this many connections."""
        self._idle = self.driver.MongoClient(self._uri, minPoolSize=connections)
        self._idle.admin.command("ping")

    def ready(self, verb: str) -> Callable[[int], None]:
        """Return the method of a verb, its preparations done."""
        return getattr(self, verb)

    def clear(self, verb: str, count: int) -> None:
        """Empty the scratch collection, and put in the documents that a verb needs there `count` times."""
        if verb == "gridfs_upload":
            if self._file_id is not None:
                self.bucket.delete(self._file_id)
                self._file_id = None
            return
        self.scratch.drop()
        if verb in ("update_one", "bulk_write_10"):
            self.scratch.insert_many([{"_id": number, **member(number)} for number in range(BASE)])
        if verb == "change_stream":
            with self.scratch.watch() as stream:
                self._token = stream.resume_token
            self.scratch.insert_many([member(number) for number in range(count)])

    def answer(self, verb: str) -> str:
        """Return the result of a verb as extended JSON, for the comparison between all programs."""
        text: Any = importlib.import_module(
            "mangonel.bson.json_util" if self.name == "mangonel" else "bson.json_util"
        )
        return str(text.dumps(self._read(verb), json_options=text.CANONICAL_JSON_OPTIONS))

    def _read(self, verb: str) -> Any:
        if verb in ("find_one", "find_one_100"):
            return [plain(self.members.find_one({"_id": 77}, **self._into))]
        if verb in ("find_30", "find_100", "find_1000"):
            limit = int(verb.rpartition("_")[2])
            return [plain(each) for each in self.members.find({}, limit=limit, **self._into).to_list()]
        if verb == "aggregate":
            return list(self.members.aggregate(PIPELINE))
        self.clear(verb, 1)
        self.ready(verb)(1)
        return []

    # The verbs. Every answer is checked.

    def find_one(self, count: int) -> None:
        members, into = self.members, self._into
        if into:
            for number in range(count):
                key = number % KEYS
                expect("n", members.find_one({"_id": key}, into=Member).n, key)
            return
        for number in range(count):
            key = number % KEYS
            expect("n", members.find_one({"_id": key})["n"], key)

    def find_30(self, count: int) -> None:
        self._find(count, 30)

    def find_100(self, count: int) -> None:
        self._find(count, 100)

    def find_1000(self, count: int) -> None:
        self._find(count, 1000)

    def _find(self, count: int, limit: int) -> None:
        expected = limit * (limit - 1) // 2
        for _ in range(count):
            if self._into:
                found = sum(each.n for each in self.members.find({}, limit=limit, into=Member).to_list())
            else:
                found = sum(each["n"] for each in self.members.find({}, limit=limit).to_list())
            expect("sum of n", found, expected)

    def find_one_100(self, count: int) -> None:
        """Ask with a hundred threads."""
        in_threads(self.find_one, count, THREADS)

    def find_100_threads_32(self, count: int) -> None:
        in_threads(self.find_100, count, 32)

    def insert_one(self, count: int) -> None:
        for number in range(count):
            expect("acknowledged", self.scratch.insert_one(member(number)).acknowledged, True)

    def insert_many_10(self, count: int) -> None:
        self._insert_many(count, 10)

    def insert_many_1000(self, count: int) -> None:
        self._insert_many(count, 1000)

    def _insert_many(self, count: int, size: int) -> None:
        for _ in range(count):
            result = self.scratch.insert_many([member(number) for number in range(size)])
            expect("ids", len(result.inserted_ids), size)

    def update_one(self, count: int) -> None:
        for number in range(count):
            result = self.scratch.update_one({"_id": number % BASE}, {"$set": {"age": 100 + number}})
            expect("modified", result.modified_count, 1)

    def bulk_write_10(self, count: int) -> None:
        update = self.driver.UpdateOne
        for number in range(count):
            result = self.scratch.bulk_write(
                [update({"_id": key}, {"$set": {"age": 100 + number}}) for key in range(10)]
            )
            expect("modified", result.modified_count, 10)

    def aggregate(self, count: int) -> None:
        for _ in range(count):
            expect("sum of n", sum(each["n"] for each in self.members.aggregate(PIPELINE)), 45)

    def iterate(self, count: int) -> None:
        """Read that many documents one by one, with the default batches."""
        total = 0
        if self._into:
            for each in self.members.find({}, limit=count, into=Member):
                total += each.n
        else:
            for each in self.members.find({}, limit=count):
                total += each["n"]
        expect("sum of n", total, count * (count - 1) // 2)

    def change_stream(self, count: int) -> None:
        total = 0
        with self.scratch.watch(resume_after=self._token) as stream:
            for _ in range(count):
                total += stream.next()["fullDocument"]["n"]
        expect("sum of n", total, count * (count - 1) // 2)

    def gridfs_upload(self, count: int) -> None:
        for _ in range(count):
            self._file_id = self.bucket.upload_from_stream(FILE_NAME, self.data)

    def gridfs_download(self, count: int) -> None:
        for _ in range(count):
            with self.files.open_download_stream_by_name(FILE_NAME) as stream:
                expect("same bytes", stream.read() == self.data, True)


def in_threads(call: Callable[[int], None], count: int, threads: int) -> None:
    """Divide this many calls among threads; raise the first error."""
    failed: list[BaseException] = []

    def play() -> None:
        try:
            call(count // threads)
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=play) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
