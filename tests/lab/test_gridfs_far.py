"""Files from far away: every contender reads and stores the same bytes, and the floor waits for the fewest replies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mangonel.lab import marks, registry
from mangonel.lab.contender import Target
from mangonel.lab.contenders import _raw_files, _wire
from mangonel.lab.experiment import Size
from mangonel.lab.experiments import gridfs_far
from mangonel.lab.experiments._parts import content

pymongo = pytest.importorskip("pymongo", reason="PyMongo stores the files to read")
gridfs = pytest.importorskip("gridfs", reason="PyMongo stores the files to read")

PARTS = {part.id: part for part in gridfs_far.EXPERIMENT.parts(Size())}
CONTENDERS = ("raw-socket", "pymongo", "mangonel", "mangonel-asyncio")


@pytest.fixture
def target(server, database_name):
    return Target(server.uri, database_name, "people")


@pytest.fixture
def task(target, bench_of):
    """Return a function that makes a contender's task with two files in a sample."""
    return lambda part, name: gridfs_far.EXPERIMENT.task(
        replace(PARTS[part], operations=2), bench_of(name, target, Size())
    )


@pytest.fixture
def stored(target):
    """Return a function that stores a file of this size with PyMongo."""
    with pymongo.MongoClient(target.uri) as client:
        bucket = gridfs.GridFSBucket(client[target.database], "far")

        def store(name: str, size: int) -> bytes:
            bucket.upload_from_stream_with_id(name, name, content(size))
            return content(size)

        yield store


@pytest.fixture
def floor(target):
    found = _raw_files.RawFiles(target, "far")
    yield found
    found.close()


def test_every_size_and_distance_has_a_part_for_each_way_and_a_mark():
    ways = {name.rsplit("-", 2)[0] for name in PARTS}
    assert ways == {"by-id", "by-name", "upload"}
    assert len(PARTS) == 3 * len(gridfs_far.SIZES) * 3
    assert all(
        part.write_concern == ("w:1" if name.startswith("upload") else "") for name, part in PARTS.items()
    )
    judged = [mark for mark in marks.MARKS if mark.experiment == "gridfs-far"]
    assert {mark.of[0][1:] for mark in judged} == {
        (part, name) for part in PARTS for name in ("mangonel", "mangonel-asyncio")
    }
    assert all(mark.of[1] == ("gridfs-far", mark.of[0][1], "raw-socket") for mark in judged)
    assert {(mark.sign, mark.limit) for mark in judged} == {("≤", 1.1)}


def test_it_is_played_only_by_name_and_by_four_contenders():
    assert gridfs_far.EXPERIMENT.only_named
    part = PARTS["by-id-1k-1ms"]
    assert {each.id for each in registry.contenders().values() if not part.excludes(each)} == set(CONTENDERS)


@pytest.mark.parametrize("part", ["by-id-1k-1ms", "by-name-1m-1ms", "upload-1k-1ms", "upload-1m-1ms"])
def test_every_contender_gives_the_same_answer(task, part):
    answers = set()
    for name in CONTENDERS:
        this = task(part, name)
        answers.add(this.verify())
        this.warm_up()
        this.extras()
        this.close()
    assert len(answers) == 1


@pytest.mark.parametrize("name", ["raw-socket", "mangonel"])
def test_wrong_bytes_of_a_read_file_are_noticed(task, target, name):
    this = task("by-id-1k-1ms", name)
    with pymongo.MongoClient(target.uri) as client:
        client[target.database]["far.chunks"].update_one({"files_id": "1k"}, {"$set": {"data": bytes(1024)}})
    with pytest.raises(AssertionError, match="expected 1024 bytes"):
        this.verify()


@pytest.mark.parametrize("name", ["raw-socket", "mangonel"])
def test_wrong_bytes_of_a_stored_file_are_noticed(task, target, name):
    this = task("upload-1k-1ms", name)
    this.arrange()
    this.act()
    with pymongo.MongoClient(target.uri) as client:
        of_it = {"files_id": this._result[-1]}
        client[target.database]["far.chunks"].update_one(of_it, {"$set": {"data": bytes(1024)}})
    with pytest.raises(AssertionError, match="expected 1024 bytes"):
        this.check()


def test_stored_files_are_removed_before_the_next_sample_and_at_the_end(task, target):
    this = task("upload-1k-1ms", "raw-socket")
    with pymongo.MongoClient(target.uri) as client:
        database = client[target.database]
        for step in (this.arrange, this.close):
            this.arrange()
            this.act()
            assert database["far.files"].count_documents({"filename": "stored"}) == 2
            step()
            assert database["far.files"].count_documents({"filename": "stored"}) == 0
            assert database["far.chunks"].distinct("files_id") == ["1k"]


# The numbers of chunks at which the floor's requests change.
LENGTHS = [
    0,
    1,
    _raw_files.CHUNK * _raw_files.FIRST,
    _raw_files.CHUNK * _raw_files.FIRST + 1,
    _raw_files.CHUNK * (_raw_files.FIRST + _raw_files.RANGE) + 1,
]


@pytest.mark.parametrize("length", LENGTHS)
def test_the_floor_reads_a_file_of_any_length_by_id_and_by_name(floor, stored, length):
    expected = stored("file", length)
    for read in (floor.read_by_id, floor.read_by_name):
        assert [floor.content(replies) for replies in read("file", 2)] == [expected] * 2


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_the_floor_stores_a_file_as_pymongo_reads_it(floor, target, length):
    floor.arrange_uploads("file", content(length), 2)
    ids = floor.upload_each("file", content(length), 2)
    with pymongo.MongoClient(target.uri) as client:
        bucket = gridfs.GridFSBucket(client[target.database], "far")
        assert [bucket.open_download_stream(each).read() for each in ids] == [content(length)] * 2


@pytest.mark.parametrize(("length", "waits"), [(1, 1), (LENGTHS[-1], 2)])
def test_the_floor_waits_once_for_a_small_file_and_twice_for_a_large_one(
    floor, stored, monkeypatch, length, waits
):
    stored("file", length)
    sent = []
    send = _raw_files.Line.send
    monkeypatch.setattr(
        _raw_files.Line, "send", lambda line, messages: send(line, messages) or sent.append(1)
    )
    for read in (floor.read_by_id, floor.read_by_name):
        sent.clear()
        read("file", 1)
        assert len(sent) == waits


def test_the_floor_refuses_a_missing_file(floor, stored):
    stored("file", 1)
    with pytest.raises(_wire.Refused, match="document with a length"):
        floor.read_by_id("another", 1)
