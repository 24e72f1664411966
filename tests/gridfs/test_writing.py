"""Writing a file: accepted input, stored data, and unfinished files that leave nothing behind."""

from __future__ import annotations

import asyncio
import datetime
import gc
import io
import os
import warnings
from typing import Any

import pytest

import gridfs
from mangonel import AsyncMongoClient
from mangonel.errors import ConfigurationError, ServerSelectionTimeoutError
from mangonel.gridfs import AsyncGridFSBucket, FileExists
from mangonel.write_concern import WriteConcern
from tools.forks import in_child

pytestmark = pytest.mark.usefixtures("distance")


def left_over(peer: Any) -> tuple[int, int]:
    """Return the numbers of file documents and chunks."""
    return peer["fs.files"].count_documents({}), peer["fs.chunks"].count_documents({})


@pytest.mark.parametrize("size", [0, 1, 10, 11, 100, 105])
def test_pymongo_reads_what_is_written(face: Any, bucket: Any, peer: Any, size: int) -> None:
    import gridfs

    data = os.urandom(size)
    face.wait(bucket.upload_from_stream("file", data, metadata={"kind": "test"}))

    found = gridfs.GridFS(peer).find_one({"filename": "file"})
    assert found is not None
    assert found.read() == data
    assert (found.length, found.chunk_size, found.metadata) == (size, 10, {"kind": "test"})
    chunks = list(peer["fs.chunks"].find({}, sort=[("n", 1)]))
    assert [chunk["n"] for chunk in chunks] == list(range(-(-size // 10)))
    assert all(list(chunk) == ["_id", "files_id", "n", "data"] for chunk in chunks)


@pytest.mark.parametrize("data", [b"12345678901", bytearray(b"12345678901"), memoryview(b"12345678901")])
def test_any_buffer_is_written(face: Any, bucket: Any, data: Any) -> None:
    file_id = face.wait(bucket.upload_from_stream("file", data))

    assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == bytes(data)


def test_one_connection_is_enough(face: Any, standalone: Any, database_name: str) -> None:
    client = face.client(standalone.uri, maxPoolSize=1, waitQueueTimeoutMS=20_000)
    bucket = face.bucket_class(client[database_name], chunk_size_bytes=10)
    # The first upload finds no connection, the others an idle one; each bucket is empty and requests its indexes.
    for data in (b"", b"12345678901"):
        file_id = face.wait(bucket.upload_from_stream("file", data))
        assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == data
        face.wait(bucket.delete(file_id))


def test_file_object_is_read_to_its_end(face: Any, bucket: Any) -> None:
    class Trickle(io.RawIOBase):
        left = 35

        def read(self, size: int = -1) -> bytes:
            count = min(3, self.left)
            self.left -= count
            return b"x" * count

    file_id = face.wait(bucket.upload_from_stream("file", Trickle()))

    assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == b"x" * 35


def test_asyncio_reads_from_awaitable_sources(face: Any, bucket: Any) -> None:
    if not face.is_async:
        pytest.skip("a blocking face awaits nothing")

    class Source:
        left = 35

        async def read(self, size: int) -> bytes:
            await asyncio.sleep(0)
            count = min(size, self.left)
            self.left -= count
            return b"y" * count

    file_id = face.wait(bucket.upload_from_stream("file", Source()))

    assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == b"y" * 35


def test_str_needs_an_encoding(face: Any, database: Any) -> None:
    fs = face.fs_class(database)

    with pytest.raises(TypeError, match="encoding"):
        face.wait(fs.put("grün"))
    file_id = face.wait(fs.put("grün", encoding="utf-8"))

    assert face.wait(face.wait(fs.get(file_id)).read()) == "grün".encode()


@pytest.mark.parametrize("data", [5, None, ["x"]])
def test_values_without_bytes_are_refused(face: Any, database: Any, data: Any) -> None:
    with pytest.raises(TypeError, match="can only write strings or file-like objects"):
        face.wait(face.fs_class(database).put(data))


def test_attributes_become_fields(face: Any, database: Any, peer: Any) -> None:
    fs = face.fs_class(database)
    target = fs.new_file(filename="first", colour="blue")
    target.filename = "second"
    target.size_class = "small"

    face.wait(target.write(b"hello"))
    face.wait(target.close())

    found = peer["fs.files"].find_one()
    assert (found["filename"], found["colour"], found["size_class"]) == ("second", "blue", "small")
    assert (target.length, target.colour, target.closed) == (5, "blue", True)
    assert target.upload_date is not None


def test_attributes_of_a_closed_file_are_set_on_the_server(face: Any, database: Any, peer: Any) -> None:
    target = face.fs_class(database).new_file(filename="file")
    face.wait(target.close())

    if face.is_async:
        with pytest.raises(AttributeError, match="set"):
            target.colour = "blue"
        face.wait(target.set("colour", "blue"))
    else:
        target.colour = "blue"

    assert peer["fs.files"].find_one()["colour"] == "blue"


def test_length_and_date_are_known_at_the_end(face: Any, database: Any) -> None:
    target = face.fs_class(database).new_file()

    for name in ("length", "upload_date"):
        with pytest.raises(AttributeError, match="closed file"):
            getattr(target, name)


def test_closed_file_takes_nothing_more(face: Any, database: Any) -> None:
    target = face.fs_class(database).new_file()
    face.wait(target.close())
    face.wait(target.close())

    with pytest.raises(ValueError, match="closed"):
        face.wait(target.write(b"x"))


def test_id_of_another_file_is_refused_and_that_file_stays(face: Any, bucket: Any, peer: Any) -> None:
    face.wait(bucket.upload_from_stream_with_id("mine", "file", b"x" * 35))

    with pytest.raises(FileExists, match="'mine'"):
        face.wait(bucket.upload_from_stream_with_id("mine", "other", b"y" * 95))

    assert left_over(peer) == (1, 4)
    assert face.wait(face.wait(bucket.open_download_stream("mine")).read()) == b"x" * 35


def test_id_of_an_empty_file_is_refused_and_no_chunk_is_left(face: Any, bucket: Any, peer: Any) -> None:
    face.wait(bucket.upload_from_stream_with_id("mine", "file", b""))

    with pytest.raises(FileExists):
        face.wait(bucket.upload_from_stream_with_id("mine", "other", b"y" * 95))

    assert left_over(peer) == (1, 0)


def test_indexes_are_those_of_the_specification(face: Any, bucket: Any, peer: Any) -> None:
    face.wait(bucket.upload_from_stream("file", b"x"))

    files = peer["fs.files"].index_information()["filename_1_uploadDate_1"]
    chunks = peer["fs.chunks"].index_information()["files_id_1_n_1"]
    assert files.get("unique", False) is False
    assert chunks["unique"] is True


def test_indexes_of_a_bucket_in_use_are_left_alone(face: Any, bucket: Any, peer: Any) -> None:
    peer["fs.files"].insert_one({})
    peer["fs.chunks"].insert_one({})

    face.wait(bucket.upload_from_stream("file", b"x"))

    assert list(peer["fs.files"].index_information()) == ["_id_"]


def test_abort_removes_every_chunk(face: Any, bucket: Any, peer: Any) -> None:
    target = bucket.open_upload_stream("file", chunk_size_bytes=1024)
    face.wait(target.write(os.urandom(9_000_000)))

    face.wait(target.abort())

    assert left_over(peer) == (0, 0)
    assert target.closed


def test_abort_of_a_closed_file_removes_it(face: Any, bucket: Any, peer: Any) -> None:
    target = bucket.open_upload_stream("file")
    face.wait(target.write(b"x" * 25))
    face.wait(target.close())

    face.wait(target.abort())

    assert left_over(peer) == (0, 0)


def test_exception_inside_with_leaves_no_chunk(face: Any, bucket: Any, peer: Any) -> None:
    target = bucket.open_upload_stream("file", chunk_size_bytes=1024)

    def fail(opened: Any) -> Any:
        if face.is_async:

            async def steps() -> None:
                await opened.write(os.urandom(9_000_000))
                raise ZeroDivisionError

            return steps()
        opened.write(os.urandom(9_000_000))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        face.inside(target, fail)

    assert left_over(peer) == (0, 0)
    assert target.closed


def test_source_that_fails_leaves_no_chunk(face: Any, bucket: Any, peer: Any) -> None:
    class Broken:
        left = 9

        def read(self, size: int) -> bytes:
            self.left -= 1
            if not self.left:
                raise OSError("the disk is gone")
            return os.urandom(size)

    with pytest.raises(OSError, match="the disk is gone"):
        face.wait(bucket.upload_from_stream("file", Broken(), chunk_size_bytes=1024 * 1024))

    assert left_over(peer) == (0, 0)


def test_cancelled_upload_leaves_no_chunk(face: Any, bucket: Any, peer: Any) -> None:
    if not face.is_async:
        pytest.skip("only tasks are cancelled")

    async def steps() -> None:
        sent = asyncio.Event()

        class Endless:
            count = 0

            async def read(self, size: int) -> bytes:
                self.count += 1
                if self.count > 12:
                    sent.set()
                await asyncio.sleep(0)
                return os.urandom(size)

        task = asyncio.ensure_future(
            bucket.upload_from_stream("file", Endless(), chunk_size_bytes=1024 * 1024)
        )
        await sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    face.wait(steps())

    assert left_over(peer) == (0, 0)


@pytest.mark.parametrize("owner", ["this upload", "another upload"])
def test_upload_that_breaks_off_at_its_end_removes_no_file_of_another_upload(
    face: Any, bucket: Any, peer: Any, owner: str
) -> None:
    class BrokenOff(BaseException):
        """In place of KeyboardInterrupt, which would end the loop's thread too."""

    class Files:
        """Stores the file's document, and breaks off before the reply is known."""

        def _insert_checked(self, file: dict[str, Any], session: Any) -> Any:
            if owner == "another upload":
                file = {**file, "uploadDate": file["uploadDate"] - datetime.timedelta(seconds=1)}
            peer["fs.files"].insert_one(file)
            raise BrokenOff

    target = bucket.open_upload_stream_with_id("same", "file")
    face.wait(target.write(b"some"))
    object.__setattr__(target, "_files", Files())
    with pytest.raises(BrokenOff):
        face.wait(target.close())

    assert left_over(peer) == (int(owner == "another upload"), 0)


def test_unconfirmed_writes_are_refused(face: Any, database: Any) -> None:
    unconfirmed = database.with_options(write_concern=WriteConcern(w=0))

    for make in (
        lambda: face.fs_class(unconfirmed),
        lambda: face.bucket_class(unconfirmed),
        lambda: face.bucket_class(database, write_concern=WriteConcern(w=0)),
        lambda: face.in_class(unconfirmed["fs"]),
    ):
        with pytest.raises(ConfigurationError, match="acknowledged"):
            make()


def test_what_is_no_database_is_refused(face: Any, database: Any) -> None:
    for make in (
        lambda: face.fs_class("shop"),
        lambda: face.bucket_class(database["fs"]),
        lambda: face.in_class(database),
        lambda: face.out_class(database),
    ):
        with pytest.raises(TypeError, match="must be an instance of"):
            make()


def test_what_a_writer_cannot_do_is_unsupported(face: Any, bucket: Any) -> None:
    target = bucket.open_upload_stream("file")

    assert (target.readable(), target.seekable(), target.writable(), target.writeable()) == (
        False,
        False,
        True,
        True,
    )
    with pytest.raises(io.UnsupportedOperation):
        target.read()


def drop(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def test_upload_that_is_dropped_unfinished_says_so(face: Any, bucket: Any) -> None:
    held = [bucket.open_upload_stream("file")]
    face.wait(held[0].write(b"some"))
    with pytest.warns(ResourceWarning, match="neither closed nor aborted"):
        drop(held)


@pytest.mark.parametrize("end", ["close", "abort", None])
def test_upload_that_was_ended_or_never_written_is_dropped_in_silence(
    face: Any, bucket: Any, end: str | None
) -> None:
    held = [bucket.open_upload_stream("file")]
    if end is not None:
        face.wait(held[0].write(b"some"))
        face.wait(getattr(held[0], end)())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        drop(held)

    assert not [warning for warning in told if "GridFS" in str(warning.message)]


def test_a_write_to_a_server_that_cannot_be_reached_raises_and_so_does_close(face: Any, nowhere: str) -> None:
    bucket = face.bucket_class(face.client(nowhere, serverSelectionTimeoutMS=30)["nowhere"])
    target = bucket.open_upload_stream("file", chunk_size_bytes=1)
    with pytest.raises(ServerSelectionTimeoutError):
        face.wait(target.write(b"data"))
    with pytest.raises(ServerSelectionTimeoutError):
        face.wait(target.close())


@pytest.mark.parametrize("way", ["write", "close", "with"])
def test_a_forked_child_leaves_the_parents_upload_alone(
    face: Any, standalone: Any, database_name: str, peer: Any, way: str
) -> None:
    bucket = face.bucket_class(face.client(standalone.uri)[database_name], chunk_size_bytes=4)
    target = bucket.open_upload_stream("file")
    face.wait(target.write(b"x" * 10))

    async def steps() -> None:
        async with target:
            raise SystemExit

    def end() -> None:
        if way == "with" and face.is_async:
            asyncio.run(steps())
        elif way == "with":
            with target:
                raise SystemExit
        else:
            done = target.write(b"y" * 10) if way == "write" else target.close()
            if face.is_async:
                asyncio.run(done)

    def in_the_child() -> str:
        try:
            end()
        except BaseException as error:
            return repr(error)
        return "done"

    told = in_child(in_the_child)
    assert told.startswith(
        "SystemExit" if way == "with" else "InvalidOperation('expected the process that began"
    )
    face.wait(target.write(b"z" * 10))
    face.wait(target.close())
    stored = gridfs.GridFSBucket(peer).open_download_stream(target._id)
    assert stored.read() == b"x" * 10 + b"z" * 10


@pytest.mark.filterwarnings("ignore:coroutine method")
def test_an_upload_whose_loop_has_ended_says_so_and_takes_no_more(
    standalone: Any, database_name: str
) -> None:
    client: Any = AsyncMongoClient(standalone.uri)
    target = AsyncGridFSBucket(client[database_name]).open_upload_stream("file")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.aconnect())
    # asyncio would log the tasks that end with the loop.
    loop.set_exception_handler(lambda *_: None)
    steps = target.write(b"x" * 30_000_000)
    task = loop.create_task(steps)
    loop.run_until_complete(asyncio.wait({task}, timeout=0.001))
    assert not task.done()
    loop.close()
    with pytest.warns(ResourceWarning, match="unclosed upload"):
        steps.close()
    with pytest.raises(ValueError, match="closed file"):
        asyncio.run(target.write(b"x"))
    asyncio.run(client.close())
