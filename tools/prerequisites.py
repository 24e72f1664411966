"""Say what this machine lacks to build Mangonel, before anything is installed or compiled.

    python3 tools/prerequisites.py

`make` runs this first. It works on Python 3.6 too, since a newer Python may be missing: hence the quoted types.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The name of one is the remedy if `python3` is too old; the newest first.
NEWER = tuple(f"python3.{minor}" for minor in range(19, 10, -1))


def problems() -> "list[str]":
    """Return one line for each thing that is missing: what was expected, what was found, and the remedy."""
    return [*python_problems(sys.version_info[:2]), *rust_problems(), *compiler_problems()]


def python_problems(version: "tuple[int, ...]") -> "list[str]":
    """Return the problems of the interpreter that runs this; `version` is its version."""
    least = needed("pyproject.toml", r'requires-python = ">=(\d+\.\d+)"')
    if version < numbers(least):
        newer = next((name for name in NEWER if is_new_enough(name, least)), None)
        remedy = f"use {newer}, as in" if newer else "install one, then name it:"
        return [
            f"expected Python {least} or newer, got {'.'.join(map(str, version))} ({sys.executable}): "
            f"{remedy} make run PYTHON={newer or f'python{least}'}"
        ]
    # Debian has separate packages for both.
    absent = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if absent:
        return [
            f"expected Python's module {absent[0]}, got none in {sys.executable}: "
            f"on Debian and Ubuntu, sudo apt install python3.{version[1]}-venv"
        ]
    return []


def is_new_enough(program: str, least: str) -> bool:
    """Return whether a Python starts and has the version: some of pyenv's commands start nothing."""
    if shutil.which(program) is None:
        return False
    found = re.match(r"Python (\d+\.\d+)", said(program, "--version"))
    return found is not None and numbers(found[1]) >= numbers(least)


def rust_problems() -> "list[str]":
    """Return the problems of the Rust toolchain."""
    least = needed("Cargo.toml", r'rust-version = "(\d+\.\d+)"')
    absent = [name for name in ("cargo", "rustc") if shutil.which(name) is None]
    if absent:
        home = Path(os.environ.get("CARGO_HOME") or "~/.cargo").expanduser() / "bin"
        remedy = "https://rustup.rs installs it, without root"
        if all((home / name).exists() for name in absent):
            remedy = f'it is in {home}, which is not in PATH: export PATH="{home}:$PATH"'
        return [f"expected Rust {least} or newer, got no {' and no '.join(absent)}: {remedy}"]
    told = said("rustc", "--version")
    found = re.match(r"rustc (\d+\.\d+)", told)
    if found is None:
        remedy = " (rustup default stable chooses one)" if "rustup" in told else ""
        return [f"expected Rust {least} or newer, but rustc --version says: {told}{remedy}"]
    if numbers(found[1]) < numbers(least):
        return [
            f"expected Rust {least} or newer, got {found[1]} ({shutil.which('rustc')}): rustup update stable, "
            "or https://rustup.rs if that one is a package of the system"
        ]
    return []


def compiler_problems() -> "list[str]":
    """Return the problems of the C compiler, which compiles zstd and links."""
    program = (shlex.split(os.environ.get("CC") or "cc") or ["cc"])[0]
    if os.name == "nt" or shutil.which(program) is not None:
        return []
    return [f"expected a C compiler, got no {program}: on Debian and Ubuntu, sudo apt install gcc libc6-dev"]


def needed(file: str, pattern: str) -> str:
    """Return the version that one of the project's files requires."""
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"))
    assert found is not None, f"expected {pattern} in {file}, got none"
    return found[1]


def numbers(version: str) -> "tuple[int, ...]":
    """Return a version as numbers, which compare as versions do."""
    return tuple(int(part) for part in version.split("."))


def said(*command: str) -> str:
    """Return the first line of a program's output, or of its error output."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else f"nothing, and ends with status {done.returncode}"


def main() -> int:
    """Print the problems; return an exit status."""
    found = problems()
    for line in found:
        print(f"cannot build: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
