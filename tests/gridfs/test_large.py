"""Files of many batches: received directly into the result, streamed, or prefetched; always the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.gridfs import GridFSBucket
from mangonel.server import Server

KIB, MIB = 1024, 1024 * 1024
SIZE = 24 * MIB + 12_345
CHUNK_SIZES = [255 * KIB, 1000 * KIB, 5 * MIB]


@pytest.fixture(scope="module")
def data() -> bytes:
    return os.urandom(SIZE)


@pytest.fixture(scope="module")
def uploaded(standalone: Server, data: bytes) -> Iterator[tuple[str, dict[int, Any]]]:
    """A database with the data in chunks of several sizes: its name, and the files' ids by chunk size."""
    name = "gridfs_large"
    with MongoClient(standalone.uri) as client:
        bucket = GridFSBucket(client[name])
        yield name, {size: bucket.upload_from_stream("large", data, size) for size in CHUNK_SIZES}
        client.drop_database(name)


@pytest.fixture(params=CHUNK_SIZES)
def large(
    request: pytest.FixtureRequest, face: Any, standalone: Server, uploaded: tuple[str, dict[int, Any]]
) -> Any:
    """A large file, open for reading."""
    bucket = face.bucket_class(face.client(standalone.uri)[uploaded[0]])
    return face.wait(bucket.open_download_stream(uploaded[1][request.param]))


def test_whole_file_in_one_read(face: Any, large: Any, data: bytes) -> None:
    assert face.wait(large.read()) == data
    assert face.wait(large.read()) == b""


def test_whole_file_into_a_buffer(face: Any, large: Any, data: bytes) -> None:
    room = bytearray(SIZE + 100)

    assert face.wait(large.readinto(room)) == SIZE
    assert room[:SIZE] == data


@pytest.mark.parametrize("first", [1, 255 * KIB, 7_000_000, 23 * MIB])
def test_large_reads_that_cut_chunks(face: Any, large: Any, data: bytes, first: int) -> None:
    parts = [face.wait(large.read(size)) for size in (first, 13 * MIB, -1)]

    assert b"".join(parts) == data


def test_reads_of_a_mebibyte(face: Any, large: Any, data: bytes) -> None:
    parts = []
    while part := face.wait(large.read(MIB)):
        parts.append(part)

    assert b"".join(parts) == data


@pytest.mark.parametrize("place", [1, 300 * KIB, 20 * MIB])
def test_the_rest_from_any_place(face: Any, large: Any, data: bytes, place: int) -> None:
    face.wait(large.read(100))

    face.wait(large.seek(place))

    assert face.wait(large.read()) == data[place:]


def test_connection_is_good_for_other_commands_after_a_stream(face: Any, large: Any) -> None:
    face.wait(large.read())
    face.wait(large.seek(0))
    face.wait(large.read(5 * MIB))
    face.wait(large.close())

    assert face.wait(face.clients[0].admin.command("ping"))["ok"] == 1


@pytest.mark.parametrize("connections", [1, 2, 3, 50])
@pytest.mark.parametrize("place", [0, 1, 300 * KIB])
def test_several_connections_read_the_same_bytes(
    face: Any, large: Any, data: bytes, connections: int, place: int
) -> None:
    face.wait(large.seek(place))

    assert face.wait(large.download(connections=connections)) == data[place:]
    assert large.tell() == SIZE


def test_several_connections_read_into_a_buffer(face: Any, large: Any, data: bytes) -> None:
    room = bytearray(SIZE)

    assert face.wait(large.download(2, room)) == SIZE
    assert room == data
    face.wait(large.seek(0))
    with pytest.raises(ValueError, match="room"):
        face.wait(large.download(2, bytearray(10)))


def test_fewer_than_one_connection_is_refused(face: Any, large: Any) -> None:
    with pytest.raises(ValueError, match="1 connection or more"):
        face.wait(large.download(0))
