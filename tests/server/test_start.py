"""What `mangonel.server.start` promises, against a real mongod, with PyMongo as the witness."""

from __future__ import annotations

import os

import pymongo
import pytest
from mangonel import server


@pytest.mark.parametrize("members", [0, 1, 3])
def test_start_returns_once_the_deployment_takes_writes(members: int) -> None:
    with server.start(replica_set=members) as deployment:
        assert len(deployment.members) == max(members, 1)
        assert deployment.primary is not None
        with pymongo.MongoClient(deployment.primary.uri) as client:
            client.test.things.insert_one({"_id": 1})
        with pymongo.MongoClient(deployment.uri) as client:
            assert client.test.things.find_one() == {"_id": 1}


def test_three_members_are_a_primary_and_two_secondaries() -> None:
    with server.start(replica_set=3) as deployment:
        assert sorted(member.state for member in deployment.members) == ["primary", "secondary", "secondary"]
        assert len(deployment.secondaries) == 2


def test_temporary_data_is_removed_at_stop() -> None:
    deployment = server.start()
    assert os.path.isdir(deployment.dbpath)
    pid = deployment.members[0].pid
    assert pid is not None
    deployment.stop()
    assert not os.path.exists(deployment.dbpath)
    assert not os.path.exists(f"/proc/{pid}")
