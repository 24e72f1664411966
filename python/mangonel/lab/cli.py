"""`mangonel lab`: run experiments, list them, show a result file again."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# In the short form, a round of an experiment is left out when it would end later than this.
QUICK_BUDGET = 200.0
QUICK_ROUNDS = 5
FULL_ROUNDS = 10
RESULTS = Path("results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lab's own sub-commands to its parser."""
    commands = parser.add_subparsers(title="lab commands", metavar="LAB_COMMAND", required=True)
    run = commands.add_parser("run", help="play experiments and print the tables")
    run.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="which ones (default: all)")
    run.add_argument(
        "--contender", action="append", default=[], metavar="NAME", help="only these; may be repeated"
    )
    run.add_argument("--quick", action="store_true", help="the short form: all of it in under 4 minutes")
    run.add_argument("--rounds", type=int, default=0, metavar="N", help="rounds (default: as time allows)")
    run.add_argument(
        "--budget", type=float, default=0.0, metavar="S", help="stop after whole rounds, in seconds"
    )
    run.add_argument(
        "--uri", metavar="URI", help="an existing deployment (default: a private mongod is started)"
    )
    run.add_argument("--out", type=Path, metavar="FILE", help="the result file (default: results/DATE.json)")
    run.add_argument("--seed", type=int, help="of order and keys (default: a new one, recorded)")
    run.add_argument("--plain", action="store_true", help="tables as plain text")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a parameter of an experiment, as exits=200",
    )
    run.set_defaults(lab=run_command, parser=run)
    listing = commands.add_parser("list", help="experiments, contenders, and who cannot take part and why")
    listing.set_defaults(lab=list_command, parser=listing)
    show = commands.add_parser("show", help="print the tables of a result file")
    show.add_argument("file", type=Path)
    show.add_argument("--plain", action="store_true", help="tables as plain text")
    show.set_defaults(lab=show_command, parser=show)


def dispatch(options: argparse.Namespace) -> int:
    """Run the sub-command that was chosen and return its exit status."""
    status: int = options.lab(options)
    return status


def run_command(options: argparse.Namespace) -> int:
    """Play, print, write. Exit status 1 when a cell failed, since its figure is missing."""
    import json
    import random

    from mangonel.lab import fingerprint, registry, results, table
    from mangonel.lab.conductor import Conductor, Plan
    from mangonel.lab.experiment import Size
    from mangonel.lab.protocol import ChildError

    known, contenders = registry.experiments(), registry.contenders()
    _check(options, "experiment", options.experiments, list(known))
    _check(options, "contender", options.contender, list(contenders))
    budget = options.budget or (QUICK_BUDGET if options.quick and not options.rounds else 0.0)
    plan_values: dict[str, Any] = {
        "experiments": tuple(options.experiments or known),
        "contenders": tuple(options.contender or contenders),
        "size": Size(options.quick, _parameters(options)),
        "rounds": options.rounds or (QUICK_ROUNDS if options.quick else FULL_ROUNDS),
        "seed": random.randrange(2**31) if options.seed is None else options.seed,
        "budget": budget,
    }
    found = fingerprint.fingerprint(sys.argv)
    with _deployment(options.uri) as uri, _progress() as say:
        try:
            record = Conductor(Plan(uri=uri, **plan_values), say).run()
        except ChildError as error:
            print(f"the lab stopped: {error}", file=sys.stderr)
            return 1
    content = results.to_file(record, found)
    out: Path = options.out or RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content) + "\n")
    table.show(content, plain=options.plain)
    print(f"\nresult file: {out}")
    return 1 if any(cell.failures for cell in record.cells.values()) else 0


def list_command(options: argparse.Namespace) -> int:
    """Print experiments with their parts, and contenders with what keeps them out."""
    from mangonel.lab import registry
    from mangonel.lab.experiment import Size

    contenders = registry.contenders().values()
    for experiment in registry.experiments().values():
        print(f"{experiment.id}: {experiment.title}")
        for part in experiment.parts(Size()):
            names = [c.id for c in contenders if not part.excludes(c)]
            concern = f", {part.write_concern}" if part.write_concern else ""
            print(f"    {part.id}: {part.title}{concern}  ({', '.join(names)})")
    print("\ncontenders")
    for contender in contenders:
        reason = contender.missing()
        print(f"    {contender.id}: {contender.title}" + (f"  ({reason})" if reason else ""))
    return 0


def show_command(options: argparse.Namespace) -> int:
    """Print the tables of a result file."""
    from mangonel.lab import results, table

    try:
        content = results.load(options.file)
    except (OSError, ValueError) as error:
        print(f"cannot read {options.file}: {error}", file=sys.stderr)
        return 1
    table.show(content, plain=options.plain)
    return 0


def _check(options: argparse.Namespace, kind: str, chosen: list[str], known: list[str]) -> None:
    for name in chosen:
        if name not in known:
            options.parser.error(f"no {kind} is called {name!r}; there are {', '.join(known)}")


def _parameters(options: argparse.Namespace) -> dict[str, int]:
    parameters = {}
    for text in options.set:
        name, _, figure = text.partition("=")
        if not figure.isdigit():
            options.parser.error(f"expected NAME=N after --set, got {text!r}")
        parameters[name] = int(figure)
    return parameters


@contextlib.contextmanager
def _deployment(uri: str | None) -> Iterator[str]:
    if uri is not None:
        yield uri
        return
    from mangonel.server import start

    with start(replica_set=1) as server:
        yield server.uri


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """Give a function that shows one line: in place on a terminal, not at all elsewhere."""
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    yield lambda line: print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)
