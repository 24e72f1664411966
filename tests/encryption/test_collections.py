"""Collections of Queryable Encryption: the commands that create and drop them, compared with PyMongo's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import errors
from mangonel.bson import Binary
from mangonel.encryption import AutoEncryptionOpts
from tools.faces import found
from tools.scripted_server import ScriptedServer

FIELDS: dict[str, Any] = {
    "fields": [{"path": "ssn", "bsonType": "string", "keyId": Binary(uuid.UUID(int=1).bytes, 4)}]
}
NAMED = {**FIELDS, "escCollection": "mine.esc", "ecocCollection": "mine.ecoc"}
_OF_THE_DRIVER = {"lsid", "$db", "$readPreference", "txnNumber"}


@pytest.fixture
def server() -> Any:
    """A server that is new enough and accepts every command."""
    with ScriptedServer(hello={"maxWireVersion": 21}) as started:
        for name in ("create", "createIndexes", "drop"):
            started.on(name, {"ok": 1})
        started.on("listCollections", found())
        yield started


@pytest.fixture
def databases(face: Any, server: ScriptedServer) -> Any:
    """Our database, and PyMongo's."""
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(server.uri) as peer:
        yield face.client(server.uri).shop, peer.shop


def sent_by(server: ScriptedServer, call: Callable[[], Any]) -> list[dict[str, Any]]:
    before = len(server.received())
    call()
    return [
        {name: value for name, value in request.command.items() if name not in _OF_THE_DRIVER}
        for request in server.received()[before:]
    ]


@pytest.mark.parametrize("fields", [FIELDS, NAMED], ids=["default", "named"])
def test_making_one_makes_its_state_and_its_index(
    face: Any, server: ScriptedServer, databases: Any, fields: dict[str, Any]
) -> None:
    ours, theirs = databases
    mine = sent_by(server, lambda: face.wait(ours.create_collection("people", encryptedFields=fields)))
    peers = sent_by(server, lambda: theirs.create_collection("people", encryptedFields=_peer(fields)))
    assert mine == peers
    assert [next(iter(command.items())) for command in mine[1:]] == [
        ("create", fields.get("escCollection", "enxcol_.people.esc")),
        ("create", fields.get("ecocCollection", "enxcol_.people.ecoc")),
        ("create", "people"),
        ("createIndexes", "people"),
    ]


def _peer(fields: dict[str, Any]) -> dict[str, Any]:
    from bson import Binary as PeerBinary

    changed = [{**field, "keyId": PeerBinary(bytes(field["keyId"]), 4)} for field in fields["fields"]]
    return {**fields, "fields": changed}


@pytest.mark.parametrize("fields", [None, FIELDS, NAMED], ids=["plain", "default", "named"])
def test_dropping_one_drops_its_state(
    face: Any, server: ScriptedServer, databases: Any, fields: dict[str, Any] | None
) -> None:
    ours, theirs = databases
    mine = sent_by(server, lambda: face.wait(ours.drop_collection("people", encrypted_fields=fields)))
    same = sent_by(server, lambda: face.wait(ours.people.drop(encrypted_fields=fields)))
    peers = sent_by(server, lambda: theirs.drop_collection("people", encrypted_fields=fields))
    assert mine == same == peers
    assert len(mine) == (3 if fields else 1)


@pytest.fixture
def options(vault: str, providers: dict[str, Any]) -> Callable[..., AutoEncryptionOpts]:
    return lambda **more: AutoEncryptionOpts(providers, vault, bypass_query_analysis=True, **more)


def test_the_clients_map_knows_the_fields(face: Any, server: ScriptedServer, options: Any) -> None:
    given = options(encrypted_fields_map={"shop.people": FIELDS})
    ours = face.client(server.uri, auto_encryption_opts=given).shop
    made = sent_by(server, lambda: face.wait(ours.create_collection("people", check_exists=False)))
    # The server's part has another library's values.
    assert str([command.get("encryptedFields") for command in made]) == str([None, None, FIELDS, None])
    dropped = sent_by(server, lambda: face.wait(ours.drop_collection("people")))
    assert [command["drop"] for command in dropped] == ["enxcol_.people.esc", "enxcol_.people.ecoc", "people"]


def test_a_client_that_encrypts_asks_the_server_for_the_fields(
    face: Any, server: ScriptedServer, options: Any
) -> None:
    server.on("listCollections", found({"name": "people", "options": {"encryptedFields": NAMED}}))
    ours = face.client(server.uri, auto_encryption_opts=options()).shop
    dropped = sent_by(server, lambda: face.wait(ours.people.drop()))
    assert [command.get("drop") for command in dropped] == [None, "mine.esc", "mine.ecoc", "people"]


def test_new_keys_are_made_for_fields_that_have_none(
    face: Any, server: ScriptedServer, keys: Any, databases: Any
) -> None:
    given = {"fields": [{"path": "ssn", "bsonType": "string", "keyId": None}]}
    _, fields = face.wait(keys.create_encrypted_collection(databases[0], "people", given, "local"))
    made = [request.command for request in server.received("create")]
    assert str(made[-1]["encryptedFields"]) == str(fields)
    assert face.wait(keys.get_key(fields["fields"][0]["keyId"])) is not None
    assert given["fields"][0]["keyId"] is None


def test_an_old_server_gets_nothing_and_the_keys_are_told(face: Any, standalone: Any, keys: Any) -> None:
    given = {"fields": [{"path": "ssn", "bsonType": "string", "keyId": None}]}
    database = face.client(standalone.uri).shop
    with pytest.raises(errors.EncryptedCollectionError, match="need maxWireVersion >= 21") as caught:
        face.wait(keys.create_encrypted_collection(database, "people", given, "local"))
    assert caught.value.encrypted_fields["fields"][0]["keyId"].subtype == 4
    assert face.wait(database.list_collection_names()) == []
