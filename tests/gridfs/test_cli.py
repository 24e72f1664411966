"""`mangonel gridfs` stores, lists, fetches and removes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mangonel import MongoClient
from mangonel.bson import DatetimeMS
from mangonel.cli import main
from mangonel.gridfs import GridFSBucket
from mangonel.gridfs.cli import Progress
from mangonel.server import Server


def test_file_goes_in_and_comes_out(
    standalone: Server, database_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = f"{standalone.uri}{database_name}"
    data = os.urandom(3_000_000)
    (tmp_path / "photo.jpg").write_bytes(data)

    assert main(["gridfs", "put", uri, str(tmp_path / "photo.jpg")]) == 0
    assert main(["gridfs", "ls", uri]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[0].endswith(" photo.jpg")
    assert shown[1].split()[0] == "3000000"
    assert main(["gridfs", "get", uri, "photo.jpg", "-o", str(tmp_path / "copy")]) == 0
    assert (tmp_path / "copy").read_bytes() == data
    assert main(["gridfs", "rm", uri, "photo.jpg"]) == 0
    assert main(["gridfs", "get", uri, "photo.jpg"]) == 1
    assert "no version -1" in capfd.readouterr().err


def test_a_file_that_is_damaged_replaces_none(
    standalone: Server,
    database_name: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = f"{standalone.uri}{database_name}"
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "photo.jpg"
    target.write_bytes(b"new")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    assert main(["gridfs", "put", uri, "photo.jpg"]) == 0
    target.write_bytes(b"old")
    with MongoClient(uri) as client:
        chunks = client[database_name].fs.chunks
        chunks.update_one({}, {"$set": {"n": 1}})
        assert main(["gridfs", "get", uri, "photo.jpg"]) == 1
        assert "missing chunk" in capfd.readouterr().err
        assert target.read_bytes() == b"old"
        chunks.update_one({}, {"$set": {"n": 0}})
    assert main(["gridfs", "get", uri, "photo.jpg", "-o", "link"]) == 0
    assert (target.read_bytes(), target.stat().st_mode & 0o777, link.is_symlink()) == (b"new", 0o640, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "photo.jpg"]


def test_a_listing_bears_what_others_have_stored(
    standalone: Server, database_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = f"{standalone.uri}{database_name}"
    with MongoClient(uri) as client:
        client[database_name].fs.files.insert_many(
            [
                {"_id": 1},
                {"_id": 2, "length": {"a": 1}, "filename": ["x"], "uploadDate": "yesterday"},
                {
                    "_id": 3,
                    "length": 7,
                    "filename": "\x1b[2Jmine\n    9 -    forged",
                    "uploadDate": DatetimeMS(2**60),
                },
            ]
        )
    assert main(["gridfs", "ls", uri]) == 0
    shown = capfd.readouterr().out
    assert sorted(line.split(maxsplit=2)[0] for line in shown.splitlines()) == ["0", "7", "{'a':"]
    assert r"\x1b[2Jmine\n    9 -    forged" in shown
    for name in ("..", ""):
        with MongoClient(uri) as client:
            GridFSBucket(client[database_name]).upload_from_stream(name, b"x")
        with pytest.raises(SystemExit):
            main(["gridfs", "get", uri, name])
        assert f"expected -o FILE, since the stored name {name!r} names no file" in capfd.readouterr().err


def test_name_is_for_one_file(standalone: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["gridfs", "put", standalone.uri, "a", "b", "--name", "c"])

    assert caught.value.code == 2
    assert "--name is for one file" in capfd.readouterr().err


def test_bar_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    progress = Progress("photo.jpg", 100)

    progress.add(50)

    assert "[###############...............]  50 %" in progress.line(progress._begun + 1)
