"""Try everyday work on an interpreter other than the environment's: with its own core and a real mongod, without
pytest.

    python tools/other_interpreter.py python3.13

Builds the core for that interpreter below target/other (quickly with `make rest-interpreter`), and runs this file
there. `make test-python PYTHON=python3.13` runs the tests themselves on it, which takes as long as usual.
"""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mangonel import AsyncMongoClient, DeleteOne, InsertOne, MongoClient, UpdateOne, WriteConcern, server
from mangonel.gridfs import GridFSBucket
from mangonel.odm import Document, Embedded, connect, field

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "target" / "other"


class Note(Embedded):
    """A part of a post."""

    text: str


class Post(Document):
    """A document with a list."""

    title: str
    notes: list[Note] = field(default_factory=list)


def build(python: str) -> Path:
    """Return a folder with the package and a core for this interpreter."""
    command = ["cargo", "build", "--locked", "--quiet", "--release", "-p", "mangonel-py"]
    subprocess.run(
        [*command, "--features", "extension-module"],
        check=True,
        cwd=ROOT,
        env={**os.environ, "CARGO_TARGET_DIR": str(TARGET), "PYO3_PYTHON": python},
    )
    suffix = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    name = subprocess.run([python, "-c", suffix], check=True, capture_output=True, text=True).stdout.strip()
    folder = TARGET / "python"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        ROOT / "python", folder, ignore=shutil.ignore_patterns("__pycache__", "_core.*.so", "*.pyd")
    )
    shutil.copy(TARGET / "release" / "lib_core.so", folder / "mangonel" / f"_core{name}")
    return folder


def main() -> None:
    """Build, start a server and run; in the other interpreter, run on the named server."""
    if sys.argv[1].startswith("mongodb"):
        play(sys.argv[1])
        return
    python = sys.argv[1]
    folder = build(python)
    with server.start(replica_set=1) as deployment:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        subprocess.run([python, __file__, deployment.uri], check=True, timeout=120, env=environment)


def play(uri: str) -> None:
    """Raise unless driver and mapper work on both faces."""
    with MongoClient(uri) as client:
        orders = {}
        for _ in range(3):
            # Names that were used before take a shorter path.
            orders = client["shop"]["orders"]
            assert (orders.name, orders.database.name, orders.full_name) == ("orders", "shop", "shop.orders")
        assert orders.insert_many([{"_id": number, "n": number} for number in range(10)]).inserted_ids
        models = [UpdateOne({"_id": 1}, {"$inc": {"n": 9}}), InsertOne({"_id": 10}), DeleteOne({"_id": 0})]
        assert orders.bulk_write(models).bulk_api_result["nModified"] == 1
        assert orders.with_options(write_concern=WriteConcern("majority")).find_one({"_id": 1}) == {
            "_id": 1,
            "n": 10,
        }
        assert [each["_id"] for each in orders.find({}, {"n": 1}, sort=[("_id", -1)], batch_size=3)] == list(
            range(10, 0, -1)
        )
        assert len(list(orders.aggregate([{"$match": {"n": {"$gte": 5}}}]))) == 6
        with client.start_session() as session, session.start_transaction():
            orders.update_one({"_id": 2}, {"$set": {"n": -1}}, session=session)
        with orders.watch(max_await_time_ms=1000) as stream:
            orders.replace_one({"_id": 3}, {"n": 0})
            assert next(stream)["operationType"] == "replace"
        bucket = GridFSBucket(client.shop)
        assert (
            bucket.open_download_stream(bucket.upload_from_stream("file", b"x" * 600_000)).read()
            == b"x" * 600_000
        )
        connect(uri, database="shop")
        play_mapper(client)

    async def play_asyncio() -> None:
        async with AsyncMongoClient(uri) as client:
            found = await asyncio.gather(
                *(client.shop.orders.find_one({"_id": each}) for each in range(1, 9))
            )
            assert [document["_id"] for document in found if document] == list(range(1, 9))
            assert len(await client.shop.orders.find().to_list()) == 10

    asyncio.run(play_asyncio())
    print(f"driver and mapper work on {sys.implementation.name} {sys.version.split()[0]}")


def play_mapper(client: Any) -> None:
    """Raise unless documents are made, stored, changed, copied and found."""
    for _ in range(2):
        # The second time, every name was used before.
        post = Post.from_dict({"title": "one", "notes": [{"text": "a"}, {"text": "b"}]})
        post.save()
        post.notes.append(Note(text="c"))
        for same in (copy.deepcopy(post), pickle.loads(pickle.dumps(post)), post):
            assert same == post
            assert same.changes() == post.changes() != {}
        post.save()
        found = Post.find(Post.id == post.id).one()
        assert [note.text for note in found.notes] == ["a", "b", "c"]
        assert found.changes() == {}
        del found.notes[0]
        found.save()
        assert client.shop.post.find_one({"_id": post.id})["notes"] == [{"text": "b"}, {"text": "c"}]


if __name__ == "__main__":
    main()
