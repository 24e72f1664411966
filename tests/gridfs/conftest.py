"""Both faces, a bucket on each, and PyMongo's gridfs beside them as the oracle."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, gridfs
from mangonel.server import Server


class Face:
    """A client class, the classes of GridFS beside it, and the way to wait for what their methods return."""

    def __init__(self, name: str, wait: Callable[[Any], Any]) -> None:
        self.name = name
        self.is_async = name == "asyncio"
        self.wait = wait
        self.client_class: type[Any] = AsyncMongoClient if self.is_async else MongoClient
        prefix = "Async" if self.is_async else ""
        self.fs_class, self.bucket_class, self.in_class, self.out_class = (
            getattr(gridfs, prefix + noun) for noun in ("GridFS", "GridFSBucket", "GridIn", "GridOut")
        )
        self.clients: list[Any] = []

    def connect(self, uri: str, **options: Any) -> Any:
        """Return a client that the fixture closes."""
        client = self.client_class(uri, **options)
        self.clients.append(client)
        return client

    def collect(self, iterable: Any) -> list[Any]:
        """Return all items by iterating."""
        if not self.is_async:
            return list(iterable)

        async def gather() -> list[Any]:
            return [item async for item in iterable]

        return list(self.wait(gather()))

    def inside(self, context: Any, work: Callable[[Any], Any]) -> Any:
        """Run `work` inside `with` or `async with`."""
        if not self.is_async:
            with context as entered:
                return work(entered)

        async def steps() -> Any:
            async with context as entered:
                value = work(entered)
                return await value if inspect.isawaitable(value) else value

        return self.wait(steps())


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """Each face in turn; `face.wait(value)` is the value itself, or what the coroutine returns."""
    loop = asyncio.new_event_loop() if request.param == "asyncio" else None

    def wait(value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value
        assert loop is not None
        return loop.run_until_complete(value)

    made = Face(request.param, wait)
    yield made
    for client in made.clients:
        wait(client.close())
    if loop is not None:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@pytest.fixture
def database_name(standalone: Server) -> str:
    """The name of a database that only this test uses. On a standalone: its writes wait for nobody."""
    return f"test_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def database(face: Face, standalone: Server, database_name: str) -> Any:
    """A fresh database on the face under test."""
    return face.connect(standalone.uri)[database_name]


@pytest.fixture
def bucket(face: Face, database: Any) -> Any:
    """A bucket of small chunks, so that few bytes make many of them."""
    return face.bucket_class(database, chunk_size_bytes=10)


@pytest.fixture
def peer(standalone: Server, database_name: str) -> Iterator[Any]:
    """PyMongo's view of the same database."""
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(standalone.uri) as client:
        yield client[database_name]


@pytest.fixture
def stored(face: Face, bucket: Any) -> Callable[..., Any]:
    """Store bytes as a file and return it, open for reading."""

    def store(data: bytes, **options: Any) -> Any:
        file_id = face.wait(bucket.upload_from_stream("file", data, **options))
        return face.wait(bucket.open_download_stream(file_id))

    return store
