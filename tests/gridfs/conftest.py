"""Both faces, a loop that watches no descriptors, a bucket on each, and PyMongo's gridfs beside them as the oracle."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tools.faces
from mangonel import gridfs
from mangonel.gridfs import _opening
from mangonel.server import Server


class Face(tools.faces.Face):
    """A face with the classes of GridFS."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        prefix = "Async" if self.is_async else ""
        self.fs_class, self.bucket_class, self.in_class, self.out_class = (
            getattr(gridfs, prefix + noun) for noun in ("GridFS", "GridFSBucket", "GridIn", "GridOut")
        )


face = tools.faces.faces("blocking", "asyncio", "streams", kind=Face)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let GridFS save round trips, as it does when the server is milliseconds away."""
    monkeypatch.setattr(_opening, "LEAST_DISTANCE", 0.0)


@pytest.fixture(params=["near", "far"])
def distance(request: pytest.FixtureRequest) -> None:
    """Run a test both ways; for `usefixtures`."""
    if request.param == "far":
        request.getfixturevalue("far")


@pytest.fixture
def database_name(standalone: Server) -> str:
    """The name of a database for one test, on a standalone, whose writes do not wait for replication."""
    return f"test_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def database(
    face: Face, standalone: Server, database_name: str, kept_clients: dict[tuple[str, str], Any]
) -> Any:
    """A fresh database on the face under test."""
    return face.kept_client(kept_clients, standalone.uri)[database_name]


@pytest.fixture
def bucket(face: Face, database: Any) -> Any:
    """A bucket of small chunks, so that a few bytes make many chunks."""
    return face.bucket_class(database, chunk_size_bytes=10)


@pytest.fixture(scope="module")
def peer_client(standalone: Server) -> Iterator[Any]:
    """A client of PyMongo, one for all tests of a file."""
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(standalone.uri) as client:
        yield client


@pytest.fixture
def peer(peer_client: Any, database_name: str) -> Any:
    """PyMongo's view of the same database."""
    return peer_client[database_name]


@pytest.fixture
def stored(face: Face, bucket: Any) -> Callable[..., Any]:
    """Store bytes as a file and return it, open for reading."""

    def store(data: bytes, **options: Any) -> Any:
        file_id = face.wait(bucket.upload_from_stream("file", data, **options))
        return face.wait(bucket.open_download_stream(file_id))

    return store
