"""A program that leaves clients, cursors, sessions, files or websessions behind exits silently with 0.

Each program runs in a process of its own, on a real mongod: on the blocking face, fused and on the reference path,
under gevent, on asyncio and on uvloop. Some keep their objects until modules are gone, some call the driver from
`atexit` or from a finalizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mangonel
from mangonel import MongoClient
from mangonel.server import Server

BLOCKING = """
import atexit, builtins, os, sys, threading, time
import mangonel
from mangonel import MongoClient, monitoring
from mangonel.gridfs import GridFSBucket
from mangonel.odm import Document, connect
from mangonel.websessions import RequestView, WebSessions
from mangonel.websessions.stores.mongodb import BlockingMongoStore

class Guest(Document):
    name: str

class Last:
    "Ends in a cycle, when the interpreter does."
    def __init__(self, work):
        self.work, self.me = work, self
    def __del__(self):
        self.work()

client = MongoClient(sys.argv[1])
database = client[sys.argv[2]]
things = database.things

def opened(**options):
    cursor = things.find(batch_size=2, **options)
    next(cursor)
    return cursor
"""
ASYNCIO = """
import asyncio, atexit, builtins, os, sys, threading, time
import mangonel
from mangonel import AsyncMongoClient
from mangonel.gridfs import AsyncGridFSBucket
from mangonel.odm import Document, connect
from mangonel.websessions import RequestView, WebSessions
from mangonel.websessions.stores.mongodb import MongoStore

class Guest(Document):
    name: str

client = AsyncMongoClient(sys.argv[1])
database = client[sys.argv[2]]
things = database.things

async def opened(**options):
    cursor = things.find(batch_size=2, **options)
    await cursor.next()
    return cursor
"""
BLOCKING_PROGRAMS = {
    "cursor": "cursor = opened()",
    "prefetching cursor": "cursor = opened(prefetch=True)",
    "cursor kept by builtins": "builtins.kept = opened(), client",
    "cursor kept with the package's modules": "builtins.kept = opened(), client, mangonel, sys.modules.copy()",
    "cursor in a cycle": "kept = [opened(), client]; kept.append(kept)",
    "session": "session = client.start_session(); things.find_one(session=session)",
    "transaction": """
        session = client.start_session()
        session.start_transaction()
        things.insert_one({}, session=session)
    """,
    "change stream": "stream = things.watch(max_await_time_ms=100); stream.try_next()",
    "atexit uses the client": "atexit.register(things.find_one)",
    "atexit closes the client": "cursor = opened(); atexit.register(client.close)",
    "atexit registered before the client": "earlier.append(things); things.find_one()",
    "_exit": "cursor = opened(); os._exit(0)",
    "daemon threads": """
        def work():
            while True:
                list(things.find(batch_size=2))
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
    """,
    "finalizer that closes": """
        session = client.start_session()
        cursor = opened(session=session)
        last = Last(lambda parts=(cursor.close, session.end_session, client.close): [part() for part in parts])
    """,
    "finalizer that asks": """
        def ask(find_one=things.find_one):
            try:
                find_one()
            except Exception:
                pass
        last = Last(ask)
    """,
    "listener": """
        class Listener(monitoring.CommandListener, monitoring.ConnectionPoolListener):
            def __getattribute__(self, name):
                return print if name == "never" else (lambda *_: None)
        listening = MongoClient(sys.argv[1], event_listeners=[Listener()])
        builtins.kept = listening[sys.argv[2]].things.find(batch_size=2)
        next(builtins.kept)
    """,
    "mapper": """
        connect(client=client, database=sys.argv[2])
        guest = Guest(name="ada")
        guest.save()
        found = iter(Guest.find())
        builtins.kept = next(found), found, Guest
    """,
    "file": """
        bucket = GridFSBucket(database)
        source = bucket.open_download_stream(bucket.upload_from_stream("file", bytes(600_000)))
        source.read(10)
        target = bucket.open_upload_stream("empty")
    """,
    "file that is being written, until modules are gone": """
        builtins.kept = GridFSBucket(database).open_upload_stream("file")
        builtins.kept.write(bytes(600_000))
    """,
    "websession": """
        sessions = WebSessions(BlockingMongoStore(database.sessions))
        session = sessions.blocking.load(RequestView(None))
        session["cart"] = ["tea"]
        sessions.blocking.commit(session)
    """,
    "fork": "cursor = opened()\nif child := os.fork(): assert os.waitpid(child, 0)[1] == 0",
}
ASYNCIO_PROGRAMS = {
    "cursor": "cursor = await opened()",
    "cursor kept by builtins": "builtins.kept = await opened(), client",
    "cursor kept with the package's modules": "builtins.kept = await opened(), client, mangonel, sys.modules.copy()",
    "session": "session = client.start_session(); await things.find_one(session=session)",
    "transaction": """
        session = client.start_session()
        await session.start_transaction()
        await things.insert_one({}, session=session)
    """,
    "change stream": "stream = await things.watch(max_await_time_ms=100); await stream.try_next()",
    "task": """
        task = asyncio.create_task(things.find_one({"$where": "sleep(200) || true"}))
        await asyncio.sleep(0.05)
    """,
    "_exit": "cursor = await opened(); os._exit(0)",
    "exit": "cursor = await opened(); sys.exit(0)",
    "atexit closes the client": "cursor = await opened(); atexit.register(lambda: asyncio.run(client.close()))",
    "generator": """
        async def documents():
            async for document in things.find(batch_size=2):
                yield document
        found = documents()
        await anext(found)
    """,
    "daemon threads": """
        async def work():
            other = AsyncMongoClient(sys.argv[1])[sys.argv[2]].things
            while True:
                await other.find(batch_size=2).to_list()
        for _ in range(3):
            threading.Thread(target=asyncio.run, args=(work(),), daemon=True).start()
        await asyncio.sleep(0.3)
    """,
    "mapper": """
        connect(aclient=client, database=sys.argv[2])
        await Guest(name="ada").asave()
        found = aiter(Guest.find())
        builtins.kept = await anext(found), found, Guest
    """,
    "file": """
        bucket = AsyncGridFSBucket(database)
        source = await bucket.open_download_stream(await bucket.upload_from_stream("file", bytes(600_000)))
        await source.read(10)
        builtins.kept = bucket.open_upload_stream("other")
        await builtins.kept.write(bytes(600_000))
    """,
    "websession": """
        sessions = WebSessions(MongoStore(database.sessions))
        session = await sessions.asynchronous.load(RequestView(None))
        session["cart"] = ["tea"]
        await sessions.asynchronous.commit(session)
    """,
}


def program(face: str, name: str) -> str:
    """Return the source of a program."""
    if face in ("asyncio", "uvloop"):
        body = textwrap.indent(textwrap.dedent(ASYNCIO_PROGRAMS[name]), "    ")
        run = "asyncio.run(main())" if face == "asyncio" else "import uvloop; uvloop.run(main())"
        return f"{ASYNCIO}\nasync def main():\n    global cursor, session, stream, task, found, source\n{body}\n{run}"
    first = (
        "import atexit\nearlier = []\natexit.register(lambda: [things.find_one() for things in earlier])\n"
    )
    patched = "from gevent import monkey; monkey.patch_all()\n" if face == "gevent" else ""
    return patched + first + BLOCKING + textwrap.dedent(BLOCKING_PROGRAMS[name])


CASES = [
    *((face, name) for face in ("fused", "reference") for name in BLOCKING_PROGRAMS),
    # gevent's hub has ended when such a finalizer runs, so no socket can wait.
    *(("gevent", name) for name in BLOCKING_PROGRAMS if name != "finalizer that closes"),
    *((face, name) for face in ("asyncio", "uvloop") for name in ASYNCIO_PROGRAMS),
]


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[str]:
    """A database with a collection that the first batch does not exhaust."""
    with MongoClient[Any](server.uri) as client:
        client.exits.things.insert_many([{"n": number} for number in range(50)])
        yield "exits"
        # The server keeps the open transaction of an ended program for a minute, and the drop would wait for it.
        client.admin.command("killAllSessions", [])
        client.drop_database("exits")


@pytest.mark.enough(4)
@pytest.mark.parametrize(("face", "name"), CASES, ids=[f"{face}: {name}" for face, name in CASES])
def test_a_program_exits_silently_whatever_it_leaves(
    face: str, name: str, server: Server, database: str
) -> None:
    for package in ("gevent", "uvloop"):
        if face == package:
            pytest.importorskip(package)
    environment = {
        **os.environ,
        "MANGONEL_IMPL": "reference" if face == "reference" else "fused",
        "PYTHONPATH": str(Path(mangonel.__file__).parent.parent),
        "PYTHONFAULTHANDLER": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program(face, name), server.uri, database],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
