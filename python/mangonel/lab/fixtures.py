"""Prepares collections, counts written documents and reads the server's counters, in a separate process.

The scheduler must not import a driver, so this process does: PyMongo, or this package if PyMongo is missing. Started as
`python -m mangonel.lab.fixtures DESCRIPTOR`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mangonel.lab import documents, protocol
from mangonel.lab.digest import digest_documents

SELECTION = "serverselectiontimeoutms"
# Sections of serverStatus that are expensive and not read.
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
    "users": (100_000, lambda types, number: user(types, number)),
    "few-users": (20_000, lambda types, number: user(types, number)),
    "members": (100_000, lambda types, number: {"_id": number, **documents.member(number)}),
    "web-posts": (1_000_000, lambda types, number: numbered_post(types, number)),
    "few-web-posts": (50_000, lambda types, number: numbered_post(types, number)),
}
INDEXED = {"web-posts": "created", "few-web-posts": "created"}


def user(types: Any, number: int) -> dict[str, Any]:
    return {"_id": types.ObjectId(f"{number:024x}"), **documents.user(number)}


def numbered_post(types: Any, number: int) -> dict[str, Any]:
    return {**documents.post(number), "_id": types.ObjectId(f"{number:024x}")}


class Fixtures:
    """Answers the scheduler's questions about one deployment."""

    def __init__(self, uri: str, database: str) -> None:
        driver, types = modules()
        self._types: Any = types
        options = {} if SELECTION in uri.lower() else {SELECTION: 10_000}
        self._client: Any = driver.MongoClient(uri, appname="mangonel lab fixtures", **options)
        self._database: Any = self._client[database]
        self._status: dict[str, Any] = {"serverStatus": 1, **dict.fromkeys(UNREAD, 0)}
        asked = [self._ask() for _ in range(30)]
        pairs = list(zip(asked[::2], asked[1::2], strict=True))
        self._cost = int(statistics.median(after[0] - before[0] for before, after in pairs))
        self._own = {
            name: int(statistics.median(after[1][name] - before[1].get(name, 0) for before, after in pairs))
            for name in asked[0][1]
        }

    def cpu(self) -> dict[str, Any]:
        """Return the server's processor time in ns and its counters; `cost` and `own` are the query's share."""
        cpu_ns, counters = self._ask()
        return {"cpu_ns": cpu_ns, "cost": self._cost, "counters": counters, "own": self._own}

    def pings(self) -> dict[str, Any]:
        taken = []
        for _ in range(50):
            start = time.perf_counter_ns()
            self._client.admin.command("ping")
            taken.append(time.perf_counter_ns() - start)
        return {"ping_us": round(statistics.median(taken) / 1000, 1)}

    def prepare(self, dataset: str) -> dict[str, Any]:
        """Fill a collection unless it holds the data set already."""
        count, make = DATASETS[dataset]
        collection = self._database[dataset]
        fill(collection, count, partial(make, self._types), INDEXED.get(dataset, ""))
        found = collection.count_documents({})
        return {"dataset": dataset, "count": found, "expected": count}

    def inspect(self, collection: str) -> dict[str, Any]:
        """Return the number of documents in a collection and their digest, then drop it."""
        handle = self._database[collection]
        count = handle.count_documents({})
        seen = digest_documents(handle.find().limit(SEEN))
        handle.drop()
        return {"count": count, "digest": seen}

    def describe(self) -> dict[str, Any]:
        admin = self._client.admin
        build = admin.command("buildInfo")
        hello = admin.command("hello")
        status = admin.command({"serverStatus": 1, **dict.fromkeys(UNREAD, 0)})
        try:
            default = admin.command("getDefaultRWConcern").get("defaultWriteConcern")
        except Exception as error:
            default = f"unknown: {type(error).__name__}"
        members = len(hello.get("hosts", []))
        mongos = hello.get("msg") == "isdbgrid"
        return {
            "version": build["version"],
            "git": build.get("gitVersion", ""),
            "engine": status.get("storageEngine", {}).get("name", ""),
            "topology": "sharded" if mongos else f"replica set of {members}" if members else "standalone",
            "default_write_concern": default,
            "options": self._options(),
            **self.pings(),
        }

    def drop(self) -> dict[str, Any]:
        self._client.drop_database(self._database.name)
        return {}

    def _options(self) -> dict[str, Any]:
        """Return the cache's size and the server's options, as far as this user may read them."""
        found: dict[str, Any] = {}
        try:
            status = self._client.admin.command({"serverStatus": 1, "metrics": 0, "locks": 0})
            found["cache_mb"] = status["wiredTiger"]["cache"]["maximum bytes configured"] // 2**20
            parsed = self._client.admin.command("getCmdLineOpts")["parsed"]
            found["parameters"] = {k: str(v) for k, v in parsed.get("setParameter", {}).items()}
            found["journal"] = parsed.get("storage", {}).get("journal", {}).get("enabled", True)
        except Exception as error:
            found["unknown"] = type(error).__name__
        return found

    def _ask(self) -> tuple[int, dict[str, int]]:
        status = self._client.admin.command(self._status)
        usage = status.get("extra_info", {})
        counters = {
            name: int(count) for name, count in status.get("opcounters", {}).items() if isinstance(count, int)
        }
        network = status.get("network", {})
        for name, field in (("bytes in", "bytesIn"), ("bytes out", "bytesOut"), ("requests", "numRequests")):
            counters[name] = int(network.get(field, 0))
        for verb in ("insert", "update"):
            if kinds := status.get("opWriteConcernCounters", {}).get(verb):
                counters[f"w:majority {verb}"] = int(kinds.get("wmajority", 0))
                counters[f"w:default {verb}"] = int(kinds.get("none", 0))
                for number, count in kinds.get("wnum", {}).items():
                    counters[f"w:{number} {verb}"] = int(count)
        return 1000 * int(usage.get("user_time_us", 0) + usage.get("system_time_us", 0)), counters


def fill(collection: Any, count: int, make: Callable[[int], Any], index: str = "") -> None:
    """Store `count` documents and create an index, unless there are as many already."""
    if collection.estimated_document_count() == count:
        return
    collection.drop()
    for start in range(0, count, CHUNK):
        collection.insert_many([make(number) for number in range(start, min(count, start + CHUNK))])
    if index:
        collection.create_index(index)


def modules() -> tuple[Any, Any]:
    """Return PyMongo and its bson, or this package if PyMongo is missing."""
    names = ("pymongo", "bson") if importlib.util.find_spec("pymongo") else ("mangonel", "mangonel.bson")
    return importlib.import_module(names[0]), importlib.import_module(names[1])


@contextlib.contextmanager
def _opened(order: protocol.Message) -> Iterator[Callable[[protocol.Message], protocol.Message]]:
    fixtures = Fixtures(order["uri"], order["database"])
    yield lambda message: getattr(fixtures, message["do"])(**{k: v for k, v in message.items() if k != "do"})


if __name__ == "__main__":
    sys.exit(protocol.serve(_opened))
