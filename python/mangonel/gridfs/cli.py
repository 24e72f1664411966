"""`mangonel gridfs`: store, fetch, list and remove files in a database, with a progress bar for long transfers."""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mangonel._command_line import (
    MOST,
    Parser,
    UsageProblem,
    add_command,
    add_output,
    add_uri,
    number,
    on_one_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mangonel.gridfs import GridFSBucket

PIECE = 1024 * 1024
BAR = 30
FAILURE = "the server or a file could not be used, or there is no such file"


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command and its sub-commands."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Files are kept in a bucket, two collections of one database.",
        example="""
        mangonel gridfs put mongodb://localhost/shop photo.jpg
        mangonel gridfs ls mongodb://localhost/shop
        """,
        failure=FAILURE,
    )
    actions = parser.add_subparsers(title="gridfs commands", metavar="GRIDFS_COMMAND", required=True)
    put = _add_action(
        actions,
        "put",
        "store files under their names",
        description="Prints the _id and the name of each. A name that is there already gets one more version.",
        example="""
        mangonel gridfs put mongodb://localhost/shop photo.jpg plan.pdf
        pg_dump shop | mangonel gridfs put mongodb://localhost/backups - --name shop.sql
        """,
    )
    put.add_argument("files", nargs="+", metavar="FILE", help="what to store; - is standard input")
    put.add_argument("--name", metavar="NAME", help="the name to store under (one file only)")
    put.add_argument(
        "--chunk-size",
        type=number(1, 16 * 1024 * 1024),
        metavar="BYTES",
        help="bytes per chunk (default: 255 KiB)",
    )
    put.set_defaults(gridfs=_put)
    get = _add_action(
        actions,
        "get",
        "fetch a file",
        description="Without -o it is written to the current folder, under its name.",
        example="""
        mangonel gridfs get mongodb://localhost/shop photo.jpg -o copy.jpg
        mangonel gridfs get mongodb://localhost/backups shop.sql -o - | psql shop
        """,
    )
    get.add_argument("name", metavar="NAME", help="the name it is stored under")
    add_output(get, "where to write it; - is standard output (default: its name)")
    get.add_argument(
        "--revision",
        type=number(-MOST),
        default=-1,
        metavar="N",
        help="0 is the first version, -1 the last (-1)",
    )
    get.set_defaults(gridfs=_get)
    listing = _add_action(
        actions,
        "ls",
        "list files: size in bytes, date of upload, name",
        example="mangonel gridfs ls mongodb://localhost/shop",
    )
    listing.add_argument("name", nargs="?", metavar="NAME", help="only files of this name")
    listing.set_defaults(gridfs=_list)
    remove = _add_action(
        actions,
        "rm",
        "remove files by their names, with all versions",
        example="mangonel gridfs rm mongodb://localhost/shop photo.jpg",
    )
    remove.add_argument("names", nargs="+", metavar="NAME", help="the names they are stored under")
    remove.set_defaults(gridfs=_remove)
    for each in (put, get, listing, remove):
        each.add_argument("--database", metavar="NAME", help="where the URI names none (default: test)")
        each.add_argument("--bucket", default="fs", metavar="NAME", help="the bucket (default: fs)")
    return parser


def _add_action(
    commands: argparse._SubParsersAction[Any], name: str, help: str, *, example: str, description: str = ""
) -> Parser:
    parser = add_command(commands, name, help, description=description, example=example, failure=FAILURE)
    add_uri(parser, "the deployment and the database")
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Run the sub-command that was chosen and return its exit status."""
    from mangonel._opened import database_of, opened
    from mangonel.bson.codec_options import CodecOptions, DatetimeConversion
    from mangonel.gridfs import GridFSBucket

    with opened("mangonel gridfs", options.uri) as client:
        database = database_of(client, options.database)
        dates = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
        database = database.with_options(codec_options=dates)
        status: int = options.gridfs(options, GridFSBucket(database, options.bucket))
    return status


class Progress:
    """A progress bar on standard error, if that is a terminal and the transfer takes a while."""

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
        """Return the text to show: a bar if the size is known, and the speed."""
        speed = self._done / max(now - self._begun, 0.001) / 1e6
        if not self._total:
            return f"{self._name}: {self._done / 1e6:.1f} MB, {speed:.0f} MB/s"
        full = min(BAR, BAR * self._done // self._total)
        share = 100 * self._done // self._total
        return f"{self._name} [{'#' * full}{'.' * (BAR - full)}] {share:3d} % {speed:6.0f} MB/s"

    def end(self) -> None:
        """Leave the last state on its own line."""
        if self._is_on:
            print(f"\r{self.line(time.monotonic())}", file=sys.stderr)


class _Counted:
    """A file that counts the bytes read."""

    def __init__(self, source: BinaryIO, progress: Progress) -> None:
        self._source, self._progress = source, progress

    def read(self, size: int) -> bytes:
        """Read, and count."""
        data = self._source.read(size)
        self._progress.add(len(data))
        return data


def _put(options: argparse.Namespace, bucket: GridFSBucket) -> int:
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
        # A stored name may be a malicious path.
        target = options.output or Path(options.name).name
        if target in ("", ".."):
            raise UsageProblem(f"expected -o FILE, since the stored name {options.name!r} names no file")
        progress = Progress(on_one_line(options.name), source.length)
        with sys.stdout.buffer if target == "-" else _replacing(target) as destination:
            while piece := source.read(PIECE):
                destination.write(piece)
                progress.add(len(piece))
        progress.end()
    return 0


@contextmanager
def _replacing(target: str) -> Iterator[BinaryIO]:
    """Open a file that replaces `target` at the end of the block; after an error `target` is unchanged."""
    path = Path(target).resolve()
    if path.exists() and not path.is_file():
        # A pipe, for example, cannot be replaced.
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _list(options: argparse.Namespace, bucket: GridFSBucket) -> int:
    query = {} if options.name is None else {"filename": options.name}
    for file in bucket.find(query, sort=[("filename", 1), ("uploadDate", 1)]):
        # Other programs may have stored values of any type.
        when, name = file.upload_date, "-" if file.filename is None else str(file.filename)
        date = f"{when:%Y-%m-%d %H:%M}" if isinstance(when, datetime.datetime) else "-"
        print(f"{on_one_line(str(file.length)):>14} {date:<16} {on_one_line(name)}")
    return 0


def _remove(options: argparse.Namespace, bucket: GridFSBucket) -> int:
    for name in options.names:
        bucket.delete_by_name(name)
    return 0
