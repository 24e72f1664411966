"""A damaged file is reported whichever way it is read, and no byte of a damaged chunk is handed out.

Each kind of damage is tried at the first, a middle and the last chunk, in small files and in one of several batches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import ObjectId
from mangonel.bson.binary import Binary
from mangonel.gridfs import CorruptGridFile, GridFSBucket
from mangonel.server import Server

pytestmark = pytest.mark.usefixtures("distance")

MIB = 1024 * 1024


def missing(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.delete_one({"_id": chunk["_id"]})


def truncated(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": chunk["data"][:-1]}})


def emptied(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": b""}})


def oversized(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": chunk["data"] + b"x"}})


def no_bytes(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": "text"}})


def no_data(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$unset": {"data": 1}})


def renumbered(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$set": {"n": chunk["n"] + 1000}})


def unnumbered(chunks: Any, chunk: dict[str, Any]) -> None:
    chunks.update_one({"_id": chunk["_id"]}, {"$set": {"n": "one"}})


DAMAGES = [missing, truncated, emptied, oversized, no_bytes, no_data, renumbered, unnumbered]
PLACES = {"first": 0, "middle": 4, "last": 9}


@pytest.fixture(scope="module")
def originals(standalone: Server) -> Iterator[dict[str, Any]]:
    """A small file and a large one of ten chunks each, to be copied and damaged."""
    with MongoClient(standalone.uri) as client:
        database = client["gridfs_damage"]
        bucket = GridFSBucket(database)
        sizes = {"small": 10, "large": 2 * MIB}
        data = {kind: os.urandom(10 * size - 3) for kind, size in sizes.items()}
        for kind, size in sizes.items():
            bucket.upload_from_stream_with_id(kind, kind, data[kind], size)
        yield {"database": database, "data": data}
        client.drop_database("gridfs_damage")


@pytest.fixture(params=["small", "large"])
def damaged(
    request: pytest.FixtureRequest, face: Any, standalone: Server, originals: dict[str, Any]
) -> Iterator[Callable[..., Any]]:
    """Damage a file and return a function that opens it; undo the damage afterwards."""
    database, kind = originals["database"], request.param
    chunks = database["fs.chunks"]
    changed: list[Any] = []

    def damage(how: Callable[[Any, Any], None], n: int) -> Callable[[], Any]:
        chunk = chunks.find_one({"files_id": kind, "n": n})
        changed.append(chunk)
        how(chunks, chunk)
        ours = face.bucket_class(face.client(standalone.uri)["gridfs_damage"])
        return lambda: face.wait(ours.open_download_stream(kind))

    damage.kind = kind  # type: ignore[attr-defined]
    yield damage
    for chunk in changed:
        chunks.delete_many({"files_id": kind, "n": {"$gte": 10}})
        chunks.replace_one({"_id": chunk["_id"]}, chunk, upsert=True)


def whole(face: Any, source: Any) -> bytes:
    return bytes(face.wait(source.read()))


def in_parts(face: Any, source: Any) -> bytes:
    parts = []
    while part := face.wait(source.read(source.chunk_size - 1 if source._file["length"] > 100 else 7)):
        parts.append(part)
    return b"".join(parts)


def by_chunk(face: Any, source: Any) -> bytes:
    parts = []
    while part := face.wait(source.readchunk()):
        parts.append(part)
    return b"".join(parts)


def into_buffer(face: Any, source: Any) -> bytes:
    room = bytearray(source._file["length"])
    face.wait(source.readinto(room))
    return bytes(room)


def by_line(face: Any, source: Any) -> bytes:
    return b"".join(face.collect(source))


def over_connections(face: Any, source: Any) -> bytes:
    return bytes(face.wait(source.download(connections=3)))


WAYS = [whole, in_parts, by_chunk, into_buffer, by_line, over_connections]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", DAMAGES, ids=lambda how: how.__name__)
def test_damage_is_reported(
    face: Any, damaged: Callable[..., Any], how: Callable[[Any, Any], None], place: str
) -> None:
    opened = damaged(how, PLACES[place])

    for way in WAYS:
        if way is by_line and damaged.kind == "large":  # type: ignore[attr-defined]
            continue
        with pytest.raises(CorruptGridFile, match=r"chunk") as caught:
            way(face, opened())
        # The message names the expected chunk. Of several connections, the first one to notice reports the damage.
        assert way is over_connections or f"#{PLACES[place]}" in str(caught.value), way


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_extra_chunk_is_reported_behind_the_last(
    face: Any, damaged: Callable[..., Any], originals: dict[str, Any], way: Callable[[Any, Any], bytes]
) -> None:
    def extra(chunks: Any, chunk: dict[str, Any]) -> None:
        chunks.insert_one({**chunk, "_id": ObjectId(), "n": 10})

    opened = damaged(extra, 9)

    with pytest.raises(CorruptGridFile, match=r"extra chunk: expected 10 chunks, got chunk with n=10"):
        way(face, opened())
    # A reader that stops before the end sees no error.
    assert face.wait(opened().read(5)) == originals["data"][damaged.kind][:5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_empty_extra_chunk_is_none(
    face: Any, damaged: Callable[..., Any], originals: dict[str, Any], way: Callable[[Any, Any], bytes]
) -> None:
    def extra(chunks: Any, chunk: dict[str, Any]) -> None:
        chunks.insert_one({"_id": ObjectId(), "files_id": chunk["files_id"], "n": 10, "data": b""})

    opened = damaged(extra, 9)

    assert way(face, opened()) == originals["data"][damaged.kind]  # type: ignore[attr-defined]


def test_bytes_before_the_damage_are_whole(
    face: Any, damaged: Callable[..., Any], originals: dict[str, Any]
) -> None:
    opened = damaged(truncated, 4)
    data = originals["data"][damaged.kind]  # type: ignore[attr-defined]
    source = opened()
    size = source.chunk_size if not face.is_async else source._file["chunkSize"]

    assert face.wait(source.read(4 * size)) == data[: 4 * size]
    with pytest.raises(CorruptGridFile, match="truncated chunk #4"):
        face.wait(source.read(1))
    face.wait(source.seek(5 * size))
    assert face.wait(source.read()) == data[5 * size :]


def test_old_binary_data_is_data(face: Any, damaged: Callable[..., Any], originals: dict[str, Any]) -> None:
    def old(chunks: Any, chunk: dict[str, Any]) -> None:
        chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": Binary(chunk["data"], 2)}})

    opened = damaged(old, 4)

    assert whole(face, opened()) == originals["data"][damaged.kind]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "field", [{"chunkSize": 0}, {"chunkSize": -5}, {"chunkSize": None}, {"length": 1 << 70}]
)
def test_file_document_that_makes_no_sense_is_reported(
    face: Any, database: Any, field: dict[str, Any]
) -> None:
    document = {"_id": 1, "length": 100, "chunkSize": 10, **field}
    source = face.out_class(database.fs, file_document=document)

    with pytest.raises(CorruptGridFile):
        face.wait(source.read())


@pytest.mark.parametrize("field", [{}, {"chunkSize": None}], ids=["none", "null"])
def test_a_file_without_a_chunk_size_is_told_as_such(face: Any, database: Any, field: dict[str, Any]) -> None:
    source = face.out_class(database.fs, file_document={"_id": 1, "length": 100, **field})

    for way in (whole, by_chunk, by_line, over_connections):
        with pytest.raises(
            CorruptGridFile, match=r"file 1: expected chunkSize, .* got none; set it in .*\.fs\.files"
        ):
            way(face, source)


def replace_behind_the_reader(bucket: GridFSBucket, file_id: Any, data: bytes, size: int) -> None:
    bucket.delete(file_id)
    bucket.upload_from_stream_with_id(file_id, "file", data, size)


@pytest.mark.parametrize("size", [10, MIB])
def test_file_replaced_while_it_is_read_is_reported(
    face: Any, bucket: Any, standalone: Server, database_name: str, size: int
) -> None:
    with MongoClient(standalone.uri) as other:
        theirs = GridFSBucket(other[database_name])
        theirs.upload_from_stream_with_id("mine", "file", b"a" * (40 * size), size)
        source = face.wait(bucket.open_download_stream("mine"))
        face.wait(source.read(5))

        replace_behind_the_reader(theirs, "mine", b"b" * (40 * size), size)

        with pytest.raises(CorruptGridFile, match="replaced while it was read"):
            face.wait(source.read())


def test_file_removed_while_it_is_read_is_reported(face: Any, bucket: Any, peer: Any) -> None:
    file_id = face.wait(bucket.upload_from_stream("file", os.urandom(30 * MIB), chunk_size_bytes=MIB))
    source = face.wait(bucket.open_download_stream(file_id))
    face.wait(source.read(5))

    face.wait(bucket.delete(file_id))

    with pytest.raises(CorruptGridFile):
        face.wait(source.read())


def test_chunks_of_another_order_are_no_fault(face: Any, bucket: Any, peer: Any) -> None:
    data = os.urandom(95)
    file_id = face.wait(bucket.upload_from_stream("file", data))
    chunks = list(peer["fs.chunks"].find().sort("n", -1))
    peer["fs.chunks"].delete_many({})
    for number, chunk in enumerate(chunks):
        peer["fs.chunks"].insert_one({**chunk, "_id": number if number % 2 else chunk["_id"]})

    assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == data


@pytest.mark.parametrize("way", WAYS[:1] + WAYS[2:3] + WAYS[4:], ids=lambda way: way.__name__)
@pytest.mark.parametrize("value", ["10", b"10", [], {}, 1.5, float("inf"), float("nan")], ids=repr)
@pytest.mark.parametrize("name", ["length", "chunkSize"])
def test_a_size_that_is_no_number_is_damage(
    face: Any, standalone: Server, originals: dict[str, Any], name: str, value: Any, way: Callable[..., Any]
) -> None:
    file = originals["database"]["fs.files"].find_one({"_id": "small"}) | {name: value}
    ours = face.client(standalone.uri)["gridfs_damage"]
    with pytest.raises(CorruptGridFile, match=name):
        way(face, face.out_class(ours.fs, file_document=file))


def test_a_size_that_a_shell_wrote_as_a_double_is_a_size(
    face: Any, standalone: Server, originals: dict[str, Any]
) -> None:
    file = originals["database"]["fs.files"].find_one({"_id": "small"})
    doubles = {name: float(file[name]) for name in ("length", "chunkSize")}
    ours = face.client(standalone.uri)["gridfs_damage"]
    assert whole(face, face.out_class(ours.fs, file_document=file | doubles)) == originals["data"]["small"]


def test_a_document_without_an_id_is_no_file(
    face: Any, standalone: Server, originals: dict[str, Any]
) -> None:
    ours = face.client(standalone.uri)["gridfs_damage"]
    with pytest.raises(CorruptGridFile, match="_id"):
        whole(face, face.out_class(ours.fs, file_document={"length": 5, "chunkSize": 5}))


ABSURD = 2**40


@pytest.mark.parametrize("length", [ABSURD, 2**62, float(ABSURD)], ids=["2^40", "2^62", "a double"])
@pytest.mark.parametrize("chunk_size", [255 * 1024, 2**41], ids=["255 KiB", "2^41"])
@pytest.mark.parametrize("place", [0, 12_345])
def test_an_absurd_length_is_reported_before_memory_is_reserved(
    face: Any, database: Any, bucket: Any, peer: Any, length: float, chunk_size: int, place: int
) -> None:
    file_id = face.wait(bucket.upload_from_stream("file", b"x" * 600_000, chunk_size_bytes=255 * 1024))
    peer["fs.files"].update_one({"_id": file_id}, {"$set": {"length": length, "chunkSize": chunk_size}})

    for way in (
        lambda source: source.read(),
        lambda source: source.read(ABSURD - place),
        lambda source: source.download(),
        lambda source: source.download(connections=3),
    ):
        source = face.wait(bucket.open_download_stream(file_id))
        face.wait(source.seek(place))
        with pytest.raises(CorruptGridFile, match="chunk"):
            face.wait(way(source))


@pytest.mark.parametrize("chunk_size", [255 * 1024, 2**30])
def test_an_absurd_length_with_a_last_chunk_that_fits_reserves_no_memory(
    face: Any, database: Any, bucket: Any, peer: Any, chunk_size: int
) -> None:
    file_id = face.wait(bucket.upload_from_stream("file", b"x" * 600_000, chunk_size_bytes=255 * 1024))
    last = ABSURD // chunk_size
    length = last * chunk_size + 1
    peer["fs.files"].update_one({"_id": file_id}, {"$set": {"length": length, "chunkSize": chunk_size}})
    peer["fs.chunks"].insert_one({"files_id": file_id, "n": last, "data": b"x"})
    for way in (
        lambda source: source.read(),
        lambda source: source.download(),
        lambda source: source.download(connections=3),
    ):
        source = face.wait(bucket.open_download_stream(file_id))
        with pytest.raises(CorruptGridFile, match="missing chunk"):
            face.wait(way(source))


def test_an_absurd_length_is_the_same_kind_of_error_as_pymongos(
    face: Any, bucket: Any, peer: Any, database_name: str
) -> None:
    theirs = pytest.importorskip("gridfs.errors")
    bucket_of = pytest.importorskip("gridfs").GridFSBucket
    file_id = face.wait(bucket.upload_from_stream("file", b"x" * 100))
    peer["fs.files"].update_one({"_id": file_id}, {"$set": {"length": ABSURD}})
    with pytest.raises(theirs.CorruptGridFile) as caught:
        bucket_of(peer).open_download_stream(file_id).read()
    with pytest.raises(CorruptGridFile) as ours:
        face.wait(face.wait(bucket.open_download_stream(file_id)).read())
    assert type(ours.value).__name__ == type(caught.value).__name__


def test_existing_chunks_can_be_read_piece_by_piece(face: Any, bucket: Any, peer: Any) -> None:
    file_id = face.wait(bucket.upload_from_stream("file", b"0123456789" * 3))
    peer["fs.files"].update_one({"_id": file_id}, {"$set": {"length": ABSURD}})
    source = face.wait(bucket.open_download_stream(file_id))
    assert [face.wait(source.readchunk()) for _ in range(3)] == [b"0123456789"] * 3
    with pytest.raises(CorruptGridFile, match="missing chunk: expected chunk #3"):
        face.wait(source.readchunk())


@pytest.mark.parametrize("size", [1, 10, 11, 99])
@pytest.mark.parametrize("place", [0, 1, 10, 98])
def test_an_honest_file_is_read_the_same_where_its_last_chunk_is_looked_at_first(
    face: Any, bucket: Any, monkeypatch: pytest.MonkeyPatch, size: int, place: int
) -> None:
    monkeypatch.setattr("mangonel.gridfs._download._LEAST_DOUBTED", 0)
    data = os.urandom(size)
    file_id = face.wait(bucket.upload_from_stream("file", data))
    for way in (
        lambda source: source.read(),
        lambda source: source.read(7),
        lambda source: source.download(),
        lambda source: source.download(connections=2),
    ):
        source = face.wait(bucket.open_download_stream(file_id))
        face.wait(source.seek(place))
        found = face.wait(way(source))
        assert found == data[place:][: len(found)]
        assert found + face.wait(source.read()) == data[place:]
