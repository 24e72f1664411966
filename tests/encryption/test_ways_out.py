"""Every way of reading with a client that decrypts gives plain values or an error, never encrypted bytes."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mangonel import errors
from mangonel.bson import Binary, CodecOptions
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.encryption import Algorithm, AutoEncryptionOpts
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket
from mangonel.jsonl import export_jsonl

EQUAL = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic
COUNT = 7


@pytest.fixture
def vault() -> str:
    """The namespace of a key vault in the replica set."""
    return f"keys_{uuid.uuid4().hex[:12]}.vault"


@pytest.fixture
def seal(face: Any, server: Any, vault: str, providers: dict[str, Any]) -> Callable[[Any], Any]:
    """Encrypt a value."""
    keys = face.encryption_class(providers, vault, face.client(server.uri), CodecOptions())
    key_id = face.wait(keys.create_data_key("local"))
    return lambda value: face.wait(keys.encrypt(value, EQUAL, key_id))


@pytest.fixture
def people(face: Any, server: Any, vault: str, providers: dict[str, Any], seal: Any) -> Any:
    """A collection of a client that decrypts; in it each person has an encrypted number and list."""
    options = AutoEncryptionOpts(providers, vault, bypass_auto_encryption=True)
    found = face.client(server.uri, auto_encryption_opts=options)[vault.partition(".")[0]].people
    face.wait(
        found.insert_many(
            [{"_id": n, "ssn": seal(f"{n}-55"), "deep": {"list": [seal(n)]}} for n in range(COUNT)]
        )
    )
    return found


SSNS = [f"{n}-55" for n in range(COUNT)]


def test_columns_hold_the_values(face: Any, people: Any) -> None:
    pytest.importorskip("polars")
    frames = [people.find(batch_size=2).sort("_id").to_polars(), people.find().to_polars(parallel=3)]
    frames.append(face.wait(people.aggregate([{"$sort": {"_id": 1}}], batchSize=2)).to_polars())
    for frame in frames:
        found = face.wait(frame) if face.is_async else frame
        assert sorted(found["ssn"].to_list()) == SSNS
        assert sorted(item["list"][0] for item in found["deep"].to_list()) == list(range(COUNT))


@pytest.mark.parametrize("resume", [False, True])
def test_exported_lines_hold_the_values(face: Any, people: Any, tmp_path: Path, resume: bool) -> None:
    if face.is_async:
        pytest.skip("files are written on the blocking face")
    export_jsonl(people, tmp_path / "people.jsonl", mode="relaxed", resume=resume)
    lines = [json.loads(line) for line in (tmp_path / "people.jsonl").read_text().splitlines()]
    assert sorted(line["ssn"] for line in lines) == SSNS
    assert sorted(line["deep"]["list"][0] for line in lines) == list(range(COUNT))


def test_columns_and_lines_of_a_key_that_is_not_there_are_refused(
    face: Any, people: Any, server: Any, vault: str, tmp_path: Path
) -> None:
    options = AutoEncryptionOpts({"local": {"key": os.urandom(96)}}, vault, bypass_auto_encryption=True)
    strange = face.client(server.uri, auto_encryption_opts=options)[people.database.name].people
    with pytest.raises(errors.EncryptionError):
        face.wait(strange.find(batch_size=2).to_arrow())
    if not face.is_async:
        with pytest.raises(errors.EncryptionError):
            export_jsonl(strange, tmp_path / "people.jsonl")


def test_whole_documents_as_bytes_hold_the_values(face: Any, people: Any) -> None:
    raw = people.with_options(codec_options=CodecOptions(document_class=RawBSONDocument))
    assert face.wait(raw.find_one({"_id": 3}))["ssn"] == "3-55"


def test_commands_and_their_cursors_give_the_values(face: Any, people: Any) -> None:
    cursor = face.wait(people.database.cursor_command("find", "people", batchSize=2))
    assert sorted(document["ssn"] for document in face.collect(cursor)) == SSNS
    assert sorted(face.wait(people.distinct("ssn"))) == SSNS


def test_modified_documents_are_returned_with_their_values(face: Any, people: Any, seal: Any) -> None:
    changed = face.wait(
        people.find_one_and_update({"_id": 1}, {"$set": {"ssn": seal("new")}}, return_document=True)
    )
    assert changed["ssn"] == "new"
    replaced = people.find_one_and_replace({"_id": 2}, {"ssn": seal("newer")}, return_document=True)
    assert face.wait(replaced)["ssn"] == "newer"
    assert face.wait(people.find_one_and_delete({"_id": 3}))["ssn"] == "3-55"


def test_changes_hold_the_values(face: Any, people: Any, seal: Any) -> None:
    for watched in (people, people.database, people.database.client):
        stream = watched.watch(full_document="updateLookup")
        stream = face.wait(stream) if face.is_async else stream
        face.wait(people.update_one({"_id": 1}, {"$set": {"more": seal(uuid.uuid4().hex)}}))
        change = face.wait(stream.next())
        face.wait(stream.close())
        assert change["fullDocument"]["ssn"] == "1-55"
        assert not isinstance(change["updateDescription"]["updatedFields"]["more"], Binary)


def test_a_transaction_reads_the_values(face: Any, people: Any, seal: Any) -> None:
    session = people.database.client.start_session()
    begun = session.start_transaction()
    if face.is_async and hasattr(begun, "__await__"):
        face.wait(begun)
    face.wait(people.insert_one({"_id": 100, "ssn": seal("in it")}, session=session))
    assert face.wait(people.find_one({"_id": 100}, session=session))["ssn"] == "in it"
    face.wait(session.abort_transaction())
    assert face.wait(people.find_one({"_id": 100})) is None


def test_metadata_of_files_hold_the_values(face: Any, people: Any, seal: Any) -> None:
    bucket = (AsyncGridFSBucket if face.is_async else GridFSBucket)(people.database)
    file_id = face.wait(bucket.upload_from_stream("file", b"data", metadata={"owner": seal("Ada")}))
    assert face.wait(bucket.open_download_stream(file_id)).metadata == {"owner": "Ada"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_reads_the_values(face: Any, people: Any) -> None:
    if face.is_async:
        pytest.skip("a loop does not go through a fork")
    assert people.find_one({"_id": 1})["ssn"] == "1-55"
    child = os.fork()
    if not child:
        is_well = False
        try:
            is_well = people.find_one({"_id": 2})["ssn"] == "2-55"
        finally:
            os._exit(0 if is_well else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
