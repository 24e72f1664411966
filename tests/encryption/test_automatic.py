"""Clients that encrypt their commands: requests to mongocryptd, commands to the server, and a missing mongocryptd."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encryption.scripted_mongocryptd import ScriptedMongocryptd
from encryption.seen import Seen
from mangonel import errors
from mangonel.bson import encode
from mangonel.encryption import AutoEncryptionOpts
from mangonel.encryption._library import MongoCryptError
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket
from mangonel.operations import InsertOne
from tools.faces import eventually
from tools.scripted_server import ScriptedServer

DETERMINISTIC = "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic"
ENCRYPTED = 6


@pytest.fixture
def mongocryptd() -> Iterator[ScriptedMongocryptd]:
    """A scripted mongocryptd."""
    with ScriptedMongocryptd() as started:
        yield started


@pytest.fixture
def schema(face: Any, keys: Any) -> dict[str, Any]:
    """A schema with one encrypted field, whose key is in the vault."""
    key_id = face.wait(keys.create_data_key("local"))
    rule = {"bsonType": "string", "algorithm": DETERMINISTIC, "keyId": [key_id]}
    return {"bsonType": "object", "properties": {"ssn": {"encrypt": rule}}}


@pytest.fixture
def options(
    vault: str, providers: dict[str, Any], mongocryptd: ScriptedMongocryptd
) -> Callable[..., AutoEncryptionOpts]:
    def make(**more: Any) -> AutoEncryptionOpts:
        given = {"mongocryptd_uri": mongocryptd.uri, "mongocryptd_bypass_spawn": True, **more}
        return AutoEncryptionOpts(providers, vault, **given)

    return make


@pytest.fixture
def people(
    face: Any, standalone: Any, vault: str, schema: dict[str, Any], options: Callable[..., Any]
) -> Any:
    """A collection whose client has a schema."""
    database = vault.partition(".")[0]
    given = options(schema_map={f"{database}.people": schema})
    return face.client(standalone.uri, auto_encryption_opts=given)[database].people


def stored(face: Any, standalone: Any, collection: Any) -> list[dict[str, Any]]:
    """Return the documents as the server has them."""
    bare = face.client(standalone.uri)[collection.database.name][collection.name]
    return face.collect(bare.find().sort("_id"))


def test_what_the_schema_says_is_encrypted_in_every_command(face: Any, standalone: Any, people: Any) -> None:
    ada = {"_id": 1, "name": "Ada", "ssn": "457"}
    face.wait(people.insert_one(ada))
    face.wait(people.insert_many([{"_id": 2, "ssn": "458"}, {"_id": 3}]))
    face.wait(people.bulk_write([InsertOne({"_id": 4, "ssn": "459"})]))
    face.wait(people.update_one({"ssn": "458"}, {"$set": {"ssn": "460"}}))

    found = stored(face, standalone, people)
    assert [person["ssn"].subtype for person in found if "ssn" in person] == [ENCRYPTED] * 3
    assert found[0]["name"] == "Ada"
    # The given document stays unchanged.
    assert ada["ssn"] == "457"
    assert face.wait(people.find_one({"ssn": "457"})) == ada
    assert face.wait(people.find_one({"ssn": "458"})) is None
    assert sorted(face.wait(people.distinct("ssn"))) == ["457", "459", "460"]
    assert face.wait(people.count_documents({"ssn": "459"})) == 1
    assert face.wait(people.find_one_and_update({"ssn": "459"}, {"$set": {"n": 1}}))["ssn"] == "459"
    assert [person["_id"] for person in face.wait(face_list(face, people))] == [1, 2, 3, 4]
    assert face.wait(people.delete_many({"ssn": "460"})).deleted_count == 1


async def _list_of(cursor: Any) -> list[Any]:
    return await (await cursor).to_list()


def face_list(face: Any, people: Any) -> Any:
    """Return all documents by an aggregation."""
    cursor = people.aggregate([{"$sort": {"_id": 1}}])
    return _list_of(cursor) if face.is_async else cursor.to_list()


def test_pymongo_writes_and_reads_the_same(
    face: Any,
    standalone: Any,
    people: Any,
    schema: dict[str, Any],
    vault: str,
    providers: dict[str, Any],
    mongocryptd: ScriptedMongocryptd,
) -> None:
    pymongo = pytest.importorskip("pymongo")
    from bson import decode
    from pymongo.encryption_options import AutoEncryptionOpts as PeerOptions

    given = PeerOptions(
        providers,
        vault,
        schema_map={f"{people.database.name}.people": decode(encode(schema))},
        mongocryptd_uri=mongocryptd.uri,
        mongocryptd_bypass_spawn=True,
    )
    with pymongo.MongoClient(standalone.uri, auto_encryption_opts=given) as client:
        theirs = client[people.database.name].people
        theirs.insert_one({"_id": 1, "ssn": "457"})
        face.wait(people.insert_one({"_id": 2, "ssn": "457"}))
        assert theirs.find_one({"_id": 2})["ssn"] == "457"
        assert [person["_id"] for person in face.collect(people.find({"ssn": "457"}))] == [1, 2]
        # mongocryptd keeps no sessions.
        asked = [
            {*request.command, *request.sequences} - {"lsid"} for request in mongocryptd.received("insert")
        ]

    ours, peers = (person["ssn"] for person in stored(face, standalone, people))
    assert ours == peers
    assert asked[0] == asked[1]


def test_the_servers_schema_is_asked_for_once(
    face: Any, standalone: Any, vault: str, schema: dict[str, Any], options: Any
) -> None:
    seen, database = Seen(), vault.partition(".")[0]
    bare = face.client(standalone.uri)[database]
    face.wait(bare.create_collection("people", validator={"$jsonSchema": schema}))
    client = face.client(standalone.uri, auto_encryption_opts=options(), event_listeners=[seen])

    face.wait(client[database].people.insert_one({"_id": 1, "ssn": "457"}))
    face.wait(client[database].people.insert_one({"_id": 2, "ssn": "457"}))

    assert seen.names == ["listCollections", "find", "insert", "insert"]
    assert stored(face, standalone, client[database].people)[1]["ssn"].subtype == ENCRYPTED


def test_large_writes_are_split_for_query_analysis(
    face: Any, people: Any, mongocryptd: ScriptedMongocryptd
) -> None:
    large = "x" * 1_200_000
    face.wait(people.insert_many([{"_id": n, "text": large} for n in range(3)]))
    assert [len(request.command["documents"]) for request in mongocryptd.received("insert")] == [1, 1, 1]


def test_files_are_stored_and_read(face: Any, standalone: Any, people: Any) -> None:
    bucket = (AsyncGridFSBucket if face.is_async else GridFSBucket)(people.database)
    data = os.urandom(300_000)
    file_id = face.wait(bucket.upload_from_stream("file", data))
    assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == data


def test_writes_of_several_collections_are_refused(face: Any, options: Any) -> None:
    with ScriptedServer(hello={"maxWireVersion": 25}) as server:
        client = face.client(server.uri, auto_encryption_opts=options())
        with pytest.raises(errors.InvalidOperation, match="does not currently support automatic encryption"):
            face.wait(client.bulk_write([InsertOne({"ssn": "457"}, namespace="shop.people")]))
        assert server.received() == []


def test_a_command_that_nobody_can_encrypt_is_not_sent(face: Any, people: Any) -> None:
    with pytest.raises(errors.EncryptionError, match="not supported for auto encryption"):
        face.wait(people.database.command("collStats", "people"))


def test_what_mongocryptd_refuses_is_not_sent(
    face: Any, standalone: Any, people: Any, mongocryptd: ScriptedMongocryptd
) -> None:
    mongocryptd.on("insert", {"ok": 0, "code": 51088, "errmsg": "cannot encrypt that"})
    with pytest.raises(errors.EncryptionError, match="cannot encrypt that") as caught:
        face.wait(people.insert_one({"ssn": "457"}))
    assert isinstance(caught.value.cause, errors.OperationFailure)
    assert stored(face, standalone, people) == []


def test_without_mongocryptd_the_remedy_is_named(
    face: Any, standalone: Any, people: Any, mongocryptd: ScriptedMongocryptd, options: Any
) -> None:
    mongocryptd.stop()
    given = options(mongocryptd_uri=f"{mongocryptd.uri}&serverSelectionTimeoutMS=50")
    client = face.client(standalone.uri, auto_encryption_opts=given)
    with pytest.raises(errors.EncryptionError, match="set crypt_shared_lib_path") as caught:
        face.wait(client[people.database.name].people.insert_one({"ssn": "457"}))
    assert isinstance(caught.value.cause, errors.ServerSelectionTimeoutError)
    assert stored(face, standalone, people) == []


def test_mongocryptd_is_started_once_with_its_arguments(
    face: Any, standalone: Any, people: Any, options: Any, schema: dict[str, Any], tmp_path: Path
) -> None:
    program, told = tmp_path / "mongocryptd", tmp_path / "told"
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\n')
    program.chmod(0o755)
    given = options(
        mongocryptd_bypass_spawn=False,
        mongocryptd_spawn_path=str(program),
        mongocryptd_spawn_args=["--port=1"],
        schema_map={f"{people.database.name}.people": schema},
    )
    mine = face.client(standalone.uri, auto_encryption_opts=given)[people.database.name].people

    face.wait(mine.insert_one({"_id": 1, "ssn": "457"}))
    face.wait(mine.insert_one({"_id": 2, "ssn": "457"}))

    eventually(lambda: told.exists() and told.read_text().endswith("\n"), "the program to have run")
    assert told.read_text() == "--port=1 --idleShutdownTimeoutSecs=60\n"


def test_without_query_analysis_nobody_is_asked(
    face: Any, standalone: Any, people: Any, mongocryptd: ScriptedMongocryptd, options: Any
) -> None:
    given = options(bypass_query_analysis=True)
    mine = face.client(standalone.uri, auto_encryption_opts=given)[people.database.name].people
    face.wait(mine.insert_one({"_id": 1, "ssn": "457"}))
    assert stored(face, standalone, people) == [{"_id": 1, "ssn": "457"}]
    assert mongocryptd.received() == []


def test_a_library_that_is_required_and_not_there_is_named(face: Any, standalone: Any, options: Any) -> None:
    with pytest.raises(MongoCryptError, match="set crypt_shared_lib_path"):
        face.client(standalone.uri, auto_encryption_opts=options(crypt_shared_lib_required=True))
    with pytest.raises(MongoCryptError, match="crypt_shared"):
        face.client(standalone.uri, auto_encryption_opts=options(crypt_shared_lib_path="/nowhere/lib.so"))


def test_arguments_of_mongocryptd_are_a_list(options: Any) -> None:
    with pytest.raises(TypeError, match="mongocryptd_spawn_args must be a list"):
        options(mongocryptd_spawn_args="--port=1")
