"""One fixture for both faces, and PyMongo beside them as the oracle."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel.server import Server

FACES = ("blocking", "asyncio")


@dataclass
class Face:
    """A client class and the way to wait for what its methods return."""

    name: str
    client_class: type[Any]
    wait: Callable[[Any], Any]
    is_async: bool
    clients: list[Any] = field(default_factory=list)

    def connect(self, uri: str, **options: Any) -> Any:
        """Return a client that the fixture closes."""
        client = self.client_class(uri, **options)
        self.clients.append(client)
        return client

    def collect(self, cursor: Any) -> list[Any]:
        """Return all documents of a cursor by iterating over it."""
        if not self.is_async:
            return list(cursor)

        async def gather() -> list[Any]:
            return [document async for document in cursor]

        return list(self.wait(gather()))


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """Each face in turn; `face.wait(value)` is the value itself, or what the coroutine returns."""
    if request.param == "blocking":
        made = Face("blocking", MongoClient, lambda value: value, is_async=False)
        yield made
    else:
        loop = asyncio.new_event_loop()

        def wait(value: Any) -> Any:
            return loop.run_until_complete(value) if inspect.isawaitable(value) else value

        made = Face("asyncio", AsyncMongoClient, wait, is_async=True)
        yield made
    for client in made.clients:
        made.wait(client.close())
    if made.is_async:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@pytest.fixture
def client(face: Face, server: Server) -> Any:
    """A client of `server` on the face under test."""
    return face.connect(server.uri)


@pytest.fixture
def collection(client: Any, database_name: str) -> Any:
    """A fresh collection on the face under test."""
    return client[database_name]["things"]


@pytest.fixture
def oracle(server: Server, database_name: str) -> Iterator[Any]:
    """PyMongo's view of another fresh collection of the same database."""
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(server.uri) as peer:
        yield peer[database_name]["things_of_the_oracle"]
