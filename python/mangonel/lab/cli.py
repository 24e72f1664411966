"""`mangonel lab`: the arguments of its sub-commands. What they do is in `commands` and is imported when one runs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

QUICK_ROUNDS = 5
FULL_ROUNDS = 10
# In the short form, a round of an experiment is left out when it would end later than this.
QUICK_BUDGET = 200.0
# The brief form shares this out among the experiments.
BRIEF_BUDGET = 190.0
# What `lab first` takes for playing; starting and ending come on top.
FIRST_BUDGET = 65.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lab's own sub-commands to its parser."""
    commands = parser.add_subparsers(title="lab commands", metavar="LAB_COMMAND", required=True)
    for add in (
        _first,
        _run,
        _list,
        _show,
        _report,
        _marks,
        _compare,
        _guard,
        _aa,
        _profile,
        _doctor,
        _up,
        _down,
    ):
        add(commands)


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


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, module: str, help: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help, description=help)
    parser.set_defaults(lab=name, module=module, parser=parser)
    return parser


def _playing(parser: argparse.ArgumentParser) -> None:
    """Add what every command that plays experiments takes."""
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="which ones (default: all)")
    parser.add_argument(
        "--contender", action="append", default=[], metavar="NAME", help="only these; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="the short form: all of it in a few minutes")
    parser.add_argument(
        "--brief", action="store_true", help="the briefest form: every experiment within four minutes"
    )
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="rounds (default: as time allows)")
    parser.add_argument(
        "--budget", type=_seconds, default=0.0, metavar="S", help="begin no round after so long: 90, 90s, 5m"
    )
    _uri(parser)
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the result file (default: results/DATE.jsonl)"
    )
    parser.add_argument("--seed", type=int, help="of order and keys (default: a new one, recorded)")
    _plain(parser)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a parameter of an experiment, as exits=200",
    )
    _plugins(parser)


def _uri(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--uri", metavar="URI", help="an existing deployment (default: a private mongod is started)"
    )


def _plain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plain", action="store_true", help="tables as plain text")


def _plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugin",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a .py file with an experiment or contenders",
    )


def _first(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "first", "first", "the five old comparisons and find_one on one screen, in 90 s")
    _uri(parser)
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("results"), metavar="FOLDER", help="default: results"
    )
    parser.add_argument(
        "--budget",
        type=_seconds,
        default=FIRST_BUDGET,
        metavar="S",
        help="about so long in all (default: 65s)",
    )
    parser.add_argument("--seed", type=int, help="of order and keys (default: a new one, recorded)")


def _run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "run", "play", "play experiments and print the tables")
    _playing(parser)
    parser.add_argument("--all", action="store_true", help="every experiment, as when none is named")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only this experiment; may be repeated"
    )
    parser.add_argument(
        "--latency",
        type=_latencies,
        default=(0.0,),
        metavar="MS,MS",
        help="round trips put between a local server and the contenders, as 0,5ms",
    )
    parser.add_argument(
        "--install-peers", action="store_true", help="install the peers that are missing, with pip"
    )
    parser.add_argument(
        "--plant",
        type=_plant,
        action="append",
        default=[],
        metavar="NAME=15%",
        help="slow a contender down, to test the lab",
    )
    parser.add_argument(
        "--part", action="append", default=[], metavar="NAME", help="only this part; may be repeated"
    )
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="the field's five old comparisons as they were printed, flaws kept, and nothing else",
    )
    parser.add_argument(
        "--unplaced",
        action="store_true",
        help="where a site is loaded, leave the load generator and the lab's servers to all cores",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the HTML report as well")


def _list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "list", "listing", "experiments, contenders, and who is missing and why")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="all about these (default: all)")
    parser.add_argument("--why", action="store_true", help="also who cannot play what, and why not")
    _plugins(parser)


def _show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "show", "look", "print the tables of a result file")
    parser.add_argument("file", type=Path)
    _plain(parser)


def _report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "report", "look", "make one HTML file of a result file")
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the HTML file (default: beside the result file)"
    )
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="STEM",
        help="STEM-light.svg and STEM-dark.svg of the comparisons instead",
    )


def _marks(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "marks", "look", "which of the figures this driver is held to a run reached")
    parser.add_argument("file", type=Path)
    parser.add_argument("--markdown", action="store_true", help="as a table in Markdown")
    _plain(parser)


def _compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "compare", "judge", "what changed between two result files beyond the noise")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    _comparing(parser)
    parser.add_argument(
        "--fail-on", type=_share, metavar="5%", help="exit status 1 for a loss larger than this"
    )


def _guard(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "guard", "judge", "fail when this driver has become slower than a baseline")
    parser.add_argument("baseline", type=Path)
    parser.add_argument(
        "after", type=Path, nargs="?", help="a result file (default: the baseline's experiments are played)"
    )
    parser.add_argument(
        "--max-loss", type=_share, default=0.10, metavar="10%", help="what may be lost (default: 10%%)"
    )
    parser.add_argument(
        "--contender", default="mangonel", metavar="PREFIX", help="whose loss counts (default: mangonel)"
    )
    _uri(parser)
    _comparing(parser)


def _comparing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="compare different machines or servers nevertheless"
    )
    parser.add_argument(
        "--absolute", action="store_true", help="times as they are, not against the reference of the same run"
    )
    _plain(parser)


def _aa(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "aa", "judge", "play every contender twice: do the intervals hold the ratio 1?")
    _playing(parser)
    parser.add_argument(
        "--from", dest="file", type=Path, metavar="FILE", help="the null controls of a result file instead"
    )


def _profile(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        commands,
        "profile",
        "profile",
        "where the time of one contender goes: a flame graph and a callgrind file",
    )
    parser.add_argument("experiment", metavar="EXPERIMENT")
    parser.add_argument(
        "--part", metavar="NAME", help="which part (default: the first that the contender plays)"
    )
    parser.add_argument("--contender", metavar="NAME", help="who (default: this driver)")
    _uri(parser)
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("results"), metavar="FOLDER", help="default: results"
    )
    parser.add_argument("--quick", action="store_true", help="the short form of the work")
    _plugins(parser)


def _doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "doctor", "look", "is this machine fit for measuring, and what is missing?")
    _uri(parser)


def _up(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "up", "stand", "start private servers on loopback and print where they are")
    parser.add_argument(
        "--store",
        action="append",
        default=[],
        metavar="NAME",
        help="besides MongoDB: redis, memcached, mysql (MariaDB), postgresql; may be repeated",
    )
    parser.add_argument(
        "--latency",
        type=_milliseconds,
        default=0.0,
        metavar="MS",
        help="also MongoDB behind a line with this round trip, as 5ms",
    )


def _down(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add(commands, "down", "stand", "end what `up` started, and nothing else")


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
