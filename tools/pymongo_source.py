"""PyMongo's source distribution: it carries PyMongo's own tests and its copies of the official specification cases.

pip fetches it, so index, proxies and certificates are those that the user set. Even where it only downloads, pip asks
the build backend for metadata; a stand-in of that name answers, so nothing of PyMongo is built or run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["NotFetched", "fetch_archive", "pinned_version"]

ROOT = Path(__file__).resolve().parent.parent

# PyMongo's build backend is hatchling; pip imports it by this name and reads the metadata that it writes.
BACKEND = '''"""Answers pip's question for metadata."""
from pathlib import Path


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = Path(folder, "pymongo-{version}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: pymongo\\nVersion: {version}\\n")
    return info.name
'''


class NotFetched(Exception):
    """The archive could not be had; the text says why."""


def pinned_version(requirements: Path = ROOT / "requirements/dev.txt") -> str:
    """Return the version of PyMongo that this project compares itself with."""
    found = re.search(r"^pymongo==(\S+)", requirements.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise NotFetched(f"expected a line pymongo==VERSION in {requirements}, got none")
    return found[1]


def fetch_archive(folder: Path, version: str) -> Path:
    """Return the archive's path below a folder, downloaded unless it is there.

    Raises:
        NotFetched: pip failed; the text is its last line.
    """
    archive = folder / f"pymongo-{version}.tar.gz"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as stand_in:
        package = Path(stand_in) / "hatchling"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "build.py").write_text(BACKEND.format(version=version), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--dest", str(folder)]
        command += [f"pymongo=={version}"]
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": stand_in},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if ended.returncode or not archive.exists():
        said = ended.stderr.strip().splitlines() or ["pip said nothing"]
        raise NotFetched(f"pip download pymongo=={version}: {said[-1]}")
    return archive
