"""`mangonel schema`: shows the schema of a collection, proposes a model, and compares it with an earlier schema."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from mangonel._command_line import (
    EXIT_FAILURE,
    Parser,
    UsageProblem,
    add_command,
    add_output,
    add_uri,
    number,
    write_output,
)


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Reads every document once, or a sample. Without a collection: those of the whole database, one "
        "after the other.",
        example="""
        mangonel schema mongodb://localhost/shop
        mangonel schema mongodb://localhost/shop orders
        mangonel schema mongodb://localhost/shop orders --as json -o orders.schema.json
        mangonel schema mongodb://localhost/shop orders --check orders.schema.json
        mangonel schema mongodb://localhost/shop orders --sample 10000 --as model
        """,
        failure="with --check, documents do not fit the saved schema; or there are no documents, or the server could "
        "not be used",
    )
    add_uri(parser, "the deployment and the database")
    parser.add_argument(
        "collection",
        nargs="?",
        metavar="COLLECTION",
        help="whose documents to look at; DATABASE.COLLECTION where neither the URI nor --database names one (default: "
        "all collections of the database)",
    )
    add_output(parser, "where to write it (default: the terminal)")
    parser.add_argument("--database", metavar="NAME", help="where the URI names none (default: test)")
    parser.add_argument("--filter", metavar="JSON", help="which documents, as extended JSON (default: all)")
    parser.add_argument(
        "--sample",
        type=number(1),
        metavar="N",
        help="look at this many documents, chosen at random (default: at all)",
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=("table", "json", "columns", "model"),
        metavar="FORM",
        help="table, json (for --check), columns (a mangonel.arrow.Schema) or model (of the mapper) (default: table)",
    )
    parser.add_argument(
        "--check",
        metavar="FILE",
        help="compare with a schema that --as json wrote; exit with 1 if there is a drift",
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Infer the schema; print it, or how it differs."""
    from mangonel._opened import database_of, named_collection, opened
    from mangonel._query_argument import query_of
    from mangonel.arrow.errors import SchemaError
    from mangonel.arrow.inferred import InferredSchema

    if options.check:
        for name, given in (("--as", options.form), ("--output", options.output)):
            if given is not None:
                raise UsageProblem(f"{name} does not go with --check, which writes no schema; leave it out")
    if options.collection is None:
        for name, given in (("as", options.form), ("check", options.check), ("filter", options.filter)):
            if given is not None:
                raise UsageProblem(f"--{name} is for one collection; name it after the URI")
    try:
        saved = InferredSchema.load(options.check) if options.check else None
    except SchemaError as error:
        raise UsageProblem(f"argument --check: {error}") from error
    with opened("mangonel schema", options.uri) as client:
        if options.collection is None:
            return _all_schemas(database_of(client, options.database), options)
        collection = named_collection(client, options.database, options.collection)
        found = collection.infer_schema(query_of(options.filter), sample=options.sample)
    if not found.documents:
        print(f"mangonel schema: no documents in {collection.full_name}", file=sys.stderr)
        return EXIT_FAILURE
    if saved is not None:
        return _tell_drift(found.drift(saved), found.documents)
    text = _text(found, options.form or "table", collection.name)
    write_output(f"{text}\n", options.output)
    return 0


def _all_schemas(database: Any, options: argparse.Namespace) -> int:
    """Show the schema of each collection, except views and system collections."""
    names = database.list_collection_names(
        filter={"type": {"$ne": "view"}, "name": {"$not": {"$regex": "^system\\."}}}
    )
    if not names:
        print(f"mangonel schema: no collections in {database.name}", file=sys.stderr)
        return EXIT_FAILURE
    shown = []
    for name in sorted(names):
        collection = database[name]
        shown.append(f"{collection.full_name}: {collection.infer_schema(sample=options.sample)}\n")
    write_output("\n".join(shown), options.output)
    return 0


def _text(found: Any, form: str, collection: str) -> str:
    import json

    if form == "json":
        return json.dumps(found.to_dict(), indent=1, ensure_ascii=False)
    if form == "columns":
        return repr(found.schema)
    if form == "model":
        import re

        words = re.findall(r"[^\W_]+", collection)
        name = "".join(word[:1].upper() + word[1:] for word in words)
        source: str = found.model(name if name.isidentifier() else "Model", collection)
        return source.rstrip("\n")
    return str(found)


def _tell_drift(drift: list[str], documents: int) -> int:
    for line in drift:
        print(line)
    if not drift:
        print(f"{documents} documents fit the saved schema")
    return EXIT_FAILURE if drift else 0
