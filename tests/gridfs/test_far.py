"""A server that is milliseconds away: fewer round trips, the same bytes and the same errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import MongoClient, monitoring
from mangonel.bson import ObjectId
from mangonel.gridfs import CorruptGridFile, FileExists, GridFSBucket, NoFile, _download, _opening, _parallel
from mangonel.gridfs._opening import FIRST_CHUNKS, LEAST_DISTANCE
from mangonel.server import Server
from tools.faces import eventually, pool_sizes
from tools.proxy import LineProxy

FEW = FIRST_CHUNKS - 1
MIB = 1024 * 1024


class Told(monitoring.CommandListener):
    """Keeps the commands and their replies, in order: `find`, and `find.` for its reply."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.all.append(event.command_name)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self.all.append(f"{event.command_name}.")

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        self.all.append(f"{event.command_name}!")

    def take(self) -> list[str]:
        """Return the events since the last call."""
        told, self.all = self.all, []
        return told


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def watched(face: Any, standalone: Server, database_name: str, told: Told, far: None) -> Any:
    """A bucket of small chunks on a client that records its commands."""
    client = face.client(standalone.uri, event_listeners=[told])
    return face.bucket_class(client[database_name], chunk_size_bytes=10)


WAYS: dict[str, Callable[[Any, Any], bytes]] = {
    "read": lambda face, source: face.wait(source.read()),
    "in parts": lambda face, source: b"".join(iter(lambda: face.wait(source.read(7)), b"")),
    "by chunk": lambda face, source: b"".join(iter(lambda: face.wait(source.readchunk()), b"")),
    "by line": lambda face, source: b"".join(face.collect(source)),
    "download": lambda face, source: face.wait(source.download(connections=2)),
}


def opened(face: Any, bucket: Any, by: str, file_id: Any, name: str = "file") -> Any:
    way = bucket.open_download_stream(file_id) if by == "id" else bucket.open_download_stream_by_name(name)
    return face.wait(way)


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, FEW, FIRST_CHUNKS, FIRST_CHUNKS + 1, 30])
def test_document_and_first_chunks_are_one_command(
    face: Any, watched: Any, told: Told, count: int, way: str, by: str
) -> None:
    data = os.urandom(count * 10)
    file_id = face.wait(watched.upload_from_stream("file", data))
    told.take()

    source = opened(face, watched, by, file_id)

    assert told.take() == ["aggregate", "aggregate."]
    assert source._file["length"] == len(data)
    assert WAYS[way](face, source) == data
    # The first chunks show the end of a shorter file; the rest of a longer one has a cursor of its own.
    commands = told.take()
    assert commands[:1] == ([] if count <= FEW else ["find"])
    assert "killCursors" not in commands


def test_file_that_is_read_at_once_is_opened_and_read_by_one_command(
    face: Any, watched: Any, told: Told
) -> None:
    file_id = face.wait(watched.upload_from_stream("file", b"x" * 25))
    told.take()

    unopened = face.out_class(watched._collection, file_id)

    assert face.wait(unopened.read()) == b"x" * 25
    assert face.wait(watched.download(file_id)) == b"x" * 25
    assert told.take() == ["aggregate", "aggregate."] * 2


@pytest.mark.parametrize("way", WAYS)
def test_after_a_larger_file_was_read_the_next_one_comes_whole(
    face: Any, watched: Any, told: Told, way: str
) -> None:
    data = os.urandom(300)
    larger, other, small = [
        face.wait(watched.upload_from_stream("file", each)) for each in (data, data[:250], b"x" * 10)
    ]

    def commands_to_read(file_id: Any, expected: bytes) -> list[str]:
        told.take()
        assert WAYS[way](face, face.wait(watched.open_download_stream(file_id))) == expected
        return [name for name in told.take() if not name.endswith(".")]

    assert commands_to_read(larger, data)[:2] == ["aggregate", "find"]
    assert commands_to_read(larger, data) == ["aggregate"]
    assert commands_to_read(other, data[:250]) == ["aggregate"]
    assert commands_to_read(small, b"x" * 10) == ["aggregate"]
    # As many chunks as the last file had: the minimum.
    assert commands_to_read(larger, data)[:2] == ["aggregate", "find"]


@pytest.mark.parametrize("read", [0, 15, 120])
def test_after_a_file_was_left_before_its_end_the_next_one_comes_with_few_chunks(
    face: Any, watched: Any, told: Told, read: int
) -> None:
    data = os.urandom(300)
    file_id = face.wait(watched.upload_from_stream("file", data))
    assert face.wait(watched.download(file_id)) == data
    left = face.wait(watched.open_download_stream(file_id))
    assert face.wait(left.read(read)) == data[:read]
    face.wait(left.close())
    told.take()

    assert face.wait(watched.download(file_id)) == data
    assert [name for name in told.take() if not name.endswith(".")][:2] == ["aggregate", "find"]


def test_a_file_that_one_reply_does_not_hold_changes_nothing(
    face: Any, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_download, "BATCH_SIZE", 300)
    for length, expected in ((290, 30), (291, 0), (29, FIRST_CHUNKS - 2)):
        face.wait(watched.download(face.wait(watched.upload_from_stream("file", b"x" * length))))
        assert watched._collection._client._first_chunks == expected


LARGE = os.urandom(10 * 3000)


@pytest.fixture
def after_large(face: Any, watched: Any, told: Told, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The id of a file that one reply does not hold, which was read to its end."""
    monkeypatch.setattr(_download, "BATCH_SIZE", 1000)
    monkeypatch.setattr(_download, "_LEAST_LAID", 1000)
    monkeypatch.setattr(_parallel, "LEAST_SHARE", 1000)
    monkeypatch.setattr(_download, "_STREAM_SIZE", 500)
    file_id = face.wait(watched.upload_from_stream("file", LARGE))
    told.take()
    assert face.wait(face.wait(watched.open_download_stream(file_id)).read()) == LARGE
    assert [name for name in told.take() if not name.endswith(".")][:3] == ["aggregate", "find", "getMore"]
    return file_id


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "download"])
def test_after_a_large_file_the_next_one_is_read_on_with_the_cursor_that_opened_it(
    face: Any, watched: Any, told: Told, after_large: Any, way: str, by: str
) -> None:
    for file_id, name, data in (
        (after_large, "file", LARGE),
        (face.wait(watched.upload_from_stream("smaller", LARGE[:95])), "smaller", LARGE[:95]),
    ):
        told.take()
        assert WAYS[way](face, opened(face, watched, by, file_id, name)) == data
        commands = [name for name in told.take() if not name.endswith(".")]
        assert commands[:2] == ["aggregate", "getMore"]
        assert set(commands) == {"aggregate", "getMore"}


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("left", ["unread", "read in part", "sought", "dropped", "downloaded"])
def test_a_cursor_that_opened_a_file_ends_with_it(
    face: Any, watched: Any, told: Told, after_large: Any, left: str, by: str
) -> None:
    source = opened(face, watched, by, after_large)
    told.take()

    if left == "read in part":
        assert face.wait(source.read(100)) == LARGE[:100]
    elif left == "sought":
        face.wait(source.seek(20_000))
        assert face.wait(source.read(10)) == LARGE[20_000:20_010]
    elif left == "downloaded":
        assert face.wait(source.download(connections=2)) == LARGE
    if left != "dropped":
        face.wait(source.close())
    del source

    eventually(lambda: "killCursors." in told.all)
    # The next file's command leaves no cursor open; only a dropped file tells nothing about the reader's habit.
    assert watched._collection._client._keeps_opening_cursor == (left == "dropped")


@pytest.mark.parametrize("n", [3, 40])
def test_damage_is_found_with_the_cursor_that_opened_the_file(
    face: Any, watched: Any, peer: Any, after_large: Any, n: int
) -> None:
    peer["fs.chunks"].delete_one({"n": n})
    with pytest.raises(CorruptGridFile, match=f"missing chunk: expected chunk #{n}"):
        face.wait(face.wait(watched.open_download_stream(after_large)).read())


@pytest.mark.parametrize("length", [0, 1, 10, 60])
def test_after_a_large_file_a_small_one_comes_whole(
    face: Any, watched: Any, told: Told, after_large: Any, length: int
) -> None:
    file_id = face.wait(watched.upload_from_stream("small", LARGE[:length]))
    for by in ("id", "name"):
        watched._collection._client._keeps_opening_cursor = True
        told.take()
        assert face.wait(opened(face, watched, by, file_id, "small").read()) == LARGE[:length]
        assert told.take() == ["aggregate", "aggregate."]


def test_surplus_is_found_with_the_cursor_that_opened_the_file(
    face: Any, watched: Any, peer: Any, after_large: Any
) -> None:
    theirs = peer["fs.files"].find_one()["_id"]
    peer["fs.chunks"].insert_one({"files_id": theirs, "n": 3000, "data": b"y"})
    with pytest.raises(CorruptGridFile, match="extra chunk"):
        face.wait(face.wait(watched.open_download_stream(after_large)).read())


def test_a_read_goes_on_when_the_cursor_that_opened_the_file_is_lost(
    face: Any, watched: Any, told: Told, standalone: Server, after_large: Any
) -> None:
    source = face.wait(watched.open_download_stream(after_large))
    told.take()
    with MongoClient(standalone.uri) as other:
        refuse = {"failCommands": ["getMore"], "errorCode": 43}
        other.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=refuse)
    assert face.wait(source.read()) == LARGE
    assert [name for name in told.take() if name in ("getMore!", "find")] == ["getMore!", "find", "find"]


def test_surplus_chunk_of_a_file_that_comes_whole_is_found(face: Any, watched: Any, peer: Any) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 300))
    face.wait(watched.download("mine"))
    peer["fs.chunks"].insert_one({"files_id": "mine", "n": 30, "data": b"y"})

    for connections in (1, 2):
        with pytest.raises(CorruptGridFile, match="extra chunk"):
            face.wait(face.wait(watched.open_download_stream("mine")).download(connections=connections))
        watched._collection._client._first_chunks = 31


@pytest.mark.parametrize("place", [0, 1, 9, 10, 49, 95, 120])
def test_seek_goes_from_the_first_chunks_to_any_place(face: Any, watched: Any, place: int) -> None:
    data = os.urandom(95)
    source = face.wait(watched.open_download_stream(face.wait(watched.upload_from_stream("file", data))))

    face.wait(source.seek(place))

    assert face.wait(source.read(20)) == data[place : place + 20]
    face.wait(source.seek(3))
    assert face.wait(source.read()) == data[3:]


@pytest.mark.parametrize("file_id", [ObjectId(), "name", None, {"a": 1}, 5])
def test_chunks_without_a_document_are_no_file(face: Any, watched: Any, peer: Any, file_id: Any) -> None:
    with pytest.raises(NoFile):
        face.wait(watched.open_download_stream(file_id))
    stored = file_id.binary if isinstance(file_id, ObjectId) else None
    theirs = pytest.importorskip("bson").ObjectId(stored) if stored else file_id
    peer["fs.chunks"].insert_one({"files_id": theirs, "n": 0, "data": b"x"})
    with pytest.raises(NoFile):
        face.wait(watched.open_download_stream(file_id))


def test_every_revision_of_a_name_comes_with_its_first_chunks(face: Any, watched: Any, told: Told) -> None:
    for content in (b"one" * 9, b"two" * 9, b"three" * 9):
        face.wait(watched.upload_from_stream("file", content))
    face.wait(watched.upload_from_stream("another", b"x"))
    told.take()

    for revision, content in ((0, b"one"), (1, b"two"), (-1, b"three"), (-2, b"two"), (-3, b"one")):
        source = face.wait(watched.open_download_stream_by_name("file", revision))
        assert face.wait(source.read()) == content * 9
        assert told.take() == ["aggregate", "aggregate."]
    for name, revision in (("file", 3), ("file", -4), ("nothing", -1)):
        with pytest.raises(NoFile, match=f"no version {revision} for filename '{name}'"):
            face.wait(watched.open_download_stream_by_name(name, revision))


@pytest.mark.parametrize("file_id", [None, "name", 5, 5.0, {"a": 1, "b": None}])
def test_by_name_the_chunks_are_those_of_the_documents_id(
    face: Any, watched: Any, told: Told, peer: Any, file_id: Any
) -> None:
    for other in (0, "another", {"a": 1}):
        face.wait(watched.upload_from_stream_with_id(other, "another", b"y" * 25))
    face.wait(watched.upload_from_stream_with_id(file_id, "file", b"x" * 25))
    told.take()

    assert face.wait(face.wait(watched.open_download_stream_by_name("file")).read()) == b"x" * 25
    assert told.take() == ["aggregate", "aggregate."]


def test_a_file_found_by_its_fields_comes_with_its_first_chunks(
    face: Any, watched: Any, told: Told, database_name: str
) -> None:
    files = face.fs_class(watched._collection._database)
    face.wait(watched.upload_from_stream("file", b"x" * 25, metadata={"language": "en"}))
    face.wait(watched.upload_from_stream("file", b"y" * 25, metadata={"language": "fr"}))
    told.take()

    source = face.wait(files.get_last_version("file", metadata={"language": "en"}))
    assert face.wait(source.read()) == b"x" * 25
    assert told.take() == ["aggregate", "aggregate."]


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("count", [1, FEW, FIRST_CHUNKS, FIRST_CHUNKS + 1])
@pytest.mark.parametrize("way", WAYS)
def test_surplus_chunk_is_found(face: Any, watched: Any, peer: Any, count: int, way: str, by: str) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 10 * count))
    peer["fs.chunks"].insert_one({"files_id": "mine", "n": count, "data": b"y"})
    source = opened(face, watched, by, "mine")

    with pytest.raises(CorruptGridFile, match="extra chunk"):
        WAYS[way](face, source)


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("n", [0, 2, FEW, FIRST_CHUNKS])
def test_missing_chunk_is_found(face: Any, watched: Any, peer: Any, n: int, by: str) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 10 * (n + 1)))
    peer["fs.chunks"].delete_one({"files_id": "mine", "n": n})
    source = opened(face, watched, by, "mine")

    with pytest.raises(CorruptGridFile, match=f"missing chunk: expected chunk #{n}"):
        face.wait(source.read())


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("reads_on", [False, True])
def test_first_chunk_that_is_missing_is_found(
    face: Any, watched: Any, peer: Any, by: str, reads_on: bool
) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 200))
    peer["fs.chunks"].delete_one({"files_id": "mine", "n": 0})
    watched._collection._client._keeps_opening_cursor = reads_on
    source = opened(face, watched, by, "mine")

    with pytest.raises(CorruptGridFile, match="missing chunk: expected chunk #0"):
        face.wait(source.read())


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("n", [0, 1])
def test_chunk_that_is_there_twice_is_found(face: Any, watched: Any, peer: Any, n: int, by: str) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 30))
    peer["fs.chunks"].drop_indexes()
    peer["fs.chunks"].insert_one({"files_id": "mine", "n": n, "data": b"y" * 10})
    source = opened(face, watched, by, "mine")

    with pytest.raises(CorruptGridFile):
        face.wait(source.read())


@pytest.mark.parametrize("by", ["id", "name"])
@pytest.mark.parametrize("kind", ["double", "long"])
def test_numbers_of_chunks_may_have_any_type(face: Any, watched: Any, peer: Any, kind: str, by: str) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 30))
    peer["fs.chunks"].update_many({}, [{"$set": {"n": {"$convert": {"input": "$n", "to": kind}}}}])

    assert face.wait(opened(face, watched, by, "mine").read()) == b"x" * 30


def test_chunks_that_one_reply_cannot_hold_are_read_by_another_cursor(
    face: Any, watched: Any, standalone: Server
) -> None:
    data = os.urandom(5 * 5 * MIB + 7)
    file_id = face.wait(watched.upload_from_stream("file", data, chunk_size_bytes=5 * MIB))
    with MongoClient(standalone.uri) as other:

        def open_cursors() -> int:
            return int(other.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"])

        # Cursors that other tests have left on the server.
        before = open_cursors()
        assert face.wait(face.wait(watched.open_download_stream(file_id)).read()) == data
        assert face.wait(face.wait(watched.open_download_stream_by_name("file")).read()) == data
        assert face.wait(watched.download(file_id, connections=2)) == data
        # The rest of the first command is killed on the server, not left to its timeout.
        eventually(lambda: open_cursors() <= before)


@pytest.mark.parametrize(("by", "code"), [("id", 40324), ("name", 40324), ("name", 28769)])
def test_server_that_cannot_join_both_is_asked_once(
    face: Any, watched: Any, told: Told, standalone: Server, by: str, code: int
) -> None:
    file_id = face.wait(watched.upload_from_stream("file", b"x" * 25))
    told.take()
    with MongoClient(standalone.uri) as other:
        refuse = {"failCommands": ["aggregate"], "errorCode": code}
        other.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=refuse)
        try:
            for _ in range(2):
                assert face.wait(opened(face, watched, by, file_id).read()) == b"x" * 25
        finally:
            other.admin.command("configureFailPoint", "failCommand", mode="off")

    alone = ["find", "find."] * 2
    assert told.take() == ["aggregate", "aggregate!", *alone, *alone]
    # The other way may still do.
    assert face.wait(opened(face, watched, "name" if by == "id" else "id", file_id).read()) == b"x" * 25
    assert told.take() == ["aggregate", "aggregate."]


@pytest.mark.parametrize("by", ["id", "name"])
def test_a_transaction_asks_for_the_document_alone(
    face: Any, server: Server, told: Told, database_name: str, far: None, by: str
) -> None:
    client = face.client(server.uri, event_listeners=[told])
    bucket = face.bucket_class(client[database_name])
    file_id = face.wait(bucket.upload_from_stream("file", b"x" * 25))
    told.take()
    session = client.start_session()
    session.start_transaction()

    if by == "id":
        source = face.wait(bucket.open_download_stream(file_id, session=session))
    else:
        source = face.wait(bucket.open_download_stream_by_name("file", session=session))

    assert face.wait(source.read()) == b"x" * 25
    assert told.take() == ["find", "find."] * 2
    face.wait(session.end_session())


@pytest.mark.parametrize("way", ["at once", "in parts", "own id"])
def test_first_chunks_go_beside_the_check_of_the_indexes(
    face: Any, standalone: Server, told: Told, database_name: str, far: None, way: str
) -> None:
    client = face.client(standalone.uri, event_listeners=[told], minPoolSize=4)
    bucket = face.bucket_class(client[database_name], chunk_size_bytes=1024)
    face.wait(bucket.upload_from_stream("file", b"x"))
    eventually(lambda: pool_sizes(client)[0] >= 4)
    told.take()

    if way == "at once":
        face.wait(bucket.upload_from_stream("file", os.urandom(9000)))
    elif way == "own id":
        face.wait(bucket.upload_from_stream_with_id("mine", "file", os.urandom(9000)))
    else:
        target = bucket.open_upload_stream("file")
        face.wait(target.write(b"less than a chunk"))
        face.wait(target.close())

    commands = told.take()
    first_reply = next(number for number, name in enumerate(commands) if name.endswith("."))
    assert commands[:first_reply] == ["insert", "find", "find"]
    # Readers see the document only when all chunks are stored.
    assert commands[-2:] == ["insert", "insert."]
    assert len(commands) == 8


def test_caller_that_has_the_id_waits_for_the_index(
    face: Any, watched: Any, told: Told, standalone: Server
) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 25))

    commands = told.take()
    assert commands.index("createIndexes.") < commands.index("insert")


@pytest.mark.parametrize("file_id", [None, "mine"])
def test_a_bucket_that_was_dropped_gets_its_indexes_again(
    face: Any, watched: Any, peer: Any, file_id: str | None
) -> None:
    face.wait(watched.upload_from_stream("file", b"x" * 25))
    peer.client.drop_database(peer.name)

    if file_id is None:
        face.wait(watched.upload_from_stream("file", b"y" * 25))
    else:
        face.wait(watched.upload_from_stream_with_id(file_id, "file", b"y" * 25))

    assert peer["fs.chunks"].index_information()["files_id_1_n_1"]["unique"] is True
    assert "filename_1_uploadDate_1" in peer["fs.files"].index_information()


def test_an_id_is_taken_also_where_the_first_chunks_go_beside_the_check(
    face: Any, watched: Any, peer: Any
) -> None:
    face.wait(watched.upload_from_stream_with_id("mine", "file", b"x" * 25))

    with pytest.raises(FileExists):
        face.wait(watched.upload_from_stream_with_id("mine", "file", b"y" * 45))

    assert face.wait(watched.download("mine")) == b"x" * 25
    assert peer["fs.chunks"].count_documents({}) == 3


def test_an_empty_bucket_gets_its_indexes_and_a_full_one_none(
    face: Any, watched: Any, told: Told, peer: Any
) -> None:
    face.wait(watched.upload_from_stream("file", b"x" * 25))
    assert peer["fs.chunks"].index_information()["files_id_1_n_1"]["unique"] is True
    assert "filename_1_uploadDate_1" in peer["fs.files"].index_information()

    told.take()
    face.wait(watched.upload_from_stream("file", b"x" * 25))
    assert not {"listIndexes", "createIndexes"} & set(told.take())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_few_connections_are_enough(
    face: Any, standalone: Server, database_name: str, far: None, most: int
) -> None:
    client = face.client(standalone.uri, maxPoolSize=most, waitQueueTimeoutMS=20_000)
    bucket = face.bucket_class(client[database_name], chunk_size_bytes=MIB)
    # While the source of a larger file is read, inserts stay in flight.
    assert len(face.wait(bucket.upload_from_stream("large", b"x" * 9 * MIB)).binary) == 12
    for size in (0, 5, 3 * MIB):
        data = os.urandom(size)
        file_id = face.wait(bucket.upload_from_stream("file", data))
        # The source is read over the same client.
        copied = face.wait(bucket.upload_from_stream("copy", face.wait(bucket.open_download_stream(file_id))))
        assert face.wait(face.wait(bucket.open_download_stream(copied)).read()) == data


@pytest.mark.enough(1)
@pytest.mark.parametrize("most", [1, 2, 3])
def test_threads_that_share_few_connections_do_not_wait_for_each_other(
    standalone: Server, database_name: str, far: None, most: int
) -> None:
    data = os.urandom(5 * MIB)
    with MongoClient(standalone.uri, maxPoolSize=most, waitQueueTimeoutMS=30_000) as client:
        bucket = GridFSBucket(client[database_name], chunk_size_bytes=MIB)
        found: list[bytes] = []

        def play() -> None:
            for _ in range(5):
                found.append(bucket.download(bucket.upload_from_stream("file", data)))

        threads = [threading.Thread(target=play) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [data] * 15 == found
        client.drop_database(database_name)


def test_distance_is_learned_from_the_connection(
    face: Any, standalone: Server, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_opening, "LEAST_DISTANCE", LEAST_DISTANCE)
    told = Told()
    near = face.client(standalone.uri, heartbeatFrequencyMS=500)
    face.wait(near.admin.command("ping"))
    with LineProxy(standalone.members[0].port, delay_ms=5.0) as proxy:
        client = face.client(f"mongodb://{proxy.address}/?directConnection=true", event_listeners=[told])
        bucket = face.bucket_class(client[database_name])
        file_id = face.wait(bucket.upload_from_stream("file", b"x" * 25))
        eventually(lambda: client._port.distance > 0)
        told.take()

        # The first measurement counts half.
        assert client._port.distance >= 0.005 > LEAST_DISTANCE
        assert face.wait(face.wait(bucket.open_download_stream(file_id)).read()) == b"x" * 25
        assert told.take() == ["aggregate", "aggregate."]
    eventually(lambda: 0 < near._port.distance < 0.005)
