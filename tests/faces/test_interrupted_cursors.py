"""Ctrl-C at every step of a read that opens a cursor: the server keeps none open, and no connection stays in use."""

from __future__ import annotations

import gc
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mangonel
from mangonel import CursorType, MongoClient
from mangonel._shared.client import abandoned_cursors
from mangonel.server import Server
from tools.faces import pool_sizes
from tools.interrupts import interrupt, places

HERE = Path(mangonel.__file__).parent
FOLDERS = tuple(str(HERE / name) for name in ("_shared", "_faces"))
SECONDS = 20.0


class Reads:
    """A collection of five documents, and the read to interrupt."""

    def __init__(self, client: MongoClient, database: str) -> None:
        self.things = client[database].things
        self.things.insert_many({"_id": number} for number in range(5))
        self.session = client.start_session()

    def find(self) -> None:
        """Reads the first batch of a query."""
        next(self.things.find(batch_size=2))

    def all(self) -> None:
        """Reads a query to its end."""
        self.things.find(batch_size=2).to_list()

    def prefetch(self) -> None:
        """The next batch is prefetched."""
        next(self.things.find(batch_size=2, prefetch=True))

    def exhaust(self) -> None:
        """The server sends further batches unasked (exhaust)."""
        next(self.things.find(batch_size=2, cursor_type=CursorType.EXHAUST))

    def aggregate(self) -> None:
        """The first batch arrives with the cursor."""
        self.things.aggregate([], batchSize=2)

    def in_session(self) -> None:
        """Other operations of the session must not be killed."""
        next(self.things.find(batch_size=2, session=self.session))

    def aggregate_in_session(self) -> None:
        """The same with the cursor of a command."""
        self.things.aggregate([], batchSize=2, session=self.session)

    def watch(self) -> None:
        """A change stream."""
        self.things.watch(max_await_time_ms=1).try_next()


@pytest.fixture
def client(
    request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MongoClient]:
    """A client of the shared server that sweeps abandoned cursors at once."""
    monkeypatch.setattr(abandoned_cursors, "_SWEEP_S", 0.01)
    if request.param == "reference":
        monkeypatch.setenv("MANGONEL_IMPL", "reference")
    with MongoClient(server.uri) as made:
        yield made


def left_over(client: MongoClient, database: str) -> Any:
    """Return the server's open cursors and the connections in use that do not end by themselves."""
    pipeline: list[Any] = [
        {"$currentOp": {"idleCursors": True, "allUsers": True}},
        {"$match": {"type": "idleCursor", "ns": {"$regex": f"^{database}\\."}}},
    ]
    end = time.monotonic() + SECONDS
    while True:
        found = list(client.admin.aggregate(pipeline)), any(pool_sizes(client)[1:])
        if not any(found) or time.monotonic() > end:
            return found if any(found) else None
        time.sleep(0.002)


def at_every_place(comes_to: Callable[[int], bool], client: MongoClient, database: str) -> int:
    """Interrupt at each place in turn and check that nothing is left; return the number of the first place that does
    not exist.

    Args:
        comes_to: interrupts at the place of a number, from one; returns whether there is such a place.
        client: what is read with.
        database: the database that is read; dropped.
    """
    wrong = []
    for at in itertools.count(1):
        was = comes_to(at)
        if left := left_over(client, database):
            wrong.append((at, left[1], len(left[0])))
            client.admin.command({"killAllSessions": []})
        if not was:
            break
    client.drop_database(database)
    assert not wrong, f"{len(wrong)} of {at - 1} places: {wrong}"
    return at


WAYS = [name for name in vars(Reads) if not name.startswith("_")]
# On the reference path a handler may run between request and reply. Then the id of a cursor in the user's session is
# unknown, and the cursor stays open until the session ends.
CASES = [
    (path, way) for path in ("fused", "reference") for way in WAYS if path == "fused" or "session" not in way
]


# pytest would report the warning, with the flow that was interrupted before its first step, and keep its cursor alive.
@pytest.mark.enough(4)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(("client", "way"), CASES, indirect=["client"], ids=str)
def test_an_interrupted_read_leaves_no_cursor_open(way: str, client: MongoClient, database_name: str) -> None:
    reads = Reads(client, database_name)
    read: Callable[[], None] = getattr(reads, way)
    read()

    def comes_to(at: int) -> bool:
        was = interrupt(read, at, FOLDERS)
        gc.collect(0)
        return was

    assert at_every_place(comes_to, client, database_name) > 10


@pytest.mark.parametrize("client", ["fused", "reference"], indirect=True)
@pytest.mark.parametrize("way", ["find", "prefetch", "exhaust", "in_session"])
def test_an_interrupted_finalizer_leaves_no_cursor_open(
    way: str, client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python reports an exception that a finalizer raises, and continues. pytest's hook would keep that exception until
    # the test ends, and with it the finalizer's frame, the cursor object and its prefetched batch.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    read = getattr(Reads(client, database_name), way)
    read()

    def comes_to(at: int) -> bool:
        # The object is dropped when `read` returns.
        return places(read, FOLDERS, at, in_finalizers=True) == at

    assert at_every_place(comes_to, client, database_name) > 2
