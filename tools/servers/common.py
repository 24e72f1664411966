"""Shared by the scripts of this folder: the cache folder, options and error output."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]


class Problem(Exception):
    """The server is not available here; the message says what is missing, with the remedy."""


def say(text: str) -> None:
    """Report progress on standard error; only the URI goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every script; the script's docstring is its description."""
    first, _, rest = (text or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=f"{first}\n{rest}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=cache(), help="keep what is fetched here (%(default)s)"
    )
    parser.add_argument("--port", type=int, default=0, help="of the server; 0 takes a free one (%(default)s)")
    return parser


def cache() -> Path:
    """Return the folder for downloads, unless another is named."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mangonel" / "servers"


def add_mongod_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the scripts that fetch a mongod."""
    parser.add_argument("--path", action="store_true", help="start nothing; print what MONGOD= takes")
    parser.add_argument("--replica-set", type=int, default=1, metavar="N", help="members; 0: standalone (1)")


def serve(program: Path, options: argparse.Namespace) -> int:
    """Print the path of a mongod, or start it with test commands enabled and print its URI."""
    if options.path:
        print(program)
        return 0
    command = [sys.executable, "-m", "mangonel", "serve", "--mongod", str(program)]
    command += ["--port", str(options.port), "--replica-set", str(options.replica_set)]
    command += ["--set-parameter", "enableTestCommands=1"]
    # It replaces this process, so that a signal to the script reaches the server.
    return os.execve(command[0], command, {**os.environ, "PYTHONPATH": str(ROOT / "python")})


def check_sum(path: Path, sha256: str) -> None:
    """Refuse a file whose digest is not the known one.

    Raises:
        Problem: the digests differ.
    """
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise Problem(f"expected SHA-256 {sha256} of {path.name}, got {found}: not the known file")


def run(command: Sequence[str | Path], **options: object) -> None:
    """Run a program with its output on standard error; raise Problem if it fails."""
    text = [str(part) for part in command]
    try:
        status = subprocess.run(text, stdout=sys.stderr, **options).returncode  # type: ignore[call-overload]
    except FileNotFoundError as error:
        raise Problem(f"{text[0]} is not installed") from error
    if status:
        raise Problem(f"{' '.join(text)} failed with exit status {status}; what it said stands above")


def main_of(main: Callable[[], int]) -> None:
    """Run a script: a problem prints one line and exits with 1; a signal ends it without a traceback."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(f"{Path(sys.argv[0]).name}: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
