"""Both faces, with PyMongo as the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mangonel.server import Server
from tools.faces import Face, faces

face = faces("blocking", "asyncio")


@pytest.fixture
def client(face: Face, server: Server, kept_clients: dict[tuple[str, str], Any]) -> Any:
    """A client of `server` on the face under test, one for all tests of a file."""
    return face.kept_client(kept_clients, server.uri)


@pytest.fixture
def collection(client: Any, database_name: str) -> Any:
    """A fresh collection on the face under test."""
    return client[database_name]["things"]


@pytest.fixture(scope="module")
def peer(server: Server) -> Iterator[Any]:
    """A client of PyMongo, one for all tests of a file: making one takes 13 ms of both processes."""
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(server.uri) as client:
        yield client


@pytest.fixture
def oracle(peer: Any, database_name: str) -> Any:
    """PyMongo's view of another fresh collection of the same database."""
    return peer[database_name]["things_of_the_oracle"]
