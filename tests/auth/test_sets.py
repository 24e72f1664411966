"""Users of a replica set whose members authenticate by a key file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auth.conftest import ROOT
from mangonel import MongoClient, ReadPreference
from mangonel.server import Server, start
from tools.faces import Face

TEXT = "compressible " * 400


@pytest.fixture(scope="module")
def guarded_set() -> Iterator[Server]:
    """A replica set of three whose members authenticate by a key file; shared by the tests of a file.

    Three idle members take as much CPU as eight standalones.
    """
    with start(replica_set=3, auth=ROOT) as server:
        keep_primary(server)
        yield server


def keep_primary(server: Server) -> None:
    """Wait ten seconds for a member, as in production, so that a busy machine does not cause an election."""
    with MongoClient(server.uri) as client:
        config = client.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        config["settings"]["electionTimeoutMillis"] = 10_000
        client.admin.command("replSetReconfig", config)


@pytest.mark.no_sample
def test_reads_and_writes_of_a_user_go_to_every_member_of_a_set_with_a_key_file(
    face: Face, guarded_set: Server
) -> None:
    client = face.client(guarded_set.uri, w=3)
    collection = client.shop[face.name]
    face.run(lambda: collection.insert_one({"_id": 1}))
    near = collection.with_options(read_preference=ReadPreference.NEAREST)
    for _ in range(10):
        assert face.run(lambda: near.find_one({"_id": 1})) == {"_id": 1}
    assert face.run(lambda: collection.delete_one({"_id": 1})).deleted_count == 1


@pytest.mark.enough(3)
@pytest.mark.parametrize("compressor", ["snappy", "zlib", "zstd"])
def test_users_and_replica_sets_go_together_with_compression(
    face: Face, guarded_set: Server, compressor: str
) -> None:
    client = face.client(guarded_set.uri, compressors=compressor)
    orders = client.shop[f"{face.name}_{compressor}"]
    for number in range(5):
        face.run(lambda number=number: orders.insert_one({"_id": number, "text": TEXT}))
    assert len(face.collect(orders.find(batch_size=2))) == 5
    face.run(orders.drop)
