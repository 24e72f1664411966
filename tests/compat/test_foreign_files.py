"""GridFS on a database of another package, which keeps its documents in memory and knows no commands."""

from __future__ import annotations

import pytest

# A database like mongomock's: classes of its own, and nothing of this driver's. It supports equality and a few
# operators.
MEMORY = """
import os, random, time, mangonel.compat
mangonel.compat.install_as_pymongo()
import gridfs, gridfs.synchronous.grid_file as grid_file
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database
from pymongo.collection import Collection
from pymongo.errors import ConfigurationError, DuplicateKeyError

OPERATORS = {
    "$eq": lambda value, wanted: value == wanted,
    "$in": lambda value, wanted: value in wanted,
    "$gt": lambda value, wanted: value is not None and value > wanted,
}

class Result:
    def __init__(self, count):
        self.deleted_count = self.matched_count = count

class MemoryCursor:
    def __init__(self, documents):
        self.documents, self.order, self.start, self.most = documents, None, 0, 0
    def sort(self, key, direction):
        self.order = key, direction
        return self
    def skip(self, count):
        self.start = count
        return self
    def limit(self, count):
        self.most = abs(count)
        return self
    def __iter__(self):
        return self
    def __next__(self):
        if self.order:
            self.documents.sort(key=lambda d: d[self.order[0]], reverse=self.order[1] < 0)
        self.documents = self.documents[self.start :]
        if self.most:
            self.documents = self.documents[: self.most]
        self.order, self.start, self.most = None, 0, 0
        if not self.documents:
            raise StopIteration
        return self.documents.pop(0)
    def close(self):
        self.documents = []

class MemoryCollection:
    def __init__(self, database, name, write_concern=WriteConcern()):
        self.database, self.name, self.write_concern = database, name, write_concern
        self.documents = database.documents.setdefault(name, [])
        self.full_name = "memory." + name
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return MemoryCollection(self.database, self.name + "." + name, self.write_concern)
    def with_options(self, write_concern=None, read_preference=None):
        return MemoryCollection(self.database, self.name, write_concern or self.write_concern)
    def _fits(self, document, filter):
        return all(
            all(OPERATORS[o](document.get(k), w) for o, w in v.items()) if isinstance(v, dict) else document.get(k) == v
            for k, v in (filter or {}).items()
        )
    def find(self, filter=None, projection=None, session=None, **options):
        found = MemoryCursor([dict(d) for d in self.documents if self._fits(d, filter)])
        if options.get("sort"):
            found.sort(*options["sort"][0])
        return found.skip(options.get("skip", 0)).limit(options.get("limit", 0))
    def find_one(self, filter=None, projection=None, session=None):
        return next(self.find(filter), None)
    def insert_one(self, document, session=None):
        if self.find_one({"_id": document["_id"]}):
            raise DuplicateKeyError("taken", 11000)
        self.documents.append(dict(document))
    def delete_many(self, filter, session=None):
        gone = [d for d in self.documents if self._fits(d, filter)]
        self.documents[:] = [d for d in self.documents if d not in gone]
        return Result(len(gone))
    delete_one = delete_many
    def update_many(self, filter, update, session=None):
        found = [d for d in self.documents if self._fits(d, filter)]
        for document in found:
            document.update(update["$set"])
        return Result(len(found))
    update_one = update_many
    def distinct(self, key, session=None):
        return sorted({d[key] for d in self.documents if key in d})

class MemoryDatabase:
    write_concern = WriteConcern()
    def __init__(self):
        self.documents = {}
    def __getitem__(self, name):
        return MemoryCollection(self, name, self.write_concern)

def allow():
    # As mongomock's `enable_gridfs_integration`.
    grid_file.Database = (Database, MemoryDatabase)
    grid_file.Collection = (Collection, MemoryCollection)

memory = MemoryDatabase()
"""


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("seed", range(3))
def test_files_in_memory_are_those_on_a_server(program, seed):
    program(
        MEMORY
        + f"""
allow()
chance = random.Random({seed})
client = MongoClient(os.environ["TEST_URI"])
sides = [client[os.environ["TEST_DATABASE"]], memory]
stores = [(gridfs.GridFS(side), gridfs.GridFSBucket(side, chunk_size_bytes=7)) for side in sides]
ids, names = [], ["a", "b", "c"]

def attempt(call, *args):
    try:
        return call(*args)
    except (gridfs.NoFile, gridfs.errors.FileExists) as error:
        return type(error).__name__

def read_in_pieces(file, sizes):
    found = []
    for kind, size in sizes:
        if kind == "seek":
            found.append(file.seek(min(size, file.length)))
        elif kind == "into":
            room = bytearray(size)
            found.append((file.readinto(room), bytes(room)))
        elif kind == "chunk":
            found.append(file.readchunk())
        else:
            found.append(getattr(file, kind)(size))
        found.append(file.tell())
    return found

for step in range(150):
    kind = chance.choice("put put upload get version delete rename list find exists name".split())
    name, number = chance.choice(names), chance.randrange(-3, 3)
    data = bytes(chance.choice(b"xy\\n") for _ in range(chance.randrange(40)))
    chosen = chance.choice(ids + [10**6])
    pieces = [(chance.choice(["read", "readline", "seek", "into", "chunk"]), chance.randrange(12)) for _ in range(6)]
    shown = []
    # Revisions are told apart by their milliseconds.
    now = time.time()
    while time.time() < now + 0.001:
        pass
    for fs, bucket in stores:
        if kind == "put":
            taken = chosen if number == 2 else step
            shown.append(attempt(lambda: fs.put(data, _id=taken, filename=name, chunk_size=1 + step % 9)))
        elif kind == "upload":
            with bucket.open_upload_stream_with_id(step, name, metadata={{"n": step}}) as target:
                for start in range(0, len(data), 5):
                    target.write(data[start : start + 5])
            shown.append((target.length, target.closed, target.filename))
        elif kind == "get":
            file = attempt(fs.get, chosen)
            shown.append(
                file if isinstance(file, str)
                else (read_in_pieces(file, pieces), file.read(), file.filename, file.length, file.metadata)
            )
        elif kind == "version":
            file = attempt(fs.get_version, name, number)
            shown.append(file if isinstance(file, str) else (file._id, file.readlines()))
        elif kind == "delete":
            shown.append(attempt(bucket.delete, chosen))
        elif kind == "name":
            shown.append(attempt(bucket.delete_by_name, name) if step % 5 == 0 else None)
        elif kind == "rename":
            shown.append(attempt(bucket.rename, chosen, name))
        elif kind == "list":
            shown.append(sorted(fs.list()))
        elif kind == "find":
            found = bucket.find({{"filename": name}}).sort("_id", -1).limit(2)
            shown.append([(f._id, f.read(), list(f)) for f in found])
            one = fs.find_one({{"filename": name}}, sort=[("_id", 1)])
            shown[-1].append(one and (one._id, one.download(), one.seekable()))
        else:
            shown.append((fs.exists(chosen), fs.exists(filename=name)))
    assert shown[0] == shown[1], (step, kind, shown)
    if kind in ("put", "upload"):
        ids.append(step)
rows = [
    sorted((d["files_id"], d["n"], bytes(d["data"])) for d in side["fs"].chunks.find()) for side in sides
]
assert rows[0] == rows[1] and rows[0]
client.close()
"""
    )


def test_a_class_that_was_not_put_in_place_is_refused_as_ever(program):
    program(
        MEMORY
        + """
calls = [
    lambda: gridfs.GridFS(memory), lambda: gridfs.GridFSBucket(db=memory), lambda: gridfs.GridIn(memory["fs"]),
    lambda: gridfs.GridOut(memory["fs"]), lambda: gridfs.GridOutCursor(collection=memory["fs"]),
]
for call in calls:
    try:
        call()
    except TypeError as error:
        assert "must be an instance of" in str(error)
    else:
        raise AssertionError("made")
allow()
for call in calls:
    call()
"""
    )


def test_faults_of_files_in_memory_are_told(program):
    program(
        MEMORY
        + """
allow()
fs = gridfs.GridFS(memory)
assert isinstance(fs, gridfs.GridFS)

def fails(call, kind, words=""):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("passed")

file_id = fs.put(b"0123456789", chunk_size=4)
chunks = memory["fs"].chunks.documents
fails(lambda: fs.put(b"other", _id=file_id), gridfs.errors.FileExists, "already exists")
assert len(chunks) == 3 and fs.get(file_id).read() == b"0123456789"
chunks[1]["data"] = b"12"
fails(lambda: fs.get(file_id).read(), gridfs.errors.CorruptGridFile, "truncated chunk #1")
del chunks[1]
fails(lambda: fs.get(file_id).read(), gridfs.errors.CorruptGridFile, "missing chunk")
assert fs.get(file_id).read(4) == b"0123"
chunks.append({"_id": 1, "files_id": file_id, "n": 1, "data": b"4567"})
chunks.append({"_id": 2, "files_id": file_id, "n": 3, "data": b"8"})
fails(lambda: fs.get(file_id).read(), gridfs.errors.CorruptGridFile, "extra chunk")
try:
    with fs.new_file(_id=7, chunk_size=2) as target:
        target.write(b"abcdef")
        raise LookupError
except LookupError:
    pass
assert not fs.exists(7) and all(chunk["files_id"] != 7 for chunk in chunks)
memory.write_concern = WriteConcern(0)
fails(lambda: gridfs.GridFS(memory), ConfigurationError, "acknowledged")
"""
    )


def test_a_subclass_of_a_program_stays_one_on_a_server(program):
    program(
        MEMORY
        + """
class Own(gridfs.GridFS):
    def __init__(self, database, more):
        super().__init__(database)
        self.more = more

client = MongoClient("mongodb://127.0.0.1:1/", connect=False)
assert type(Own(client.shop, 3)) is Own and Own(client.shop, more=3).more == 3
assert type(gridfs.GridFS(client.shop)) is gridfs.GridFS
assert type(gridfs.GridIn(client.shop.fs)) is gridfs.GridIn
assert type(gridfs.GridOutCursor(client.shop.fs, {"a": 1}, 1, 2)) is gridfs.GridOutCursor
client.close()
"""
    )
