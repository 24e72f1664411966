"""What `mangonel odm indexes|check URI MODELS` and `odm schema MODELS` do."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangonel._command_line import EXIT_FAILURE, Parser, UsageProblem, add_command, add_output, add_uri

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "dispatch"]

FAILURE = "indexes differ, documents do not fit, or something failed"

# Name -> what it does, more about it, its last words in the example.
ACTIONS = {
    "indexes": (
        "compare declared indexes with those there are",
        "Nothing is changed without --apply.",
        "--apply",
    ),
    "schema": ("print the server's $jsonSchema of each model", "Needs no server.", ""),
    "check": ("read every document and report those that do not fit their model", "", ""),
}


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command and its sub-commands."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Models are named by their module, and one alone as MODULE:MODEL.",
        example="mangonel odm check mongodb://localhost/shop shop.models",
        failure=FAILURE,
    )
    actions = parser.add_subparsers(title="odm commands", metavar="ACTION", required=True)
    for action, (help, more, end) in ACTIONS.items():
        uri = "" if action == "schema" else " mongodb://localhost/shop"
        each = add_command(
            actions,
            action,
            help,
            description=more,
            example=f"mangonel odm {action}{uri} shop.models:Order {end}",
            failure=FAILURE,
        )
        if uri:
            add_uri(each, "the deployment and the database, as mongodb://localhost/shop", default="")
        each.add_argument(
            "models", metavar="MODULE[:MODEL]", help="where the models are, as shop.models:Order"
        )
        each.set_defaults(action=action)
        if action == "indexes":
            each.add_argument("--apply", action="store_true", help="create and rebuild")
            each.add_argument("--drop", action="store_true", help="with --apply, drop undeclared ones too")
        elif action == "schema":
            add_output(each, "write it there (default: standard output)")
        else:
            each.add_argument(
                "--limit", type=int, default=20, metavar="N", help="faults to print per model (20)"
            )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Run the action; return the exit status: 1 when indexes differ or documents do not fit.

    Raises:
        UsageProblem: no such module or model, or the URI names no database.
    """
    models = _models(options.models)
    if options.action == "schema":
        schemas = [{model.__collection_name__(): model.json_schema()} for model in models]
        text = "".join(json.dumps(schema, indent=2, default=str) + "\n" for schema in schemas)
        if options.output:
            Path(options.output).write_text(text, encoding="utf-8")
        else:
            print(text, end="")
        return 0
    from mangonel.odm import connect

    aliases = {model.__connection__ for model in models}
    try:
        connections = [connect(options.uri, alias) for alias in sorted(aliases)]
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    try:
        act = _indexes if options.action == "indexes" else _check
        return max([act(model, options) for model in models], default=0)
    finally:
        for connection in connections:
            connection.close()


def _models(place: str) -> list[Any]:
    from mangonel.odm import Document

    module_name, _, name = place.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageProblem(f"expected a module with models, found none called {error.name!r}") from error
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Document)
        and "__model__" in vars(value)
        and value.__module__ == module.__name__
        and name in ("", value.__name__)
    ]
    if not found:
        raise UsageProblem(
            f"expected a Document {name or ''} in {module_name}, found none".replace("  ", " ")
        )
    # A family has one collection, which its root answers for.
    return [
        model for model in found if not any(base in found and base.__root__ for base in model.__mro__[1:])
    ]


def _indexes(model: Any, options: argparse.Namespace) -> int:
    plan = model.sync_indexes(plan=not options.apply, drop=options.drop)
    words = ("created", "rebuilt", "dropped") if options.apply else ("to create", "to rebuild", "to drop")
    rows = [*zip(words, (plan.create, plan.rebuild, plan.drop), strict=True), ("undeclared", plan.unknown)]
    parts = [f"{word}: {', '.join(names)}" for word, names in rows if names]
    print(f"{model.__collection_name__()}: {'; '.join(parts) or 'as declared'}")
    return EXIT_FAILURE if plan and not options.apply else 0


def _check(model: Any, options: argparse.Namespace) -> int:
    from mangonel.bson import decode
    from mangonel.odm import ValidationError
    from mangonel.odm.query.query import Query

    collection = model.collection()
    seen = faults = 0
    unknown: dict[str, int] = {}
    for batch in collection.find_raw_batches(Query(model).query):
        at = 0
        while at < len(batch):
            length = int.from_bytes(batch[at : at + 4], "little")
            data, at = batch[at : at + length], at + length
            seen += 1
            try:
                found = model.from_bson(data)
                found.validate()
                for key in found.extra:
                    unknown[key] = unknown.get(key, 0) + 1
            except ValidationError as error:
                faults += 1
                if faults <= options.limit:
                    print(f"{model.__collection_name__()} {decode(data).get('_id')!r}: {error}")
    extra = ", ".join(f"{key} ({count})" for key, count in sorted(unknown.items()))
    print(
        f"{model.__collection_name__()}: {seen} read, {faults} do not fit"
        + (f"; unknown keys: {extra}" if extra else "")
    )
    return EXIT_FAILURE if faults else 0
