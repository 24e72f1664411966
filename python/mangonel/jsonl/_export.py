"""`mangonel export`: writes a collection to a file of JSON lines."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mangonel._command_line import EXIT_FAILURE, Parser, add_command, add_output, add_uri

__all__ = ["add_arguments", "dispatch"]


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Names that end in .gz or .zst are compressed.",
        example="""
        mangonel export mongodb://localhost/shop orders -o orders.jsonl.gz
        mangonel export mongodb://localhost/shop orders --filter '{"total": {"$gt": 5}}' -o large.jsonl
        """,
        failure="the server or the file could not be used",
    )
    add_uri(parser, "the deployment and the database")
    parser.add_argument("collection", metavar="COLLECTION", help="what to write")
    add_output(parser, "where to write it (default: the collection's name and .jsonl)")
    parser.add_argument("--database", metavar="NAME", help="where the URI names none (default: test)")
    parser.add_argument("--filter", metavar="JSON", help="which documents, as extended JSON (default: all)")
    parser.add_argument(
        "--fields", metavar="NAMES", help="which fields, with commas between them (default: all)"
    )
    parser.add_argument(
        "--mode",
        choices=("canonical", "relaxed", "plain"),
        default="canonical",
        metavar="MODE",
        help="canonical keeps every type, relaxed is easier to read, plain is for other readers (default: canonical)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="write by _id, and go on after the last line of the file"
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Export, and print how many documents."""
    from mangonel import MongoClient
    from mangonel._query_argument import query_of
    from mangonel.jsonl import export_jsonl
    from mangonel.jsonl.errors import JSONLinesError
    from mangonel.jsonl.progress import Progress

    path = Path(options.output or f"{options.collection}.jsonl")
    query = query_of(options.filter)
    with MongoClient[Any](options.uri) as client:
        database = client[options.database] if options.database else client.get_default_database("test")
        collection = database[options.collection]
        # With a filter, the number is unknown before the end.
        total = 0 if query else collection.estimated_document_count()
        progress = Progress(options.collection, total, "documents")
        try:
            found = export_jsonl(
                collection,
                path,
                filter=query,
                projection=options.fields.split(",") if options.fields else None,
                mode=options.mode,
                resume=options.resume,
                progress=progress,
            )
        except JSONLinesError as error:
            progress.end()
            print(f"mangonel export: {error}", file=sys.stderr)
            return EXIT_FAILURE
    progress.end()
    print(f"{found.documents} documents written to {path}")
    return 0
