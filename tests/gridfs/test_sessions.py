"""Files inside sessions and transactions: they appear with the commit, and an aborted one leaves nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from mangonel import MongoClient
from mangonel.gridfs import GridFS, GridFSBucket, NoFile
from mangonel.server import Server

pytestmark = pytest.mark.usefixtures("distance")

DATA = os.urandom(9_000_000)


@pytest.fixture
def client(server: Server) -> Iterator[MongoClient]:
    with MongoClient(server.uri) as made:
        yield made


@pytest.fixture
def bucket(client: MongoClient) -> Iterator[GridFSBucket]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield GridFSBucket(client[name])
    client.drop_database(name)


def test_file_is_stored_and_read_in_a_session(client: MongoClient, bucket: GridFSBucket) -> None:
    with client.start_session() as session:
        file_id = bucket.upload_from_stream("file", DATA, session=session)

        assert bucket.download(file_id, connections=3, session=session) == DATA
        assert [file.read() for file in bucket.find(session=session)] == [DATA]


def test_file_appears_with_the_commit_of_its_transaction(client: MongoClient, bucket: GridFSBucket) -> None:
    with client.start_session() as session, session.start_transaction():
        file_id = bucket.upload_from_stream("file", DATA, session=session)
        assert bucket.open_download_stream(file_id, session=session).read() == DATA
        with pytest.raises(NoFile):
            bucket.open_download_stream(file_id)

    assert bucket.open_download_stream(file_id).read() == DATA


def test_aborted_transaction_leaves_no_chunk(client: MongoClient, bucket: GridFSBucket) -> None:
    database = bucket._collection.database
    with client.start_session() as session:
        session.start_transaction()
        bucket.upload_from_stream("file", DATA, session=session)
        session.abort_transaction()

    assert GridFS(database).list() == []
    assert database["fs.chunks"].count_documents({}) == 0
