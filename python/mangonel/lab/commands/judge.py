"""`mangonel lab compare|guard|aa`: two runs against each other, a run against a baseline, a run against itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mangonel._command_line import EXIT_USAGE
from mangonel.lab import compare, registry, table
from mangonel.lab.commands.look import read, style
from mangonel.lab.commands.play import play
from mangonel.lab.compare import Change
from mangonel.lab.results import Results

ENOUGH = 0.95
RATIO = "{:.3f}".format
MOODS = {"slower": "failed", "faster": "best", "same": "noise"}


def compare_command(options: argparse.Namespace) -> int:
    """Print what changed. Exit status 2 when the runs do not compare, 1 for a loss beyond `--fail-on`."""
    found = _compared(options, read(options.before), read(options.after))
    if found is None:
        return EXIT_USAGE
    _print(options, found)
    return int(options.fail_on is not None and bool(_losses(found, options.fail_on)))


def guard_command(options: argparse.Namespace) -> int:
    """Fail when this driver lost more than allowed, beyond the noise; play the baseline's experiments when asked."""
    before = read(options.baseline)
    after = read(options.after) if options.after else _play_again(options, before)
    found = _compared(options, before, after) if after is not None else None
    if found is None:
        return EXIT_USAGE
    guarded = [change for change in found if change.key[2].startswith(options.contender)]
    if not guarded:
        print(f"nothing to guard: no cell of {options.contender}* is in both runs", file=sys.stderr)
        return EXIT_USAGE
    _print(options, guarded)
    losses, allowed = _losses(guarded, options.max_loss), f"{100 * options.max_loss:.0f} %"
    for change in losses:
        lost = f"{100 * (change.ratio.value - 1):.1f} % slower"
        print(f"LOST: {' '.join(change.key)}: {lost}, allowed {allowed}")
    print(f"{len(losses)} of {len(guarded)} guarded figures lost more than {allowed}")
    return int(bool(losses))


def aa_command(options: argparse.Namespace) -> int:
    """Say in how many cells a contender's ratio to itself has an interval that holds 1. Exit status 1 below 95 %."""
    content = read(options.file) if options.file is not None else play(options, twice=True)[0]
    if content is None:
        return EXIT_USAGE
    held, bad = against_itself(Results(content))
    total = held + len(bad)
    for text in bad:
        print(f"    {text}")
    if not total:
        print("no contender played twice", file=sys.stderr)
        return EXIT_USAGE
    share = f"{held} of {total} cells ({100 * held / total:.1f} %)"
    print(f"in {share} the interval of a contender against itself holds 1")
    return int(held < ENOUGH * total)


def against_itself(results: Results) -> tuple[int, list[str]]:
    """Return how many null controls hold 1, and those that do not in words."""
    held, bad = 0, []
    for experiment, part, rows in results.parts():
        for row in rows:
            band = results.null(rows, row.key[2]) if not row.key[2].endswith(registry.AGAIN) else None
            if band is not None and band.excludes(1.0):
                bad.append(f"{experiment} {part} {row.name}: {band.words(RATIO)}")
            else:
                held += band is not None
    return held, bad


def _compared(
    options: argparse.Namespace, before: dict[str, Any], after: dict[str, Any]
) -> list[Change] | None:
    one, other = Results(before), Results(after)
    reasons = compare.obstacles(one, other)
    for reason in reasons:
        print(f"{'forced over' if options.force else 'cannot compare'}: {reason}", file=sys.stderr)
    if reasons and not options.force:
        print("--force compares nevertheless", file=sys.stderr)
        return None
    return compare.changes(one, other, options.absolute)


def _losses(found: list[Change], limit: float) -> list[Change]:
    return [change for change in found if change.word == "slower" and change.ratio.value > 1 + limit]


def _print(options: argparse.Namespace, found: list[Change]) -> None:
    lines = []
    for change in sorted(found, key=lambda each: -each.ratio.value):
        ratio, share = change.ratio.words(RATIO), f"{100 * change.noise:.0f} %"
        cells = [*change.key[:2], change.name, ratio, share, change.word]
        lines.append(table.Line(cells, MOODS[change.word]))
    stand = sum(change.stands for change in found)
    kind = "against the reference of the same run" if any(c.relative for c in found) else "as they are"
    title = f"{stand} of {len(found)} figures changed beyond the noise (times {kind}, after over before)"
    headings = ["experiment", "part", "contender", "time after / before [95 %]", "noise", "change"]
    table.draw(table.Table(title, headings, lines), style=style(options))


def _play_again(options: argparse.Namespace, baseline: dict[str, Any]) -> dict[str, Any] | None:
    plan, known = baseline["plan"], registry.contenders()
    playing = argparse.Namespace(
        experiments=plan["experiments"],
        quick=plan["quick"],
        brief=plan.get("form") == "brief",
        rounds=plan["rounds"],
        budget=plan["budget_s"],
        uri=options.uri,
        output=Path("results") / "guard.jsonl",
        set=[f"{name}={value}" for name, value in plan["parameters"].items()],
    )
    return play(playing, contenders=tuple(name for name in plan["contenders"] if name in known))[0]
