"""Reading a stored file: by size, by line, by chunk, into a buffer, from any place."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from mangonel.errors import InvalidOperation
from mangonel.gridfs import NoFile

pytestmark = pytest.mark.usefixtures("distance")

LINES = b"one\ntwo, which is longer than a chunk\n\nfour"


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25, 30])
def test_file_of_any_length_comes_back_whole(face: Any, stored: Callable[..., Any], size: int) -> None:
    data = os.urandom(size)

    assert face.wait(stored(data).read()) == data


def test_parts_of_any_size_come_in_order(face: Any, stored: Callable[..., Any]) -> None:
    data = os.urandom(95)
    source = stored(data)

    parts = [face.wait(source.read(size)) for size in (1, 9, 10, 20, 3, 100, 5)]

    assert parts == [data[:1], data[1:10], data[10:20], data[20:40], data[40:43], data[43:], b""]


def test_tell_counts_what_was_read(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(b"x" * 50)

    places = [source.tell()]
    for size in (3, 20, -1):
        face.wait(source.read(size))
        places.append(source.tell())

    assert places == [0, 3, 23, 50]


@pytest.mark.parametrize("place", [0, 5, 10, 49, 94, 95, 200])
@pytest.mark.parametrize("before", [0, 30, 95])
def test_seek_finds_every_place(face: Any, stored: Callable[..., Any], place: int, before: int) -> None:
    data = os.urandom(95)
    source = stored(data)
    face.wait(source.read(before))

    assert face.wait(source.seek(place)) == place
    assert face.wait(source.read(12)) == data[place : place + 12]


def test_seek_counts_from_start_place_and_end(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(bytes(range(100)))

    assert face.wait(source.seek(20)) == 20
    assert face.wait(source.seek(5, os.SEEK_CUR)) == 25
    assert face.wait(source.read(1)) == b"\x19"
    assert face.wait(source.seek(-1, os.SEEK_END)) == 99
    assert face.wait(source.read()) == b"\x63"


@pytest.mark.parametrize(("pos", "whence"), [(-1, 0), (-200, 2), (0, 7)])
def test_seek_to_no_place_is_an_os_error(
    face: Any, stored: Callable[..., Any], pos: int, whence: int
) -> None:
    with pytest.raises(OSError, match="expected"):
        face.wait(stored(b"x" * 10).seek(pos, whence))


def test_seek_ahead_reads_no_chunk_in_between(face: Any, stored: Callable[..., Any], database: Any) -> None:
    data = os.urandom(10_000)
    source = stored(data)
    source_chunks = database["fs.chunks"]
    face.wait(source_chunks.delete_many({"n": {"$lt": 900}}))

    face.wait(source.seek(9_500))

    assert face.wait(source.read()) == data[9_500:]


def test_lines_are_those_of_the_bytes(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(LINES)

    assert face.collect(source) == LINES.splitlines(keepends=True)
    assert face.wait(source.readline()) == b""


def test_readline_stops_at_its_size(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(LINES)

    found = [face.wait(source.readline(size)) for size in (2, 10, 0, 20, -1)]

    assert found == [b"on", b"e\n", b"", b"two, which is longer", b" than a chunk\n"]


def test_readlines_stops_after_the_line_that_reaches_its_size(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(LINES)

    assert face.wait(source.readlines(5)) == LINES.splitlines(keepends=True)[:2]
    assert face.wait(source.readlines()) == LINES.splitlines(keepends=True)[2:]


def test_readchunk_returns_the_rest_of_the_chunk(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(bytes(range(25)))
    face.wait(source.read(3))

    chunks = [face.wait(source.readchunk()) for _ in range(4)]

    assert chunks == [bytes(range(3, 10)), bytes(range(10, 20)), bytes(range(20, 25)), b""]


@pytest.mark.parametrize("room", [bytearray(15), memoryview(bytearray(15)), memoryview(bytearray(30))[10:25]])
def test_readinto_fills_the_buffer_and_says_how_far(
    face: Any, stored: Callable[..., Any], room: bytearray
) -> None:
    source = stored(bytes(range(25)))

    assert face.wait(source.readinto(room)) == 15
    assert bytes(room) == bytes(range(15))
    assert face.wait(source.readinto(room)) == 10
    assert bytes(room) == bytes([*range(15, 25), *range(10, 15)])
    assert face.wait(source.readinto(room)) == 0


@pytest.mark.parametrize("room", [b"12345", memoryview(bytearray(30))[::2]])
def test_readinto_refuses_a_buffer_it_cannot_fill(face: Any, stored: Callable[..., Any], room: Any) -> None:
    with pytest.raises((BufferError, TypeError)):
        face.wait(stored(b"x" * 25).readinto(room))


def test_blocking_file_is_a_file_to_the_standard_library(face: Any, stored: Callable[..., Any]) -> None:
    if face.is_async:
        pytest.skip("file objects of the standard library do not wait")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a", b"alpha" * 100)
        packed.writestr("b", os.urandom(1000))
    source = stored(archive.getvalue())
    copied = io.BytesIO()

    shutil.copyfileobj(source, copied)

    assert copied.getvalue() == archive.getvalue()
    assert isinstance(source, io.IOBase)
    assert zipfile.ZipFile(source).read("a") == b"alpha" * 100
    source.seek(0)
    assert io.BufferedReader(source).read() == archive.getvalue()


def test_file_that_does_not_exist_is_reported_at_once(face: Any, bucket: Any) -> None:
    with pytest.raises(NoFile, match="'nothing'"):
        face.wait(bucket.open_download_stream("nothing"))


def test_fields_of_the_document_are_attributes(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(b"x" * 25, metadata={"kind": "test"})

    assert (source.filename, source.name) == ("file", "file")
    assert (source.length, source.chunk_size) == (25, 10)
    assert source.metadata == {"kind": "test"}
    assert source.upload_date is not None
    assert source.chunkSize == 10
    with pytest.raises(AttributeError, match="colour"):
        _ = source.colour
    for name, field in (("md5", "md5"), ("aliases", "aliases"), ("content_type", "contentType")):
        with pytest.warns(DeprecationWarning, match=f"GridOut property '{field}' is deprecated") as warned:
            assert getattr(source, name) is None
        assert [each.filename for each in warned] == [__file__]


def test_attributes_of_an_unopened_file_wait_only_where_they_can(
    face: Any, database: Any, stored: Callable[..., Any]
) -> None:
    source = face.out_class(database.fs, stored(b"x" * 25)._id)

    if face.is_async:
        with pytest.raises(InvalidOperation, match="open"):
            _ = source.length
        assert face.wait(source.open()) is None
    assert source.length == 25


def test_closed_file_ends_its_cursor(face: Any, stored: Callable[..., Any], peer: Any) -> None:
    source = stored(os.urandom(1000))
    face.wait(source.read(5))

    assert source.closed is False
    face.wait(source.close())

    assert source.closed is True
    metrics = peer.command("serverStatus")["metrics"]["cursor"]["open"]
    assert metrics["total"] == 0 or metrics.get("pinned", 0) == 0


def test_what_a_reader_cannot_do_is_unsupported(face: Any, stored: Callable[..., Any]) -> None:
    source = stored(b"x")

    assert (source.readable(), source.seekable(), source.writable(), source.isatty()) == (
        True,
        True,
        False,
        False,
    )
    source.flush()
    for refuse in (lambda: source.write(b""), lambda: source.writelines([]), source.fileno, source.truncate):
        with pytest.raises(io.UnsupportedOperation):
            refuse()


WAYS: dict[str, Callable[[Any], Any]] = {
    "read": lambda source: source.read(),
    "readlines": lambda source: source.readlines(),
    "readchunk": lambda source: source.readchunk(),
    "readinto": lambda source: source.readinto(bytearray(2_000_000)),
    "download": lambda source: source.download(connections=2),
}


@pytest.mark.parametrize("way", WAYS)
def test_after_a_cancelled_read_the_file_goes_on_where_it_was(face: Any, database: Any, way: str) -> None:
    if not face.is_async:
        pytest.skip("a blocking call cannot be cancelled")
    data = os.urandom(3_000_000)
    bucket = face.bucket_class(database)
    file_id = face.wait(bucket.upload_from_stream("file", data))

    async def steps(turns: int) -> None:
        source = await bucket.open_download_stream(file_id)
        await source.read(5)
        task = asyncio.ensure_future(WAYS[way](source))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        place = source.tell()
        assert place == 5 if task.cancelled() else place > 5
        assert await source.read() == data[place:]

    for turns in (1, 2, 3, 5, 8, 40):
        face.run(lambda turns=turns: steps(turns))


def test_closing_beside_a_read_is_no_damage(face: Any, database: Any) -> None:
    if not face.is_async:
        pytest.skip("threads interleave differently each time")
    bucket = face.bucket_class(database)
    file_id = face.wait(bucket.upload_from_stream("file", b"x" * 3_000_000))

    async def steps(turns: int) -> None:
        source = await bucket.open_download_stream(file_id)
        reading = asyncio.ensure_future(source.read())
        for _ in range(turns):
            await asyncio.sleep(0)
        await source.close()
        await asyncio.wait({reading})
        error = reading.exception()
        if error is None:
            assert len(reading.result()) == 3_000_000
        else:
            assert isinstance(error, InvalidOperation)
            assert "closed by another task or thread" in str(error)

    for turns in (1, 2, 3, 5, 8, 40):
        face.run(lambda turns=turns: steps(turns))
