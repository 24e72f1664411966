"""Builds the programs of other languages with their ordinary tools, each in a folder of the user's cache.

The folder is named after a digest of the source, so that a changed program is built again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

SOURCES = Path(__file__).parent
LIBRARY = "libmongoc-1.0"
TIMEOUT_S = 1800.0
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror")


class BuildError(Exception):
    """A program could not be built; the text ends with the tool's last lines."""


def lacking(language: str, tools: Sequence[str]) -> str:
    """Return the missing tool without which the language's program cannot be built, or ""."""
    absent = [name for name in tools if shutil.which(name) is None]
    if language == "c" and not absent and not _flags():
        absent = [f"{LIBRARY} (Debian: libmongoc-dev)"]
    return f"not installed: {', '.join(absent)}" if absent else ""


def command(language: str, work: str = "") -> list[str]:
    """Return the command that starts a built program; in Python, inserting once and serving are separate programs."""
    folder = _folder(language)
    source = f"{work}.py" if work in ("once", "page") else "program.py"
    return {
        "python": [sys.executable, str(SOURCES / "python" / source)],
        "node": ["node", str(folder / "program.js")],
        "java": ["java", "-cp", f"{folder}/target/classes:{folder}/target/dependency/*", "Program"],
    }.get(language, [str(folder / "program")])


def build(language: str) -> None:
    """Build a language's program, unless its folder has it already; BuildError if its tool fails."""
    folder = _folder(language)
    done = folder / "built"
    if language == "python" or done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCES / language, folder, ignore=shutil.ignore_patterns("node_modules", "target"))
    _STEPS[language](folder)
    done.touch()


def _c(folder: Path) -> None:
    compiler, libraries = _flags()
    _run(
        folder,
        "gcc",
        "-O2",
        "-std=gnu11",
        *WARNINGS,
        *compiler,
        "program.c",
        "-o",
        "program",
        *libraries,
        "-pthread",
    )


def _rust(folder: Path) -> None:
    # The crates that the program depends on are kept when its source changes.
    target = folder.parent / "rust-target"
    _run(folder, "cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target))
    shutil.copy(target / "release/program", folder / "program")


_STEPS: dict[str, Callable[[Path], None]] = {
    "c": _c,
    "rust": _rust,
    "go": lambda folder: _run(folder, "go", "build", "-o", "program", "."),
    "node": lambda folder: _run(folder, "npm", "ci", "--omit=dev", "--no-audit", "--no-fund", "--silent"),
    "java": lambda folder: _run(folder, "mvn", "-q", "-B", "package", "dependency:copy-dependencies"),
}


def _run(folder: Path, *words: str) -> None:
    told = subprocess.run(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if told.returncode:
        last = "\n".join((told.stdout + told.stderr).strip().splitlines()[-12:])
        raise BuildError(f"{words[0]} failed with exit status {told.returncode}: {last}")


@functools.cache
def _flags() -> list[list[str]]:
    """Return the options of compiler and linker for the C driver; none if it is not installed."""
    found = []
    for kind in ("--cflags", "--libs"):
        told = subprocess.run(["pkg-config", kind, LIBRARY], capture_output=True, text=True, check=False)
        if told.returncode:
            return []
        found.append(told.stdout.split())
    return found


def _folder(language: str) -> Path:
    """Return the folder of a program, by a digest of its source."""
    digest = hashlib.sha256()
    for path in sorted((SOURCES / language).rglob("*")):
        if path.is_file() and "node_modules" not in path.parts:
            digest.update(path.relative_to(SOURCES).as_posix().encode() + path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mangonel/lab" / f"{language}-{digest.hexdigest()[:16]}"
