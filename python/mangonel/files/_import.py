"""`mangonel import`: reads a file of JSON lines, Parquet, Arrow IPC or CSV into a collection."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mangonel._command_line import EXIT_FAILURE, Parser, UsageProblem, add_command, add_uri, number

_SHOWN = 5
_TABLES = ("parquet", "arrow", "csv")


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="The file's name says the format: .parquet, .arrow (or .ipc, .feather) and .csv are tables, which "
        "need pyarrow, and so is a folder of such files; all others are JSON lines, extended JSON of either format, "
        "decompressed if the name ends in .gz or .zst.",
        example="""
        mangonel import mongodb://localhost/shop orders.jsonl.gz
        mangonel import mongodb://localhost/shop orders.parquet --threads 4 --resume orders.progress
        mangonel import mongodb://localhost/shop orders.csv --types _id=objectid,zip=string
        mangonel import mongodb://localhost/shop orders.jsonl --collection copies --resume orders.progress
        """,
        failure="lines or rows are no documents or were refused, or the server or a file could not be used",
    )
    add_uri(parser, "the deployment and the database")
    parser.add_argument("file", metavar="FILE", help="what to read")
    parser.add_argument("--database", metavar="NAME", help="where the URI names none (default: test)")
    parser.add_argument(
        "--collection",
        metavar="NAME",
        help="where to insert; DATABASE.COLLECTION where neither the URI nor --database names one (default: the file's "
        "name)",
    )
    parser.add_argument("--drop", action="store_true", help="remove the collection first")
    parser.add_argument(
        "--threads",
        type=number(1, 1000),
        default=2,
        metavar="N",
        help="how many parse and insert at a time (default: 2)",
    )
    parser.add_argument("--skip-errors", action="store_true", help="go on after lines or rows that are wrong")
    parser.add_argument(
        "--resume", metavar="PROGRESS", help="a file to keep the progress in, and to go on from after a break"
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", *_TABLES),
        metavar="FORMAT",
        help="jsonl, parquet, arrow or csv (default: by the file's name)",
    )
    parser.add_argument(
        "--types",
        metavar="TYPES",
        help="of CSV: types of columns, as in the example (default: as the first rows look)",
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Import, and print how many documents."""
    from mangonel._opened import named_collection, opened
    from mangonel.files.errors import TransferError
    from mangonel.jsonl.errors import JSONLinesError

    path = Path(options.file)
    if options.drop and options.resume and Path(options.resume).exists():
        raise UsageProblem(
            "--drop would remove the documents that --resume keeps; remove the progress file as well"
        )
    is_table = options.format in _TABLES or (options.format is None and _is_table(path))
    types = _types(options.types, path, options.format, is_table=is_table)
    progress = _progress(path, options, is_table)
    with opened("mangonel import", options.uri) as client:
        name = options.collection or path.name.partition(".")[0]
        collection = named_collection(client, options.database, name)
        if options.drop:
            collection.drop()
        shared: dict[str, Any] = {
            "threads": options.threads,
            "skip_errors": options.skip_errors,
            "resume": options.resume,
            "progress": progress,
        }
        try:
            if is_table:
                from mangonel.files import import_table

                found: Any = import_table(collection, path, format=options.format, schema=types, **shared)
            else:
                from mangonel.jsonl import import_jsonl

                found = import_jsonl(collection, path, **shared)
        except (JSONLinesError, TransferError) as error:
            progress.end()
            print(f"mangonel import: {error}", file=sys.stderr)
            return EXIT_FAILURE
    progress.end()
    present = f", {found.present} were there" if found.present else ""
    print(f"{found.inserted} documents inserted into {collection.full_name}{present}")
    if guessed := is_table and found.guessed:
        told = ", ".join(f"{name}={kind}" for name, kind in guessed.items())
        print(f"mangonel import: types by the first rows: {told}; --types sets others", file=sys.stderr)
    for problem in found.problems[:_SHOWN]:
        print(f"mangonel import: {problem}", file=sys.stderr)
    if found.failed > _SHOWN:
        kind = "rows" if is_table else "lines"
        print(f"mangonel import: {found.failed - _SHOWN} more {kind} failed", file=sys.stderr)
    return EXIT_FAILURE if found.failed else 0


def _types(text: str | None, path: Path, format: str | None, *, is_table: bool) -> dict[str, str] | None:
    """Return the types of `--types`, by column."""
    if text is None:
        return None
    from mangonel.arrow.schema import fields_of
    from mangonel.files.formats import format_of

    if not is_table or format_of(path, format).is_nested:
        raise UsageProblem("--types is for CSV; leave it out")
    pairs = [part.partition("=") for part in text.split(",")]
    for name, sign, kind in pairs:
        if not (name and sign and kind):
            raise UsageProblem(
                f"expected NAME=TYPE with commas between them for --types, got {name + sign + kind!r}"
            )
    types = {name: kind for name, _, kind in pairs}
    try:
        fields_of(types)
    except ValueError as error:
        raise UsageProblem(f"argument --types: {error}") from error
    return types


def _is_table(path: Path) -> bool:
    from mangonel.files.formats import FORMATS

    endings = {ending for found in FORMATS.values() for ending in found.endings}
    return path.is_dir() or path.suffix in endings


def _progress(path: Path, options: argparse.Namespace, is_table: bool) -> Any:
    from mangonel.files.errors import TransferError
    from mangonel.files.formats import format_of
    from mangonel.jsonl.files import is_compressed
    from mangonel.jsonl.progress import Progress

    if not is_table:
        return Progress(path.name, 0 if is_compressed(path) else path.stat().st_size, "bytes")
    from pyarrow.lib import ArrowException

    made = format_of(path, options.format)
    # Checked before pyarrow opens it, so that a missing file gives the same message in every format.
    path.stat()
    paths = [each for each in path.iterdir() if each.suffix in made.endings] if path.is_dir() else [path]
    try:
        total = sum(map(made.total, paths))
    except ArrowException as error:
        if options.drop:
            # Nothing was removed yet.
            raise TransferError(f"{path}: cannot be read: {error}") from error
        # The import reports which file cannot be read, and why.
        total = 0
    return Progress(path.name, total, "documents")
