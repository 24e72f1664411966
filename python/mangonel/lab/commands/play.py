"""`mangonel lab run|up|down`: play, print, write; private servers. Other commands that play use its functions."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from mangonel._command_line import EXIT_FAILURE, EXIT_INTERRUPTED, UsageProblem
from mangonel.engines import daemon
from mangonel.engines.stores import ENGINES
from mangonel.lab import cores, fingerprint, originals, registry, table
from mangonel.lab.contender import Contender
from mangonel.lab.contenders.drivers import TABLE
from mangonel.lab.experiment import Experiment, Size
from mangonel.lab.mongod import lend_mongod
from mangonel.lab.protocol import ChildError
from mangonel.lab.record import Plan, Record
from mangonel.lab.scheduler import Progress, Scheduler

RESULTS = Path("results")
ROUNDS = {"full": 10, "short": 5, "brief": 1}
# Seconds. The short form leaves out a round of an experiment that would end later than this. The brief form, and
# `lab first`, divide their time among the experiments; starting and stopping servers come on top.
BUDGETS = {"full": 0.0, "short": 200.0, "brief": 190.0}
# Defaults of arguments that a command does not have.
UNSAID: dict[str, Any] = {
    **dict.fromkeys(("contender", "part", "plant", "set"), ()),
    **dict.fromkeys(("quick", "brief", "faithful", "install_peers", "unplaced"), False),
    "latency": (0.0,),
    "rounds": 0,
    "seed": None,
}
# The server counts write concerns. It must not store its sessions every five minutes, as by default: that burst of
# writes with w=majority would be counted, and timed, as a contender's.
PARAMETERS = {"reportOpWriteConcernCountersInServerStatus": True, "disableLogicalSessionCacheRefresh": True}

Say = Callable[[Progress], None]


def run_command(options: argparse.Namespace) -> int:
    """Play, print, write. Exit status 1 if a cell failed, since its figure is missing."""
    content, status = play(options)
    if content is None:
        return status
    table.show(content, style=style(options))
    print(f"\nresult file: {options.output}")
    return status


def play(given: argparse.Namespace, **changes: Any) -> tuple[dict[str, Any] | None, int]:
    """Play according to the arguments, with `changes`; return the contents of the result file and the exit status."""
    if given.output is None:
        # Two runs may begin in one second.
        given.output = RESULTS / time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}.jsonl")
    options = argparse.Namespace(**{**UNSAID, **vars(given)})
    planned = _plan(options, changes)
    found = fingerprint.fingerprint(sys.argv)
    status = 0
    with deployment(options.uri) as (uri, pids), progress() as say:
        equipment = None if options.unplaced else cores.equipment(pids)
        found["equipment"] = "" if equipment is None else equipment.places.words
        record = Record(Plan(uri=uri, equipment=equipment, **planned), options.output, found)
        try:
            Scheduler(record.plan, say, record).run()
        except ChildError as error:
            print(f"the lab stopped: {error}", file=sys.stderr)
            status = EXIT_FAILURE
        except KeyboardInterrupt:
            status = EXIT_INTERRUPTED
        finally:
            record.close()
    content = record.content()
    if not content["cells"]:
        return None, status or EXIT_FAILURE
    whole = any(not entry["contender"] for entry in content["missing"])  # a whole round of an experiment
    return content, status or int(whole or any(cell["failures"] for cell in content["cells"]))


def _plan(options: argparse.Namespace, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the plan that the arguments set."""
    known, contenders = registry.experiments(), registry.contenders()
    chosen = list(options.experiments)
    if options.faithful and not chosen:
        chosen = list(dict.fromkeys(original.experiment for original in originals.ORIGINALS))
    plants = dict(options.plant)
    check("experiment", chosen, known)
    check("contender", [*options.contender, *plants], contenders)
    if options.install_peers:
        install_peers([contenders[name] for name in options.contender or contenders])
    size = changes.get("size") or Size(options.quick or options.brief, _parameters(options), options.brief)
    usual = ROUNDS[size.form]
    if size.form == "full":
        usual = max((known[name].full_rounds or usual for name in chosen), default=usual)
    chosen = chosen or [name for name, each in known.items() if not each.only_named]
    rounds = options.rounds or usual
    try:
        only = _parts(options, [known[name] for name in chosen], size)
    except ValueError as error:  # parameters that an experiment does not take together
        raise UsageProblem(str(error)) from None
    return {
        "experiments": tuple(name for name in dict.fromkeys(chosen) if not only or only[name]),
        "contenders": tuple(options.contender or contenders),
        "size": size,
        "rounds": rounds,
        "seed": random.randrange(2**31) if options.seed is None else options.seed,
        "budget": options.budget or (BUDGETS[size.form] if not options.rounds else 0.0),
        "again": 0 if options.rounds == 1 else max(1, rounds // 2),
        "delays_ms": tuple(options.latency),
        "plants": plants,
        "only": {name: parts for name, parts in only.items() if parts},
        **changes,
    }


def style(options: argparse.Namespace) -> str:
    return "markdown" if getattr(options, "markdown", False) else "plain" if options.plain else ""


def check(kind: str, chosen: Iterable[str], known: Collection[str]) -> None:
    """Raise for a name that does not exist, and list those that do."""
    for name in chosen:
        if "://" in name:
            # Not quoted, since it may hold a password.
            raise UsageProblem(f"expected a name ({kind}), got a URI; a URI is the first word")
        if name not in known:
            raise UsageProblem(f"no {kind} is called {name!r}; there are {', '.join(known)}")


@contextlib.contextmanager
def deployment(uri: str | None) -> Iterator[tuple[str, list[int]]]:
    """Yield the URI of the named deployment, or of a private one that lasts for the block, with its process ids."""
    # Experiments may start their own servers beside it.
    lend_mongod()
    if uri is not None:
        yield uri, []
        return
    from mangonel.server import start

    with start(replica_set=1, set_parameters=PARAMETERS) as server:
        yield server.uri, [member.pid for member in server.members if member.pid is not None]


@contextlib.contextmanager
def progress() -> Iterator[Say]:
    """Yield a function that shows a run's progress and remaining time, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda at: None
        return
    yield lambda at: print(f"\r\033[K{words(at)}", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)


def words(at: Progress) -> str:
    """Return a line with the progress of a run."""
    left = "" if at.left_s is None else f", {int(at.left_s) // 60}:{int(at.left_s) % 60:02} left"
    return f"{100 * at.done // at.total:3} %  {at.text}{left}"


def _parts(options: argparse.Namespace, chosen: list[Experiment], size: Size) -> dict[str, set[str]]:
    """Return the requested parts by experiment; empty if all are played."""
    offered = {experiment.id: {part.id for part in experiment.parts(size)} for experiment in chosen}
    if options.faithful:
        if size.quick:
            raise UsageProblem(
                "--faithful is the full form: the old comparisons did so much work and no less"
            )
        printed = {original.experiment: original.figures for original in originals.ORIGINALS}
        return {
            name: {figure.part for figure in printed.get(name, ())} & parts for name, parts in offered.items()
        }
    if not options.part:
        return {}
    check("part", options.part, sorted(set().union(*offered.values())))
    return {name: parts & set(options.part) for name, parts in offered.items()}


def _parameters(options: argparse.Namespace) -> dict[str, int]:
    parameters = {}
    for text in options.set:
        name, _, figure = text.partition("=")
        if not figure.isdigit():
            raise UsageProblem(f"expected NAME=N after --set, got {text!r}")
        parameters[name] = int(figure)
    return parameters


def up_command(options: argparse.Namespace) -> int:
    """Start servers on loopback and print their addresses; if they run already, print those."""
    check("store", options.store, ENGINES)
    order = {"stores": sorted(set(options.store)), "latency_ms": options.latency}
    try:
        found, is_new = daemon.up(order, daemon.folder())
    except daemon.DaemonError as error:
        print(f"nothing was started: {error}", file=sys.stderr)
        return 1
    width = max(map(len, found.uris))
    for name, uri in found.uris.items():
        print(f"{name.ljust(width)}  {uri}")
    if not is_new:
        print("they were running already", file=sys.stderr)
    print("`mangonel lab run URI` plays there, `mangonel lab down` ends them", file=sys.stderr)
    return 0


def down_command(options: argparse.Namespace) -> int:
    """Stop the servers that `up` started; without any, report that and succeed."""
    print("ended" if daemon.down(daemon.folder()) else "no servers are running", file=sys.stderr)
    return 0


# Requirements of contenders that cannot be installed from an index.
OURS = ("mangonel",)


def requirements(contenders: Iterable[Contender]) -> dict[str, list[str]]:
    """Return the distributions to install, with the contenders that need them."""
    wanted: dict[str, list[str]] = {}
    for contender in contenders:
        absent = contender.missing().partition("not installed: ")[2]
        for name in filter(None, re.split(r",\s*", absent)):
            if name.partition(".")[0] not in OURS:
                wanted.setdefault(TABLE["requirements"].get(name, name), []).append(contender.id)
    return wanted


def install_peers(contenders: Iterable[Contender]) -> None:
    """Install missing distributions one by one; if one fails, print its name and pip's reason."""
    for requirement, names in requirements(contenders).items():
        print(f"installing {requirement} for {', '.join(names)}", file=sys.stderr)
        told = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode:
            reason = next(iter(told.stderr.strip().splitlines()[-1:]), "no reason given")
            print(f"    cannot: {reason[:300]}", file=sys.stderr)
