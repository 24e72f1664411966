"""What the programs for the engines share: documents, what is expected of them, and a process that dies once."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from mangonel import MongoClient
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
    """What a row has of a document."""
    inner = document["in"]
    return (
        document["n"],
        str(document["x"]) if document["x"] is None else repr(float(document["x"])),
        None if inner is None else (str(inner["id"]), tuple(inner["tags"])),
        bytes(document["by"]).hex(),
        None if document.get("mixed") is None else str(document["mixed"]).replace("True", "true"),
    )


def shown(row: Any) -> tuple[Any, ...]:
    """The same of a row as a dict."""
    inner, by, x = row["in"], row["by"], row["x"]
    identity = None if inner is None else inner["id"]
    return (
        row["n"],
        str(x) if x is None else repr(float(x)),
        None
        if inner is None
        else (identity.hex() if isinstance(identity, bytes) else identity, tuple(inner["tags"])),
        by.replace("-", "") if isinstance(by, str) else (by.bytes if hasattr(by, "bytes") else by).hex(),
        row["mixed"],
    )


def same(rows: list[Any], collection: Any) -> None:
    """Fail unless the rows are those that `find` returns."""
    found = sorted(map(shown, rows))
    wanted = sorted(map(expected, collection.find()))
    assert len(found) == len(wanted) == COUNT, (len(found), len(wanted))
    differing = [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]]
    assert not differing, differing[:3]


def stored(collection: Any) -> None:
    """Fail unless each document was stored once."""
    numbers = sorted(document["n"] for document in collection.find({}, {"n": 1}))
    assert numbers == list(range(COUNT)), len(numbers)


def die_once(folder: str) -> None:
    """Kill this process, unless one was killed before."""
    try:
        os.close(os.open(Path(folder) / "killed", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def started() -> tuple[Any, Any, str]:
    """Return the client, a database with the documents, and a folder: the program's arguments."""
    uri, name, folder = sys.argv[1:]
    os.environ["MANGONEL_URI"] = uri
    client = MongoClient[Any](uri)
    database = client[name]
    database.rows.insert_many(list(documents()), ordered=False)
    database.create_collection("once")
    # Without it, each upsert by key would read the collection.
    database.by_key.create_index("n", unique=True)
    return client, database, folder
