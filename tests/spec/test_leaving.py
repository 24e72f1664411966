"""Collections are re-created only for a case whose data are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mangonel.server import Server
from spec.unified.deployments import Deployment, Leaves
from spec.unified.driver import load_driver
from spec.unified.leaving import left_by
from spec.unified.suites import Case

FIND = {"name": "find", "object": "collection", "arguments": {"filter": {}}}
INSERT = {"name": "insertOne", "object": "collection", "arguments": {"document": {}}}
DROP = {"name": "dropCollection", "object": "database", "arguments": {"collection": "people"}}
OUT = {"name": "aggregate", "object": "collection", "arguments": {"pipeline": [{"$out": "others"}]}}
COUNT = {"name": "aggregate", "object": "collection", "arguments": {"pipeline": [{"$count": "n"}]}}


def command(name: str) -> dict[str, Any]:
    return {"name": "runCommand", "object": "database", "arguments": {"commandName": name, "command": {}}}


def beside(operation: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "runOnThread",
        "object": "testRunner",
        "arguments": {"thread": "one", "operation": operation},
    }


def inside(operation: dict[str, Any]) -> dict[str, Any]:
    return {"name": "withTransaction", "object": "session", "arguments": {"callback": [FIND, operation]}}


@pytest.mark.parametrize(
    ("operations", "leaves"),
    [
        ([FIND, COUNT, command("ping")], Leaves.ALL),
        ([FIND, INSERT], Leaves.COLLECTIONS),
        ([beside(INSERT)], Leaves.COLLECTIONS),
        ([inside(INSERT)], Leaves.COLLECTIONS),
        ([INSERT, DROP], Leaves.NOTHING),
        ([inside(DROP)], Leaves.NOTHING),
        ([OUT], Leaves.NOTHING),
        ([command("collMod")], Leaves.NOTHING),
        ([{"name": "unheardOf", "object": "collection"}], Leaves.NOTHING),
    ],
)
def test_what_a_case_leaves_follows_from_its_operations(operations: list[Any], leaves: Leaves) -> None:
    assert left_by(Case("suite", "file", {"operations": operations}, {})) is leaves


@pytest.fixture
def deployment(server: Server) -> Iterator[Deployment]:
    """A deployment that has received no data yet."""
    with_clients = Deployment(load_driver(), server)
    yield with_clients
    with_clients.close()


def test_a_case_finds_its_own_documents_in_a_collection_that_stays(
    deployment: Deployment, database_name: str
) -> None:
    def load(*documents: dict[str, Any], **options: Any) -> list[Any]:
        wanted = {"databaseName": database_name, "collectionName": "people", "documents": list(documents)}
        deployment.load([wanted | options])
        return deployment.documents(database_name, "people")

    def same_collection() -> Any:
        return deployment._client[database_name].command("listCollections").get("cursor")["firstBatch"]

    assert load({"_id": 1, "n": 1}) == [{"_id": 1, "n": 1}]
    first = same_collection()
    deployment.forget(Leaves.ALL)
    (found,) = load({"_id": 1, "n": True})
    assert found["n"] is True
    deployment._client[database_name].people.insert_one({})
    deployment.forget(Leaves.COLLECTIONS)
    assert load({"_id": 1, "n": True}) == [{"_id": 1, "n": True}]
    assert load() == []
    assert same_collection() == first

    deployment.forget(Leaves.NOTHING)
    assert load({"_id": 1}) == [{"_id": 1}]
    second = same_collection()
    assert second != first
    assert load({"_id": 1}, createOptions={"capped": True, "size": 4096}) == [{"_id": 1}]
    assert load({"_id": 1}) == [{"_id": 1}]
    assert "capped" not in str(same_collection())
