"""What document mappers do: 150 times 200 documents into objects, from the server and from bytes alone; and one scalar
of a loaded post changed and saved, up to the wire and the whole of it.

The work of an old Ruby comparison of mappers, and a post as blogs have it.
"""

from __future__ import annotations

import datetime
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Document, Target
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled

COUNT = 200
DAY = datetime.datetime(2024, 3, 1, 12, 30, 1, 123_000)


def article(number: int) -> Document:
    """A post of 18 keys and about 1.4 KB with its `_id`: an author, a place, tags, five comments."""
    text = "Thanks, this is just what I was after."
    return {
        "title": f"How we made number {number} fast",
        "slug": f"how-we-made-number-{number}-fast",
        "body": "Lorem ipsum dolor sit amet, consectetur. " * 13,
        "status": "published",
        "lang": "en",
        "author": {"name": "Ada Lovelace", "email": "ada@example.org"},
        "tags": ["python", "mongodb", "speed"],
        "category": "engineering",
        "views": number * 17,
        "likes": number,
        "rating": 4.5,
        "published": True,
        "location": {"type": "Point", "coordinates": [13.4, 52.5]},
        "created": DAY,
        "updated": DAY + datetime.timedelta(minutes=number),
        "comments": [{"author": f"user{n}", "text": text, "at": DAY, "likes": n} for n in range(5)],
        "source": "web",
    }


def stored(kind: str) -> list[Document]:
    from bson import ObjectId

    make = documents.user if kind == "users" else article
    return [{"_id": ObjectId(f"{number:024x}"), **make(number)} for number in range(COUNT)]


def collection_of(target: Target, kind: str) -> Any:
    import pymongo

    client: Any = pymongo.MongoClient(target.uri)
    collection = client[target.database][f"{target.collection}_{kind}"]
    if collection.count_documents({}) != COUNT:
        collection.drop()
        collection.insert_many(stored(kind))
    return collection


class ReadTask(Task):
    def __init__(self, part: Part, bench: Bench) -> None:
        self._kind = part.id.removeprefix("decode-")
        self._times = part.operations // COUNT
        self.set_up(bench.target)
        self._adapter = bench.connect()

    def set_up(self, target: Target) -> None:
        collection_of(target, self._kind).database.client.close()

    def read(self, times: int) -> Any:
        return self._adapter.read(self._kind, times)

    def verify(self) -> str:
        found = [self._adapter.plain(self._kind, one) for one in self.read(1)]
        # Mappers have orders of their own, and ids of their own class.
        plain, wanted = (
            [digest(sorted({**one, "_id": str(one["_id"])}.items())) for one in many]
            for many in (found, stored(self._kind))
        )
        if plain != wanted:
            place = next(
                (n for n, pair in enumerate(zip(plain, wanted, strict=False)) if pair[0] != pair[1]), 0
            )
            there = str(found[place : place + 1])[:300]
            raise AssertionError(
                f"expected {len(wanted)} {self._kind}, found {len(plain)}; at {place}: {there}"
            )
        return digest(plain)

    def warm_up(self) -> None:
        self.read(5)

    def act(self) -> int:
        self.read(self._times)
        return self._times * COUNT


class DecodeTask(ReadTask):
    def set_up(self, target: Target) -> None:
        import bson

        self._data = b"".join(map(bson.encode, stored(self._kind)))

    def read(self, times: int) -> Any:
        decode, kind, data = self._adapter.decode, self._kind, self._data
        for _ in range(times):
            found = decode(kind, data)
        return found


class SaveTask(Task):
    def __init__(self, part: Part, bench: Bench) -> None:
        self._posts = collection_of(bench.target, "posts")
        self._count = part.operations
        self._value = 0
        self._adapter = bench.connect()
        self._adapter.load_post()
        self._verb = self._adapter.save if part.id == "save" else self._adapter.prepare

    def verify(self) -> str:
        self._adapter.save(-1)
        found = self._posts.find_one({}, sort=[("_id", 1)])
        self._posts.database.client.close()
        if found is None or found["views"] != -1 or len(found["comments"]) != 5:
            raise AssertionError(f"expected a post with -1 views, found {str(found)[:200]}")
        return digest("saved")

    def warm_up(self) -> None:
        self._some(20)

    def act(self) -> int:
        self._some(self._count)
        return self._count

    def _some(self, count: int) -> None:
        verb, first = self._verb, self._value
        self._value += count
        for value in range(first, first + count):
            verb(value)


EXPERIMENTS = (
    Tabled("read-documents", {"decode": DecodeTask, "": ReadTask}),
    Tabled("save-one-field", SaveTask),
)
