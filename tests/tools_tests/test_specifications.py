"""PyMongo's copies of the official cases are laid out like the specifications' repository."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/specifications.py"


def archive(path: Path, names: list[str]) -> None:
    with tarfile.open(path, "w:gz") as file:
        for name in names:
            member = tarfile.TarInfo(f"pymongo-9.9.9/{name}")
            member.size = 2
            file.addfile(member, io.BytesIO(b"{}"))


def run(root: Path) -> subprocess.CompletedProcess[str]:
    """Run a copy of the tool in a checkout that pins a version which no index has."""
    (root / "tools").mkdir(exist_ok=True)
    (root / "requirements").mkdir(exist_ok=True)
    (root / "requirements/dev.txt").write_text("pymongo==9.9.9\n")
    for name in ("specifications.py", "pymongo_source.py"):
        (root / "tools" / name).write_text(TOOL.with_name(name).read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, str(root / "tools/specifications.py"), str(root / "build/specifications")]
    return subprocess.run(
        command, capture_output=True, text=True, env={"PIP_NO_INDEX": "1", "PATH": "/usr/bin"}, check=False
    )


def test_files_stand_where_the_specifications_have_them(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    names = [
        "test/crud/unified/find.json",
        "test/sdam_monitoring/standalone.json",
        "test/discovery_and_monitoring/rs/ghost.json",
        "test/server_selection_logging/standalone.json",  # PyMongo's own
        "test/data_lake/unified/find.json",
        "test/test_crud.py",
        "sbom.json",
    ]
    archive(tmp_path / "build/pymongo-9.9.9.tar.gz", names)

    assert run(tmp_path).returncode == 0

    folder = tmp_path / "build/specifications"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json")) == [
        "crud/tests/unified/find.json",
        "server-discovery-and-monitoring/tests/monitoring/standalone.json",
        "server-discovery-and-monitoring/tests/rs/ghost.json",
    ]
    assert json.loads((folder / "ORIGIN.txt").read_text())["pymongo"] == "9.9.9"
    assert not (tmp_path / "build/specifications.txt").exists()


def test_what_is_laid_out_stays_and_is_not_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    archive(tmp_path / "build/pymongo-9.9.9.tar.gz", ["test/crud/unified/find.json"])
    assert "1 files of PyMongo 9.9.9" in run(tmp_path).stdout
    (tmp_path / "build/pymongo-9.9.9.tar.gz").unlink()

    assert run(tmp_path).stdout == ""


def test_without_an_index_the_reason_is_kept_and_nothing_fails(tmp_path: Path) -> None:
    ended = run(tmp_path)

    assert ended.returncode == 0
    assert "not fetched" in ended.stderr
    assert "pip download pymongo==9.9.9" in (tmp_path / "build/specifications.txt").read_text()
    assert not (tmp_path / "build/specifications").exists()
