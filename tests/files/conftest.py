"""A database for one test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.server import Server


@pytest.fixture
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"files_{uuid.uuid4().hex[:8]}"]
        yield database
        client.drop_database(database.name)
