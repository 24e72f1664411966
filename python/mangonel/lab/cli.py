"""`mangonel lab`: the arguments of its sub-commands. What they do is in `commands` and is imported when one runs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mangonel._command_line import Parser, add_command, add_uri

QUICK_ROUNDS = 5
FULL_ROUNDS = 10
# Seconds. In the short form, a round of an experiment is left out when it would end later than this; the brief form
# shares its own out among the experiments, and so does `lab first`, where starting and ending come on top.
QUICK_BUDGET = 200.0
BRIEF_BUDGET = 190.0
FIRST_BUDGET = 72.0


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the lab and its own sub-commands."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="A private mongod is started for each run, unless a deployment is named.",
        example="""
        mangonel lab first
        mangonel lab run find-one web
        """,
        failure=FAILED,
    )
    actions = parser.add_subparsers(title="lab commands", metavar="LAB_COMMAND", required=True)
    for action, row in COMMANDS.items():
        example = f"mangonel lab {action} {row.example}"
        each = add_command(
            actions, action, row.help, description=row.more, example=example, failure=row.failure
        )
        each.set_defaults(lab=action, module=row.module)
        for argument in row.arguments:
            if argument is URI:
                add_uri(each, "an existing deployment (default: a private mongod is started)", default=None)
            else:
                names, options = argument
                each.add_argument(*names, **options)
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Run the sub-command that was chosen and return its exit status."""
    import os

    from mangonel.lab.registry import PLUGINS

    if files := getattr(options, "plugin", []):
        # Workers find them by the same variable.
        known = [os.environ[PLUGINS]] if os.environ.get(PLUGINS) else []
        os.environ[PLUGINS] = ",".join([*known, *(str(path.absolute()) for path in files)])
    module = importlib.import_module(f"mangonel.lab.commands.{options.module}")
    run: Callable[[argparse.Namespace], int] = getattr(module, f"{options.lab}_command")
    return run(options)


def _seconds(text: str) -> float:
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:], 0.0)
    return float(text[:-1]) * factor if factor else float(text)


def _share(text: str) -> float:
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _milliseconds(text: str) -> float:
    return float(text.strip().removesuffix("ms"))


def _latencies(text: str) -> tuple[float, ...]:
    return tuple(_milliseconds(word) for word in text.split(","))


def _plant(text: str) -> tuple[str, float]:
    name, equals, share = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=15%, got {text!r}")
    return name, _share(share)


Argument = tuple[tuple[str, ...], dict[str, Any]]


def _value(name: str, metavar: str, help: str, **more: Any) -> Argument:
    return (name,), {"metavar": metavar, "help": help, **more}


def _output(metavar: str, help: str, **more: Any) -> Argument:
    return ("-o", "--output"), {"type": Path, "metavar": metavar, "help": help, **more}


def _flag(name: str, help: str) -> Argument:
    return (name,), {"action": "store_true", "help": help}


def _several(name: str, metavar: str, help: str, **more: Any) -> Argument:
    return _value(name, metavar, help, action="append", default=[], **more)


URI: Argument = ((), {})  # stands first, as for every command
EXPERIMENTS = _value("experiments", "EXPERIMENT", "which ones (default: all)", nargs="*")
FILE = _value("file", "FILE", "a result file", type=Path)
PLAIN = _flag("--plain", "tables as plain text")
MARKDOWN = _flag("--markdown", "tables in Markdown")
QUICK = _flag("--quick", "the short form: less work in each sample")
PLUGIN = _several("--plugin", "FILE", "a .py file with an experiment or contenders", type=Path)
SEED = _value("--seed", "N", "of order and keys (default: a new one, recorded)", type=int)
FOLDER = _output("FOLDER", "where the files go (default: results)", default=Path("results"))
PLAYING = (
    URI,
    EXPERIMENTS,
    _several("--contender", "NAME", "only these; may be repeated"),
    QUICK,
    _flag("--brief", "the briefest form: every experiment within four minutes"),
    _value("--rounds", "N", "rounds (default: as time allows)", type=int, default=0),
    _value("--budget", "S", "begin no round after so long: 90, 90s, 5m", type=_seconds, default=0.0),
    _output("FILE", "the result file (default: results/DATE.jsonl)"),
    SEED,
    PLAIN,
    _several("--set", "NAME=N", "a parameter of an experiment, as exits=200"),
    PLUGIN,
)
RUNNING = (
    *PLAYING,
    _flag("--all", "every experiment, as when none is named"),
    _several("--only", "NAME", "only this experiment; may be repeated"),
    _value(
        "--latency",
        "MS,MS",
        "round trips put before a local server, as 0,5ms",
        type=_latencies,
        default=(0.0,),
    ),
    _flag("--install-peers", "install the peers that are missing, with pip"),
    _several("--plant", "NAME=SHARE", "slow a contender down, as NAME=15%%, to test the lab", type=_plant),
    _several("--part", "NAME", "only this part; may be repeated"),
    _flag("--faithful", "the five old comparisons as they were printed, flaws kept, and nothing else"),
    _flag("--unplaced", "where a site is loaded, leave load generator and servers to all cores"),
    _value("--report", "FILE", "write the HTML report as well", type=Path),
)
COMPARING = (
    _flag("--force", "compare different machines or servers nevertheless"),
    _flag("--absolute", "times as they are, not against the reference of the same run"),
    PLAIN,
)
COMPARED = (
    _value("before", "BEFORE", "a result file", type=Path),
    _value("after", "AFTER", "a later one", type=Path),
    *COMPARING,
    _value("--fail-on", "SHARE", "exit status 1 for a loss larger than this, as 5%%", type=_share),
)
GUARDED = (
    URI,
    _value("baseline", "BASELINE", "a result file", type=Path),
    _value(
        "after", "AFTER", "a later one (default: the baseline's experiments are played)", type=Path, nargs="?"
    ),
    _value("--max-loss", "SHARE", "what may be lost (default: 10%%)", type=_share, default=0.10),
    _value("--contender", "PREFIX", "whose loss counts (default: mangonel)", default="mangonel"),
    *COMPARING,
)
PROFILED = (
    URI,
    _value("experiment", "EXPERIMENT", "which one; `mangonel lab list` has them"),
    _value("--part", "NAME", "which part (default: the first that the contender plays)"),
    _value("--contender", "NAME", "who (default: this driver)"),
    FOLDER,
    QUICK,
    PLUGIN,
)
FAILED = "something failed, or a figure is missing"


class Command(NamedTuple):
    """One sub-command.

    Args:
        module: of `commands`, where its function is.
        help: one line.
        example: what follows its name, in an example.
        arguments: in order.
        failure: what exit status 1 means.
        more: about it, in sentences.
    """

    module: str
    help: str
    example: str
    arguments: tuple[Argument, ...]
    failure: str = FAILED
    more: str = ""


COMMANDS = {
    "first": Command(
        "first",
        "play the five old comparisons and find_one, on one screen, in 90 s",
        "",
        (
            URI,
            FOLDER,
            _value("--budget", "S", "for playing (default: 72s)", type=_seconds, default=FIRST_BUDGET),
            SEED,
        ),
    ),
    "run": Command(
        "play",
        "play experiments and print the tables",
        "find-one web --quick",
        RUNNING,
        more="Beside the tables it writes a result file, for `report`, `compare` and the others.",
    ),
    "list": Command(
        "listing",
        "list experiments and contenders, and who is missing and why",
        "find-one",
        (EXPERIMENTS, _flag("--why", "also who cannot play what, and why not"), PLUGIN),
    ),
    "show": Command(
        "look", "print the tables of a result file", "results/first.jsonl --markdown", (FILE, PLAIN, MARKDOWN)
    ),
    "report": Command(
        "look",
        "make one HTML file of a result file",
        "results/first.jsonl -o report.html",
        (
            FILE,
            _output("FILE", "where to write it (default: beside the result file)"),
            _value(
                "--picture", "STEM", "STEM-light.svg and STEM-dark.svg of the comparisons instead", type=Path
            ),
        ),
    ),
    "marks": Command(
        "look",
        "say which of the figures that this driver is held to a run reached",
        "results/first.jsonl",
        (FILE, PLAIN, MARKDOWN),
        "a mark was missed",
    ),
    "compare": Command(
        "judge",
        "say what changed between two result files beyond the noise",
        "before.jsonl after.jsonl --fail-on 5%",
        COMPARED,
        "a loss beyond --fail-on",
    ),
    "guard": Command(
        "judge",
        "fail when this driver has become slower than a baseline",
        "baseline.jsonl --max-loss 10%",
        GUARDED,
        "a loss beyond --max-loss",
    ),
    "aa": Command(
        "judge",
        "play every contender twice: do the intervals hold the ratio 1?",
        "find-one",
        (
            *PLAYING,
            _value("--from", "FILE", "the null controls of a result file instead", dest="file", type=Path),
        ),
        "fewer than 95 % of them do",
    ),
    "profile": Command(
        "profile",
        "say where the time of one contender goes: a page of its stacks and a file of every call",
        "find-one --contender pymongo",
        PROFILED,
    ),
    "doctor": Command(
        "doctor",
        "say whether this machine is fit for measuring, and what is missing",
        "",
        (URI,),
        "something makes figures from here worthless",
    ),
    "up": Command(
        "stand",
        "start private servers on loopback and print where they are",
        "--store redis --latency 5ms",
        (
            _several("--store", "NAME", "besides MongoDB: redis, memcached, mysql (MariaDB), postgresql"),
            _value(
                "--latency",
                "MS",
                "also MongoDB with this round trip, as 5ms",
                type=_milliseconds,
                default=0.0,
            ),
        ),
        more="They stand until `mangonel lab down`.",
    ),
    "down": Command("stand", "end what `lab up` started, and nothing else", "", ()),
}
