"""The everyday operations for `tools/instructions.py`: counted from the call to its result, on both faces.

Another process answers every command with the same reply, so that no server's work is counted. Monitoring is idle
meanwhile. `COUNTED_DRIVER=pymongo` counts the same calls of PyMongo.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from counted import play, play_on_loop

from mangonel import bson

DRIVER: Any = importlib.import_module(os.environ.get("COUNTED_DRIVER", "mangonel"))
TEN = range(10)
ROUNDS = 3
HELLO = {
    "isWritablePrimary": True,
    "setName": "rs0",
    "hosts": [],
    "maxWireVersion": 17,
    "maxBsonObjectSize": 16 * 1024 * 1024,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "ok": 1,
}
PERSON = {"_id": 3, "n": 3, "name": "Ada", "born": 1815}


@dataclass(slots=True)
class Person:
    """What the typed rows make of it."""

    id: int
    n: int
    name: str
    born: int


def cursor(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a reply with exactly these documents."""
    return {"cursor": {"firstBatch": documents, "id": 0, "ns": "shop.people"}, "ok": 1}


REPLIES: dict[str, dict[str, Any]] = {
    "find": cursor([PERSON]),
    "aggregate": cursor([{**PERSON, "_id": number} for number in TEN]),
    "distinct": {"values": list(TEN), "ok": 1},
    "insert": {"n": 10, "ok": 1},
    "update": {"n": 10, "nModified": 10, "ok": 1},
    "delete": {"n": 10, "ok": 1},
    "findAndModify": {"value": PERSON, "ok": 1},
    "commitTransaction": {"ok": 1},
}


def answer(listener: socket.socket) -> None:
    """Answer commands on all connections until standard input ends, which happens when the counted process ends."""
    import selectors

    address = f"127.0.0.1:{listener.getsockname()[1]}"
    hello = {**HELLO, "me": address, "hosts": [address], "primary": address}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                    continue
                sock: Any = key.fileobj
                if not _answer_one(sock, hello):
                    selector.unregister(sock)
                    sock.close()


def _answer_one(sock: socket.socket, hello: dict[str, Any]) -> bool:
    head = sock.recv(16, socket.MSG_WAITALL)
    if len(head) < 16:
        return False
    length, request, _, code = struct.unpack("<iiii", head)
    body = sock.recv(length - 16, socket.MSG_WAITALL)
    # OP_QUERY is the first hello of a connection: flags, the collection's name, two numbers, the command.
    start = 5 if code == 2013 else body.index(b"\0", 4) + 9
    name = body[start + 5 : body.index(b"\0", start + 5)].decode()
    reply = bson.encode(REPLIES.get(name, hello))
    if code == 2013:
        message = struct.pack("<iiiiib", 21 + len(reply), 0, request, 2013, 0, 0) + reply
    else:
        message = struct.pack("<iiiiiqii", 36 + len(reply), 0, request, 1, 8, 0, 0, 1) + reply
    sock.sendall(message)
    return True


def rows(people: Any) -> dict[str, tuple[Callable[[Any], object], Any]]:
    """Return the operations by the names of their rows."""
    update = {"$set": {"name": "Eve"}}
    client = people.database.client
    # PyMongo has no such argument, so its rows are those of dicts.
    into = {"into": Person} if DRIVER.__name__ == "mangonel" else {}
    delete_one, insert_one, update_one = DRIVER.DeleteOne, DRIVER.InsertOne, DRIVER.UpdateOne

    def find_in_a_session(_: object) -> None:
        with client.start_session() as session:
            people.find_one({"_id": 3}, session=session)

    def transaction_of_two(_: object) -> None:
        with client.start_session() as session, session.start_transaction():
            people.insert_one({"n": 3}, session=session)
            people.update_one({"_id": 3}, update, session=session)

    calls: dict[str, Callable[[Any], object]] = {
        "find_one_by_id": lambda _: people.find_one({"_id": 3}),
        "find_one_by_projection": lambda _: people.find_one({"_id": 3}, {"name": 1}),
        "find_one_by_sort": lambda _: people.find_one({"n": 3}, sort=[("n", -1)]),
        "find_one_into": lambda _: people.find_one({"_id": 3}, **into),
        "find_to_list": lambda _: people.find({"n": 3}).to_list(),
        "find_into_to_list": lambda _: people.find({"n": 3}, **into).to_list(),
        "aggregate_ten": lambda _: list(people.aggregate([{"$match": {"n": 3}}])),
        "distinct": lambda _: people.distinct("n"),
        "insert_a_document": lambda _: people.insert_one({"n": 3}),
        "insert_many_of_ten": lambda _: people.insert_many([{"n": number} for number in TEN]),
        "update_one": lambda _: people.update_one({"_id": 3}, update),
        "replace_one": lambda _: people.replace_one({"_id": 3}, {"n": 3}),
        "delete_one": lambda _: people.delete_one({"_id": 3}),
        "find_one_and_update": lambda _: people.find_one_and_update({"_id": 3}, update),
        "bulk_write_of_ten_updates": lambda _: people.bulk_write(
            [update_one({"_id": number}, update) for number in TEN]
        ),
        "bulk_write_of_three_kinds": lambda _: people.bulk_write(
            [
                *(insert_one({"n": number}) for number in range(4)),
                *(update_one({"_id": number}, update) for number in range(3)),
                *(delete_one({"_id": number}) for number in range(3)),
            ]
        ),
        "with_options": lambda _: people.with_options(write_concern=people.write_concern),
        "client_database_collection": lambda _: people.database.client["shop"]["people"],
        "count_documents": lambda _: people.count_documents({"n": 3}),
        "command": lambda _: people.database.command("ping"),
        "find_in_a_session": find_in_a_session,
        "transaction_of_two": transaction_of_two,
    }
    return {name: (call, None) for name, call in calls.items()}


def main() -> None:
    """Start the answering server, and play every row."""
    if sys.argv[1:]:
        answer(socket.socket(fileno=int(sys.argv[1])))
        return
    with serving(__file__) as uri:
        with contextlib.ExitStack() as clients:
            everyday = rows(clients.enter_context(DRIVER.MongoClient(uri))["shop"]["people"])
            if DRIVER.__name__ == "mangonel":
                everyday.update(observed(uri, clients))
            # The smallest count of several rounds is kept: during the first, monitoring still starts up.
            for _ in range(ROUNDS):
                play(everyday)
        on_loop(uri)


@contextlib.contextmanager
def serving(*program: str) -> Iterator[str]:
    """Run a program that answers on the socket whose number is its last argument; yield the server's URI."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # A separate program: callgrind would continue to count in a fork.
        arguments = [sys.executable, *program, str(listener.fileno())]
        shared = [listener.fileno()]
        with subprocess.Popen(arguments, pass_fds=shared, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL):
            # One heartbeat, then none for an hour.
            yield f"mongodb://127.0.0.1:{listener.getsockname()[1]}/?heartbeatFrequencyMS=3600000&directConnection=true"


def on_loop(uri: str) -> None:
    """Play the rows of asyncio, the loop's own work included: its poll, its callbacks and its tasks."""
    # The rows of the blocking face are counted without it.
    import asyncio

    async def played() -> None:
        client = DRIVER.AsyncMongoClient(uri)
        people = client["shop"]["people"]
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "asyncio_find_one": lambda: people.find_one({"_id": 3}),
            "asyncio_find_to_list": lambda: people.find({"n": 3}).to_list(),
            "asyncio_insert_one": lambda: people.insert_one({"n": 3}),
            "asyncio_update_one": lambda: people.update_one({"_id": 3}, {"$set": {"name": "Eve"}}),
            "asyncio_task_of_find_one": lambda: asyncio.create_task(people.find_one({"_id": 3})),
        }
        if DRIVER.__name__ == "mangonel":
            calls["asyncio_find_to_json"] = lambda: people.find({"n": 3}).to_json()
            calls["asyncio_aget"] = person_getter(uri)
        for _ in range(ROUNDS):
            await play_on_loop(calls)
        await client.close()

    asyncio.run(played())


def person_getter(uri: str) -> Callable[[], Awaitable[object]]:
    """Return a function that gets one person as an object of the mapper, on the running loop."""
    from mangonel.odm import Document, connect

    class Person(Document):
        __collection__ = "people"
        id: int
        n: int
        name: str
        born: int

    connect(uri, database="shop")
    return lambda: Person.aget(3)


def observed(uri: str, clients: contextlib.ExitStack) -> dict[str, tuple[Callable[[Any], object], Any]]:
    """Return `find_one_by_id` on clients that are observed.

    In addition to it, `find_one_counted` has the cost of metrics, `find_one_unrecorded` that of spans that nothing
    records, and `find_one_recorded` that of two spans that a processor of the SDK receives.
    """
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())
    observers: dict[str, dict[str, Any]] = {
        "counted": {"metrics": True},
        "unrecorded": {"tracing": True},
        "recorded": {"tracing": {"enabled": True, "tracer_provider": provider}},
    }
    return {
        f"find_one_{name}": (
            lambda people: people.find_one({"_id": 3}),
            clients.enter_context(DRIVER.MongoClient(uri, **options))["shop"]["people"],
        )
        for name, options in observers.items()
    }


if __name__ == "__main__":
    main()
