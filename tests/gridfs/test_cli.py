"""`mangonel gridfs` stores, lists, fetches and removes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mangonel.cli import main
from mangonel.gridfs.cli import Progress
from mangonel.server import Server


def test_file_goes_in_and_comes_out(
    standalone: Server, database_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    where = ["--uri", standalone.uri, "--database", database_name]
    data = os.urandom(3_000_000)
    (tmp_path / "photo.jpg").write_bytes(data)

    assert main(["gridfs", "put", str(tmp_path / "photo.jpg"), *where]) == 0
    assert main(["gridfs", "ls", *where]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[0].endswith(" photo.jpg")
    assert shown[1].split()[0] == "3000000"
    assert main(["gridfs", "get", "photo.jpg", "--out", str(tmp_path / "copy"), *where]) == 0
    assert (tmp_path / "copy").read_bytes() == data
    assert main(["gridfs", "rm", "photo.jpg", *where]) == 0
    assert main(["gridfs", "get", "photo.jpg", *where]) == 1
    assert "no version -1" in capfd.readouterr().err


def test_name_is_for_one_file(standalone: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["gridfs", "put", "a", "b", "--name", "c", "--uri", standalone.uri])

    assert caught.value.code == 2
    assert "--name is for one file" in capfd.readouterr().err


def test_bar_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    progress = Progress("photo.jpg", 100)

    progress.add(50)

    assert "[###############...............]  50 %" in progress.line(progress._begun + 1)
