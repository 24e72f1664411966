"""Both faces for the state machines, each beside PyMongo's client of the same face."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mangonel.server import Server
from models.twins import Twins
from tools.faces import Face, faces

face = faces("blocking", "asyncio")


@pytest.fixture
def twins(face: Face, server: Server) -> Iterator[Any]:
    """Two drivers side by side on `server`."""
    made = Twins(face, server.uri)
    yield made
    made.end()
