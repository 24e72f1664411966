"""Source distributions: PyMongo's carries its own tests and its copies of the official specification cases.

pip fetches them, so the user's settings of index, proxies and certificates apply. Even where it only downloads, pip
asks the build backend for metadata; a stand-in of that name answers, so nothing of the package is built or run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["NotFetched", "fetch_archive", "fetch_source", "pinned_version"]

ROOT = Path(__file__).resolve().parent.parent

# pip imports the package's build backend by one of these names and reads the metadata that it writes.
BACKENDS = ("flit_core.buildapi", "hatchling.build", "scikit_build_core.build", "setuptools.build_meta")
BACKEND = '''"""Answers pip's question for metadata with those that the source distribution carries."""
import re
import sys
from pathlib import Path


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    metadata = Path("PKG-INFO").read_text(encoding="utf-8")
    name, version = (re.search(f"^{key}: (.+)$", metadata, re.MULTILINE)[1] for key in ("Name", "Version"))
    info = Path(folder, f"{re.sub('[-.]+', '_', name)}-{version}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    return info.name


# Where a package names no backend, pip takes this attribute of that of setuptools.
__legacy__ = sys.modules[__name__]
'''


class NotFetched(Exception):
    """The archive could not be fetched; the text says why."""


def pinned_version(requirements: Path = ROOT / "requirements/dev.txt") -> str:
    """Return the version of PyMongo that this project compares itself with."""
    found = re.search(r"^pymongo==(\S+)", requirements.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise NotFetched(f"expected a line pymongo==VERSION in {requirements}, got none")
    return found[1]


def fetch_archive(folder: Path, version: str) -> Path:
    """Return the path of PyMongo's archive below a folder, downloaded unless it is there.

    Raises:
        NotFetched: pip failed; the text is its last line.
    """
    archive = folder / f"pymongo-{version}.tar.gz"
    return archive if archive.exists() else fetch_source(folder, f"pymongo=={version}")


def fetch_source(folder: Path, requirement: str) -> Path:
    """Download the source distribution of a package into a folder and return its path.

    Args:
        requirement: name and version, as in "pymongo==4.20.0".

    Raises:
        NotFetched: pip failed; the text is its last line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as stand_in, tempfile.TemporaryDirectory(dir=folder) as fetched:
        for backend in BACKENDS:
            path = Path(stand_in, *backend.split(".")).with_suffix(".py")
            path.parent.mkdir()
            (path.parent / "__init__.py").touch()
            path.write_text(BACKEND, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += [
            "--no-binary",
            ":all:",
            "--no-deps",
            "--no-build-isolation",
            "--dest",
            fetched,
            requirement,
        ]
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": stand_in},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        archives = list(Path(fetched).iterdir())
        if ended.returncode or not archives:
            said = ended.stderr.strip().splitlines() or ["pip said nothing"]
            raise NotFetched(f"pip download {requirement}: {said[-1]}")
        return archives[0].replace(folder / archives[0].name)
