"""The work of document mappers: 200 documents to objects, 150 times, from the server and from bytes alone; and one
changed scalar of a loaded post, up to the encoded update and saved.

This is the work of an old Ruby comparison of mappers, with a post as blogs have it. Then come the ten tasks of the ODM
benchmarking specification, in MB/s, judged by the client's processor time. The data is the specification's, found
through MONGODB_BENCHMARK_DATA; a task's megabytes are those of its source files. The counts are below the
specification's 10 000, depending on the form. Spec: benchmarking.
"""

from __future__ import annotations

import base64
import datetime
import functools
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from mangonel.lab import documents
from mangonel.lab.contender import Document, Target
from mangonel.lab.contenders._models import ARRAY, JOINED, LARGE, NESTED, ONE, SMALL
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled

COUNT = 200
DAY = datetime.datetime(2024, 3, 1, 12, 30, 1, 123_000)


def article(number: int) -> Document:
    """A post of 18 keys and about 1.4 KB with its `_id`: an author, a location, tags, five comments."""
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
        # Mappers have their own field order and their own id class.
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
                f"expected {len(wanted)} {self._kind}, got {len(plain)}; at {place}: {there}"
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
            raise AssertionError(f"expected a post with -1 views, got {str(found)[:200]}")
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


FILES = {
    SMALL: ("odm_flat_models.tgz", "flat-models/small_doc.json"),
    LARGE: ("odm_flat_models.tgz", "flat-models/large_doc.json"),
    NESTED: ("odm_nested_models.tgz", "nested-models/large_doc_nested.json"),
}
VERBS = {"create": "create", "update": "change", "foreign": "foreign"}


@functools.cache
def values(kind: str) -> dict[str, Any]:
    folder = os.environ.get("MONGODB_BENCHMARK_DATA")
    if not folder:
        raise FileNotFoundError(
            "expected the folder of odm_flat_models.tgz and odm_nested_models.tgz in MONGODB_BENCHMARK_DATA, got none"
        )
    archive, name = FILES[kind]
    with tarfile.open(Path(folder) / archive) as files:
        found = files.extractfile(name)
        assert found is not None, f"expected {name} in {archive}"
        loaded: dict[str, Any] = json.load(found)
    for key, value in loaded.items():
        if isinstance(value, dict) and "$binary" in value:
            loaded[key] = base64.b64decode(value["$binary"]["base64"])
    return loaded


class SpecTask(Task):
    """One method, called once for each of many existing documents; creation starts with none."""

    def __init__(self, part: Part, bench: Bench) -> None:
        import pymongo

        kind, _, name = part.id.partition("-")
        self._kind, self._verb = kind, VERBS.get(name, "find")
        self._inside = {"in-one": f"{ONE}.field1", "in-array": f"{ARRAY}.field1"}.get(name, "")
        self._count, self._turn = part.operations, 0
        self._values = values(kind)
        self._client: Any = pymongo.MongoClient(bench.target.uri)
        database = self._client[bench.target.database]
        self._stored, self._joined = (
            database[f"{bench.target.collection}_{each}"] for each in (kind, JOINED)
        )
        self._is_beanie = bench.name.endswith("beanie")
        self._adapter = bench.connect()
        self._rows: list[tuple[Any, ...]] = []
        if self._verb != "create":
            self._fill()

    def _fill(self) -> None:
        from bson import DBRef

        self._stored.delete_many({})
        step = max(1, 8_000_000 // len(str(self._values)))
        for start in range(0, self._count, step):
            count = min(step, self._count - start)
            self._stored.insert_many([dict(self._values) for _ in range(count)])
        ids = [row["_id"] for row in self._stored.find({}, {"_id": 1})]
        if self._verb == "foreign":
            self._joined.drop()
            self._joined.create_index("other.$id" if self._is_beanie else "other")
            known = [DBRef(self._stored.name, id) if self._is_beanie else id for id in ids]
            self._joined.insert_many([{**self._values, "other": other} for other in known])
            self._rows = [(id,) for id in ids]
            return
        inside = {self._inside: self._values[ONE]["field1"]} if "_doc_1" in self._inside else {}
        if "array" in self._inside:
            inside = {self._inside: self._values[ARRAY][0]["field1"]}
        self._rows = [(self._kind, {"_id": id, **inside}) for id in ids]
        if self._verb == "change":
            self._rows = [(self._kind, each) for each in self._adapter.each("find", self._rows)]

    def verify(self) -> str:
        found = self._play(2)
        key = "field1"
        if self._verb == "create":
            rows = self._stored.find({}, {"_id": 0}).to_list()
            assert rows == [self._values] * 2, f"expected two documents of the source file, got {rows!r:.300}"
        elif self._verb == "change":
            inside = f"{ONE}.{key}" if self._kind == NESTED else key
            count = self._stored.count_documents({inside: f"changed {self._turn}"})
            assert count == 2, f"expected two changed documents, got {count}"
        else:
            for each in found:
                part = each if self._kind == SMALL else get(each, ONE)
                wanted = self._values[key] if self._kind == SMALL else self._values[ONE][key]
                assert get(part, key) == wanted, f"expected {wanted!r}, got {get(part, key)!r}"
        return digest([self._kind, self._verb])

    def _play(self, count: int) -> list[Any]:
        self._turn += 1
        rows = self._rows[:count]
        if self._verb == "create":
            rows = [(self._kind, self._values)] * count
        elif self._verb == "change":
            rows = [(*row, f"changed {self._turn}") for row in rows]
        return self._adapter.each(self._verb, rows)

    def warm_up(self) -> None:
        self._play(min(self._count, 20))

    def arrange(self) -> None:
        if self._verb == "create":
            self._stored.delete_many({})

    def act(self) -> int:
        self._play(self._count)
        return self._count


def get(found: Any, name: str) -> Any:
    return found[name] if isinstance(found, dict) else getattr(found, name)


EXPERIMENTS = (
    Tabled("read-documents", {"decode": DecodeTask, "": ReadTask}),
    Tabled("save-one-field", SaveTask),
    Tabled("odm-spec", SpecTask),
)
