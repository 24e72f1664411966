"""`mangonel lab profile`: one contender, one part; leaves a flame graph and a callgrind file."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from mangonel.lab import profile, registry
from mangonel.lab.commands.play import check, deployment
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.protocol import Child, ChildError
from mangonel.lab.report import flame
from mangonel.lab.scheduler import FIXTURES, WORKER

DATABASE = "mangonel_lab"
PATIENCE = 600.0
OURS = ("mangonel", "odm", "mangonel-asyncio", "mangonel-bson", "web-mongodb")


def profile_command(options: argparse.Namespace) -> int:
    """Profile and write the two files."""
    known, contenders = registry.experiments(), registry.contenders()
    check(options, "experiment", [options.experiment], list(known))
    check(options, "contender", [options.contender] if options.contender else [], list(contenders))
    experiment, size = known[options.experiment], Size(options.quick)
    chosen = _choose(options, experiment, size, contenders)
    if chosen is None:
        return 1
    part, contender = chosen
    try:
        with (
            tempfile.TemporaryDirectory(prefix="mangonel-profile-") as folder,
            deployment(options.uri) as (uri, _),
        ):
            recorded = _record(experiment, part, contender, size, uri, Path(folder))
    except ChildError as error:
        print(f"the profile stopped: {error}", file=sys.stderr)
        return 1
    title = f"{experiment.id}, {part.title}: {contender.title}"
    options.out.mkdir(parents=True, exist_ok=True)
    stem = f"{experiment.id}-{part.id}-{contender.id}"
    graph, grind = options.out / f"{stem}.svg", options.out / f"callgrind.out.{stem}"
    graph.write_text(flame.render(title, profile.merge(recorded["stacks"])))
    grind.write_text(profile.callgrind(recorded["calls"], title))
    print(f"flame graph: {graph}\ncallgrind file: {grind}  (open with kcachegrind or callgrind_annotate)")
    _top(recorded["calls"])
    return 0


def _choose(
    options: argparse.Namespace, experiment: Experiment, size: Size, contenders: dict[str, Contender]
) -> tuple[Part, Contender] | None:
    parts = [part for part in experiment.parts(size) if options.part in (None, part.id)]
    names = [options.contender] if options.contender else [*OURS, *contenders]
    for name in names:
        contender = contenders.get(name)
        for part in parts:
            # What runs in programs of its own cannot be looked into from the worker.
            if contender is not None and part.meter == "self" and not part.excludes(contender):
                return part, contender
    print("no part of that name is played by that contender in its own process", file=sys.stderr)
    return None


def _record(
    experiment: Experiment, part: Part, contender: Contender, size: Size, uri: str, folder: Path
) -> dict[str, Any]:
    clerk, worker = Child(FIXTURES), Child(WORKER, contender.environment)
    try:
        clerk.ask({"uri": uri, "database": DATABASE}, PATIENCE)
        if experiment.dataset:
            clerk.ask({"do": "prepare", "dataset": experiment.dataset}, PATIENCE)
        hello = worker.ask(
            {
                "experiment": experiment.id,
                "contender": contender.id,
                "uri": uri,
                "database": DATABASE,
                "collection": experiment.dataset or "scratch_profile",
                "size": {"quick": size.quick},
                "seed": 1,
            },
            PATIENCE,
        )
        if hello["event"] == "missing":
            raise ChildError(f"{contender.id}: {hello['reason']}")
        paths = {"stacks": str(folder / "stacks"), "calls": str(folder / "calls")}
        answer = worker.ask({"part": part.id, "profile": paths}, PATIENCE)
        if answer["event"] == "failed":
            raise ChildError(f"{answer['reason']} at {answer['where']}")
        clerk.ask({"do": "drop"}, PATIENCE)
        return {name: json.loads(Path(path).read_text()) for name, path in paths.items()}
    finally:
        worker.finish()
        clerk.finish()


def _top(calls: list[Any], count: int = 10) -> None:
    """Print where most of the time goes, with the exact numbers of calls."""
    total = sum(own for _, _, own, _ in calls) or 1.0
    print(f"\n{'own time':>9}  {'calls':>9}  function")
    for (file, line, name), number, own, _ in sorted(calls, key=lambda each: -each[2])[:count]:
        print(f"{100 * own / total:7.1f} %  {number:>9}  {name} ({file}:{line})")
