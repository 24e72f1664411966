"""`mangonel gridfs`: store, fetch, list and remove files in a database, with a progress bar for the long ones."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from mangonel.gridfs import GridFSBucket

PIECE = 1024 * 1024
BAR = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands to their parser."""
    commands = parser.add_subparsers(title="gridfs commands", metavar="GRIDFS_COMMAND", required=True)
    put = commands.add_parser("put", help="store files under their names")
    put.add_argument("files", nargs="+", metavar="FILE", help="- is standard input")
    put.add_argument("--name", help="the name to store under (one file only)")
    put.add_argument("--chunk-size", type=int, metavar="BYTES", help="bytes per chunk (default: 255 KiB)")
    get = commands.add_parser("get", help="fetch a file")
    get.add_argument("name")
    get.add_argument(
        "--out", metavar="FILE", help="where to write it (default: its name; - is standard output)"
    )
    get.add_argument("--revision", type=int, default=-1, help="0 is the first upload, -1 the last")
    listing = commands.add_parser("ls", help="list files: size, date, name")
    listing.add_argument("name", nargs="?", help="only files of this name")
    remove = commands.add_parser("rm", help="remove all files of these names")
    remove.add_argument("names", nargs="+", metavar="NAME")
    for command, run in ((put, _put), (get, _get), (listing, _list), (remove, _remove)):
        command.add_argument("--uri", default="mongodb://127.0.0.1:27017", help="of the deployment")
        command.add_argument("--database", default="test", metavar="NAME")
        command.add_argument("--bucket", default="fs", metavar="NAME")
        command.set_defaults(gridfs=run, parser=command)


def dispatch(options: argparse.Namespace) -> int:
    """Run the sub-command that was chosen and return its exit status."""
    from mangonel import MongoClient
    from mangonel.errors import PyMongoError
    from mangonel.gridfs import GridFSBucket

    try:
        with MongoClient[Any](options.uri) as client:
            status: int = options.gridfs(options, GridFSBucket(client[options.database], options.bucket))
            return status
    except (PyMongoError, OSError) as error:
        print(f"mangonel gridfs: {error}", file=sys.stderr)
        return 1


class Progress:
    """A bar on standard error, if that is a terminal and the file is not done at once."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total = name, total
        self._done = 0
        self._begun = self._shown = time.monotonic()
        self._is_on = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """Count bytes; draw at most ten times a second."""
        self._done += count
        now = time.monotonic()
        if self._is_on and now - self._shown > 0.1:
            self._shown = now
            print(f"\r{self.line(now)}", end="", file=sys.stderr, flush=True)

    def line(self, now: float) -> str:
        """Return what is shown: a bar where the size is known, and the speed."""
        speed = self._done / max(now - self._begun, 0.001) / 1e6
        if not self._total:
            return f"{self._name}: {self._done / 1e6:.1f} MB, {speed:.0f} MB/s"
        full = min(BAR, BAR * self._done // self._total)
        share = 100 * self._done // self._total
        return f"{self._name} [{'#' * full}{'.' * (BAR - full)}] {share:3d} % {speed:6.0f} MB/s"

    def end(self) -> None:
        """Leave the last state on a line of its own."""
        if self._is_on:
            print(f"\r{self.line(time.monotonic())}", file=sys.stderr)


class _Counted:
    """A file that tells how much was read."""

    def __init__(self, source: BinaryIO, progress: Progress) -> None:
        self._source, self._progress = source, progress

    def read(self, size: int) -> bytes:
        """Read, and count."""
        data = self._source.read(size)
        self._progress.add(len(data))
        return data


def _put(options: argparse.Namespace, bucket: GridFSBucket) -> int:
    from mangonel._command_line import UsageProblem

    if options.name and len(options.files) > 1:
        raise UsageProblem("--name is for one file")
    for file in options.files:
        name = options.name or ("stdin" if file == "-" else Path(file).name)
        with sys.stdin.buffer if file == "-" else open(file, "rb") as source:
            progress = Progress(name, 0 if file == "-" else Path(file).stat().st_size)
            counted = _Counted(source, progress)
            file_id = bucket.upload_from_stream(name, counted, chunk_size_bytes=options.chunk_size)
        progress.end()
        print(file_id, name)
    return 0


def _get(options: argparse.Namespace, bucket: GridFSBucket) -> int:
    with bucket.open_download_stream_by_name(options.name, options.revision) as source:
        # A stored name is not a path to be trusted.
        target = options.out or Path(options.name).name
        progress = Progress(options.name, source.length)
        with sys.stdout.buffer if target == "-" else open(target, "wb") as destination:
            while piece := source.read(PIECE):
                destination.write(piece)
                progress.add(len(piece))
        progress.end()
    return 0


def _list(options: argparse.Namespace, bucket: GridFSBucket) -> int:
    query = {} if options.name is None else {"filename": options.name}
    for file in bucket.find(query, sort=[("filename", 1), ("uploadDate", 1)]):
        date = "-" if file.upload_date is None else f"{file.upload_date:%Y-%m-%d %H:%M}"
        print(f"{file.length:>14} {date:<16} {file.filename}")
    return 0


def _remove(options: argparse.Namespace, bucket: GridFSBucket) -> int:
    for name in options.names:
        bucket.delete_by_name(name)
    return 0
