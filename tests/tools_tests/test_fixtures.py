"""The shared fixtures provide real servers with fail points, and a database that no other test uses."""

from __future__ import annotations

import pymongo
import pytest

from mangonel.server import Server

USED: list[str] = []


@pytest.mark.parametrize("kind", ["server", "standalone"])
def test_shared_servers_have_fail_points(request: pytest.FixtureRequest, kind: str) -> None:
    deployment: Server = request.getfixturevalue(kind)
    assert len(deployment.members) == 1
    assert ("replicaSet=" in deployment.uri) == (kind == "server")
    with pymongo.MongoClient(deployment.uri) as client:
        client.admin.command("configureFailPoint", "failCommand", mode="off")


def test_database_name_is_of_this_test_only(server: Server, database_name: str) -> None:
    with pymongo.MongoClient(server.uri) as client:
        assert database_name not in client.list_database_names()
        client[database_name].things.insert_one({})
    USED.append(database_name)


def test_no_two_tests_have_the_same_database(database_name: str) -> None:
    assert database_name not in USED
