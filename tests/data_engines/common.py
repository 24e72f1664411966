"""Shared by the programs for the engines: documents, concurrent writers, and workers that die once.

As a program, `python common.py URI DATABASE`, it runs the writers.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mangonel import MongoClient, _parts_of_tables
from mangonel.bson import Binary, ObjectId

COUNT = int(os.environ.get("MANGONEL_ENGINE_ROWS", "20000"))


def documents() -> Any:
    """Documents with ids of several types, nesting, nulls and missing fields; `n` tells them apart."""
    chosen = random.Random(3)
    for number in range(COUNT):
        ids = (number, f"s{number}", ObjectId(), number + 0.5, {"a": number})
        document: dict[str, Any] = {
            "_id": ids[number % 5],
            "n": number,
            "x": chosen.choice([number / 4, float("nan"), None, number]),
            "in": {"id": ObjectId(), "tags": ["a", None, "b"][: number % 4]},
            "by": Binary(number.to_bytes(16, "big"), 4),
            "mixed": chosen.choice([1, "a", None, True]),
        }
        if number % 7 == 0:
            del document["mixed"]
        if number % 5 == 0:
            document["in"] = None
        yield document


def expected(document: Any) -> tuple[Any, ...]:
    """Return the row of a document."""
    inner = document["in"]
    return (
        document["n"],
        str(document["x"]) if document["x"] is None else repr(float(document["x"])),
        None if inner is None else (str(inner["id"]), tuple(inner["tags"])),
        bytes(document["by"]).hex(),
        None if document.get("mixed") is None else str(document["mixed"]).replace("True", "true"),
    )


def shown(row: Any) -> tuple[Any, ...]:
    """Return the row as a dict."""
    inner, by, x = row["in"], row["by"], row["x"]
    # An ObjectId if PyMongoArrow has registered its types.
    identity = None if inner is None else inner["id"]
    return (
        row["n"],
        str(x) if x is None else repr(float(x)),
        None
        if inner is None
        else (identity.hex() if isinstance(identity, bytes) else str(identity), tuple(inner["tags"])),
        by.replace("-", "") if isinstance(by, str) else (by.bytes if hasattr(by, "bytes") else by).hex(),
        row["mixed"],
    )


def same(rows: list[Any], collection: Any) -> None:
    """Fail unless the rows equal the result of `find`."""
    found = sorted(map(shown, rows))
    wanted = sorted(map(expected, collection.find(STAYS)))
    assert len(found) == len(wanted) == COUNT, (len(found), len(wanted))
    differing = [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]]
    assert not differing, differing[:3]


def stored(collection: Any) -> None:
    """Fail unless each document was stored once."""
    numbers = sorted(document["n"] for document in collection.find({}, {"n": 1}))
    assert numbers == list(range(COUNT)), len(numbers)


def die_once(where: str) -> None:
    """Kill this process, a worker, unless a worker was killed there before."""
    try:
        os.close(os.open(Path(os.environ["MANGONEL_ENGINE_FOLDER"]) / where, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def dying_in_a_read(tables: Iterator[Any]) -> Iterator[Any]:
    """Yield tables or batches; die once after the first rows."""
    for table in tables:
        yield table.slice(0, 10)
        die_once("in_a_read")
        yield table.slice(10)


class DyingReader(_parts_of_tables.PartReader):
    """Dies once in a read."""

    def tables(self, part: Any, columns: Any = None) -> Iterator[Any]:
        return dying_in_a_read(super().tables(part, columns))


class DyingTarget(_parts_of_tables.Target):
    """Dies once when rows are stored and the engine has not been told yet."""

    def store(self, table: Any, part: int, *, of: object = None) -> int:
        stored = super().store(table, part, of=of)
        die_once("after_a_commit")
        return stored


ROUTER = "MANGONEL_ENGINE_ROUTER"
"""The environment variable with the URI of a router, by which `rows` is sharded by `n`."""


def sharded(database: Any) -> Any:
    """Return the documents as the collection of a sharded cluster."""
    database.rows.create_index("n")
    return MongoClient[Any](os.environ[ROUTER])[database.name].rows


STAYS = {"n": {"$gte": 0}}
"""The documents of `documents()`: those of the writers come and go."""


def name_of_writers(database: str) -> str:
    """Return the name that identifies connections of `write_beside` on the server; other blocks have other writers."""
    return f"writers of {database}"


def another_id(chosen: random.Random) -> Any:
    """Return the id of a document that a writer inserts."""
    return chosen.choice([f"p{chosen.random()}", -chosen.random(), {"p": chosen.random()}, ObjectId()])


def write_beside(uri: str, name: str) -> None:
    """Insert, change and delete with 20 threads until this process is killed, or a thread fails."""

    def fail(failed: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(failed)
        os._exit(1)

    threading.excepthook = fail

    def write(seed: int) -> None:
        chosen = random.Random(seed)
        pause = threading.Event()
        while True:
            id = another_id(chosen)
            rows.insert_one({"_id": id, "n": -1})
            place = chosen.randrange(COUNT // 5) * 5
            rows.update_one({"_id": place}, {"$set": {"pad": "x" * chosen.randrange(200)}})
            rows.delete_one({"_id": id})
            pause.wait(0.5)

    with MongoClient[Any](uri, appname=name_of_writers(name)) as client:
        rows = client[name].rows
        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(20)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()


@contextlib.contextmanager
def writers(database: Any) -> Iterator[None]:
    """Write during a block, whose reads have to filter by `STAYS`."""
    # The earlier writers were killed, and used the same ids.
    database.rows.delete_many({"n": -1})
    database.rows.update_many({"pad": {"$exists": True}}, {"$unset": {"pad": ""}})
    process = subprocess.Popen([sys.executable, __file__, os.environ["MANGONEL_URI"], database.name])
    try:
        # The writers have started.
        while database.rows.find_one({"pad": {"$exists": True}}) is None:
            assert process.poll() is None
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        # The server still runs commands of the killed process, and then ends its connections.
        theirs = [
            {"$currentOp": {"idleConnections": True}},
            {"$match": {"appName": name_of_writers(database.name)}},
        ]
        while list(database.client.admin.aggregate(theirs)):
            time.sleep(0.01)


def started() -> tuple[Any, Any, str]:
    """Return the client, a database with the documents, and a folder: the program's arguments."""
    uri, name, folder = sys.argv[1:]
    os.environ["MANGONEL_URI"] = uri
    # Workers inherit both.
    os.environ["MANGONEL_ENGINE_FOLDER"] = folder
    client = MongoClient[Any](uri)
    database = client[name]
    database.rows.insert_many(list(documents()), ordered=False)
    database.create_collection("once")
    # Without the index each upsert by key would read the whole collection.
    database.by_key.create_index("n", unique=True)
    return client, database, folder


if __name__ == "__main__":
    write_beside(*sys.argv[1:])
