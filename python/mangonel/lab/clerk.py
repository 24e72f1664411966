"""Prepares collections, counts what was written and reads the server's meters, in a process of its own.

The conductor must not import a driver, so this does: PyMongo, or this package's own where PyMongo is missing.
Started as `python -m mangonel.lab.clerk READ_FD WRITE_FD`.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from typing import Any

from mangonel.lab import documents, protocol
from mangonel.lab.digest import digest_documents

# Sections of serverStatus that cost time and are not read.
UNREAD = (
    "wiredTiger",
    "tcmalloc",
    "metrics",
    "locks",
    "repl",
    "transactions",
    "opLatencies",
    "mirroredReads",
)
CHUNK = 5000
TWEET = documents.tweet()
SEEN = 1000

DATASETS: dict[str, tuple[int, Any]] = {
    "small": (10_000, lambda types, number: {"_id": number, **documents.small(number)}),
    "tweets": (10_000, lambda types, number: {"_id": number + 1, **TWEET}),
    "posts": (10_000, lambda types, number: documents.post(number)),
    "users": (
        100_000,
        lambda types, number: {"_id": types.ObjectId(f"{number:024x}"), **documents.user(number)},
    ),
}


class Clerk:
    """Answers the conductor's questions about one deployment."""

    def __init__(self, uri: str, database: str) -> None:
        driver, types = _modules()
        self._types: Any = types
        self._client: Any = driver.MongoClient(
            uri, serverSelectionTimeoutMS=10_000, appname="mangonel lab clerk"
        )
        self._database: Any = self._client[database]
        self._status: dict[str, Any] = {"serverStatus": 1, **dict.fromkeys(UNREAD, 0)}
        pairs = [(self._cpu_ns(), self._cpu_ns()) for _ in range(15)]
        self._cost = int(statistics.median(second - first for first, second in pairs))

    def cpu(self) -> dict[str, Any]:
        """Return the server's processor time in ns, and in `cost` what asking adds to it."""
        return {"cpu_ns": self._cpu_ns(), "cost": self._cost}

    def prepare(self, dataset: str) -> dict[str, Any]:
        """Fill a collection unless it holds the data set already."""
        count, make = DATASETS[dataset]
        collection = self._database[dataset]
        if collection.estimated_document_count() != count:
            collection.drop()
            for start in range(0, count, CHUNK):
                collection.insert_many(
                    [make(self._types, n) for n in range(start, min(count, start + CHUNK))]
                )
        found = collection.count_documents({})
        return {"dataset": dataset, "count": found, "expected": count}

    def inspect(self, collection: str) -> dict[str, Any]:
        """Return how many documents a collection holds and the digest of what is in them; then drop it."""
        handle = self._database[collection]
        count = handle.count_documents({})
        seen = digest_documents(handle.find().limit(SEEN))
        handle.drop()
        return {"count": count, "digest": seen}

    def describe(self) -> dict[str, Any]:
        """Return what the fingerprint says about the server."""
        admin = self._client.admin
        build = admin.command("buildInfo")
        hello = admin.command("hello")
        status = admin.command({"serverStatus": 1, **dict.fromkeys(UNREAD, 0)})
        try:
            default = admin.command("getDefaultRWConcern").get("defaultWriteConcern")
        except Exception as error:
            default = f"unknown: {type(error).__name__}"
        pings = []
        for _ in range(50):
            start = time.perf_counter_ns()
            admin.command("ping")
            pings.append(time.perf_counter_ns() - start)
        members = len(hello.get("hosts", []))
        mongos = hello.get("msg") == "isdbgrid"
        return {
            "version": build["version"],
            "git": build.get("gitVersion", ""),
            "engine": status.get("storageEngine", {}).get("name", ""),
            "topology": "sharded" if mongos else f"replica set of {members}" if members else "standalone",
            "default_write_concern": default,
            "ping_us": round(statistics.median(pings) / 1000, 1),
        }

    def drop(self) -> dict[str, Any]:
        """Drop the lab's database."""
        self._client.drop_database(self._database.name)
        return {}

    def _cpu_ns(self) -> int:
        usage = self._client.admin.command(self._status).get("extra_info", {})
        return 1000 * int(usage.get("user_time_us", 0) + usage.get("system_time_us", 0))


def _modules() -> tuple[Any, Any]:
    names = ("pymongo", "bson") if importlib.util.find_spec("pymongo") else ("mangonel", "mangonel.bson")
    return importlib.import_module(names[0]), importlib.import_module(names[1])


def main() -> int:
    """Answer messages of the form {"do": NAME, ...arguments} until the stream ends."""
    channel = protocol.inherited()
    order = channel.receive()
    if order is None:
        return 1
    try:
        clerk = Clerk(order["uri"], order["database"])
    except Exception as error:
        channel.send({"error": f"the lab's clerk cannot work: {type(error).__name__}: {error}"})
        return 1
    channel.send({"event": "hello"})
    while (message := channel.receive()) is not None:
        name = message.pop("do")
        try:
            channel.send(getattr(clerk, name)(**message))
        except Exception as error:
            channel.send({"error": f"{name}: {type(error).__name__}: {error}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
