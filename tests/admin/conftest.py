"""The models of the admin's tests, an admin of them, and visitors of its mounts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel.admin import Admin
from mangonel.odm import Connection, connect
from mangonel.server import Server
from mangonel.websessions import WebSessions

sys.path.insert(0, str(Path(__file__).parent))

from admin_models import Author, Contract, Picture, Place, Post, Scan, Thumbnail, Vault, Wallet
from admin_visitor import Visitor


def check(name: str, password: str) -> str | None:
    """Log in everyone who knows the password."""
    return name if password == "right" else None


def allowed(user: str, action: str, model: Any, document: Any) -> bool:
    """Let Eve only read, without drafts and without the author Mallory."""
    if user != "eve":
        return True
    is_hidden = getattr(document, "title", "") == "draft" or getattr(document, "name", "") == "Mallory"
    return action in ("list", "view") and model is not Vault and not is_hidden


@pytest.fixture
def db(server: Server, database_name: str) -> Iterator[Connection]:
    """The default connection of models, to a database that only this test uses."""
    made = connect(server.uri, database=database_name)
    yield made
    made.close()


@pytest.fixture
def admin() -> Admin:
    """An admin of the models."""
    return Admin(
        Author,
        Post,
        Contract,
        Vault,
        Scan,
        Picture,
        Thumbnail,
        Wallet,
        Place,
        sessions=WebSessions("memory:"),
        login=check,
        allowed=allowed,
        page_size=3,
    )


@pytest.fixture
def stranger(db: Connection, admin: Admin) -> Iterator[Visitor]:
    """A visitor who is not logged in, on ASGI."""
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    testclient = pytest.importorskip("starlette.testclient")
    app = applications.Starlette(routes=[routing.Mount("/admin", admin.asgi())])

    with testclient.TestClient(app, base_url="https://admin.example") as client:
        yield Visitor(client)
        client.portal.call(db.aclose)


@pytest.fixture
def ada(stranger: Visitor) -> Visitor:
    """A visitor who is logged in."""
    stranger.log_in()
    return stranger
