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
