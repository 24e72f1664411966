"""`mangonel lab profile`: one contender, one part; leaves a page of its stacks and a callgrind file."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from mangonel.lab import profile, registry
from mangonel.lab.commands.play import check, deployment
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.profile import Call
from mangonel.lab.protocol import Child, ChildError
from mangonel.lab.scheduler import FIXTURES, WORKER

DATABASE = "mangonel_lab"
TIMEOUT = 600.0
OURS = ("mangonel", "odm", "mangonel-asyncio", "mangonel-bson", "web-mongodb")


def profile_command(options: argparse.Namespace) -> int:
    """Profile and write the two files."""
    known, contenders = registry.experiments(), registry.contenders()
    check(options, "experiment", [options.experiment], list(known))
    check(options, "contender", [options.contender] if options.contender else [], list(contenders))
    experiment, size = known[options.experiment], Size(options.quick)
    names = [options.contender] if options.contender else [*OURS, *contenders]
    # What runs in programs of its own cannot be looked into from the worker.
    parts = [p for p in experiment.parts(size) if options.part in (None, p.id) and p.meter == "self"]
    pairs = ((contenders[name], part) for name in names if name in contenders for part in parts)
    chosen = next((pair for pair in pairs if not pair[1].excludes(pair[0])), None)
    if chosen is None:
        print("no part of that name is played by that contender in its own process", file=sys.stderr)
        return 1
    contender, part = chosen
    stem = f"{experiment.id}-{part.id}-{contender.id}"
    options.output.mkdir(parents=True, exist_ok=True)
    page, grind = options.output / f"{stem}.html", options.output / f"callgrind.out.{stem}"
    try:
        with tempfile.TemporaryDirectory() as folder, deployment(options.uri) as (uri, _):
            kept = Path(folder) / "calls"
            _record(experiment, part, contender, size, uri, {"page": str(page), "calls": str(kept)})
            calls = profile.read(kept)
    except ChildError as error:
        print(f"the profile stopped: {error}", file=sys.stderr)
        return 1
    grind.write_text(profile.callgrind(calls, f"{experiment.id}, {part.title}: {contender.title}"))
    print(f"stacks: {page}  (its timeline is a flame graph)")
    print(f"callgrind file: {grind}  (open with kcachegrind or callgrind_annotate)")
    _top(calls)
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


def _top(calls: list[Call], count: int = 10) -> None:
    """Print where most of the time goes, with the exact numbers of calls."""
    total = sum(own for _, _, own, _ in calls) or 1.0
    print(f"\n{'own time':>9}  {'calls':>9}  function")
    for (file, line, name), number, own, _ in sorted(calls, key=lambda each: -each[2])[:count]:
        print(f"{100 * own / total:7.1f} %  {number:>9}  {name} ({file}:{line})")
