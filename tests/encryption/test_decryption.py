"""Clients that decrypt what they receive, whichever way it is read, and change nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from encryption.seen import Seen
from mangonel import errors
from mangonel.cursor_shared import CursorType
from mangonel.encryption import Algorithm, AutoEncryptionOpts
from mangonel.gridfs import AsyncGridFSBucket, GridFSBucket

RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
COUNT = 7


@pytest.fixture
def options(vault: str, providers: dict[str, Any]) -> Callable[..., AutoEncryptionOpts]:
    def make(**more: Any) -> AutoEncryptionOpts:
        return AutoEncryptionOpts(
            more.pop("providers", providers), vault, bypass_auto_encryption=True, **more
        )

    return make


@pytest.fixture
def decrypting(face: Any, standalone: Any, vault: str, options: Callable[..., Any]) -> Any:
    """A collection of a client that decrypts."""
    return face.client(standalone.uri, auto_encryption_opts=options())[vault.partition(".")[0]].people


@pytest.fixture
def people(face: Any, keys: Any, decrypting: Any) -> list[dict[str, Any]]:
    """Store people with encrypted numbers; return them in plain form."""
    key_id = face.wait(keys.create_data_key("local"))
    plain = [{"_id": n, "ssn": f"{n}-55", "open": n, "deep": {"list": [n, n + 1]}} for n in range(COUNT)]
    stored = [
        {**person, "ssn": face.wait(keys.encrypt(person["ssn"], RANDOM, key_id))}
        | {"deep": {"list": [face.wait(keys.encrypt(n, RANDOM, key_id)) for n in person["deep"]["list"]]}}  # type: ignore[index]
        for person in plain
    ]
    face.wait(decrypting.insert_many(stored))
    return plain


def test_every_way_of_reading_decrypts(face: Any, decrypting: Any, people: list[dict[str, Any]]) -> None:
    assert face.wait(decrypting.find_one({"_id": 3})) == people[3]
    assert face.collect(decrypting.find().sort("_id")) == people
    # In several batches.
    assert face.collect(decrypting.find(batch_size=2).sort("_id")) == people
    assert face.wait(decrypting.find(batch_size=2).sort("_id").to_list()) == people
    pipeline = [{"$sort": {"_id": 1}}]
    assert face.collect(face.wait(decrypting.aggregate(pipeline, batchSize=3))) == people
    changed = {"$set": {"open": 5}}
    assert face.wait(decrypting.find_one_and_update({"_id": 1}, changed))["ssn"] == "1-55"
    command = {"find": "people", "filter": {"_id": 2}}
    reply = face.wait(decrypting.database.command(command))
    assert reply["cursor"]["firstBatch"] == [people[2]]


def test_what_pymongo_does_not_decrypt_is_refused(
    face: Any, decrypting: Any, people: list[dict[str, Any]]
) -> None:
    words = "not support auto encryption"
    with pytest.raises(errors.InvalidOperation, match=f"find_raw_batches does {words}"):
        decrypting.find_raw_batches()
    with pytest.raises(errors.InvalidOperation, match=f"aggregate_raw_batches does {words}"):
        face.wait(decrypting.aggregate_raw_batches([]))
    with pytest.raises(errors.InvalidOperation, match=f"exhaust cursors do {words}"):
        face.collect(decrypting.find(cursor_type=CursorType.EXHAUST))
    assert face.wait(decrypting.find_one({"_id": 3})) == people[3]


def test_a_closed_client_says_so(face: Any, decrypting: Any) -> None:
    client = decrypting.database.client
    face.wait(client.close())
    with pytest.raises(errors.InvalidOperation, match=f"Cannot use {type(client).__name__} after close"):
        face.wait(client.admin.command("ping"))


def test_reading_ahead_decrypts(face: Any, decrypting: Any, people: list[dict[str, Any]]) -> None:
    assert face.collect(decrypting.find(batch_size=2, prefetch=True).sort("_id")) == people


def test_a_session_and_its_cursor_stay_together(
    face: Any, decrypting: Any, people: list[dict[str, Any]]
) -> None:
    client = decrypting.database.client
    session = client.start_session()
    assert face.collect(decrypting.find(batch_size=2, session=session).sort("_id")) == people
    face.wait(session.end_session())


def test_a_client_without_the_options_sees_what_is_stored(
    face: Any, decrypting: Any, people: list[dict[str, Any]], standalone: Any
) -> None:
    bare = face.client(standalone.uri)[decrypting.database.name].people
    assert face.wait(bare.find_one({"_id": 1}))["ssn"].subtype == 6


def test_pymongo_decrypts_the_same_documents(
    decrypting: Any, people: list[dict[str, Any]], standalone: Any, vault: str, providers: Any
) -> None:
    pymongo = pytest.importorskip("pymongo")
    from pymongo.encryption_options import AutoEncryptionOpts as PeerOptions

    given = PeerOptions(providers, vault, bypass_auto_encryption=True)
    with pymongo.MongoClient(standalone.uri, auto_encryption_opts=given) as client:
        assert list(client[decrypting.database.name].people.find().sort("_id")) == people


def test_writes_and_their_errors_are_as_without_encryption(face: Any, decrypting: Any) -> None:
    assert face.wait(decrypting.insert_one({"_id": 1})).inserted_id == 1
    with pytest.raises(errors.DuplicateKeyError):
        face.wait(decrypting.insert_one({"_id": 1}))
    with pytest.raises(errors.BulkWriteError):
        face.wait(decrypting.insert_many([{"_id": 2}, {"_id": 1}]))
    assert face.wait(decrypting.update_many({}, {"$set": {"a": 1}})).modified_count == 2
    assert face.wait(decrypting.count_documents({})) == 2
    assert face.wait(decrypting.distinct("_id")) == [1, 2]
    with pytest.raises(errors.OperationFailure, match="unknown"):
        face.wait(decrypting.find_one({"$unknown": 1}))
    assert face.wait(decrypting.find_one({"_id": 9})) is None
    assert face.wait(decrypting.database.list_collection_names()) == ["people"]
    assert (
        face.wait(decrypting.with_options(write_concern=unacknowledged()).insert_one({})).acknowledged
        is False
    )


def unacknowledged() -> Any:
    from mangonel.write_concern import WriteConcern

    return WriteConcern(0)


def test_files_are_stored_and_read(face: Any, decrypting: Any) -> None:
    bucket = (AsyncGridFSBucket if face.is_async else GridFSBucket)(decrypting.database)
    data = os.urandom(600_000)
    file_id = face.wait(bucket.upload_from_stream("file", data))
    found = face.wait(bucket.open_download_stream(file_id))
    assert face.wait(found.read()) == data


def test_keys_are_fetched_once_and_kept(
    face: Any, decrypting: Any, people: list[dict[str, Any]], standalone: Any, options: Any
) -> None:
    seen = Seen()
    client = face.client(standalone.uri, auto_encryption_opts=options(), event_listeners=[seen])
    mine = client[decrypting.database.name].people

    for _ in range(3):
        assert face.wait(mine.find_one({"_id": 1})) == people[1]

    # The first client's key; listeners see replies as received.
    assert seen.names == ["find"] * 4
    assert seen.replies[0]["cursor"]["firstBatch"][0]["ssn"].subtype == 6


def test_another_client_may_have_the_key_vault(
    face: Any, decrypting: Any, people: list[dict[str, Any]], standalone: Any, options: Any
) -> None:
    seen, own = Seen(), Seen()
    owner = face.client(standalone.uri, event_listeners=[seen])
    given = options(key_vault_client=owner)
    client = face.client(standalone.uri, auto_encryption_opts=given, event_listeners=[own])

    assert face.wait(client[decrypting.database.name].people.find_one({"_id": 1})) == people[1]

    assert (seen.names, own.names) == (["find"], ["find"])


def test_one_connection_is_enough(
    face: Any, decrypting: Any, people: list[dict[str, Any]], standalone: Any, options: Any
) -> None:
    client = face.client(standalone.uri, auto_encryption_opts=options(), maxPoolSize=1)
    assert face.collect(client[decrypting.database.name].people.find(batch_size=2).sort("_id")) == people


def test_without_the_key_reading_fails_and_the_client_goes_on(
    face: Any, decrypting: Any, people: list[dict[str, Any]], standalone: Any, options: Any
) -> None:
    wrong = options(providers={"local": {"key": os.urandom(96)}})
    client = face.client(standalone.uri, auto_encryption_opts=wrong, maxPoolSize=1)
    mine = client[decrypting.database.name].people

    for _ in range(3):
        with pytest.raises(errors.EncryptionError, match="HMAC"):
            face.collect(mine.find(batch_size=2))
    assert face.wait(mine.find_one({}, {"open": 1})) == {"_id": 0, "open": 0}


def test_the_options_do_not_show_keys(
    face: Any, standalone: Any, options: Any, providers: dict[str, Any]
) -> None:
    given = options()
    client = face.client(standalone.uri, auto_encryption_opts=given)
    assert repr(providers["local"]["key"]) not in repr(given) + repr(client)
    assert "local" in repr(given)
