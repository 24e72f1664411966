"""`mangonel import`: reads a file of JSON lines into a collection."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mangonel._command_line import EXIT_FAILURE, Parser, UsageProblem, add_command, add_uri

__all__ = ["add_arguments", "dispatch"]

_SHOWN = 5


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Lines are extended JSON of either format. Names that end in .gz or .zst are decompressed.",
        example="""
        mangonel import mongodb://localhost/shop orders.jsonl.gz
        mangonel import mongodb://localhost/shop orders.jsonl --collection copies --resume orders.progress
        """,
        failure="lines are no documents or were refused, or the server or a file could not be used",
    )
    add_uri(parser, "the deployment and the database")
    parser.add_argument("file", metavar="FILE", help="what to read")
    parser.add_argument("--database", metavar="NAME", help="where the URI names none (default: test)")
    parser.add_argument("--collection", metavar="NAME", help="where to insert (default: the file's name)")
    parser.add_argument("--drop", action="store_true", help="remove the collection first")
    parser.add_argument(
        "--threads", type=int, default=2, metavar="N", help="how many parse and insert at a time (default: 2)"
    )
    parser.add_argument("--skip-errors", action="store_true", help="go on after lines that are wrong")
    parser.add_argument(
        "--resume", metavar="PROGRESS", help="a file to keep the progress in, and to go on from after a break"
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Import, and print how many documents."""
    from mangonel import MongoClient
    from mangonel.jsonl import import_jsonl
    from mangonel.jsonl.errors import JSONLinesError
    from mangonel.jsonl.files import is_compressed
    from mangonel.jsonl.progress import Progress

    path = Path(options.file)
    if options.threads < 1:
        raise UsageProblem("expected at least 1 for --threads")
    if options.drop and options.resume and Path(options.resume).exists():
        raise UsageProblem("--drop would remove what is to be gone on with; remove the progress file as well")
    total = 0 if is_compressed(path) else path.stat().st_size
    progress = Progress(path.name, total, "bytes")
    with MongoClient[Any](options.uri) as client:
        database = client[options.database] if options.database else client.get_default_database("test")
        collection = database[options.collection or path.name.partition(".")[0]]
        if options.drop:
            collection.drop()
        try:
            found = import_jsonl(
                collection,
                path,
                threads=options.threads,
                skip_errors=options.skip_errors,
                resume=options.resume,
                progress=progress,
            )
        except JSONLinesError as error:
            progress.end()
            print(f"mangonel import: {error}", file=sys.stderr)
            return EXIT_FAILURE
    progress.end()
    present = f", {found.present} were there" if found.present else ""
    print(f"{found.inserted} documents inserted{present}")
    for problem in found.problems[:_SHOWN]:
        print(f"mangonel import: {problem}", file=sys.stderr)
    if found.failed > _SHOWN:
        print(f"mangonel import: {found.failed - _SHOWN} more lines failed", file=sys.stderr)
    return EXIT_FAILURE if found.failed else 0
