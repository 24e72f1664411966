"""The commands `mangonel odm indexes|check|diff|pull|migrate URI …` and `odm schema MODELS`."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from mangonel import _core
from mangonel._command_line import (
    EXIT_FAILURE,
    Parser,
    UsageProblem,
    add_command,
    add_output,
    add_uri,
    number,
    program_module,
    write_output,
)

if TYPE_CHECKING:
    import argparse

FAILURE = "indexes differ, documents do not fit, or something failed"

# Name -> summary, more help, the last words of its example.
ACTIONS = {
    "indexes": (
        "compare declared indexes with those there are",
        "Nothing is changed without --apply.",
        "--apply",
    ),
    "schema": ("print the server's $jsonSchema of each model", "Needs no server.", ""),
    "check": ("read every document and report those that do not fit their model", "", ""),
    "diff": ("compare models with indexes, validators and a sample of the documents", "Changes nothing.", ""),
    "pull": (
        "write models of the documents there are",
        "Looks at a sample, then reads every document by the models and names those that do not fit.",
        "",
    ),
    "migrate": (
        "change stored documents by the migrations of a folder",
        "A run that was ended continues where it was. Documents carry the key _migrated meanwhile.",
        "--dry-run",
    ),
}
# The last argument of an action, if it is not the models.
TARGETS = {"pull": ("", ""), "migrate": ("folder", "migrations")}


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
            example=f"mangonel odm {action}{uri} {TARGETS.get(action, ('', 'shop.models:Order'))[1]} {end}".rstrip(),
            failure=FAILURE,
        )
        if uri:
            add_uri(each, "the deployment and the database, as mongodb://localhost/shop", default="")
        if action == "migrate":
            each.add_argument("folder", metavar="FOLDER", help="the files 0001_….py, 0002_….py, …")
        elif action != "pull":
            each.add_argument(
                "models", metavar="MODULE[:MODEL]", help="where the models are, as shop.models:Order"
            )
        each.set_defaults(action=action)
        if action == "indexes":
            each.add_argument("--apply", action="store_true", help="create and rebuild")
            each.add_argument("--drop", action="store_true", help="with --apply, drop undeclared ones too")
        elif action in ("schema", "pull"):
            add_output(each, "write it there (default: standard output)")
            if action == "pull":
                each.add_argument(
                    "--sample", type=number(1), default=1000, metavar="N", help="documents to look at (1000)"
                )
                each.add_argument(
                    "--collection", action="append", metavar="NAME", help="only this one; may be repeated"
                )
        elif action == "migrate":
            each.add_argument(
                "--to", type=number(0), metavar="N", help="the version to have (default: the last; 0: none)"
            )
            each.add_argument(
                "--dry-run", action="store_true", help="change documents in memory, and write nothing"
            )
            each.add_argument(
                "--batch", type=number(1), default=1000, metavar="N", help="documents of one step (1000)"
            )
        elif action == "diff":
            each.add_argument(
                "--sample", type=number(1), default=1000, metavar="N", help="documents to look at (1000)"
            )
        else:
            each.add_argument(
                "--limit", type=number(0), default=20, metavar="N", help="faults to print per model (20)"
            )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Run the action; return the exit status: 1 if indexes differ or documents do not fit.

    Raises:
        UsageProblem: the module or model does not exist, or the URI names no database.
    """
    if options.action in ("pull", "migrate"):
        with _database(options.uri) as database:
            return (_pull if options.action == "pull" else _migrate)(database, options)
    models = _models(options.models)
    if options.action == "schema":
        schemas = [{model.__collection_name__(): model.json_schema()} for model in models]
        text = "".join(json.dumps(schema, indent=2, default=str) + "\n" for schema in schemas)
        write_output(text, options.output)
        return 0
    from mangonel.odm import all_tenants, connect

    aliases = {model.__connection__ for model in models}
    try:
        connections = [connect(options.uri, alias) for alias in sorted(aliases)]
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    try:
        act = {"indexes": _indexes, "check": _check, "diff": _diff}[options.action]
        with all_tenants():
            return max([act(model, options) for model in models], default=0)
    finally:
        for connection in connections:
            connection.close()


@contextmanager
def _database(uri: str) -> Iterator[Any]:
    """Yield the database that a URI names."""
    from mangonel import MongoClient
    from mangonel.errors import ConfigurationError
    from mangonel.odm.model.codec import codec_options

    with MongoClient(uri) as client:
        try:
            database = client.get_default_database()
        except ConfigurationError as error:
            raise UsageProblem(
                "expected the name of a database in the URI, as mongodb://localhost/shop"
            ) from error
        yield database.with_options(codec_options(False))


def _migrate(database: Any, options: argparse.Namespace) -> int:
    from mangonel.odm.migrations import MigrationError, Runner, load
    from mangonel.odm.migrations.files import check_target
    from mangonel.odm.migrations.state import Busy

    try:
        migrations = load(options.folder)
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    try:
        check_target(options.to, migrations)
    except ValueError as error:
        raise UsageProblem(f"argument --to: {error}") from error
    runner = Runner(
        database, migrations, batch=options.batch, report=lambda progress: print(progress, flush=True)
    )
    try:
        done = runner.migrate(options.to, is_trial=options.dry_run)
    except (MigrationError, Busy) as error:
        print(error, file=sys.stderr)
        return EXIT_FAILURE
    word = "would run" if options.dry_run else "done"
    nothing = "nothing to do" if migrations else f"nothing to do: {options.folder} has no migrations"
    print(f"{word}: {', '.join(done)}" if done else nothing)
    return 0


def _pull(database: Any, options: argparse.Namespace) -> int:
    from mangonel.odm.model.codec import TOLERANT, codec_options
    from mangonel.odm.pulled import Writer

    # Values that the driver cannot decode are reported when the models read the documents.
    database = database.with_options(codec_options=codec_options(False, TOLERANT))
    names = options.collection or sorted(
        name for name in database.list_collection_names() if not name.startswith(("system.", "enxcol_."))
    )
    writer = Writer()
    models = {
        name: writer.collection(name, database[name].aggregate([{"$sample": {"size": options.sample}}]))
        for name in names
    }
    text = writer.module()
    write_output(text, options.output)
    module = types.ModuleType("pulled")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, "pulled", "exec"), vars(module))
        results = [_read_all(vars(module)[models[name]], database[name], 20, sys.stderr) for name in names]
        return max(results, default=0)
    finally:
        del sys.modules[module.__name__]


def _diff(model: Any, options: argparse.Namespace) -> int:
    from mangonel.odm.diff import differences

    found = list(differences(model, options.sample))
    for line in found or ["as declared"]:
        print(f"{model.__collection_name__()}: {line}")
    return EXIT_FAILURE if found else 0


def _models(place: str) -> list[Any]:
    from mangonel.odm import Document

    module_name, _, name = place.partition(":")
    module = program_module(module_name)
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
        raise UsageProblem(f"expected a Document {name or ''} in {module_name}, got none".replace("  ", " "))
    # A family has one collection, represented by its root.
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
    from mangonel.odm.query.query import Query

    return _read_all(model, model.collection(), options.limit, sys.stdout, Query(model).query)


def _read_all(model: Any, collection: Any, limit: int, to: TextIO, query: Any = None) -> int:
    """Read every document with a model, and print those that do not fit."""
    from mangonel.bson.errors import InvalidBSON
    from mangonel.odm import NoTenant, ValidationError
    from mangonel.odm.model.invalid import id_of

    seen = faults = 0
    unknown: dict[str, int] = {}
    for batch in collection.find_raw_batches(query or {}):
        at = 0
        while at < len(batch):
            length = int.from_bytes(batch[at : at + 4], "little")
            data, at = batch[at : at + length], at + length
            seen += 1
            try:
                found = model.from_bson(data)
                found.validate()
                for key in _core.odm_extra(found):
                    unknown[key] = unknown.get(key, 0) + 1
            except (ValidationError, NoTenant, InvalidBSON) as error:
                faults += 1
                if faults <= limit:
                    print(f"{model.__collection_name__()} {id_of(data)!r}: {error}", file=to)
    extra = ", ".join(f"{key} ({count})" for key, count in sorted(unknown.items()))
    print(
        f"{model.__collection_name__()}: {seen} read, {faults} do not fit"
        + (f"; unknown keys: {extra}" if extra else ""),
        file=to,
    )
    return EXIT_FAILURE if faults else 0
