"""One named server: the commands that it gets as a secondary, and the error when it does not belong to the set."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mangonel.errors import ServerSelectionTimeoutError
from mangonel.server import Server
from tools.faces import Face, in_the_end
from tools.scripted_server import ScriptedServer


def member(server_name: str, **fields: Any) -> dict[str, Any]:
    return {"setName": server_name, "isWritablePrimary": False, "secondary": True, **fields}


def test_any_command_may_be_answered_by_a_secondary_that_was_named_directly(face: Face) -> None:
    with ScriptedServer(hello=member("rs0")) as server:
        server.on("listDatabases", {"ok": 1, "databases": []})
        client = face.client(f"mongodb://127.0.0.1:{server.port}/?directConnection=true")
        face.run(lambda: client.admin.command("listDatabases"))
        sent = server.received("listDatabases")[0].command
    assert sent["$readPreference"] == {"mode": "primaryPreferred"}


@pytest.mark.parametrize(
    ("hello", "words"),
    [(member("rs1"), 'a member of replica set "rs1"'), ({}, "a standalone, in no replica set")],
    ids=["other set", "standalone"],
)
def test_a_server_that_is_no_member_of_the_set_is_named_with_what_it_is(
    face: Face, hello: dict[str, Any], words: str
) -> None:
    with ScriptedServer(hello=hello) as server:
        address = f"127.0.0.1:{server.port}"
        client = face.client(f"mongodb://{address}/?replicaSet=rs0", serverSelectionTimeoutMS=300)
        said = re.escape(f"rs0 has no servers, turned away: {address} ({words})")
        in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(lambda: client.shop.orders.find_one()))


def test_a_real_standalone_is_turned_away_by_name(face: Face, standalone: Server) -> None:
    address = standalone.members[0].address
    client = face.client(f"mongodb://{address}/?replicaSet=rs0", serverSelectionTimeoutMS=300)
    said = f"{address} .a standalone, in no replica set"
    in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(lambda: client.shop.orders.find_one()))
