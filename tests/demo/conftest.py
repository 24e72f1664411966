"""Fixtures of the demo's tests: web processes on the shared deployment, and visitors logged in to them."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.server import Server

sys.path.insert(0, str(Path(__file__).parent))

from site_process import Site, Visitor


@pytest.fixture(scope="module")
def site(server: Server) -> Iterator[Site]:
    """A web process of this module's own database, with a closed shop."""
    with Site(server.uri, f"demo_{uuid.uuid4().hex[:8]}") as running:
        yield running
        with MongoClient[Any](server.uri) as client:
            client.drop_database(running.database)


@pytest.fixture
def shop(site: Site) -> Iterator[Any]:
    """The site's database, for writes like the shop's."""
    with MongoClient[Any](site.uri) as client:
        yield client[site.database]


@pytest.fixture(scope="module")
def login_of_ada(site: Site) -> Iterator[Visitor]:
    """The login that visitors share, because hashing a password takes 100 ms."""
    with Visitor(site) as visitor:
        yield visitor


@pytest.fixture
def ada(site: Site, login_of_ada: Visitor) -> Iterator[Visitor]:
    """A logged-in visitor."""
    # The first visitor has to log in, and so does the next after a test that ends websessions.
    if login_of_ada.http.get("/api/files").status_code == 401:
        login_of_ada.log_in("ada")
    with Visitor(site) as visitor:
        visitor.go_on_as(login_of_ada)
        yield visitor


@pytest.fixture
def stranger(site: Site) -> Iterator[Visitor]:
    """A visitor without a login."""
    with Visitor(site) as visitor:
        yield visitor
