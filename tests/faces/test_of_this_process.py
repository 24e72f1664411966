"""Objects that hold connections cannot be pickled or deep-copied; the error names what to pass instead."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, gridfs
from tools.faces import EMPTY, Face
from tools.scripted_server import ScriptedServer

# The remedies that each error must name.
NAMED = {
    "client": "its URI",
    "database": "its name",
    "collection": r"its name.*partitions\(\)",
    "cursor": "pass the documents",
    "raw cursor": "pass the documents",
    "command cursor": "pass the documents",
    "change stream": r"its resume_token.*watch\(resume_after=\)",
    "session": "start one there",
    "bucket": "make it there",
    "files": "make it there",
    "upload": "pass the bytes",
    "download": "its _id",
}


@pytest.fixture
def objects(face: Face, scripted_server: ScriptedServer) -> dict[str, Any]:
    """One object of each kind."""
    scripted_server.on("aggregate", {**EMPTY, "operationTime": 1})
    client = face.client(scripted_server.uri)
    database = client.shop
    orders = database.orders
    prefix = "Async" if face.is_async else ""
    bucket = getattr(gridfs, f"{prefix}GridFSBucket")(database)
    return {
        "client": client,
        "database": database,
        "collection": orders,
        "cursor": orders.find(),
        "raw cursor": orders.find_raw_batches(),
        "command cursor": face.run(lambda: orders.aggregate([])),
        "change stream": face.run(orders.watch),
        "session": client.start_session(),
        "bucket": bucket,
        "files": getattr(gridfs, f"{prefix}GridFS")(database),
        "upload": bucket.open_upload_stream("photo"),
        "download": getattr(gridfs, f"{prefix}GridOut")(database.fs, 1),
    }


@pytest.mark.parametrize("kind", NAMED)
def test_the_error_names_the_class_and_what_to_pass(objects: dict[str, Any], kind: str) -> None:
    found = objects[kind]
    expected = rf"^cannot pickle or deep-copy {type(found).__name__}, which .* process; .*{NAMED[kind]}"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=expected):
            pickle.dumps(found, protocol)
    if kind == "session":
        with pytest.raises(TypeError, match="create a new session"):
            copy.deepcopy(found)
    elif "cursor" not in kind or kind == "command cursor":
        with pytest.raises(TypeError, match=expected):
            copy.deepcopy({"held": found})


def test_a_copy_uses_the_same_connections(face: Face, objects: dict[str, Any], scripted_server: Any) -> None:
    scripted_server.on("count", {"ok": 1, "n": 3})
    copied = [copy.copy(objects[kind]) for kind in ("client", "database", "collection")]
    assert copied == [objects[kind] for kind in ("client", "database", "collection")]
    client, database, collection = copied
    for orders in (client.shop.orders, database.orders, collection):
        assert face.run(orders.estimated_document_count) == 3


class Pickled(MongoClient):  # type: ignore[type-arg]
    """A client that a program re-creates."""

    def __reduce__(self) -> Any:
        return type(self), ("mongodb://localhost:1",), {"connect": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        pass


def test_a_subclass_may_say_how_it_is_pickled() -> None:
    with (
        Pickled("mongodb://localhost:1", connect=False) as client,
        pickle.loads(pickle.dumps(client)) as other,
    ):
        assert other == client
    with pytest.raises(TypeError, match="AsyncMongoClient"):
        pickle.dumps(AsyncMongoClient("mongodb://localhost:1"))
