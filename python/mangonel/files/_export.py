"""`mangonel export`: writes a collection to a file of JSON lines, Parquet, Arrow IPC or CSV."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from mangonel._command_line import (
    EXIT_FAILURE,
    Parser,
    UsageProblem,
    add_command,
    add_output,
    add_uri,
    number,
)

_TABLES = ("parquet", "arrow", "csv")


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="The file's name says the format: .parquet, .arrow (or .ipc, .feather) and .csv are tables, which "
        "need pyarrow; all others are JSON lines, compressed if the name ends in .gz or .zst.",
        example="""
        mangonel export mongodb://localhost/shop orders -o orders.jsonl.gz
        mangonel export mongodb://localhost/shop orders -o orders.parquet --parallel 4 --resume
        mangonel export mongodb://localhost shop.orders orders.csv
        mangonel export mongodb://localhost/shop orders --filter '{"total": {"$gt": 5}}' -o large.jsonl
        """,
        failure="the server or the file could not be used",
    )
    add_uri(parser, "the deployment and the database")
    parser.add_argument(
        "collection",
        metavar="COLLECTION",
        help="what to write; DATABASE.COLLECTION where neither the URI nor --database names one",
    )
    file = parser.add_argument("file", nargs="?", metavar="FILE", help="where to write it, as after -o")
    parser.behind_uri.append(file)
    add_output(
        parser,
        "where to write it; - is standard output, for JSON lines (default: the collection's name and .jsonl)",
    )
    parser.add_argument("--database", metavar="NAME", help="where the URI names none (default: test)")
    parser.add_argument("--filter", metavar="JSON", help="which documents, as extended JSON (default: all)")
    parser.add_argument(
        "--fields", metavar="NAMES", help="which fields, with commas between them (default: all)"
    )
    parser.add_argument(
        "--mode",
        choices=("canonical", "relaxed", "plain"),
        metavar="MODE",
        help="of JSON lines: canonical keeps every type, relaxed is easier to read, plain is for other readers "
        "(default: canonical)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on where an earlier export ended: after the last line of the file, with JSON lines written by _id; "
        "with the parts that are not complete, of a table",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", *_TABLES),
        metavar="FORMAT",
        help="jsonl, parquet, arrow or csv (default: by the file's name)",
    )
    parser.add_argument(
        "--parallel",
        type=number(1, 1000),
        metavar="N",
        help="of tables: how many parts at a time (default: 2)",
    )
    parser.add_argument(
        "--split", action="store_true", help="of tables: a folder with one file for each part"
    )
    parser.add_argument(
        "--sample",
        type=number(1),
        metavar="N",
        help="of tables: take the columns from this many documents (default: from all)",
    )
    parser.add_argument(
        "--missing",
        choices=("null", "distinguish"),
        metavar="HOW",
        help="of tables: null, or distinguish, which adds a column that tells null from missing (default: null)",
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Export, and print how many documents."""
    from mangonel._opened import named_collection, opened
    from mangonel._query_argument import query_of
    from mangonel.files.errors import TransferError
    from mangonel.jsonl.errors import JSONLinesError
    from mangonel.jsonl.progress import Progress

    if options.file is not None and options.output is not None:
        raise UsageProblem(f"expected one file, got {options.file} and -o {options.output}")
    output = options.file if options.output is None else options.output
    query = query_of(options.filter)
    with opened("mangonel export", options.uri) as client:
        collection = named_collection(client, options.database, options.collection)
        path = Path(output or f"{collection.name}.{options.format or 'jsonl'}")
        is_table = (options.format or _format_of(path)) in _TABLES
        _refuse_others(options, is_table)
        is_piped = output == "-"
        if is_piped and (is_table or options.resume):
            raise UsageProblem(
                f"expected the name of a file after -o {'for a table' if is_table else 'with --resume'}, got -"
            )
        # With a filter, the number is unknown before the end.
        total = 0 if query else collection.estimated_document_count()
        progress = Progress(collection.name, total, "documents")
        shared: dict[str, Any] = {
            "filter": query,
            "projection": [name.strip() for name in options.fields.split(",")] if options.fields else None,
            "resume": options.resume,
            "progress": progress,
        }
        try:
            if is_table:
                documents = _table(collection, path, options, shared)
            else:
                documents = _lines(collection, sys.stdout.buffer if is_piped else path, options, shared)
        except (JSONLinesError, TransferError) as error:
            progress.end()
            print(f"mangonel export: {error}", file=sys.stderr)
            return EXIT_FAILURE
    progress.end()
    if not documents:
        warnings.warn(
            f"{collection.full_name} has no documents{' that match' if query else ''}", stacklevel=2
        )
    if not is_piped:
        print(f"{documents} documents written to {path}")
    return 0


def _lines(
    collection: Any, target: Path | BinaryIO, options: argparse.Namespace, shared: dict[str, Any]
) -> int:
    from mangonel.jsonl import export_jsonl

    return export_jsonl(collection, target, mode=options.mode or "canonical", **shared).documents


def _table(collection: Any, path: Path, options: argparse.Namespace, shared: dict[str, Any]) -> int:
    from mangonel.files import export_table

    found = export_table(
        collection,
        path,
        format=options.format,
        sample=options.sample,
        missing=options.missing or "null",
        parallel=2 if options.parallel is None else options.parallel,
        split=options.split,
        **shared,
    )
    if found.mixed:
        told = f"{', '.join(found.mixed)}: several types became text; JSON lines keep them"
        print(f"mangonel export: warning: {told}", file=sys.stderr)
    return found.documents


def _refuse_others(options: argparse.Namespace, is_table: bool) -> None:
    """Refuse options of the other kind of file."""
    names = ("mode",) if is_table else ("parallel", "split", "sample", "missing")
    for name in names:
        if getattr(options, name):
            raise UsageProblem(f"--{name} is for {'JSON lines' if is_table else 'tables'}; leave it out")


def _format_of(path: Path) -> str | None:
    from mangonel.files.formats import FORMATS

    return next((name for name, found in FORMATS.items() if path.suffix in found.endings), None)
