"""Requests sent ahead hold connections between two calls, but always leave one to other operations."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mangonel.gridfs import _download, _upload
from tools.faces import TIMEOUT, eventually, pool_sizes

DATA = bytes(range(256)) * 40
SIZES = (1, 2, 3, 4)
# More than the largest of these pools has connections.
MANY = 6


@pytest.fixture(autouse=True)
def short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small file take many requests."""
    monkeypatch.setattr(_upload, "BATCH_SIZE", 1000)
    monkeypatch.setattr(_download, "BATCH_SIZE", 1000)


@pytest.fixture(params=SIZES)
def small(request: pytest.FixtureRequest, face: Any, standalone: Any, database_name: str) -> Any:
    """A database of a client with this many connections."""
    return face.client(standalone.uri, maxPoolSize=request.param, waitQueueTimeoutMS=1000 * TIMEOUT)[
        database_name
    ]


def others_are_served(face: Any, database: Any) -> None:
    face.wait(database.others.insert_one({"n": 1}))
    assert face.wait(database.others.find_one({"n": 1}))["n"] == 1
    assert len(face.wait(database.others.find().to_list())) == face.wait(database.others.count_documents({}))


def test_cursors_that_prefetch(face: Any, small: Any) -> None:
    face.wait(small.rows.insert_many({"_id": n} for n in range(50)))
    cursors = [small.rows.find(prefetch=True, batch_size=5).sort("_id") for _ in range(MANY)]
    firsts = [face.wait(cursor.next())["_id"] for cursor in cursors]
    others_are_served(face, small)
    rest = [[found["_id"] for found in face.wait(cursor.to_list())] for cursor in cursors]
    assert (firsts, rest) == ([0] * MANY, [list(range(1, 50))] * MANY)


def test_cursors_that_are_left(face: Any, small: Any) -> None:
    face.wait(small.rows.insert_many({"_id": n} for n in range(50)))
    for _ in range(MANY):
        cursor = small.rows.find(prefetch=True, batch_size=5)
        face.wait(cursor.next())
        face.wait(cursor.close())
    others_are_served(face, small)


@pytest.mark.enough(4)
def test_uploads_that_are_open(face: Any, small: Any) -> None:
    bucket = face.bucket_class(small, chunk_size_bytes=100)
    uploads = [face.wait(bucket.open_upload_stream(f"file {n}")) for n in range(MANY)]
    for upload in uploads:
        face.wait(upload.write(DATA))
    others_are_served(face, small)
    for upload in uploads:
        face.wait(upload.close())
        assert face.wait(face.wait(bucket.open_download_stream(upload._id)).read()) == DATA


@pytest.mark.enough(4)
def test_downloads_that_are_open(face: Any, small: Any) -> None:
    bucket = face.bucket_class(small, chunk_size_bytes=100)
    file_id = face.wait(bucket.upload_from_stream("file", DATA))
    downloads = [face.wait(bucket.open_download_stream(file_id)) for _ in range(MANY)]
    begun = [b"".join(face.wait(download.read(100)) for _ in range(25)) for download in downloads]
    others_are_served(face, small)
    assert [start + face.wait(download.read()) for start, download in zip(begun, downloads, strict=True)] == [
        DATA
    ] * MANY


def test_threads_that_wait_for_each_other(face: Any, small: Any) -> None:
    if face.is_async:
        pytest.skip("tasks need no thread")
    small.rows.insert_many({"_id": n} for n in range(50))
    is_open, is_served = threading.Barrier(3), threading.Event()

    def read() -> list[Any]:
        cursor = small.rows.find(prefetch=True, batch_size=5)
        found = [cursor.next()]
        is_open.wait(TIMEOUT)
        assert is_served.wait(TIMEOUT)
        return [*found, *cursor]

    readers = [face.start(read) for _ in range(2)]
    is_open.wait(TIMEOUT)
    others_are_served(face, small)
    is_served.set()
    assert [len(reader.result(TIMEOUT)) for reader in readers] == [50, 50]
    eventually(lambda: pool_sizes(small.client)[1:] == (0, 0, 0))
