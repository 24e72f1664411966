"""Servers with users, and the faces of `tests/faces`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from faces.conftest import async_face, blocking_face, face, loop_name
from mangonel import MongoClient
from mangonel.server import Server, start

__all__ = ["async_face", "blocking_face", "face", "loop_name"]

# Characters that URIs escape, that SCRAM escapes, and that SASLprep changes: it drops a soft hyphen, and turns a Roman
# numeral into letters.
ROOT = ("ro ot@/:%=,ü", "p%ass:@/=,wörd I\u00adX \u2168")

# name -> password, mechanisms, database
USERS: dict[str, tuple[str, list[str], str]] = {
    "sha1": ("sha1 secret", ["SCRAM-SHA-1"], "admin"),
    "sha256": ("sha256 secret", ["SCRAM-SHA-256"], "admin"),
    "both": ("both secret", ["SCRAM-SHA-1", "SCRAM-SHA-256"], "admin"),
    "local": ("local secret", ["SCRAM-SHA-1", "SCRAM-SHA-256"], "shop"),
    # RFC 4013: the server keeps the password as "IX".
    "IX": ("IX", ["SCRAM-SHA-256"], "admin"),
    "\u2168": ("\u2163", ["SCRAM-SHA-256"], "admin"),
}


def add_users(uri: str) -> None:
    with MongoClient(uri) as client:
        for name, (password, mechanisms, database) in USERS.items():
            roles = [{"role": "readWriteAnyDatabase", "db": "admin"}]
            client[database].command("createUser", name, pwd=password, roles=roles, mechanisms=mechanisms)


@pytest.fixture(scope="session")
def guarded() -> Iterator[Server]:
    """A standalone with access control; shared."""
    with start(auth=ROOT, set_parameters={"enableTestCommands": 1}) as server:
        add_users(server.uri)
        yield server


def uri(server: Server, user: str, password: str, path: str = "", **options: Any) -> str:
    """The URI of a user at a guarded standalone."""
    given = "&".join(f"{name}={value}" for name, value in options.items())
    credentials = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"mongodb://{credentials}@{server.members[0].address}/{path}?{given}"
