"""Finding, listing, versions, renaming and removing."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel import monitoring
from mangonel.gridfs import NoFile


@pytest.fixture
def three(face: Any, bucket: Any) -> list[Any]:
    """Three versions of one name, oldest first."""
    return [face.wait(bucket.upload_from_stream("file", text)) for text in (b"one", b"two", b"three")]


def test_find_hands_out_files(face: Any, bucket: Any, three: list[Any]) -> None:
    # Files of the same millisecond are told apart by their ids, which only grow.
    cursor = bucket.find({"length": 3}).sort([("uploadDate", -1), ("_id", -1)])

    files = face.collect(cursor)

    assert [face.wait(file.read()) for file in files] == [b"two", b"one"]
    assert {type(file) for file in files} == {face.out_class}


def test_cursor_of_files_does_what_cursors_do(face: Any, bucket: Any, three: list[Any]) -> None:
    cursor = bucket.find().sort([("uploadDate", 1), ("_id", 1)])

    assert [file._id for file in face.wait(cursor.clone().limit(2).to_list())] == three[:2]
    assert [file._id for file in face.wait(cursor.clone().to_list(5))] == three
    assert face.wait(cursor.next())._id == three[0]
    if not face.is_async:
        assert bucket.find().sort([("uploadDate", 1), ("_id", 1)])[1]._id == three[1]
    for refuse in (cursor.add_option, cursor.remove_option):
        with pytest.raises(NotImplementedError):
            refuse(16)


def test_find_one_takes_a_query_or_an_id(face: Any, database: Any, three: list[Any]) -> None:
    fs = face.fs_class(database)

    assert face.wait(fs.find_one({"length": 5}))._id == three[2]
    assert face.wait(fs.find_one(three[1])).length == 3
    assert face.wait(fs.find_one("nothing")) is None


@pytest.mark.parametrize(
    ("version", "text"), [(0, b"one"), (2, b"three"), (-1, b"three"), (-3, b"one"), (None, b"three")]
)
def test_versions_count_from_both_ends(
    face: Any, database: Any, three: list[Any], version: int | None, text: bytes
) -> None:
    fs = face.fs_class(database)

    assert face.wait(face.wait(fs.get_version("file", version)).read()) == text


@pytest.mark.parametrize("version", [3, -4])
def test_version_that_is_not_there_is_no_file(
    face: Any, database: Any, bucket: Any, three: list[Any], version: int
) -> None:
    with pytest.raises(NoFile, match=f"no version {version} for filename 'file'"):
        face.wait(face.fs_class(database).get_version("file", version))
    with pytest.raises(NoFile, match=f"no version {version} for filename 'file'"):
        face.wait(bucket.open_download_stream_by_name("file", version))


def test_last_version_may_be_chosen_by_other_fields(face: Any, database: Any) -> None:
    fs = face.fs_class(database)
    for colour in ("red", "blue", "red"):
        face.wait(fs.put(colour.encode(), colour=colour))

    assert face.wait(face.wait(fs.get_last_version(colour="blue")).read()) == b"blue"


def test_list_has_each_name_once_and_no_nameless_file(face: Any, database: Any, three: list[Any]) -> None:
    fs = face.fs_class(database)
    face.wait(fs.put(b"x"))
    face.wait(fs.put(b"x", filename="other"))

    assert sorted(face.wait(fs.list())) == ["file", "other"]


def test_exists_takes_id_query_or_fields(face: Any, database: Any, three: list[Any]) -> None:
    fs = face.fs_class(database)

    assert face.wait(fs.exists(three[0])) is True
    assert face.wait(fs.exists({"filename": "file"})) is True
    assert face.wait(fs.exists(filename="file", length=5)) is True
    assert face.wait(fs.exists("nothing")) is False
    assert face.wait(fs.exists(filename="nothing")) is False


def test_delete_removes_file_and_chunks(face: Any, bucket: Any, peer: Any, three: list[Any]) -> None:
    face.wait(bucket.delete(three[0]))

    assert peer["fs.files"].count_documents({}) == 2
    assert peer["fs.chunks"].count_documents({"files_id": three[0].binary}) == 0
    with pytest.raises(NoFile, match="could be deleted"):
        face.wait(bucket.delete(three[0]))
    face.wait(face.fs_class(bucket._collection.database).delete(three[0]))


def test_one_file_is_renamed_and_deleted_by_commands_of_one_document(
    face: Any, standalone: Any, database_name: str, three: list[Any]
) -> None:
    # Only commands of one document may be retried.
    told: list[Any] = []

    class Told(monitoring.CommandListener):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            told.extend(event.command.get("updates", event.command.get("deletes", [])))

        def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
            """Not read."""

        def failed(self, event: monitoring.CommandFailedEvent) -> None:
            """Not read."""

    bucket = face.bucket_class(face.client(standalone.uri, event_listeners=[Told()])[database_name])
    face.wait(bucket.rename(three[0], "renamed"))
    face.wait(bucket.delete(three[0]))

    renamed, deleted, chunks = told
    assert renamed["q"] == deleted["q"] == {"_id": {"$eq": three[0]}}
    assert (renamed["multi"], deleted["limit"], chunks["limit"]) == (False, 1, 0)


def test_names_stand_for_all_their_files(face: Any, bucket: Any, peer: Any, three: list[Any]) -> None:
    face.wait(bucket.rename_by_name("file", "renamed"))
    assert peer["fs.files"].distinct("filename") == ["renamed"]

    face.wait(bucket.delete_by_name("renamed"))
    assert peer["fs.files"].count_documents({}) == peer["fs.chunks"].count_documents({}) == 0

    with pytest.raises(NoFile, match="could be deleted"):
        face.wait(bucket.delete_by_name("renamed"))
    with pytest.raises(NoFile, match="could be renamed"):
        face.wait(bucket.rename_by_name("renamed", "x"))


def test_rename_changes_one_file(face: Any, bucket: Any, peer: Any, three: list[Any]) -> None:
    face.wait(bucket.rename(three[0], "renamed"))

    assert peer["fs.files"].count_documents({"filename": "file"}) == 2
    with pytest.raises(NoFile, match="could be renamed"):
        face.wait(bucket.rename("nothing", "renamed"))


def test_download_to_stream_writes_the_whole_file(face: Any, bucket: Any, three: list[Any]) -> None:
    written: list[bytes] = []

    class Sink:
        def write(self, piece: bytes) -> None:
            written.append(piece)

    face.wait(bucket.download_to_stream(three[0], Sink()))
    face.wait(bucket.download_to_stream_by_name("file", Sink(), revision=-2))

    assert b"".join(written) == b"onetwo"


@pytest.mark.parametrize("name", [5, None, b"file"])
def test_filename_is_a_str(face: Any, bucket: Any, name: Any) -> None:
    with pytest.raises(TypeError, match="filename must be an instance of str"):
        face.wait(bucket.open_upload_stream(name))
    with pytest.raises(TypeError, match="filename must be an instance of str"):
        face.wait(bucket.open_download_stream_by_name(name))
