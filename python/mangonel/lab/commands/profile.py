"""`mangonel lab profile`: shows where one contender spends its time in one part, with two profilers on two samples.

pyinstrument's page shows the stacks over time. cProfile's file has exact numbers of calls, but inflated times, for
pstats, snakeviz and similar tools.
"""

from __future__ import annotations

import argparse
import pstats
import sys

from mangonel.lab import registry
from mangonel.lab.commands.play import check, deployment
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.protocol import Child, ChildError
from mangonel.lab.scheduler import FIXTURES, WORKER

DATABASE = "mangonel_lab"
TIMEOUT = 600.0
OURS = ("mangonel", "odm", "mangonel-asyncio", "mangonel-bson", "web-mongodb")
SHOWN = 10  # how many functions to print, by the time that they take themselves


def profile_command(options: argparse.Namespace) -> int:
    """Profile, write both files, and print the functions that take most time."""
    known, contenders = registry.experiments(), registry.contenders()
    names = [options.contender] if options.contender else [*OURS, *contenders]
    check("experiment", [options.experiment], known)
    check("contender", names[:1], contenders)
    experiment, size = known[options.experiment], Size(options.quick)
    # Parts that run separate programs cannot be profiled from the worker.
    parts = [p for p in experiment.parts(size) if options.part in (None, p.id) and p.meter == "self"]
    pairs = ((contenders[name], part) for name in names for part in parts)
    chosen = next((pair for pair in pairs if not pair[1].excludes(pair[0])), None)
    if chosen is None:
        print("no part of that name is played by that contender in its own process", file=sys.stderr)
        return 1
    contender, part = chosen
    options.output.mkdir(parents=True, exist_ok=True)
    stem = f"{options.output}/{experiment.id}-{part.id}-{contender.id}"
    paths = {"page": f"{stem}.html", "calls": f"{stem}.prof"}
    try:
        with deployment(options.uri) as (uri, _):
            _record(experiment, part, contender, size, uri, paths)
    except ChildError as error:
        print(f"the profile stopped: {error}", file=sys.stderr)
        return 1
    print(f"stacks: {paths['page']}  (its timeline is a flame graph)")
    print(f"calls: {paths['calls']}  (for pstats or snakeviz)")
    pstats.Stats(paths["calls"]).strip_dirs().sort_stats("tottime").print_stats(SHOWN)
    return 0


def _record(
    experiment: Experiment, part: Part, contender: Contender, size: Size, uri: str, paths: dict[str, str]
) -> None:
    fixtures, worker = Child(FIXTURES), Child(WORKER, contender.environment)
    try:
        fixtures.ask({"uri": uri, "database": DATABASE}, TIMEOUT)
        if experiment.dataset:
            fixtures.ask({"do": "prepare", "dataset": experiment.dataset}, TIMEOUT)
        order = {
            "experiment": experiment.id,
            "contender": contender.id,
            "uri": uri,
            "database": DATABASE,
            "collection": experiment.dataset or "scratch_profile",
            "size": {"quick": size.quick},
            "seed": 1,
        }
        hello = worker.ask(order, TIMEOUT)
        if hello["event"] == "missing":
            raise ChildError(f"{contender.id}: {hello['reason']}")
        answer = worker.ask({"part": part.id, "profile": paths}, TIMEOUT)
        if answer["event"] == "failed":
            raise ChildError(f"{answer['reason']} at {answer['where']}")
        fixtures.ask({"do": "drop"}, TIMEOUT)
    finally:
        worker.finish()
        fixtures.finish()
