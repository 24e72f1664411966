"""Unpack a program from Debian's packages into a virtual environment, with the libraries that this system lacks.

Nothing is installed and no root is needed: apt-get only downloads, with its own package lists, and checks signatures.
If a package is not available, one line says so, and it is not an error: the caller does without the program.

    python3 tools/unpacked.py redis-server .venv
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from mangonel.engines.programs import PACKAGES, has_program, installing_nothing  # noqa: E402

TIMEOUT = 120.0  # seconds for one command
NOT_LOADED = 127  # exit status of a program with a missing library
WAIT = 10  # seconds for a mirror's answer


class Unavailable(Exception):
    """The program is not available here; the message says why."""


def unpack(program: str, environment: Path) -> Path:
    """Put a program into `environment`/bin, and return its path there.

    Raises:
        Unavailable: there is no apt-get, or it cannot reach the package.
    """
    if any(shutil.which(tool) is None for tool in ("apt-get", "dpkg-deb")):
        raise Unavailable("this system has no apt-get")
    home = environment / "debian" / program
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        for archive in _archives(PACKAGES[program], Path(work)):
            _run(["dpkg-deb", "--extract", archive, home])
    found = next(
        (path for folder in ("usr/bin", "usr/sbin") if (path := home / folder / program).exists()), None
    )
    if found is None:
        raise Unavailable(f"Debian's package {PACKAGES[program]} has no {program}")
    libraries = sorted({str(path.parent) for path in home.rglob("*.so*")})
    launcher = environment / "bin" / program
    launcher.write_text(
        "#!/bin/sh\n"
        f"LD_LIBRARY_PATH={shlex.quote(':'.join(libraries))}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n"
        f'export LD_LIBRARY_PATH\nexec {shlex.quote(str(found))} "$@"\n'
    )
    launcher.chmod(0o755)
    # Some programs know no `--version`, so only a missing library counts.
    started = subprocess.run(
        [launcher, "--version"], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if started.returncode == NOT_LOADED:
        launcher.unlink()
        raise Unavailable(started.stderr.strip())
    return launcher


def _archives(package: str, work: Path) -> list[Path]:
    """Download a package and its dependencies that are not installed."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    apt: list[str | Path] = ["apt-get", "-qq"]
    for option in (
        f"Dir::State::Lists={work / 'lists'}",
        f"Dir::Cache={work / 'cache'}",
        "Debug::NoLocking=1",
        "Acquire::Languages=none",
        "Acquire::Retries=1",
        f"Acquire::http::Timeout={WAIT}",
        f"Acquire::https::Timeout={WAIT}",
        # Otherwise root would have to give the folder to apt's download user.
        *(["APT::Sandbox::User=root"] if os.geteuid() == 0 else []),
    ):
        apt += ["-o", option]
    _run([*apt, "update"])
    told = _run([*apt, "install", "--simulate", "--no-install-recommends", package])
    names = [line.split()[1] for line in told.splitlines() if line.startswith("Inst ")]
    if not names:
        raise Unavailable(f"{package} is installed without the program")
    _run([*apt, "download", *names], folder=work)
    return sorted(work.glob("*.deb"))


def _run(command: list[str | Path], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise Unavailable(f"{Path(command[0]).name}: {lines[-1]}")
    return done.stdout


def main() -> None:
    """Unpack a program, unless it is there already."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", choices=sorted(PACKAGES))
    parser.add_argument("environment", type=Path)
    options = parser.parse_args()
    with installing_nothing():
        if has_program(options.program):
            return
    try:
        unpack(options.program, options.environment.absolute())
    except Unavailable as problem:
        print(f"{options.program} is not installed and cannot be downloaded here: {problem}")
        print(f"What needs it is left out; install Debian's package {PACKAGES[options.program]} to have it.")


if __name__ == "__main__":
    main()
