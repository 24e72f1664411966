"""pip downloads a source distribution without running any of its code, whatever its build backend."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tools.programs import load_program

source = load_program(Path(__file__).parents[2] / "tools/pymongo_source.py")


def pack(folder: Path, files: dict[str, str]) -> None:
    with tarfile.open(folder / "some_thing-1.0.tar.gz", "w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(f"some_thing-1.0/{name}")
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.enough(2)
@pytest.mark.parametrize("backend", [*source.BACKENDS, ""])
def test_a_source_distribution_is_fetched_and_not_run(tmp_path: Path, monkeypatch, backend: str) -> None:
    index, wanted = tmp_path / "index", tmp_path / "wanted"
    index.mkdir()
    files = {"PKG-INFO": "Metadata-Version: 2.1\nName: some-thing\nVersion: 1.0\n"}
    files["setup.py"] = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    if backend:
        files["pyproject.toml"] = f'[build-system]\nrequires = ["nothing"]\nbuild-backend = "{backend}"\n'
    pack(index, files)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    fetched = source.fetch_source(wanted, "some-thing==1.0")

    assert fetched == wanted / "some_thing-1.0.tar.gz"
    assert fetched.read_bytes() == (index / fetched.name).read_bytes()
    assert list(wanted.iterdir()) == [fetched]
    assert not (tmp_path / "ran").exists()


def test_what_no_index_has_is_reported_with_its_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(source.NotFetched, match=r"pip download some-thing==1\.0: "):
        source.fetch_source(tmp_path / "wanted", "some-thing==1.0")
